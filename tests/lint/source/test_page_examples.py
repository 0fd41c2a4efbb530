"""Checks that the example of a hazard's page is found by the source detector as it stands there, and its fix is not."""

from __future__ import annotations

import re

import pytest

from contextkit.lint.explain import parts
from contextkit.lint.source.rules import CODES
from tests.lint.source.conftest import Lint


def codes_in(lint: Lint, code: str, section: str) -> set[str]:
    """Return what is found in the code of a page's section."""
    sections = parts(code)["sections"]
    assert isinstance(sections, dict)
    blocks = re.findall(r"^```py\n(.*?)^```$", str(sections[section]), re.MULTILINE | re.DOTALL)
    return {one.code for one in lint("\n".join(blocks))}


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_example_of_a_page_is_found(lint: Lint, code: str) -> None:
    assert code in codes_in(lint, code, "In code")


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_fix_of_a_page_is_not_found(lint: Lint, code: str) -> None:
    assert code not in codes_in(lint, code, "Fix")
