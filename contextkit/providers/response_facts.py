"""Everything that a response reports besides its content: id, model, token counters, diagnosis, error, and whether it
came to its end.

Takes the JSON objects of a response of any endpoint, whole or as the events it was streamed in, or its bytes while they
pass by; gives `ResponseFacts`. Of the content only the items of a Responses response are kept, since a later request may
name them instead of repeating them. Field names: anthropic 2.11, openai 3.52, google-genai 3.4, botocore 1.44,
OpenRouter's `get-generation` page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.content_encoding import Decoder, UndecodableBody, codings_of
from contextkit.errors import NotSerialisable
from contextkit.providers.usage import Report, billed_usd_of, endpoint_usage, ignore, streamed_counters, usage_of

_INSIDE = ("message", "response", "metadata", "data")
"""Where an event, or a record around a response, keeps the response."""
_COUNTERS = ("usage", "usageMetadata", "usage_metadata")
_COSTS = ("total_cost", "is_byok", "upstream_inference_cost")
"""What a generation record of OpenRouter says of its cost, beside its counters."""
_IDS = ("id", "responseId", "response_id", "generation_id")
_MODELS = ("model", "modelVersion", "model_version")
_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("id", _IDS),
    ("model", _MODELS),
    ("upstream", ("provider_name", "provider")),
    ("session", ("session_id",)),
)
_STOPS = frozenset({"stop_reason", "stopReason", "finish_reason", "finishReason", "done_reason"})
_FINAL_STATUSES = ("completed", "incomplete", "cancelled")
_FIELDS = frozenset(
    {
        *_COUNTERS,
        *_IDS,
        *_MODELS,
        *_STOPS,
        "native_tokens_prompt",
        "provider_name",
        "provider",
        "session_id",
        "created",
        "created_at",
        "status",
        "error",
        "choices",
        "candidates",
        "diagnostics",
        "prompt_cache_diagnostics",
    }
)
"""Every field that is read; an object with none of them is passed over."""
_NO_VERDICTS = frozenset({"unavailable", "previous_message_not_found"})
"""Diagnoses that say nothing about the request."""
UNNAMED_ERROR = "error"
"""Type of an error that names none."""
_ERROR_TYPE = re.compile(r"[\w./-]{1,64}")
"""The form of a type of error: a text in its place may quote the prompt."""


@dataclass(slots=True)
class ResponseFacts:
    """One response, its content aside."""

    id: str = ""
    """The provider's id of it."""
    model: str = ""
    """The model that answered."""
    counts: dict[str, Any] = field(default_factory=dict)
    """Its token counters, with the provider's names."""
    created: Any = None
    """When it was made, as the provider writes it."""
    upstream: str = ""
    """The provider that a router passed it on to."""
    verdict: str = ""
    """The provider's diagnosis of a cache miss."""
    error: str | None = None
    """The type of error it is, None where it is none."""
    has_ended: bool = False
    """Whether the model came to an end, its own or a limit's."""
    is_stream: bool = False
    """Whether it came as events."""
    session: str = ""
    """The conversation it names."""
    items: list[Any] | None = None
    """The output items of a Responses response; None for every other."""

    def add(self, event: Mapping[str, Any]) -> bool:
        """Take what one object, or event, reports; whether it reports anything that a response does."""
        is_response = self._add_fields(event)
        for name in _INSIDE:
            inner = event.get(name)
            # `metadata` is Bedrock's event, or what a caller attached to its request
            if isinstance(inner, dict) and (name != "metadata" or "usage" in inner):
                is_response |= self._add_fields(inner)
        for name in ("messageStop", "delta"):
            if isinstance(event.get(name), dict):
                is_response |= self._add_end(event[name])
        return is_response

    def usage(self, report: Report = ignore, model: str = "") -> Usage | None:
        """Read its usage by the names of its counters; None if they are empty or contradict each other, which is reported.

        `model`: the one that was asked, as counters of some models differ in a stream.
        """
        counts = streamed_counters(self.counts, model) if self.is_stream else self.counts
        return self.as_far_as_received(usage_of(counts, report))

    def as_far_as_received(self, usage: Usage | None) -> Usage | None:
        """A usage read from these counters: the output of a stream that was cut is a lower bound, the rest is final.

        A provider counts the input, reads and writes before it generates, and the output again at the end.
        """
        is_cut = self.is_stream and not self.has_ended
        return usage.with_partial_output() if usage is not None and is_cut else usage

    @property
    def billed_usd(self) -> float | None:
        """Dollars that the router says it cost; None where it says none."""
        return billed_usd_of(self.counts)

    def _add_fields(self, fields: Mapping[str, Any]) -> bool:
        if _FIELDS.isdisjoint(fields) and fields.get("type") != "error":
            return False
        has_counters = self._add_counters(fields)
        for fact, names in _TEXTS:
            value = next((fields[name] for name in names if isinstance(fields.get(name), str)), "")
            if value:
                setattr(self, fact, value)
        for name in ("created", "created_at"):
            if fields.get(name) is not None:
                self.created = fields[name]
                break
        if fields.get("object") == "response" and isinstance(fields.get("output"), list):
            self.items = fields["output"]
        self.verdict = _verdict(fields) or self.verdict
        is_error = bool(fields.get("error")) or fields.get("type") == "error"
        if is_error:
            self.error = error_type(fields) or UNNAMED_ERROR
        return has_counters | self._add_end(fields) | is_error | ("choices" in fields) | ("candidates" in fields)

    def _add_counters(self, fields: Mapping[str, Any]) -> bool:
        has_counters = False
        for name in _COUNTERS:
            counters = fields.get(name)
            if isinstance(counters, dict):
                self.counts.update({key: value for key, value in counters.items() if value is not None})
                if isinstance(fields.get("service_tier"), str):  # OpenAI's, beside its usage
                    self.counts["service_tier"] = fields["service_tier"]
                has_counters = True
        if "native_tokens_prompt" in fields:
            for key, value in fields.items():
                if (key.startswith("native_tokens_") or key in _COSTS) and value is not None:
                    self.counts[key] = value
            has_counters = True
        return has_counters

    def _add_end(self, fields: Mapping[str, Any]) -> bool:
        choices: list[Any] = next(
            (fields[name] for name in ("choices", "candidates") if isinstance(fields.get(name), list)), []
        )
        places = [fields, *(choice for choice in choices if isinstance(choice, dict))]
        has_stop = any(place[name] is not None for place in places for name in _STOPS & place.keys())
        has_ended = has_stop or str(fields.get("status")) in _FINAL_STATUSES
        self.has_ended |= has_ended
        return has_ended


