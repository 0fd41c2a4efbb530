"""`POST /v1/chat/completions` as OpenAI answers it.

Field names are those of `openai.types` 3.52: chat/chat_completion.py, chat/chat_completion_chunk.py,
completion_usage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.server.endpoints import openai_validation as refusals
from contextkit.server.endpoints.codec import Codec, ResponseData, Stream, event, pieces
from contextkit.server.endpoints.openai_validation import (
    CHAT_TYPE,
    STATUS_BY_ERROR_TYPE,
    render_error,
    unknown_model,
    unreadable,
)

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

FINISHES = {"done": "stop", "calls": "tool_calls", "truncated": "length", "paused": "stop", "refused": "content_filter"}
"""Neutral ending → `finish_reason`; a prompt that does not fit is a 400 here."""


def _call(part: Any) -> Json:
    if isinstance(part.arguments, str):
        return {"id": part.id, "type": "custom", "custom": {"name": part.name, "input": part.arguments}}
    function = {"name": part.name, "arguments": canonical(part.arguments).decode()}
    return {"id": part.id, "type": "function", "function": function}


def content(parts: tuple[Part, ...]) -> list[Json]:
    """Text and calls as blocks; this endpoint returns no thinking."""
    return [_PARTS[part.type](part) for part in parts if part.type in _PARTS]


_PARTS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: {"type": "text", "text": part.text},
    "call": _call,
}


def usage(bill: Usage, thinking_tokens: int) -> Json:
    """Usage in Chat's counters: `prompt_tokens` includes cache reads and writes."""
    prompt, output, written = bill.prompt or 0, bill.output or 0, (bill.write_5m or 0) + (bill.write_1h or 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": bill.read, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": thinking_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def message(parts: tuple[Part, ...]) -> dict[str, Json]:
    """The assistant's message."""
    blocks = content(parts)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = [block for block in blocks if block["type"] in _WRITTEN]
    words = "".join(texts) if texts or not calls else None
    called = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": words, "refusal": None, "annotations": [], **called}


def render_response(answer: ResponseData) -> Json:
    """A `ChatCompletion`."""
    choice = {"index": 0, "message": message(answer.parts), "finish_reason": FINISHES[answer.ending], "logprobs": None}
    bill = answer.render_usage(usage(answer.usage, answer.thinking_tokens))
    return _envelope(answer, "chat.completion") | {"choices": [choice], **bill}


def render_stream(answer: ResponseData) -> Stream:
    """The chunks of a `ChatCompletion`."""
    wants_usage = bool((answer.request.get("stream_options") or {}).get("include_usage"))
    frame = _envelope(answer, "chat.completion.chunk") | ({"usage": None} if wants_usage else {})
    tail = _chunk(frame, {}, FINISHES[answer.ending])
    if wants_usage:
        tail += event(frame | {"choices": [], **answer.render_usage(usage(answer.usage, answer.thinking_tokens))})
    head = _chunk(frame, {"role": "assistant", "content": "", "refusal": None})
    return Stream(head, tuple(_deltas(frame, answer.parts)), tail + b"data: [DONE]\n\n")


def _deltas(frame: Mapping[str, Json], parts: tuple[Part, ...]) -> list[bytes]:
    """The chunks of each part; none for thinking."""
    written, n_calls = [], 0
    for part in parts:
        deltas: list[Json] = []
        if part.type == "text":
            deltas = [{"content": piece} for piece in pieces(part.text)]
        elif part.type == "call":
            deltas = _call_deltas(_call(part), n_calls)
            n_calls += 1
        written.append(b"".join(_chunk(frame, delta) for delta in deltas))
    return written


_WRITTEN = {"function": "arguments", "custom": "input"}
"""Type of a call → field that grows while it is streamed."""


def _call_deltas(block: Mapping[str, Json], index: int) -> list[Json]:
    kind = block["type"]
    written = _WRITTEN[kind]
    start = {"index": index, "id": block["id"], "type": kind, kind: {"name": block[kind]["name"], written: ""}}
    grown = [{"index": index, kind: {written: piece}} for piece in pieces(block[kind][written])]
    return [{"tool_calls": [call]} for call in [start, *grown]]


def _chunk(frame: Mapping[str, Json], delta: Json, finish: str | None = None) -> bytes:
    return event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]})


def _envelope(answer: ResponseData, kind: str) -> dict[str, Json]:
    return {
        "id": answer.id,
        "object": kind,
        "created": answer.created_at,
        "model": answer.request["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_contextkit",
    }


CODEC = Codec(
    name="openai_chat",
    provider="openai",
    response_id_prefix="chatcmpl",
    workspace_header="openai-project",
    request_checks=refusals.CHAT_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=unreadable,
    refuse_unknown_model=unknown_model,
    error_types=refusals.ERROR_TYPES,
    other_error_type="server_error",
    error_codes=refusals.ERROR_CODES,
    endings_as_errors={"overflow": refusals.TOO_LONG},
    render_error=render_error,
    render_error_event=lambda refusal: event(render_error(refusal)),
    status_by_error_type=STATUS_BY_ERROR_TYPE,
    render_content=content,
    render_response=render_response,
    render_stream=render_stream,
    declared_fields=CHAT_TYPE,
)
