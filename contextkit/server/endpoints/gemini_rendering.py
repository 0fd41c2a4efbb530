"""`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent` as the Gemini API answers them.

Field names are those of `google.genai.types` 3.4: GenerateContentResponse, Candidate, UsageMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.server.endpoints import gemini_validation as refusals
from contextkit.server.endpoints.codec import Codec, ResponseData, Stream, event, pieces
from contextkit.server.endpoints.gemini_validation import invalid
from contextkit.server.endpoints.validation import Refusal

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

FINISHES = {"done": "STOP", "calls": "STOP", "truncated": "MAX_TOKENS", "paused": "STOP", "refused": "SAFETY"}
"""Neutral ending → `finishReason`; a prompt that does not fit is a 400 here."""
TYPES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status → status of the error (https://ai.google.dev/gemini-api/docs/troubleshooting)."""

_PARTS: dict[str, Callable[[Any], dict[str, Json]]] = {
    "text": lambda part: {"text": part.text},
    "thinking": lambda part: {"text": part.thinking, "thought": True, "thoughtSignature": part.signature},
    "call": lambda part: {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}},
}


def content(parts: tuple[Part, ...]) -> list[Json]:
    """Parts as parts of a content."""
    return [_PARTS[part.type](part) for part in parts]


def usage(bill: Usage, thinking_tokens: int) -> Json:
    """Usage in Gemini's counters, zeros left out: the prompt includes cache reads."""
    prompt, output = bill.prompt or 0, bill.output or 0
    counters = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": bill.read,
        "candidatesTokenCount": output - thinking_tokens,
        "thoughtsTokenCount": thinking_tokens,
        "totalTokenCount": prompt + output,
    }
    return {name: count for name, count in counters.items() if count}


def render_response(answer: ResponseData) -> Json:
    """A `GenerateContentResponse`."""
    return _chunk(answer, content(answer.parts), FINISHES[answer.ending], usage(answer.usage, answer.thinking_tokens))


def render_stream(answer: ResponseData) -> Stream:
    """The chunks of a `GenerateContentResponse`."""
    parts = tuple(b"".join(event(_chunk(answer, [piece])) for piece in _pieces(part)) for part in content(answer.parts))
    ending = _chunk(answer, [], FINISHES[answer.ending], usage(answer.usage, answer.thinking_tokens))
    return Stream(b"", parts, event(ending))


def _pieces(part: Mapping[str, Any]) -> list[Json]:
    """The deltas of a part: text in several, its signature with the last; a call in one."""
    texts = pieces(part.get("text", ""))
    if not texts:
        return [dict(part)]
    beside = {name: value for name, value in part.items() if name not in ("text", "thoughtSignature")}
    signed = {"thoughtSignature": part["thoughtSignature"]} if "thoughtSignature" in part else {}
    return [*({**beside, "text": text} for text in texts[:-1]), {**beside, "text": texts[-1], **signed}]


def _chunk(answer: ResponseData, parts: list[Json], finish: str | None = None, bill: Json = None) -> dict[str, Json]:
    ended = {} if finish is None else {"finishReason": finish}
    reported = {} if bill is None else {"usageMetadata": bill}
    candidate = {"content": {"role": "model", "parts": parts}, **ended, "index": 0}
    return {"candidates": [candidate], **reported, "modelVersion": answer.request["model"], "responseId": answer.id}


def error(refusal: Refusal) -> Json:
    """The body of an error."""
    return {"error": {"code": refusal.status, "message": refusal.message, "status": refusal.type}}


CODEC = Codec(
    name="gemini",
    provider="google",
    response_id_prefix="gemini",
    workspace_header="x-goog-user-project",
    request_checks=refusals.REQUEST_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=lambda fault: invalid(fault.path, str(fault)),
    refuse_unknown_model=lambda name: Refusal(
        404, "NOT_FOUND", f"models/{name} is not found for API version v1beta, or is not supported for generateContent."
    ),
    error_types=TYPES,
    other_error_type="UNKNOWN",
    endings_as_errors={"overflow": refusals.TOO_LONG},
    render_error=error,
    render_error_event=lambda refusal: event(error(refusal)),
    status_by_error_type={"overloaded_error": 503, **{kind: status for status, kind in TYPES.items()}},
    render_content=content,
    render_response=render_response,
    render_stream=render_stream,
    declared_fields=frozenset(refusals.FIELDS),
)
