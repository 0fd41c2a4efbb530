"""The example of a page is told by its rule, as it stands there; what the page says to use instead is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.explain import parts
from contextkit.lint.finding import Finding

TOLD = """
CKT01 CKT02 CKT07 CKS02 CKS07 CKS09 CKM01 CKM04 CKM06 CKM08 CKM10 CKM11 CKB04 CKB05 CKB08 CKE03 CKA03
""".split()  # noqa: SIM905 - a list of words
"""Pages whose example is a whole function or class."""


def code_of(text: str) -> str:
    """The code blocks of a page's section."""
    return "\n".join(re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def codes_in(lint: Callable[..., list[Finding]], code: str, section: str) -> set[str]:
    """What is found in the code of a page's section."""
    sections = parts(code)["sections"]
    assert isinstance(sections, dict)
    config = LintConfig()
    return {one.code for one in lint(code_of(str(sections[section])), config, hazards())}


@pytest.mark.parametrize("code", TOLD)
def test_the_example_of_a_page_is_told(lint: Callable[..., list[Finding]], code: str) -> None:
    assert code in codes_in(lint, code, "Example")


@pytest.mark.parametrize("code", [row.code for row in hazards() if row.in_source])
def test_what_to_use_instead_is_not_told(lint: Callable[..., list[Finding]], code: str) -> None:
    assert code not in codes_in(lint, code, "Use instead")
