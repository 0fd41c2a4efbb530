"""`POST /v1/messages` as Anthropic answers it.

Field names are those of `anthropic.types` 2.11: message, usage, raw_*_event, stop_reason.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.providers.anthropic.blocks import edited_columns
from contextkit.server.endpoints import anthropic_validation as refusals
from contextkit.server.endpoints.anthropic_validation import dropped, invalid, transformations
from contextkit.server.endpoints.codec import Codec, ResponseData, Stream, event, pieces
from contextkit.server.endpoints.diagnostics import anthropic_diagnosis
from contextkit.server.endpoints.eventstream import CONTENT_TYPE, frame
from contextkit.server.endpoints.validation import ParsedRequest, Refusal

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

STOPS = {
    "done": "end_turn",
    "calls": "tool_use",
    "truncated": "max_tokens",
    "paused": "pause_turn",
    "refused": "refusal",
    "overflow": "model_context_window_exceeded",
}
"""Neutral ending → `stop_reason` (anthropic/types/stop_reason.py)."""
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""HTTP status → error type (https://platform.claude.com/docs/en/api/errors)."""
STATUSES = {kind: status for status, kind in reversed(TYPES.items())}

_BLOCKS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: {"type": "text", "text": part.text},
    "thinking": lambda part: {"type": "thinking", "thinking": part.thinking, "signature": part.signature},
    "call": lambda part: {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments},
}
_STARTS: dict[str, Mapping[str, Json]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
    "compaction": {"content": None},
}
"""What of a block is empty when it starts."""
_DELTAS: dict[str, Callable[[Any], list[Json]]] = {
    "text": lambda block: [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])],
    "thinking": lambda block: [
        *({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])),
        {"type": "signature_delta", "signature": block["signature"]},
    ],
    "tool_use": lambda block: [
        {"type": "input_json_delta", "partial_json": piece}
        for piece in ["", *pieces(canonical(block["input"]).decode())]
    ],
    "compaction": lambda block: [{"type": "compaction_delta", "content": block["content"]}],
}
_COMPACTED_AT = 150_000
"""Where `compact_20260112` compacts unless it says otherwise."""
SUMMARY = "What was said before, summed up by the local provider."


def content(parts: tuple[Part, ...]) -> list[Json]:
    """Parts as content blocks."""
    return [_BLOCKS[part.type](part) for part in parts]


def _compacting(answer: ResponseData) -> Mapping[str, Json] | None:
    """The edit that compacts this conversation now.

    Its pass over the prompt is billed as the request, not as one more iteration.
    """
    listed = (answer.request.get("context_management") or {}).get("edits") or []
    edit = next((edit for edit in listed if edit["type"] == "compact_20260112"), None)
    least = ((edit or {}).get("trigger") or {}).get("value", _COMPACTED_AT)
    return edit if edit and (answer.usage.prompt or 0) > least else None


def _response_blocks(answer: ResponseData) -> list[Json]:
    """The blocks of an answer: what the script says, or a compaction of it, or one before it."""
    blocks, edit = content(answer.parts), _compacting(answer)
    if answer.request.get("compaction"):
        words = "".join(block.get("text", "") for block in blocks) or SUMMARY
        signature = base64.b64encode(answer.id.encode()).decode()
        return [{"type": "compaction", "content": words, "signature": signature, "tool_changes": []}]
    if edit is None:
        return blocks
    return [{"type": "compaction", "content": SUMMARY}, *([] if edit.get("pause_after_compaction") else blocks)]


def usage(bill: Usage, thinking_tokens: int) -> Json:
    """A bill in Anthropic's counters."""
    short, long = bill.write_5m or 0, bill.write_1h or 0
    return {
        "input_tokens": bill.fresh,
        "cache_read_input_tokens": bill.read,
        "cache_creation_input_tokens": short + long,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": bill.output,
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
        "service_tier": "standard",
    }


def whole(answer: ResponseData) -> Json:
    """A `Message`."""
    return (
        _message(answer, _response_blocks(answer), usage(answer.usage, answer.thinking_tokens))
        | _ending(answer)
        | dict(answer.extras)
    )


def stream(answer: ResponseData) -> Stream:
    """The events of a `Message`."""
    counters = usage(answer.usage, answer.thinking_tokens)
    at_start = {**counters, "output_tokens": min(1, answer.usage.output or 0), "output_tokens_details": None}
    edited = {name: value for name, value in answer.extras.items() if name == "context_management"}
    early = {name: value for name, value in answer.extras.items() if name not in edited}
    message = (
        _message(answer, [], at_start) | {"stop_reason": None, "stop_sequence": None, "stop_details": None} | early
    )
    blocks = [_block(index, block) for index, block in enumerate(_response_blocks(answer))]
    at_end = {name: counters[name] for name in _CUMULATIVE}
    ending = _event({"type": "message_delta", "delta": _ending(answer), "usage": at_end, **edited}) + _event(
        {"type": "message_stop"}
    )
    return Stream(
        _event({"type": "message_start", "message": message}) + _event({"type": "ping"}), tuple(blocks), ending
    )


_CUMULATIVE = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "output_tokens_details",
)
"""Counters of `message_delta` (anthropic/types/message_delta_usage.py)."""


def _message(answer: ResponseData, blocks: list[Json], counters: Json) -> dict[str, Json]:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.request["model"],
        "content": blocks,
        "usage": counters,
        "container": None,
        "diagnostics": answer.diagnosis,
    }


