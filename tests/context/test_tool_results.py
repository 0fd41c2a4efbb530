"""Whatever a tool returns, its call is answered and the loop goes on; over every endpoint, in memory and on disk."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import enum
import json
import struct
import sys
import zlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context, FileMemory, Tool, tool
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.memory import Memory
from tests.laws.wires import PROVIDERS, answer
from tests.scale import n_examples

USAGE = Usage(10, 0, 0, 0, 5)


def asked(
    provider: str = "anthropic", *tools: Any, n_calls: int = 1, context: Context | None = None, **options: Any
) -> Context:
    """A conversation whose model has called the first of `tools` `n_calls` times."""
    if context is None:
        context = Context(PROVIDERS[provider](), tools=tools, **options)
    context.user("Do it.")
    calls = [
        ("call", f"call_{len(context.log)}_{number}", context.toolbox.tools[0].name, {}) for number in range(n_calls)
    ]
    context.receive(answer(context.provider.wire, f"reply-{len(context.log)}", calls, USAGE), context.request())
    return context


def returning(value: Any) -> Tool:
    return Tool.raw(
        {"name": "give", "description": "Gives.", "parameters": {"type": "object"}}, run=lambda arguments: value
    )


def result(context: Context) -> dict[str, Any]:
    """The last result of the log."""
    body: dict[str, Any] = parse(next(entry for entry in reversed(context.log) if entry.kind == "result").body)
    return body


def png(width: int = 4, height: int = 4) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress(b"\0" * (width * 3 + 1) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@dataclasses.dataclass
class Row:
    name: Any
    value: Any = None


class Level(enum.Enum):
    LOW = 1
    ODD = object()


class Hostile:
    """Every way to look at it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}\udce9")

    def __iter__(self) -> Any:
        raise RuntimeError("no items")

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def _circle() -> Any:
    inner: dict[str, Any] = {}
    inner["again"] = [inner]
    return inner


def _deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


SURROGATES = st.text(st.characters(), max_size=5) | st.sampled_from(
    ["\udce9", "\ud83d\ude00", "a\ud800b", "\0", "\x1b[0m", " "]
)
SPECIAL: dict[str, Any] = {
    "400 digits": 10**400,
    "5000 digits": 10**5000,
    "object": object(),
    "type": int,
    "function": len,
    "enum": Level.LOW,
    "odd enum": Level.ODD,
    "hostile": Hostile(),
    "error": ValueError("\udce9"),
    "class": Hostile,
    "ellipsis": ...,
    "module": sys,
    "memoryview": memoryview(b"abc"),
    "group": BaseExceptionGroup("g\udce9", [KeyError("\udce9"), SystemExit()]),
    "range": range(10**12),
    "png": png(),
    "pdf": b"%PDF-1.4 \xff %%EOF",
    "cut png": b"\x89PNG\r\n\x1a\n",
    "cut jpeg": b"\xff\xd8\xff\xe0",
    "cut gif": b"GIF89a\0",
    "cut webp": b"RIFFxxxxWEBPVP8 ",
    "signalling": Decimal("sNaN"),
}
"""Values by name: some have no `repr`."""
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    SURROGATES,
    st.binary(max_size=8),
    st.decimals(),
    st.complex_numbers(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.fractions(),
    st.sampled_from(sorted(SPECIAL)).map(lambda name: SPECIAL[name]),
)
PART_VALUES = SURROGATES | st.sampled_from(
    ["image/png", "aGk=", "https://example.com/a.png", "anthropic_messages", b"\xff", "text/plain"]
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "document", "native", "video"]) | SURROGATES},
        optional={
            "text": SURROGATES,
            "media_type": PART_VALUES,
            "data": PART_VALUES,
            "url": PART_VALUES,
            "title": SURROGATES,
            "wire": PART_VALUES,
            "block": st.sampled_from(
                [{}, {"type": "text", "text": "x"}, {"type": "\udce9"}, _deep(150), {"type": "x", "more": _deep(150)}]
            ),
        },
    ),
    min_size=1,
    max_size=3,
)


def is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


KEYS = LEAVES.filter(is_hashable)
VALUES = (
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.lists(st.tuples(KEYS, inner), max_size=3).map(dict),
            st.frozensets(KEYS, max_size=3),
            st.builds(Row, inner, inner),
            st.lists(inner, max_size=3).map(iter),
            st.just(None).map(lambda _: (1 // n for n in (1, 0))),
            st.just(None).map(lambda _: _circle()),
            st.integers(150, 1200).map(_deep),
        ),
        max_leaves=6,
    )
    | PARTS
)


