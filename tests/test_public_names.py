"""The public names: what `contextkit.__all__` says, `docs/reference/api.md` explains, and nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import contextkit

API_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
HEADING = re.compile(r"^### `([^`]+)`$", re.MULTILINE)
EXPLAINED = HEADING.findall(API_PAGE.read_text(encoding="utf-8")) if API_PAGE.exists() else []


def test_the_page_and_the_package_name_the_same_things_once() -> None:
    assert sorted(EXPLAINED) == sorted(contextkit.__all__)
    assert len(set(contextkit.__all__)) == len(contextkit.__all__)


@pytest.mark.parametrize("name", contextkit.__all__)
def test_a_public_name_can_be_had_and_says_what_it_is(name: str) -> None:
    thing = getattr(contextkit, name)
    assert inspect.isclass(thing) or callable(thing), f"{name} is neither a class nor a function"
    text = thing.__doc__ or ""
    assert text.strip() and not text.startswith(f"{name}("), (
        f"{name} has no docstring of its own"
    )  # a dataclass writes `Name(field, …)`


@pytest.mark.parametrize("name", contextkit.__all__)
def test_a_public_class_is_known_by_its_public_name(name: str) -> None:
    assert getattr(contextkit, name).__name__ == name


def test_a_star_import_and_dir_give_every_public_name() -> None:
    namespace: dict[str, object] = {}
    exec("from contextkit import *", namespace)
    assert set(contextkit.__all__) <= namespace.keys()
    assert set(contextkit.__all__) <= set(dir(contextkit))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = contextkit.NoSuchName