def _ending(answer: ResponseData) -> dict[str, Json]:
    details = {"type": "refusal", "category": None, "explanation": None} if answer.ending == "refused" else None
    is_summed_up = answer.request.get("compaction") or (_compacting(answer) or {}).get("pause_after_compaction")
    return {
        "stop_reason": "compaction" if is_summed_up else STOPS[answer.ending],
        "stop_sequence": None,
        "stop_details": details,
    }


def _block(index: int, block: Mapping[str, Json]) -> bytes:
    kind = block["type"]
    start = _event({"type": "content_block_start", "index": index, "content_block": {**block, **_STARTS[kind]}})
    deltas = [_event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in _DELTAS[kind](block)]
    return b"".join([start, *deltas, _event({"type": "content_block_stop", "index": index})])


def _event(data: Mapping[str, Json]) -> bytes:
    return event(data, data["type"])


def error(refusal: Refusal) -> Json:
    """The body of an error."""
    details = {"details": {"error_code": refusal.code}} if refusal.code else {}
    return {"type": "error", "error": {"type": refusal.type, "message": refusal.message, **details}}


def response_extras(request: ParsedRequest) -> dict[str, Json]:
    """Report what was done to a request before the model saw it."""
    edited: dict[str, Json] = {}
    if request.received.body.get("context_management"):
        applied = edited_columns(request.parsed.layout, request.received.body)[1]
        edited = {"context_management": {"applied_edits": applied}}
    return {**edited, **transformations(request)}


def render_count(request: ParsedRequest) -> Json:
    """A count, and the count before edits (anthropic/types/beta/beta_count_tokens_context_management_response.py)."""
    layout, count = request.parsed.layout, {"input_tokens": request.parsed.prompt.n_tokens}
    if not request.received.body.get("context_management"):
        return count
    original = layout.columns.ends_tokens[layout.n - 1] if layout.n else 0
    return {**count, "context_management": {"original_input_tokens": original}}


def opted_in(headers: Mapping[str, str], body: Mapping[str, Json]) -> Mapping[str, str]:
    """The headers, with the betas that a platform's client has put into the body."""
    betas = body.get("anthropic_beta")
    return {**headers, "anthropic-beta": ",".join(map(str, betas))} if isinstance(betas, list) else headers


def framed(answer: ResponseData) -> Stream:
    """The same events as Bedrock sends them: each in a frame of its own."""
    plain = stream(answer)
    return Stream(_framed(plain.head), tuple(map(_framed, plain.parts)), _framed(plain.tail))


def _framed(events: bytes) -> bytes:
    lines = (line.removeprefix(b"data: ") for line in events.split(b"\n") if line.startswith(b"data: "))
    return b"".join(frame("chunk", {"bytes": base64.b64encode(line).decode()}) for line in lines)


CODEC = Codec(
    name="anthropic_messages",
    provider="anthropic",
    response_id_prefix="msg",
    call_id_prefix="toolu",
    render_count=render_count,
    workspace_header="anthropic-workspace-id",
    request_checks=refusals.REQUEST_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=lambda fault: invalid(str(fault)),
    refuse_unknown_model=lambda name: Refusal(404, "not_found_error", f"model: {name}"),
    error_types=TYPES,
    other_error_type="api_error",
    render_error=error,
    render_error_event=lambda refusal: _event(error(refusal)),
    status_by_error_type=STATUSES,
    render_content=content,
    render_response=whole,
    render_stream=stream,
    prewarm_ending=lambda body: "truncated" if body.get("max_tokens") == 0 else None,
    diagnose=anthropic_diagnosis,
    is_comparable=lambda body: body.get("diagnostics") is not None,
    request_id_header="request-id",
    refuse_moved_thinking=refusals.moved,
    drop_moved_thinking=dropped,
    response_extras=response_extras,
    declared_fields=refusals.CREATE_TYPE,
    header_notices=refusals.unknown_beta_notices,
)
COUNT = replace(CODEC, request_checks=refusals.COUNT_CHECKS)
"""`POST /v1/messages/count_tokens`."""
INVOKE = replace(
    CODEC,
    provider="aws",
    workspace_header="",
    opted_in=opted_in,
    request_checks=refusals.PLATFORM_CHECKS["Amazon Bedrock"],
    render_stream=framed,
    stream_media_type=CONTENT_TYPE,
    request_id_header="x-amzn-requestid",
    declared_fields=refusals.PLATFORM_CREATE_TYPE,
    render_error_event=lambda refusal: frame("modelStreamErrorException", {"message": refusal.message}, "exception"),
)
"""`POST /model/{modelId}/invoke` of Amazon Bedrock: caches belong to an organisation, not to a workspace."""
MANTLE = replace(CODEC, provider="aws", workspace_header="")
"""`POST /anthropic/v1/messages` of Amazon Bedrock: the Claude API's body and headers."""
PREDICT = replace(
    CODEC,
    workspace_header="",
    opted_in=opted_in,
    request_checks=refusals.PLATFORM_CHECKS["Google Cloud"],
    declared_fields=refusals.PLATFORM_CREATE_TYPE,
)
"""`POST …/publishers/anthropic/models/{model}:rawPredict` of Google Cloud."""
COUNTED = replace(PREDICT, request_checks=refusals.PLATFORM_COUNT_CHECKS, declared_fields=refusals.PLATFORM_COUNT_TYPE)
"""The same for `count-tokens`, which stands where a model's name would."""