def error_type(response: Json) -> str:
    """The provider's type of error in a response, an event or an error itself; empty where it names none.

    A code is more specific than a type.

    >>> error_type({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    'overloaded_error'
    >>> error_type({"error": {"type": "tokens", "code": "rate_limit_exceeded"}})
    'rate_limit_exceeded'
    """
    error = response.get("error") if isinstance(response, Mapping) else None
    if isinstance(response, Mapping) and not error and response.get("type") == "error":
        error = {"code": response.get("code")}  # an event of the Responses API has it at its top
    names = [error.get(name) for name in ("code", "type", "status")] if isinstance(error, Mapping) else []
    return next((name for name in names if isinstance(name, str) and _ERROR_TYPE.fullmatch(name)), "")


def _verdict(fields: Mapping[str, Any]) -> str:
    """The provider's own diagnosis: Anthropic's `cache_miss_reason` (anthropic/types/diagnostics.py), OpenAI's
    `prompt_cache_diagnostics` (openai/types/responses/response.py).
    """
    anthropic, openai = fields.get("diagnostics"), fields.get("prompt_cache_diagnostics")
    reason = anthropic.get("cache_miss_reason") if isinstance(anthropic, dict) else None
    verdict = reason.get("type") if isinstance(reason, dict) else None
    if verdict is None and isinstance(openai, dict) and openai.get("type") == "cache_miss":
        verdict = openai.get("reason")
    return verdict if isinstance(verdict, str) and verdict not in _NO_VERDICTS else ""


# Bytes
# -------------------------------------------------------------------------------------------------------------------

