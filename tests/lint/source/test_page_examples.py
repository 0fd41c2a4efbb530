"""The example of a page is found by the source detector as it stands there, and its fix is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.explain import parts
from contextkit.lint.finding import Finding

IN_SOURCE = [row.code for row in hazards() if row.in_source]


def code_of(text: str) -> str:
    """The code blocks of a page's section."""
    return "\n".join(re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def codes_in(lint: Callable[..., list[Finding]], code: str, section: str) -> set[str]:
    """What is found in the code of a page's section."""
    sections = parts(code)["sections"]
    assert isinstance(sections, dict)
    return {one.code for one in lint(code_of(str(sections[section])), LintConfig(), hazards())}


@pytest.mark.parametrize("code", IN_SOURCE)
def test_the_example_of_a_page_is_found(lint: Callable[..., list[Finding]], code: str) -> None:
    assert code in codes_in(lint, code, "In code")


@pytest.mark.parametrize("code", IN_SOURCE)
def test_the_fix_of_a_page_is_not_found(lint: Callable[..., list[Finding]], code: str) -> None:
    assert code not in codes_in(lint, code, "Fix")
