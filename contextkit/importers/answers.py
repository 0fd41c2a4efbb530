"""A response as somebody recorded it: JSON, a list of events, or the text of an event stream, alone or in an envelope.

Takes any of these, gives `ResponseFacts`. Knows nothing of files.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from contextkit.importers.source import load_json
from contextkit.providers.response_facts import ResponseFacts


def answer_of(given: Any) -> ResponseFacts | None:
    """The facts of a response as somebody recorded it; None for what is none."""
    events, is_stream = _events(given)
    facts = ResponseFacts(is_stream=is_stream)
    is_response = False
    for event in events:
        is_response |= facts.add(event)
    return facts if is_response else None


# Events
# -------------------------------------------------------------------------------------------------------------------


def _events(given: Any) -> tuple[Iterable[dict[str, Any]], bool]:
    """The objects a response was recorded as, and whether they are a stream's."""
    if isinstance(given, dict):
        inside = next(
            (given[name] for name in ("events", "chunks", "stream") if isinstance(given.get(name), list)), None
        )
        return ([given], False) if inside is None else _events(inside)
    if isinstance(given, list):
        if given and all(isinstance(piece, str) for piece in given):
            return _events("".join(given))
        return [event for piece in given for event in _unwrapped(piece)], True
    return _in_text(given.strip()) if isinstance(given, str) else ([], False)


def _in_text(text: str) -> tuple[Iterable[dict[str, Any]], bool]:
    """Of a body: JSON, a JSON array, lines of JSON, or server-sent events."""
    value = _json(text) if text[:1] in ("{", "[") else None
    if value is not None:
        return _events(value)
    if _SSE.search(text[:4096]):
        return sse(text), True
    objects = [event for line in text.splitlines() if isinstance(event := _json(line.strip().strip(",")), dict)]
    return objects, bool(objects)


_SSE = re.compile(r"^(?:data|event|id|:)\s*:?", re.MULTILINE)


def sse(text: str) -> Iterator[dict[str, Any]]:
    r"""The JSON objects of server-sent events.

    Leaves out a cut one, and those that only carry a piece of the content.

    >>> list(sse('event: ping\ndata: {"type": "ping"}\n\ndata: {"type": "message_stop"}\n\ndata: [DONE]\n\n'))
    [{'type': 'message_stop'}]
    """
    if "\r" in text:  # lines end by these alone: the others that Python knows may stand inside a string
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data and not _CONTENT_EVENTS.match(data[0]):
            event = _json("\n".join(data))
            if isinstance(event, dict):
                yield event


_CONTENT_EVENTS = re.compile(r'\{"type": ?"(?:content_block_(?:delta|start|stop)|ping|response\.[\w.]+\.delta)"')
"""Events that are many and hold no facts."""


def amazon_events(raw: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of Amazon's binary event stream (application/vnd.amazon.eventstream).

    One that was cut is left out.
    """
    at = 0
    while at + 16 <= len(raw):
        size, n_headers = int.from_bytes(raw[at : at + 4], "big"), int.from_bytes(raw[at + 4 : at + 8], "big")
        if size < 16 or at + size > len(raw):
            return
        head, payload = raw[at + 12 : at + 12 + n_headers], _json(raw[at + 12 + n_headers : at + size - 4])
        at += size
        if isinstance(payload, dict):
            kind = _KIND.search(head)
            yield from _unwrapped({kind[1].decode(): payload} if kind and kind[1] != b"chunk" else payload)


_KIND = re.compile(rb":event-type\x07..(\w+)", re.DOTALL)


def _unwrapped(piece: Any) -> Iterator[dict[str, Any]]:
    """The event in what a recorder put around it: a text of its own, `{"event", "data"}`, `{"chunk"}`, `{"bytes"}`."""
    if isinstance(piece, str):
        yield from _in_text(piece.strip())[0]
        return
    if not isinstance(piece, dict):
        return
    packed = piece.get("bytes")
    if isinstance(packed, str):
        piece = _json(_unpacked(packed)) or {}
    inner = next((piece[name] for name in ("data", "chunk", "text") if name in piece and "choices" not in piece), None)
    if isinstance(inner, str) and inner[:1] in ("{", "d", "e"):
        yield from _in_text(inner.strip())[0]
    elif isinstance(inner, dict) and ("type" not in piece or piece.get("event")):
        yield from _unwrapped(inner)
    elif isinstance(piece, dict):
        yield piece


def _unpacked(packed: str) -> bytes:
    try:
        return b64decode(packed, validate=True)
    except (NotBase64, ValueError):
        return b""


def _json(text: str | bytes) -> Any:
    try:
        return load_json(text)
    except orjson.JSONDecodeError:
        return None
