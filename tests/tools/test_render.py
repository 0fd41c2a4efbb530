"""What a tool returned, as parts."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from contextkit.errors import InvalidContent
from contextkit.tools.render import render_error, render_result


class Colour(enum.StrEnum):
    RED = "red"


class Page(BaseModel):
    url: str
    size: int = Field(alias="nBytes")


@dataclass
class Report:
    z: Page
    a: list[Colour] = field(default_factory=list)


def text_of(value: object) -> str:
    [part] = render_result(value)
    assert list(part) == ["type", "text"]
    assert part["type"] == "text"
    return str(part["text"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, "(no output)"),
        ("", "(no output)"),
        (" \n", "(no output)"),
        (True, "true"),
        (3, "3"),
        (10**30, "1" + "0" * 30),
        (0.5, "0.5"),
        ({"z": 1, "a": [None, (1, 2)]}, '{"z":1,"a":[null,[1,2]]}'),
        ([], "[]"),
        ({}, "{}"),
        (OrderedDict(b="é"), '{"b":"é"}'),
        (Colour.RED, "red"),
        ({Colour.RED: Colour.RED}, '{"red":"red"}'),
        (Page(url="u", nBytes=3), '{"url":"u","nBytes":3}'),
        (Report(Page(url="u", nBytes=3), [Colour.RED]), '{"z":{"url":"u","nBytes":3},"a":["red"]}'),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC), "d": Decimal("1.50")}, '{"at":"2026-01-02T00:00:00+00:00","d":"1.50"}'),
        ([PurePosixPath("a/b"), UUID(int=0)], '["a/b","00000000-0000-0000-0000-000000000000"]'),
        ({"c", "a", "b"}, '["a","b","c"]'),
        ([{"type": "text"}], '[{"type":"text"}]'),
        ([{"type": "text", "text": "x", "extra": 1}], '[{"type":"text","text":"x","extra":1}]'),
        ([{"type": ["text"], "text": "x"}], '[{"type":["text"],"text":"x"}]'),
        ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
    ],
)
def test_one_text(value: object, text: str) -> None:
    assert text_of(value) == text


def test_parts_pass_through() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "a plot"},
        {"type": "image", "media_type": "image/png", "data": "aGk="},
        {"type": "image", "url": "https://example.org/a.png"},
        {"type": "document", "media_type": "application/pdf", "data": "aGk=", "title": "T"},
        {"type": "native", "wire": "anthropic_messages", "block": {"type": "search_result"}},
    ]
    assert render_result(parts) == parts
    assert render_result(tuple(parts)) == parts


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_data_reads_back_in_its_own_order(value: dict[str, Any]) -> None:
    assert json.loads(text_of(value)) == value
    assert list(json.loads(text_of(value))) == list(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x89PNG", "a tool returned bytes; decode text (value.decode()), return an image as [{"),
        ({"page": bytearray(b"x")}, "a tool returned bytes; decode text"),
        (object(), "a tool returned object, which has no JSON form; return text, None, numbers, dicts and lists of these,"),
        (Page, "a tool returned ModelMetaclass, which has no JSON form"),
        (Report, "a tool returned type, which has no JSON form"),
        (float("nan"), "a tool's result cannot be sent: nan has no JSON form at $"),
        ({"a": [{1: 2}]}, "a tool's result cannot be sent: a key of type int has no JSON form, keys are strings; at $.a[0]"),
        ("\udce9", "a tool's result cannot be sent: a lone surrogate has no UTF-8 form at $"),
    ],
)
def test_what_cannot_be_sent_says_what_to_return(value: object, text: str) -> None:
    with pytest.raises(InvalidContent) as caught:
        render_result(value)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (TimeoutError(), "TimeoutError"),
        (OSError(2, "No such file", "a\udce9"), "FileNotFoundError: [Errno 2] No such file: 'a\\udce9'"),
        (RuntimeError("\udce9"), "RuntimeError: \\udce9"),
    ],
)
def test_error_is_type_and_message(error: Exception, text: str) -> None:
    assert render_error(error) == text
    assert render_error(error).encode()
