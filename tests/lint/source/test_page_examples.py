"""The example of a page is told by its rule, as it stands there; what the page says to use instead is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.explain import parts
from contextkit.lint.finding import Finding

TOLD = ("CKM01", "CKM04", "CKM06", "CKM08", "CKM11")
"""Pages whose example is a whole function or class."""


def code_of(text: str) -> str:
    """The code blocks of a page's section."""
    return "\n".join(re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("code", TOLD)
def test_the_example_of_a_page_is_told_and_what_to_use_instead_is_not(
    lint: Callable[..., list[Finding]], code: str
) -> None:
    sections = parts(code)["sections"]
    assert isinstance(sections, dict)
    assert code in {one.code for one in lint(code_of(str(sections["Example"])), hazards=hazards())}
    assert code not in {one.code for one in lint(code_of(str(sections["Use instead"])), hazards=hazards())}
