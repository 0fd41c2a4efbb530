"""`POST /v1beta/interactions` as the Gemini API answers it.

Field names: google.genai.interactions 3.6.1 (Interaction, InteractionSSEEvent, StepDeltaData).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.errors import UnknownModel, UnreadableRequest
from contextkit.providers.codec import Codec, ResponseData, Stream, event, pieces
from contextkit.providers.gemini.rendering import TYPES, fault
from contextkit.providers.gemini.validation import invalid
from contextkit.providers.gemini_interactions import validation as refusals
from contextkit.providers.gemini_interactions.body import BODY, PREVIOUS, WIRE, parse
from contextkit.providers.gemini_interactions.response import RESPONSES
from contextkit.providers.gemini_interactions.stored import resolved, store
from contextkit.providers.openai.stored import Stored
from contextkit.providers.validation import ParsedRequest, Refusal

if TYPE_CHECKING:
    from contextkit.providers.scripted import Part

_STATUSES = {
    "done": "completed",
    "calls": "requires_action",
    "truncated": "incomplete",
    "paused": "requires_continuation",
    "refused": "failed",
}
"""Neutral ending → `status`; a prompt that does not fit is a 400 here. Assumed: a refusal is a failure."""
_STEPS: dict[str, Callable[[Any], dict[str, Json]]] = {
    "text": lambda part: {"type": "model_output", "content": [{"type": "text", "text": part.text}]},
    "thinking": lambda part: {
        "type": "thought",
        "signature": part.signature,
        "summary": [{"type": "text", "text": part.thinking}],
    },
    "call": lambda part: {"type": "function_call", "id": part.id, "name": part.name, "arguments": part.arguments},
}


def steps(parts: tuple[Part, ...]) -> list[Json]:
    """Parts as steps."""
    return [_STEPS[part.type](part) for part in parts]


def usage(bill: Usage, thinking_tokens: int) -> Json:
    """Usage in the counters of an interaction: the input includes cache reads, the output no thoughts."""
    prompt, output = bill.prompt or 0, bill.output or 0
    return {
        "total_input_tokens": prompt,
        "total_cached_tokens": bill.read,
        "total_output_tokens": output - thinking_tokens,
        "total_thought_tokens": thinking_tokens,
        "total_tokens": prompt + output,
    }


def _interaction(answer: ResponseData, status: str) -> dict[str, Json]:
    created = datetime.fromtimestamp(answer.created_at, UTC).isoformat().replace("+00:00", "Z")
    model = answer.request["model"]
    common = {"id": answer.id, "object": "interaction", "model": model, "status": status}
    return {**common, "created": created, "updated": created, **answer.extras}


def render_response(answer: ResponseData) -> Json:
    """A whole `Interaction`."""
    whole = _interaction(answer, _STATUSES[answer.ending])
    return {**whole, "steps": steps(answer.parts), "usage": usage(answer.usage, answer.thinking_tokens)}


def render_stream(answer: ResponseData) -> Stream:
    """The events of an interaction, the last one with its usage."""
    created = {"event_type": "interaction.created", "interaction": _interaction(answer, "in_progress")}
    ended = _interaction(answer, _STATUSES[answer.ending])
    ended["usage"] = usage(answer.usage, answer.thinking_tokens)
    completed = {"event_type": "interaction.completed", "interaction": ended}
    parts = tuple(b"".join(_step_events(index, step)) for index, step in enumerate(steps(answer.parts)))
    return Stream(_event(created), parts, _event(completed) + b"data: [DONE]\n\n")


def _step_events(index: int, step: Mapping[str, Any]) -> Iterator[bytes]:
    kind = step["type"]
    opening = {"type": kind}
    if kind == "function_call":
        opening.update(id=step["id"], name=step["name"], arguments={})
    yield _event({"event_type": "step.start", "index": index, "step": opening})
    for delta in _deltas(step):
        yield _event({"event_type": "step.delta", "index": index, "delta": delta})
    yield _event({"event_type": "step.stop", "index": index})


def _deltas(step: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    if step["type"] == "model_output":
        for piece in pieces(step["content"][0]["text"]):
            yield {"type": "text", "text": piece}
    elif step["type"] == "thought":
        for piece in pieces(step["summary"][0]["text"]):
            yield {"type": "thought_summary", "content": {"type": "text", "text": piece}}
        yield {"type": "thought_signature", "signature": step["signature"]}
    else:
        for piece in pieces(canonical(step["arguments"]).decode()):
            yield {"type": "arguments_delta", "arguments": piece}


def _event(data: Mapping[str, Json]) -> bytes:
    return event(data, data["event_type"])


def render_error(refusal: Refusal) -> Json:
    """The body of an error; its code is a word here."""
    return {"error": {"code": refusal.type, "message": refusal.message}}


def _render_error_event(refusal: Refusal) -> bytes:
    error = {"code": refusal.type, "message": refusal.message}
    return _event({"event_type": "error", "error": error})


def _unreadable(error: UnreadableRequest) -> Refusal:
    return invalid(error.path, str(error))


def _unknown_model(name: str, error: UnknownModel) -> Refusal:
    return Refusal(404, "NOT_FOUND", f"models/{name} is not found for API version v1beta.")


def _extras(request: ParsedRequest) -> dict[str, Json]:
    """The interaction that the request continues."""
    sent = request.received.body_as_sent
    return {} if sent is None else {PREVIOUS: sent[PREVIOUS]}


def _store(stored: Stored, request: ParsedRequest, answer: ResponseData) -> None:
    store(stored, request.received, render_response(answer))


CODEC = Codec(
    name=WIRE,
    provider="google",
    body=BODY,
    parse=parse,
    responses=RESPONSES,
    response_id_prefix="interaction",
    workspace_header="x-goog-user-project",
    request_checks=refusals.REQUEST_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=_unreadable,
    refuse_unknown_model=_unknown_model,
    scripted_error=fault,
    endings_as_errors={"overflow": refusals.TOO_LONG},
    render_error=render_error,
    render_error_event=_render_error_event,
    status_by_error_type={"overloaded_error": 503, **{kind: status for status, kind in TYPES.items()}},
    render_content=steps,
    render_response=render_response,
    render_stream=render_stream,
    prewarm_ending=lambda body: None,
    diagnose=lambda previous, now, read: None,
    is_comparable=lambda body: False,
    declared_fields=refusals.DECLARED_FIELDS,
    response_extras=_extras,
    resolve_stored=resolved,
    store_response=_store,
)
