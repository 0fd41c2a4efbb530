"""The public names: what `contextkit.__all__` says, `docs/reference/api.md` explains, and nothing else.

python tests/test_public_names.py        writes the signatures into the page
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest

import contextkit

API_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
HEADING = re.compile(r"^### `([^`]+)`$", re.MULTILINE)
SIGNATURE = re.compile(r"^### `(?P<name>\w+)`\n\n<!-- signature -->\n(?:```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
SECTIONS = dict(zip(*[iter(HEADING.split(API_PAGE.read_text(encoding="utf-8"))[1:])] * 2, strict=True))


def parameters(function: object) -> list[inspect.Parameter]:
    """The parameters that a caller may give."""
    every = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [one for one in every if one.name not in ("self", "cls") and not one.name.startswith("_")]


def default(parameter: inspect.Parameter) -> str:
    """The default, as far as a reader needs it."""
    value = parameter.default
    if inspect.isfunction(value) or inspect.isbuiltin(value):
        return value.__name__.strip("_")
    is_short = isinstance(value, (type(None), bool, int, float, str, tuple)) and len(repr(value)) < 20
    return repr(value).replace("'", '"') if is_short else "…"


def signature(name: str) -> str:
    """The call of a public name with its defaults, wrapped."""
    written, is_keyword = [], False
    for one in parameters(getattr(contextkit, name)):
        if one.kind is one.KEYWORD_ONLY and not is_keyword:
            written.append("*")
            is_keyword = True
        star = "**" if one.kind is one.VAR_KEYWORD else "*" if one.kind is one.VAR_POSITIONAL else ""
        written.append(f"{star}{one.name}" + ("" if one.default is one.empty else f"={default(one)}"))
    call = f"{name}({', '.join(text.replace(' ', chr(160)) for text in written)})"
    return "\n".join(textwrap.wrap(call, 130, subsequent_indent=" " * 4)).replace(chr(160), " ")


def filled(page: str) -> str:
    """The page with each signature as the code has it."""
    return SIGNATURE.sub(
        lambda at: f"### `{at['name']}`\n\n<!-- signature -->\n```text\n{signature(at['name'])}\n```\n", page
    )


def test_the_page_and_the_package_name_the_same_things_once() -> None:
    assert sorted(HEADING.findall(API_PAGE.read_text(encoding="utf-8"))) == sorted(contextkit.__all__)
    assert len(set(contextkit.__all__)) == len(contextkit.__all__)


def test_the_signatures_are_those_of_the_code() -> None:
    page = API_PAGE.read_text(encoding="utf-8")
    assert page == filled(page), "python tests/test_public_names.py writes them anew"


def test_every_public_member_of_a_context_is_explained_with_its_parameters() -> None:
    members = {name: member for name, member in vars(contextkit.Context).items() if not name.startswith("_")}
    words = set(re.findall(r"\w+", SECTIONS["Context"]))
    missing = set(members) - words
    for member in members.values():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            missing |= {one.name for one in parameters(function)} - words
    assert missing == set()


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


if __name__ == "__main__":
    API_PAGE.write_text(filled(API_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
