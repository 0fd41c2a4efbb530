"""A response of any provider, whole or as the events it was streamed in, as the few facts a report needs.

Takes JSON, a list of events, or the raw text of an event stream; gives ids, model, counters, verdict, and whether it
came to its end. Of what was said only the items of a response are kept, since a later request may name it instead of
repeating them. Knows nothing of files.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(slots=True)
class Answer:
    """What is known of a response."""

    id: str = ""
    """The provider's id of it."""
    model: str = ""
    """Who answered."""
    counts: dict[str, Any] = field(default_factory=dict)
    """Its usage, as the provider spells it."""
    created: Any = None
    """When the provider says it was made."""
    upstream: str = ""
    """Whom a router passed it on to."""
    verdict: str = ""
    """The provider's diagnosis of a cache miss."""
    error: str | None = None
    """The kind of error it is, None where it is none."""
    has_ended: bool = False
    """Whether the model came to an end, its own or a limit's."""
    is_stream: bool = False
    """Whether it came as events."""
    session: str = ""
    """The conversation it names."""
    items: list[Any] | None = None
    """What a response of the Responses API holds; None for every other."""


def answer_of(given: Any) -> Answer | None:
    """The facts of a response as somebody recorded it; None for what is none."""
    said, is_stream = _events(given)
    answer = Answer(is_stream=is_stream)
    n_known = 0
    for event in said:
        n_known += _hear(answer, event)
    return answer if n_known else None


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

    One that was cut is left out, and so are those that only pass on a piece of the reply.

    >>> list(sse('event: ping\ndata: {"type": "ping"}\n\ndata: {"type": "message_stop"}\n\ndata: [DONE]\n\n'))
    [{'type': 'message_stop'}]
    """
    if "\r" in text:  # lines end by these alone: the others that Python knows may stand inside a string
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data and not _PASSED.match(data[0]):
            event = _json("\n".join(data))
            if isinstance(event, dict):
                yield event


_PASSED = re.compile(r'\{"type": ?"(?:content_block_(?:delta|start|stop)|ping|response\.[\w.]+\.delta)"')
"""Events that are many and say nothing that is kept."""


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
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


# Facts
# --------------------------------------------------------------------------------------------------------------------

_INSIDE = ("message", "response", "metadata", "data")
"""Where an event, or a record around a response, keeps the response."""
_COUNTS = ("usage", "usageMetadata", "usage_metadata")
_IDS = ("id", "responseId", "response_id", "generation_id")
_MODELS = ("model", "modelVersion", "model_version")
_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("id", _IDS),
    ("model", _MODELS),
    ("upstream", ("provider_name", "provider")),
    ("session", ("session_id",)),
)
_ENDS = frozenset({"stop_reason", "stopReason", "finish_reason", "finishReason", "done_reason"})
_ENDED = ("completed", "incomplete", "cancelled")
_FACTS = frozenset(
    {
        *_COUNTS,
        *_IDS,
        *_MODELS,
        *_ENDS,
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
"""Names of all that an answer is made of."""
_NAME = re.compile(r"[\w./-]{1,64}")


def _hear(answer: Answer, event: dict[str, Any]) -> bool:
    """Take from one object what it says; whether it says anything a response says."""
    is_known = _take(answer, event)
    for name in _INSIDE:
        inner = event.get(name)
        # metadata is Bedrock's event, or what a caller attached to its request
        if isinstance(inner, dict) and (name != "metadata" or "usage" in inner):
            is_known |= _take(answer, inner)
    for name in ("messageStop", "delta"):
        if isinstance(event.get(name), dict):
            is_known |= _take_end(answer, event[name])
    return is_known


def _take(answer: Answer, said: dict[str, Any]) -> bool:
    if _FACTS.isdisjoint(said) and said.get("type") != "error":
        return False
    is_known = False
    for name in _COUNTS:
        counts = said.get(name)
        if isinstance(counts, dict):
            answer.counts.update({key: value for key, value in counts.items() if value is not None})
            if isinstance(said.get("service_tier"), str):  # OpenAI's word beside its usage
                answer.counts["service_tier"] = said["service_tier"]
            is_known = True
    if "native_tokens_prompt" in said:
        answer.counts.update(
            {key: value for key, value in said.items() if key.startswith("native_tokens_") and value is not None}
        )
        is_known = True
    for fact, names in _TEXTS:
        for name in names:
            value = said.get(name)
            if isinstance(value, str):
                if value:
                    setattr(answer, fact, value)
                break
    for name in ("created", "created_at"):
        if said.get(name) is not None:
            answer.created = said[name]
            break
    if said.get("object") == "response" and isinstance(said.get("output"), list):
        answer.items = said["output"]
    answer.verdict = _verdict(said) or answer.verdict
    return is_known | _take_end(answer, said) | _take_error(answer, said) | ("choices" in said) | ("candidates" in said)


def _take_end(answer: Answer, said: dict[str, Any]) -> bool:
    listed: list[Any] = next((said[name] for name in ("choices", "candidates") if isinstance(said.get(name), list)), [])
    has_ended = (
        _is_end(said)
        or any(_is_end(one) for one in listed if isinstance(one, dict))
        or str(said.get("status")) in _ENDED
    )
    answer.has_ended |= has_ended
    return has_ended


def _is_end(said: dict[str, Any]) -> bool:
    return any(said[name] is not None for name in _ENDS & said.keys())


def _take_error(answer: Answer, said: dict[str, Any]) -> bool:
    error = said.get("error")
    if not error and said.get("type") != "error":
        return False
    answer.error = error_name(error if isinstance(error, dict) else said)
    return True


def error_name(error: Any) -> str:
    """The kind of an error, never its text, which may quote the prompt."""
    told = (error.get(name) for name in ("type", "code", "status")) if isinstance(error, dict) else ()
    return next((str(name) for name in told if name not in (None, "error") and _NAME.fullmatch(str(name))), "error")


def _verdict(said: dict[str, Any]) -> str:
    """The provider's own diagnosis, in its words: Anthropic's `cache_miss_reason`, OpenAI's `prompt_cache_diagnostics`."""
    diagnosis, openai = said.get("diagnostics"), said.get("prompt_cache_diagnostics")
    reason = diagnosis.get("cache_miss_reason") if isinstance(diagnosis, dict) else None
    told = (reason or {}).get("type") if isinstance(reason, dict) else None
    if told is None and isinstance(openai, dict):
        told = openai.get("reason") or openai.get("type")
    return told if isinstance(told, str) else ""
