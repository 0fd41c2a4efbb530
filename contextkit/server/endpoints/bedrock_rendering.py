"""`POST /model/{modelId}/converse` and `/converse-stream` as Bedrock answers them.

Field names are those of botocore 1.44, bedrock-runtime: ConverseResponse, ConverseStreamOutput, TokenUsage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.server.endpoints import bedrock_validation as refusals
from contextkit.server.endpoints.bedrock_validation import invalid
from contextkit.server.endpoints.codec import Codec, ResponseData, Stream, pieces
from contextkit.server.endpoints.eventstream import CONTENT_TYPE, frame
from contextkit.server.endpoints.validation import Refusal

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

STOPS = {
    "done": "end_turn",
    "calls": "tool_use",
    "truncated": "max_tokens",
    "paused": "end_turn",
    "refused": "content_filtered",
    "overflow": "model_context_window_exceeded",
}
"""Neutral ending → `stopReason`."""
TYPES = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
"""HTTP status → exception (bedrock-runtime, errors of Converse)."""
_EXCEPTIONS = {
    429: "throttlingException",
    503: "serviceUnavailableException",
    400: "validationException",
    424: "modelStreamErrorException",
}
"""HTTP status → how a stream says it; internalServerException for every other."""

_BLOCKS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: {"text": part.text},
    "thinking": lambda part: {
        "reasoningContent": {"reasoningText": {"text": part.thinking, "signature": part.signature}}
    },
    "call": lambda part: {"toolUse": {"toolUseId": part.id, "name": part.name, "input": part.arguments}},
}


def content(parts: tuple[Part, ...]) -> list[Json]:
    """Parts as content blocks."""
    return [_BLOCKS[part.type](part) for part in parts]


def usage(bill: Usage) -> Json:
    """A bill in Converse's counters."""
    prompt, output, short, long = bill.prompt or 0, bill.output or 0, bill.write_5m or 0, bill.write_1h or 0
    written = {"1h": long, "5m": short}
    return {
        "inputTokens": bill.fresh,
        "outputTokens": output,
        "totalTokens": prompt + output,
        "cacheReadInputTokens": bill.read,
        "cacheWriteInputTokens": short + long,
        "cacheDetails": [{"ttl": ttl, "inputTokens": n_tokens} for ttl, n_tokens in written.items() if n_tokens],
    }


def whole(answer: ResponseData) -> Json:
    """A `ConverseResponse`."""
    message = {"role": "assistant", "content": content(answer.parts)}
    return {
        "output": {"message": message},
        "stopReason": STOPS[answer.ending],
        "usage": usage(answer.usage),
        "metrics": {"latencyMs": 1},
    }


def stream(answer: ResponseData) -> Stream:
    """The frames of a `ConverseStreamOutput`."""
    blocks = tuple(_block(index, block) for index, block in enumerate(content(answer.parts)))
    metadata = {"usage": usage(answer.usage), "metrics": {"latencyMs": 1}}
    ending = frame("messageStop", {"stopReason": STOPS[answer.ending]}) + frame("metadata", metadata)
    return Stream(frame("messageStart", {"role": "assistant"}), blocks, ending)


def _block(index: int, block: Mapping[str, Any]) -> bytes:
    kind = next(iter(block))
    at: dict[str, Json] = {"contentBlockIndex": index}
    start = {"toolUse": {name: block["toolUse"][name] for name in ("toolUseId", "name")}} if kind == "toolUse" else None
    deltas = [frame("contentBlockDelta", {"delta": delta, **at}) for delta in _DELTAS[kind](block[kind])]
    opening = [frame("contentBlockStart", {"start": start, **at})] if start else []
    return b"".join([*opening, *deltas, frame("contentBlockStop", at)])


_DELTAS: dict[str, Callable[[Any], list[Json]]] = {
    "text": lambda text: [{"text": piece} for piece in pieces(text)],
    "toolUse": lambda use: [{"toolUse": {"input": piece}} for piece in pieces(canonical(use["input"]).decode())],
    "reasoningContent": lambda thought: [
        *({"reasoningContent": {"text": piece}} for piece in pieces(thought["reasoningText"]["text"])),
        {"reasoningContent": {"signature": thought["reasoningText"]["signature"]}},
    ],
}


def error(refusal: Refusal) -> Json:
    """The body of an error."""
    return {"__type": refusal.type, "message": refusal.message}


CODEC = Codec(
    name="bedrock_converse",
    provider="aws",
    response_id_prefix="converse",
    workspace_header="x-amz-account",
    request_checks=refusals.REQUEST_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=lambda fault: invalid(fault.path, str(fault)),
    refuse_unknown_model=lambda name: Refusal(400, "ValidationException", "The provided model identifier is invalid."),
    error_types=TYPES,
    other_error_type="InternalServerException",
    render_error=error,
    render_error_event=lambda refusal: frame(
        _EXCEPTIONS.get(refusal.status, "internalServerException"), {"message": refusal.message}, "exception"
    ),
    status_by_error_type={"overloaded_error": 503, **{kind: status for status, kind in TYPES.items()}},
    render_content=content,
    render_response=whole,
    render_stream=stream,
    stream_media_type=CONTENT_TYPE,
    request_id_header="x-amzn-requestid",
    refuse_moved_thinking=refusals.moved,
    declared_fields=refusals.REQUEST_SHAPE,
)