MOST_BYTES = 1 << 26
"""A whole response beyond this passes unread: its usage is unknown."""
_ERROR_MARKS = (b'"type":"error"', b'"type": "error"', b'{"error"')
"""One stands in each event that reports an error; inside a text its quotes would be escaped."""
_FINAL_EVENTS = (b'"response.completed"', b'"response.incomplete"', b'"response.failed"')
_MARKS: Mapping[str, tuple[tuple[bytes, ...], tuple[bytes, ...]]] = {
    "anthropic_messages": ((b'"message_start"', b'"message_delta"', b'"message_stop"'), (b'"message_stop"',)),
    "openai_chat": ((b'"usage"',), (b"[DONE]",)),
    "openai_responses": (_FINAL_EVENTS, _FINAL_EVENTS),
}
"""Endpoint → texts of which one stands in each event that is read, and of which one stands in the last event."""


@dataclass(frozen=True, slots=True)
class ResponseSummary:
    """A response that ended."""

    id: str = ""
    """The provider's id of it."""
    usage: Usage | None = None
    """Its usage, None where no counters came; the output of a stream that was cut is partial."""
    verdict: str = ""
    """The provider's diagnosis of a cache miss."""
    is_complete: bool = False
    """Whether it reached its end."""
    items: list[Json] | None = None
    """The output items of a Responses response; None for every other."""
    error: str = ""
    """The type of error that came in place of a whole response."""
    billed_usd: float | None = None
    """Dollars that a router says it cost; None where it says none."""


@dataclass(slots=True)
class ResponseBytes:
    """One response on its way: `feed` it, then ask for its summary.

    Nothing is held back or changed; of a stream only the unfinished line and the few events with facts are kept.
    """

    endpoint: str
    """One of `paths.FOLLOWED`."""
    is_stream: bool
    """Server-sent events; else one JSON object."""
    decode: Callable[[bytes], bytes] | None
    """From the content encoding to text; None where there is no decoder, and nothing is read."""
    _facts: ResponseFacts = field(default_factory=ResponseFacts)
    _rest: bytes = b""
    _chunks: list[bytes] = field(default_factory=list)
    _size: int = 0
    _has_ended: bool = False

    def feed(self, chunk: bytes) -> None:
        """Look at a chunk."""
        if self.decode is None:
            return
        try:
            text = self.decode(chunk)
        except UndecodableBody:  # what the caller makes of the bytes is the caller's
            self.decode = None
            return
        if self.is_stream:
            self._read_lines(text)
            return
        self._size += len(text)
        if self._size > MOST_BYTES:
            self._chunks, self.decode = [], None
        else:
            self._chunks.append(text)

    @property
    def has_ended(self) -> bool:
        """Return whether the last event of a stream has come; bytes may follow."""
        return self._has_ended

    def summary(self, *, is_closed: bool) -> ResponseSummary:
        """The facts of all that came; `is_closed` where the connection said that there is no more."""
        if not self.is_stream and is_closed and self._chunks:
            self._has_ended = self._read(b"".join(self._chunks))
            self._chunks = []
        facts = self._facts
        facts.is_stream = self.is_stream
        facts.has_ended |= self._has_ended
        usage = endpoint_usage(self.endpoint, facts.counts) if facts.counts else None
        is_complete = self._has_ended or (is_closed and self.decode is None)
        error = "" if facts.error in (None, UNNAMED_ERROR) else facts.error
        return ResponseSummary(
            facts.id, facts.as_far_as_received(usage), facts.verdict, is_complete, facts.items, error, facts.billed_usd
        )

    def _read_lines(self, text: bytes) -> None:
        marks, final_marks = _MARKS[self.endpoint]
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            is_final = any(mark in line for mark in final_marks)
            if is_final or any(mark in line for mark in (*marks, *_ERROR_MARKS)):
                self._read(line[5:])
                self._has_ended |= is_final

    def _read(self, text: bytes) -> bool:
        """Add the object in `text`; whether it is one: `[DONE]` and torn texts are none."""
        try:
            event = parse(text.strip())
        except NotSerialisable:
            return False
        if not isinstance(event, dict):
            return False
        self._facts.add(event)
        return True


def response_bytes(endpoint: str, content_type: str, encoding: str) -> ResponseBytes:
    """A reader for a response of `endpoint` with these two headers."""
    decode: Callable[[bytes], bytes] | None = None
    with suppress(UndecodableBody):  # a library that is missing here, or an unknown coding
        decode = Decoder(encoding, MOST_BYTES).feed if codings_of(encoding) else bytes
    return ResponseBytes(endpoint, content_type.startswith("text/event-stream"), decode)
