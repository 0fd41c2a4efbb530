"""JSON of request bodies, read from where one leaves an earlier one: the messages before that are those of the earlier body.

Reading a body that continues an earlier one costs a comparison of bytes, and what was added.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from contextkit.canonical import Json
from contextkit.prompt.diff import common_bytes


@dataclass(frozen=True, slots=True)
class BodyJson:
    """A body as bytes and as values."""

    raw: bytes
    """Its bytes."""
    fields: dict[str, Json]
    """Its fields."""
    message_field: str
    """Field that holds the messages."""
    start: int
    """Byte of the first message."""
    ends: array[int]
    """Byte behind each message; empty where there are none, or where they are spelled as no SDK does."""
    n_shared: int = 0
    """Leading messages that are those of an earlier body, each one object in both."""


def whole_body(raw: bytes, fields: dict[str, Json], message_field: str) -> BodyJson:
    """Locate the messages of a body that was read whole."""
    messages = fields.get(message_field)
    located = _located(raw, message_field, messages) if isinstance(messages, list) else None
    return BodyJson(raw, fields, message_field, *(located or (0, array("q"))))


def continued_body(raw: bytes, before: BodyJson, parse: Callable[[bytes], Json]) -> BodyJson | None:
    """Read a body from where its bytes leave those of `before`; None where they share no message, or where the new messages are
    spelled as no SDK does. Raises as `parse`.
    """
    n = bisect_right(before.ends, common_bytes(before.raw, raw))
    if not n or raw[before.ends[n - 1] : before.ends[n - 1] + 1] not in (b",", b"]"):
        return None
    at = before.ends[n - 1]
    fields = parse(raw[: before.start] + raw[at + (raw[at] == 44) :])
    new = fields.get(before.message_field) if isinstance(fields, dict) else None
    if not isinstance(new, list) or (tail := _tail_ends(raw, at, new)) is None:
        return None  # the array's name stands elsewhere once more, or it is spelled otherwise
    fields[before.message_field] = [*before.fields[before.message_field][:n], *new]
    return BodyJson(raw, fields, before.message_field, before.start, before.ends[:n] + tail, n)


@dataclass(frozen=True, slots=True)
class _JsonStyle:
    """One way clients write JSON."""

    opening: str
    """Between the array's name and its first message."""
    comma: bytes
    """Between two messages."""
    dumps: Callable[[Json], bytes]
    """A message."""


_SPELLINGS = (
    _JsonStyle('":[', b",", orjson.dumps),  # the SDKs of Anthropic and OpenAI, JavaScript
    _JsonStyle('": [', b", ", lambda value: json.dumps(value).encode()),  # requests, aiohttp
    _JsonStyle('":[', b",", lambda value: json.dumps(value, separators=(",", ":")).encode()),
)


def _located(raw: bytes, name: str, messages: list[Json]) -> tuple[int, array[int]] | None:
    """Return the byte of the first message and the end of each.

    None where they are spelled in no way we know, so that nothing can be said.
    """
    for style in _SPELLINGS:
        opening = f'"{name}{style.opening}'.encode()
        start = raw.find(opening) + len(opening)
        ends = _ends(raw, start, messages, style) if start >= len(opening) else None
        if ends is not None:
            return start, ends
    return None


def _ends(raw: bytes, start: int, messages: list[Json], style: _JsonStyle) -> array[int] | None:
    at, ends = start, array("q")
    for message in messages:
        try:
            body = style.dumps(message)
        except (TypeError, RecursionError):  # nested too deep, or a number that orjson does not write
            return None
        if not raw.startswith(body, at):
            return None
        ends.append(at + len(body))
        at += len(body) + len(style.comma)
    return ends if ends and raw[ends[-1] : ends[-1] + 1] == b"]" else None


def _tail_ends(raw: bytes, at: int, messages: list[Json]) -> array[int] | None:
    """Return the ends of the messages that follow the one that ends at `at`."""
    if not messages:
        return array("q")
    spelled_so = (_ends(raw, at + len(one.comma), messages, one) for one in _SPELLINGS if raw.startswith(one.comma, at))
    return next((ends for ends in spelled_so if ends is not None), None)