@pytest.mark.parametrize("name", ["anthropic", "responses", "gemini"])
@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans())
@settings(max_examples=n_examples(12, 500), deadline=None)
def test_any_value_of_a_tool_answers_its_call_and_the_request_can_be_sent(
    name: str, values: list[Any], has_memory: bool
) -> None:
    memory = Memory(FileMemory("memory://results")) if has_memory else None
    context = asked(name, returning(None), n_calls=len(values), **({"memory": memory} if memory else {}))
    for call, value in zip(context.calls, values, strict=True):
        context.result(call, value)
    assert not context.calls
    json.loads(context.request().body)
    for entry in context.log:
        if entry.kind == "result":
            content = parse(entry.body)["content"]
            assert content and all(part["type"] != "text" or part["text"].strip() for part in content)


@given(VALUES)
@settings(max_examples=n_examples(10, 500), deadline=None)
def test_run_calls_answers_every_call_whatever_its_tool_returns(value: Any) -> None:
    context = asked("anthropic", returning(value), n_calls=2)
    entries = asyncio.run(context.run_calls(tries=2))
    assert len(entries) == 2 and not context.calls
    json.loads(context.request().body)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "image", "media_type": "image/png", "data": "no base64!"}, "content[0].data is no base64"),
        ({"type": "image", "url": "cat.png"}, "content[0].url is no URL"),
        ({"type": "document", "media_type": "", "data": "aGk="}, "content[0].media_type is empty"),
        ({"type": "native", "wire": "anthropic_messages", "block": {}}, "content[0].block is empty"),
        (
            {"type": "native", "wire": "anthropic_messages", "block": {"type": "x", "more": _deep(120)}},
            "content[0] is nested deeper",
        ),
    ],
)
def test_parts_that_no_provider_takes_are_an_error_for_the_model(part: Any, why: str) -> None:
    context = asked("anthropic", returning([part]))
    context.result(context.calls[0], context.calls[0].run())
    assert result(context)["is_error"] and why in result(context)["content"][0]["text"]
    context.request()


def test_pictures_and_pdfs_are_looked_at_and_other_bytes_are_a_file() -> None:
    context = asked("anthropic", returning(png()), memory=FileMemory("memory://bytes"))
    context.result(context.calls[0], context.calls[0].run())
    [part] = result(context)["content"]
    assert (part["type"], part["media_type"], base64.b64decode(part["data"])) == ("image", "image/png", png())
    pdf = b"%PDF-1.4\n1 0 obj\xff\n%%EOF\n"
    asked(context=context)
    context.result(context.calls[0], pdf)
    assert result(context)["content"][0]["media_type"] == "application/pdf"
    raw = b"\x7fELF\x00\x01\xff" * 3
    asked(context=context)
    entry = context.result(context.calls[0], raw)
    [text], [reference] = result(context)["content"], result(context)["references"]
    assert text["text"].startswith("[Binary data, 21 bytes, kept outside as ") and not result(context)["is_error"]
    assert context.restore(reference["digest"][:16]) == raw
    assert context.restore(entry) == [
        {"type": "document", "media_type": "application/octet-stream", "data": base64.b64encode(raw).decode()}
    ]
    json.loads(context.request().body)


@pytest.mark.parametrize("raw", [b"\x7fELF\x00\x01\xff", b"\x89PNG\r\n\x1a\n\xff", b"%PDF-1.4 \xff torn"])
def test_without_a_memory_other_bytes_are_told_by_their_size(raw: bytes) -> None:
    context = asked("anthropic", returning(raw))
    context.result(context.calls[0], context.calls[0].run())
    assert result(context)["content"] == [{"type": "text", "text": f"({len(raw)} bytes of binary data)"}]


def test_a_picture_too_large_for_a_provider_is_not_sent_as_one() -> None:
    context = asked("anthropic", returning(png(9000, 1)))
    context.result(context.calls[0], context.calls[0].run())
    assert result(context)["content"][0]["type"] == "text"


def test_a_tool_that_stops_an_iteration_or_cancels_itself_is_answered() -> None:
    @tool
    def first() -> str:
        """Gives the first of nothing."""
        return next(iter(()))

    @tool
    async def cancels() -> str:
        """Waits for what was cancelled."""
        waiting = asyncio.ensure_future(asyncio.sleep(60))
        waiting.cancel()
        await waiting
        return "never"

    for one in (first, cancels):
        context = asked("anthropic", one)
        asyncio.run(asyncio.wait_for(context.run_calls(), 30))
        assert result(context)["is_error"] and not context.calls


class Lazy:
    """A value whose class is worked out when it is asked for, as lazy proxies do."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("not set up")


def test_a_value_that_hides_its_class_answers_its_call() -> None:
    context = asked("anthropic", returning(1))
    context.result(context.calls[0], Lazy())
    assert result(context)["is_error"] and not context.calls
