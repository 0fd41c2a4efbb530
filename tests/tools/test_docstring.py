"""Docstrings of the three styles, against the `docstring_parser` package."""

from __future__ import annotations

import pytest

from contextkit.tools.signature import read_docstring

GOOGLE = """Summary over
    two lines.

    Body: with a colon.

    - a list
    - of things

    Example:
        find("x")

    Args:
        one: The first.
        two (dict[str, int], optional): The second,
            on two lines:

            - with a list
        three: The third.
        *rest: Others.

    Returns:
        value: Not a parameter.

    Raises:
        ValueError: Not one either.
    """
NUMPY = """Summary.

    Body.

    Parameters
    ----------
    one : int
        The first.
    two : {'a', 'b'}, optional
        The second,
        on two lines.

    three
        The third.

    Returns
    -------
    value : int
        Not a parameter.

    Other Parameters
    ----------------
    four : int
        The fourth.
    """
SPHINX = """Summary.

    Body.

    :param one: The first.
    :param dict[str,int] two: The second,
        on two lines.
    :type two: dict
    :param three:
        The third.
    :raises ValueError: Not a parameter.
    :returns: Nothing.
    """


@pytest.mark.parametrize(("style", "text"), [("GOOGLE", GOOGLE), ("NUMPYDOC", NUMPY), ("REST", SPHINX)])
def test_parameters_as_docstring_parser_reads_them(style: str, text: str) -> None:
    oracle = pytest.importorskip("docstring_parser", reason="docstring_parser is not installed")
    params = oracle.parse(text, style=oracle.DocstringStyle[style]).params
    theirs = {param.arg_name.lstrip("*"): " ".join(param.description.split()) for param in params}
    ours = {name: " ".join(words.split()) for name, words in read_docstring(text).parameters.items()}
    assert ours == theirs


def test_description_is_everything_before_the_first_section() -> None:
    assert read_docstring(GOOGLE).description == (
        'Summary over\ntwo lines.\n\nBody: with a colon.\n\n- a list\n- of things\n\nExample:\n    find("x")'
    )
    assert read_docstring(NUMPY).description == read_docstring(SPHINX).description == "Summary.\n\nBody."


def test_line_breaks_within_a_parameter_are_kept() -> None:
    assert read_docstring(GOOGLE).parameters["two"] == "The second,\non two lines:\n\n- with a list"
    assert read_docstring(NUMPY).parameters["two"] == "The second,\non two lines."


def test_indent_of_the_source_does_not_matter() -> None:
    dedented = "\n".join(line.removeprefix("    ") for line in GOOGLE.splitlines())
    assert read_docstring(dedented) == read_docstring(GOOGLE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain.",
        "Use it: now.\n\nWith ``:ref:`` and a\n  quote: here.",
        "Args are fine.\n\n-----\n\nArgs of all kinds.",
    ],
)
def test_prose_has_no_parameters(text: str) -> None:
    assert read_docstring(text).parameters == {}
    assert read_docstring(text).description == text


def test_two_names_on_one_line() -> None:
    text = "Do.\n\nParameters\n----------\nx, y : int\n    A coordinate.\n"
    assert read_docstring(text).parameters == {"x": "A coordinate.", "y": "A coordinate."}


def test_sections_in_a_row_without_blank_lines() -> None:
    text = "Do.\nArgs:\n  a: One.\n  b: Two.\nReturns:\n  c: Three."
    assert read_docstring(text) == read_docstring("Do.\n\nArgs:\n    a: One.\n    b: Two.\n\nReturns:\n    c: Three.\n")
    assert read_docstring(text).parameters == {"a": "One.", "b": "Two."}
