"""What a tool returned, as parts."""

from __future__ import annotations

import asyncio
import enum
import itertools
import json
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from contextkit.errors import InvalidContent, ToolRefusal
from contextkit.tools import render
from contextkit.tools.render import answer, render_error, render_result


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
        (
            {"at": datetime(2026, 1, 2, tzinfo=UTC), "d": Decimal("1.50")},
            '{"at":"2026-01-02T00:00:00+00:00","d":"1.50"}',
        ),
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
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_data_reads_back_in_its_own_order(value: dict[str, Any]) -> None:
    assert json.loads(text_of(value)) == value
    assert list(json.loads(text_of(value))) == list(value)


class Point(NamedTuple):
    x: int
    y: float


class Blob(BaseModel):
    data: bytes
    name: str


class Odd(enum.Enum):
    THING = object()


def circle() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], '["Infinity","-Infinity"]'),
        ("caf\udce9", "caf\\udce9"),
        ({"\udce9": ["\udce9"]}, '{"\\\\udce9":["\\\\udce9"]}'),
        ([PurePosixPath("caf\udce9")], '["caf\\\\udce9"]'),
        ({1: 4, None: 3, (1, "a"): 5, 0.5: 6, b"k": 7}, '{"1":4,"null":3,"[1,\\"a\\"]":5,"0.5":6,"k":7}'),
        ({1: "a", "1": "b"}, '[["1","a"],["1","b"]]'),
        (b"text", "text"),
        (bytearray("é".encode()), "é"),
        ({"page": b"x", "raw": b"\xff\x00"}, '{"page":"x","raw":"(2 bytes of binary data)"}'),
        (10**400, "1" + "0" * 400),
        (Point(1, 2.5), "[1,2.5]"),
        (Blob(data=b"\xff", name="\udce9"), '{"data":"(1 bytes of binary data)","name":"\\\\udce9"}'),
        (Odd.THING, "THING"),
        ((n for n in (1, 2)), "[1,2]"),
        (range(3), "[0,1,2]"),
        ({"b": 1, "a": 2}.keys(), '["b","a"]'),
        (deque(["x"]), '["x"]'),
        ({1, 3, 2}, "[1,2,3]"),
        (timedelta(seconds=90), "0:01:30"),
        ([ValueError("no"), 1], '["ValueError: no",1]'),
    ],
)
def test_what_json_cannot_carry_is_text(value: object, text: str) -> None:
    assert text_of(value) == text
    assert not answer(value)["is_error"]


def test_arrays_and_attrs_classes_are_data() -> None:
    numpy = pytest.importorskip("numpy")
    attrs = pytest.importorskip("attrs")
    made = attrs.make_class("Made", ["b", "a"])(1, "z")
    values = [
        (made, '{"b":1,"a":"z"}'),
        (numpy.int64(3), "3"),
        (numpy.float32(0.5), "0.5"),
        (numpy.bool_(True), "true"),
        (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        (numpy.array([float("nan"), 1.0]), '["NaN",1.0]'),
        (numpy.array([made], dtype=object), '[{"b":1,"a":"z"}]'),
        (numpy.longdouble(1), "1.0"),
    ]
    assert [text_of(value) for value, _ in values] == [text for _, text in values]


def test_an_integer_too_long_for_decimal_digits_is_written_in_base_16() -> None:
    assert text_of(10**5000) == hex(10**5000)


def test_a_coroutine_is_an_error_and_is_closed() -> None:
    assert answer(asyncio.sleep(0))["is_error"]


def test_an_iterator_without_an_end_is_read_so_far() -> None:
    items = json.loads(text_of(itertools.count()))
    assert items[:-1] == list(range(render.MAX_ITEMS)) and "only the first 10,000" in items[-1]


class Endless:
    def model_dump(self, **how: Any) -> Any:
        return self


def failing() -> Iterator[int]:
    yield 1
    raise OSError(5, "disk \udce9")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "it is of type object, which has no JSON form"),
        ({"a": [object()]}, "it is of type object, which has no JSON form"),
        (Page, "it is of type ModelMetaclass, which has no JSON form"),
        (Report, "it is of type type, which has no JSON form"),
        (circle(), "it is nested deeper than 200 levels, or a circle"),
        (failing(), "reading it failed with OSError: [Errno 5] disk \\udce9"),
        (Endless(), "it is nested deeper than 200 levels, or a circle"),
    ],
)
def test_what_has_no_form_is_an_error_the_model_can_read(value: object, text: str) -> None:
    told = answer(value)
    assert told["is_error"] and told["content"][0]["text"].startswith(
        f"The tool ran and its result cannot be sent: {text}"
    )


def test_bytes_for_data_of_a_part_are_base64() -> None:
    assert render_result([{"type": "image", "media_type": "image/png", "data": b"hi"}]) == [
        {"type": "image", "media_type": "image/png", "data": "aGk="}
    ]


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (TimeoutError(), "TimeoutError"),
        (OSError(2, "No such file", "a\udce9"), "FileNotFoundError: [Errno 2] No such file: 'a\\udce9'"),
        (RuntimeError("\udce9"), "RuntimeError: \\udce9"),
        (Speechless(), "Speechless"),
        (ToolRefusal(" "), "ToolRefusal:  "),
        (
            BaseExceptionGroup("many", [ValueError("a"), KeyboardInterrupt()]),
            "BaseExceptionGroup: many (2 sub-exceptions)\n- ValueError: a\n- KeyboardInterrupt",
        ),
    ],
)
def test_error_is_type_and_message(error: BaseException, text: str) -> None:
    assert render_error(error) == text
    assert render_error(error).encode()


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=4),
)


@given(st.dictionaries(st.text(max_size=3), DATA, max_size=4), st.randoms(use_true_random=False))
def test_sorted_keys_make_one_text_of_one_value(value: dict[str, Any], order: Any) -> None:
    def shuffled(inside: Any) -> Any:
        if isinstance(inside, dict):
            return {key: shuffled(inside[key]) for key in order.sample(list(inside), len(inside))}
        return [shuffled(one) for one in inside] if isinstance(inside, list) else inside

    try:
        [part] = render_result(value, sort_keys=True)
    except InvalidContent:
        return
    assert render_result(shuffled(value), sort_keys=True) == [part]
    assert json.loads(part["text"]) == json.loads(render_result(value)[0]["text"])
