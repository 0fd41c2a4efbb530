"""Why a call did not end well, in the words of every ledger: the provider's type of error, `unreachable`, `cut` or
`aborted`.

Takes what a response said, or what a transport raised; gives one word, never a text, which may quote the prompt.
docs/proxy.md lists them.

What a response says it was billed, read from its bytes while they pass by.

Takes chunks as they come off the wire, gives usage, id and the provider's own diagnosis. Nothing is held back or
changed; of a stream only the unfinished line and the few events that carry a bill are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json, parse
from contextkit.content_encoding import Decoder, UndecodableBody, codings_of
from contextkit.errors import NotSerialisable
from contextkit.providers.anthropic import response as messages_reply
from contextkit.providers.openai import chat as chat_reply
from contextkit.providers.openai import responses as responses_reply

CUT, ABORTED, UNREACHABLE = "cut", "aborted", "unreachable"
"""The provider broke off in the middle; the caller left; the provider did not answer at all."""
_NAME = re.compile(r"[\w./-]{1,64}")
"""What a type of error looks like: a text in its place may quote the prompt."""
_LEFT = (
    "CancelledError",
    "KeyboardInterrupt",
    "Cancelled",
    "GeneratorExit",
    "SystemExit",
    "ReadTimeout",
    "WriteTimeout",
)
"""Errors by which the caller, or its patience, ends a call that the provider still worked on (httpx2/_exceptions.py).
"""


def type_of(said: Json) -> str:
    """The provider's type of error in a response or an event, empty where it names none. A code says more than a type.

    >>> type_of({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    'overloaded_error'
    >>> type_of({"error": {"type": "tokens", "code": "rate_limit_exceeded"}})
    'rate_limit_exceeded'
    """
    told = said.get("error") if isinstance(said, Mapping) else None
    if isinstance(said, Mapping) and not told and said.get("type") == "error":
        told = {"code": said.get("code")}  # an event of the Responses API says it at its top
    named = [told.get(name) for name in ("code", "type", "status")] if isinstance(told, Mapping) else []
    return next((name for name in named if isinstance(name, str) and _NAME.fullmatch(name)), "")


def unanswered(error: BaseException) -> str:
    """The word for what a transport raised in place of a response."""
    return _left_or(error, UNREACHABLE)


def broken_off(error: BaseException) -> str:
    """The word for what was raised in the middle of a response."""
    return _left_or(error, CUT)


def _left_or(error: BaseException, word: str) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    return ABORTED if names.intersection(_LEFT) else word


MOST_BYTES = 1 << 26
"""A whole response beyond this is passed on unread: its bill is unknown."""
_ERRORS = (b'"type":"error"', b'"type": "error"', b'{"error"')
"""One stands in each event that says what went wrong; inside a text its quotes would be escaped."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one wire tells what was billed."""

    usage: Callable[[Mapping[str, Json]], Usage]
    """Its counters in ours."""
    last: tuple[bytes, ...]
    """What stands in the event that ends a stream."""
    words: tuple[bytes, ...]
    """At least one stands in each event that is read."""
    verdict: Callable[[Mapping[str, Json]], str]
    """The provider's own diagnosis in an answer, empty where it has none."""


def _diagnosed(answer: Mapping[str, Json]) -> str:
    """`system_changed`; a diagnosis that found nothing, or is not there yet, is empty (anthropic/types/diagnostics.py)."""
    reason = (answer.get("diagnostics") or {}).get("cache_miss_reason") or {}
    return str(reason.get("type", ""))


def _compared(answer: Mapping[str, Json]) -> str:
    """`tools_changed` of a miss (openai/types/responses/response.py)."""
    found = answer.get("prompt_cache_diagnostics") or {}
    return str(found.get("reason", "")) if found.get("type") == "cache_miss" else ""


READINGS: Mapping[str, Reading] = {
    "anthropic_messages": Reading(
        messages_reply.usage,
        (b'"message_stop"',),
        (b'"message_start"', b'"message_delta"', b'"message_stop"'),
        _diagnosed,
    ),
    "openai_chat": Reading(chat_reply.usage, (b"[DONE]",), (b'"usage"',), lambda answer: ""),
    "openai_responses": Reading(
        responses_reply.usage,
        (b'"response.completed"', b'"response.incomplete"', b'"response.failed"'),
        (b'"response.completed"', b'"response.incomplete"', b'"response.failed"'),
        _compared,
    ),
}
"""Wire → how to read it."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What came back."""

    id: str = ""
    """The provider's id of the response."""
    usage: Usage | None = None
    """What was billed, None where nothing said it."""
    verdict: str = ""
    """The provider's own diagnosis."""
    is_whole: bool = False
    """Whether the response reached its end."""
    output: list[Json] | None = None
    """The items of a response, where it has items."""
    error: str = ""
    """The provider's type of error, where it said one in place of a whole answer."""


@dataclass(slots=True)
class Bytes:
    """One response on its way: `feed` it, then ask for its `bill`."""

    reading: Reading
    """How its wire tells."""
    is_stream: bool
    """Server-sent events; else one JSON object."""
    decode: Callable[[bytes], bytes] | None
    """From the wire's encoding to text; None where we have no decoder, and nothing is read."""
    _rest: bytes = b""
    _chunks: list[bytes] = field(default_factory=list)
    _size: int = 0
    _answer: dict[str, Json] = field(default_factory=dict)
    _has_ended: bool = False
    _error: str = ""

    def feed(self, chunk: bytes) -> None:
        """Look at a chunk."""
        if self.decode is None:
            return
        try:
            text = self.decode(chunk)
        except UndecodableBody:  # what the caller makes of the bytes is the caller's
            self.decode = None
            return
        (self._lines if self.is_stream else self._gather)(text)

    def bill(self, *, has_ended: bool) -> Bill:
        """What it says; `has_ended` where the connection said that there is no more."""
        if not self.is_stream and has_ended and self._chunks:
            self._take(b"".join(self._chunks))
            self._has_ended = bool(self._answer)
            self._chunks = []
        counters = self._answer.get("usage")
        usage = served(self.reading.usage(counters), self._answer) if isinstance(counters, Mapping) else None
        is_whole = self._has_ended or (has_ended and self.decode is None)
        output = self._answer.get("output")
        items = output if isinstance(output, list) else None
        return Bill(
            str(self._answer.get("id") or ""), usage, self.reading.verdict(self._answer), is_whole, items, self._error
        )

    def _gather(self, text: bytes) -> None:
        self._size += len(text)
        if self._size > MOST_BYTES:
            self._chunks, self.decode = [], None
            return
        self._chunks.append(text)

    def _lines(self, text: bytes) -> None:
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and any(
                word in line for word in (*self.reading.words, *self.reading.last, *_ERRORS)
            ):
                self._take(line[5:])
                self._has_ended = self._has_ended or any(word in line for word in self.reading.last)

    def _take(self, text: bytes) -> None:
        """The object that `text` says, laid over what was known; `[DONE]` and torn texts say nothing."""
        try:
            said = parse(text.strip())
        except NotSerialisable:
            return
        if not isinstance(said, dict):
            return
        self._error = type_of(said) or self._error
        inner = said.get("message") or said.get("response")
        answer = inner if isinstance(inner, dict) and "type" in said else said
        usage = {**(self._answer.get("usage") or {}), **_known(answer.get("usage"))}
        kept = {
            key: answer[key] for key in ("id", "diagnostics", "prompt_cache_diagnostics", "output") if answer.get(key)
        }
        self._answer = {**self._answer, **kept, **({"usage": usage} if usage else {})}


def _known(counters: Json) -> dict[str, Json]:
    return {key: value for key, value in counters.items() if value is not None} if isinstance(counters, dict) else {}


def bytes_of(wire: str, content_type: str, encoding: str) -> Bytes:
    """A reader for a response of `wire` with these two headers."""
    return Bytes(READINGS[wire], content_type.startswith("text/event-stream"), _decoder(encoding))


def _decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    try:
        return Decoder(encoding, MOST_BYTES).feed if codings_of(encoding) else bytes
    except UndecodableBody:
        return None  # a library that is missing here, or a coding that nobody knows
