"""Documented import paths of the first edition still work, and name the new path."""

from __future__ import annotations

import importlib
import sys

import pytest

from contextkit.moved_modules import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_is_the_new_module(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=MOVED[old].replace(".", r"\.")):
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])


def test_a_path_that_never_existed_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("contextkit.simulator.nothing")
