"""The Responses API over a WebSocket: which of its messages are requests, and which request an event answers.

A request is a text message of type `response.create`; its other fields are those of a body sent by POST. Its events are
those of a stream, one in each message. A socket answers the requests of one `stream_id` in order and those of several at
once. Sources: https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-29),
openai/types/responses/responses_client_event.py and responses_server_event.py (openai 3.57).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from contextkit.canonical import Json, canonical, parse_object

CREATE = "response.create"
"""Type of a client's message that is a request. After any other one (`response.steer`) a response may come that no request
asked for (openai/types/responses/response_steer_event.py)."""
_LAST = frozenset({"response.completed", "response.failed", "response.incomplete", "response.cancelled", "error"})
"""Types of the event that ends a response."""
_MOST_FAILED = 64
"""Responses that ended with an error and are remembered: an event that says so once more ends no other response."""
Call = TypeVar("Call")


def stream_of(fields: dict[str, Json]) -> str:
    """Return the stream that a message belongs to; empty where it names none."""
    stream = fields.get("stream_id")
    return stream if isinstance(stream, str) else ""


def error_message(stream: str, status: int, error: Json) -> bytes:
    """Return the event that refuses a request: its stream, the status that a POST would get, and the error."""
    return canonical({"type": "error", "status": status, "error": error, **({"stream_id": stream} if stream else {})})


def _response_id(fields: dict[str, Json]) -> str:
    """Return the id of the response that an event describes; empty where it describes none."""
    response = fields.get("response")
    name = response.get("id") if isinstance(response, dict) else None
    return name if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True)
class Answer(Generic[Call]):
    """What one message of the server says of a request."""

    call: Call | None
    """The request; None where the message answers none that was seen."""
    status: int
    """Status of the response: that of an error that comes before any event, else 200."""
    chunk: bytes
    """The event as a stream over HTTP has it; the body of an error that comes before any event."""
    is_first: bool
    """Whether the response begins."""
    is_last: bool
    """Whether the response ends."""


@dataclass(slots=True)
class _Open(Generic[Call]):
    call: Call
    has_begun: bool = False
    name: str = ""
    """Id of its response, once that was said."""


class ResponseSocket(Generic[Call]):
    """The requests of one socket that are not answered to their end.

    >>> socket = ResponseSocket()
    >>> socket.sent("", "first")
    >>> answer = socket.received(b'{"type":"response.completed"}')
    >>> answer.call, answer.chunk, answer.is_last
    ('first', b'event: response.completed\\ndata: {"type":"response.completed"}\\n\\n', True)
    """

    def __init__(self) -> None:
        self._open: dict[str, deque[_Open[Call]]] = {}
        self._failed: deque[str] = deque(maxlen=_MOST_FAILED)

    def sent(self, stream: str, call: Call) -> None:
        """Note that a request was sent on a stream."""
        self._open.setdefault(stream, deque()).append(_Open(call))

    def received(self, message: bytes) -> Answer[Call] | None:
        """Read a message of the server; None for one that belongs to no response."""
        fields = parse_object(message)
        kind = fields.get("type")
        if not isinstance(kind, str) or not (kind == "error" or kind.startswith("response.")):
            return None
        name = _response_id(fields)
        if name in self._failed:
            return None
        stream = self._stream(fields)
        waiting = self._open.get(stream)
        one = waiting[0] if waiting else None
        is_last, is_refusal = kind in _LAST, kind == "error" and (one is None or not one.has_begun)
        if one is None or waiting is None:
            return Answer(None, 200, b"", is_first=kind == "response.created", is_last=is_last)
        is_first, one.has_begun, one.name = not one.has_begun, True, one.name or name
        if is_last:
            waiting.popleft()
            if kind == "error" and one.name:
                self._failed.append(one.name)
            if not waiting:
                del self._open[stream]
        if is_refusal:
            status = fields.get("status")
            told = status if isinstance(status, int) and 400 <= status <= 599 else 400
            return Answer(one.call, told, message, is_first=True, is_last=True)
        lines = b"\ndata: ".join(message.splitlines())
        chunk = b"event: %b\ndata: %b\n\n" % (kind.encode("utf-8", "replace"), lines)
        return Answer(one.call, 200, chunk, is_first=is_first, is_last=is_last)

    def unanswered(self) -> list[Call]:
        """Return the requests that are not answered to their end, and forget them: the socket is closed."""
        calls = [one.call for waiting in self._open.values() for one in waiting]
        self._open.clear()
        return calls

    def _stream(self, fields: dict[str, Json]) -> str:
        """Return the stream of an event; of an error that names none, the only one on which a request is open."""
        stream = stream_of(fields)
        is_unnamed = fields.get("type") == "error" and stream not in self._open and len(self._open) == 1
        return next(iter(self._open)) if is_unnamed else stream
