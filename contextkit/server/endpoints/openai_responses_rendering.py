"""OpenAI's answers to `POST /v1/responses`, `/v1/responses/compact` and `/v1/responses/input_tokens`.

A compaction answers with the user's messages and one item that stands for the rest. Assumed: it is billed as the prompt
it was given, which has no tools. Field names are those of `openai.types.responses` 3.52: response.py,
compacted_response.py, response_usage.py, response_*_event.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.providers.histories import PREVIOUS, named_in
from contextkit.server.endpoints import openai_validation as refusals
from contextkit.server.endpoints.codec import Codec, ResponseData, Stream, event, pieces
from contextkit.server.endpoints.diagnostics import openai_diagnosis
from contextkit.server.endpoints.openai_stored import Stored, compacted, compaction
from contextkit.server.endpoints.openai_validation import (
    COMPACT_CHECKS,
    COMPACT_TYPE,
    INPUT_TOKENS_CHECKS,
    INPUT_TOKENS_TYPE,
    MESSAGE_TYPE,
    RESPONSES_TYPE,
    STATUS_BY_ERROR_TYPE,
    render_error,
    unknown_model,
    unreadable,
)
from contextkit.server.endpoints.validation import ParsedRequest

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

INCOMPLETE = {"truncated": "max_output_tokens", "refused": "content_filter"}
"""Neutral ending → `incomplete_details.reason`; a prompt that does not fit is a 400 here."""
_ECHOED: dict[str, Json] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": None,
    "safety_identifier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": None,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields a response repeats from its request → their value when the request omits them."""

_ITEMS: dict[str, Callable[[Any, str], dict[str, Json]]] = {
    "text": lambda part, name: {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [_text(part.text)],
    },
    "thinking": lambda part, name: {
        "id": f"rs_{name}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": part.thinking}],
        "encrypted_content": part.signature,
    },
    "call": lambda part, name: {
        "id": f"fc_{name}",
        "type": "function_call",
        "call_id": part.id,
        "name": part.name,
        "arguments": canonical(part.arguments).decode(),
        "status": "completed",
    },
    "custom": lambda part, name: {
        "id": f"ctc_{name}",
        "type": "custom_tool_call",
        "call_id": part.id,
        "name": part.name,
        "input": part.arguments,
    },
    "search": lambda part, name: {
        "id": f"tsc_{name}",
        "type": "tool_search_call",
        "call_id": part.id,
        "arguments": part.arguments,
        "execution": "client",
        "status": "completed",
    },
}
_SEARCH = "tool_search"


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def items(parts: tuple[Part, ...], name: str, tools: Json = ()) -> list[dict[str, Json]]:
    """Parts as output items; `name` makes their ids, `tools` are those of the request."""
    is_search_declared = any((tool.get("type"), tool.get("execution")) == (_SEARCH, "client") for tool in tools or ())
    listed = []
    for index, part in enumerate(parts):
        kind: str = part.type
        if part.type == "call" and isinstance(part.arguments, str):
            kind = "custom"
        elif part.type == "call" and part.name == _SEARCH and is_search_declared:
            kind = "search"
        listed.append(_ITEMS[kind](part, f"{name}_{index}"))
    return listed


def usage(bill: Usage, thinking_tokens: int) -> Json:
    """Usage in the counters of Responses: `input_tokens` includes cache reads and writes."""
    prompt, output, short, long = bill.prompt or 0, bill.output or 0, bill.write_5m or 0, bill.write_1h or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": bill.read,
            "cache_write_tokens": short + long,
            "cache_write_tokens_details": {"ttl_30m_tokens": short, "ttl_12h_tokens": long},
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thinking_tokens},
        "total_tokens": prompt + output,
    }


def render_response(answer: ResponseData) -> Json:
    """A `Response`."""
    reason, name = INCOMPLETE.get(answer.ending), str(answer.number)
    output = items(answer.parts, name, answer.request.get("tools"))
    return _response(answer) | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": reason and {"reason": reason},
        "completed_at": None if reason else answer.created_at,
        "output": compacted(answer.request, output, answer.usage.prompt or 0, name),
        **answer.render_usage(usage(answer.usage, answer.thinking_tokens)),
        "prompt_cache_diagnostics": answer.diagnosis,
    }


def _response(answer: ResponseData) -> dict[str, Json]:
    body = answer.request
    echoed = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    options = body.get("prompt_cache_options")
    applied = (
        {"mode": "implicit", "ttl": "30m", **{name: options[name] for name in _APPLIED if options.get(name)}}
        if options
        else None
    )
    return {
        "id": answer.id,
        "object": "response",
        "created_at": answer.created_at,
        "model": body["model"],
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "background": bool(body.get("background")),
        "service_tier": "default",
        "output": [],
        "usage": None,
        "prompt_cache_options": applied,
        **echoed,
        **answer.extras,
    }


_APPLIED = ("mode", "ttl", "comparison_response_id")


class _Numbered:
    """Events of one stream, numbered as they are written."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, kind: str, **fields: Json) -> bytes:
        return event({"type": kind, **fields, "sequence_number": next(self._numbers)}, kind)


def render_stream(answer: ResponseData) -> Stream:
    """The events of a `Response`."""
    write = _Numbered()
    begun = _response(answer)
    head = write("response.created", response=begun) + write("response.in_progress", response=begun)
    response = render_response(answer)
    parts = tuple(b"".join(_item(write, index, item)) for index, item in enumerate(response["output"]))
    return Stream(head, parts, write(f"response.{response['status']}", response=response))


def _item(write: _Numbered, index: int, item: dict[str, Json]) -> Iterator[bytes]:
    yield write("response.output_item.added", output_index=index, item={**item, **_STARTS[item["type"]]})
    yield from _GROWTH[item["type"]](write, {"item_id": item["id"], "output_index": index}, item)
    yield write("response.output_item.done", output_index=index, item=item)


_STARTS: dict[str, dict[str, Json]] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": [], "encrypted_content": ""},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
    "tool_search_call": {"arguments": None, "status": "in_progress"},
    "compaction": {},
}
"""Type of an item → its fields that are empty when it starts."""


def _message_grows(write: _Numbered, at: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[bytes]:
    part = item["content"][0]
    place = {**at, "content_index": 0}
    yield write("response.content_part.added", **place, part=_text(""))
    for piece in pieces(part["text"]):
        yield write("response.output_text.delta", **place, delta=piece, logprobs=[])
    yield write("response.output_text.done", **place, text=part["text"], logprobs=[])
    yield write("response.content_part.done", **place, part=part)


def _reasoning_grows(write: _Numbered, at: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[bytes]:
    text = item["summary"][0]["text"]
    place = {**at, "summary_index": 0}
    yield write("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
    for piece in pieces(text):
        yield write("response.reasoning_summary_text.delta", **place, delta=piece)
    yield write("response.reasoning_summary_text.done", **place, text=text)
    yield write("response.reasoning_summary_part.done", **place, part=item["summary"][0])


def _call_grows(write: _Numbered, at: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[bytes]:
    field = "input" if item["type"] == "custom_tool_call" else "arguments"
    kind = f"response.{item['type']}_{field}"
    for piece in pieces(item[field]):
        yield write(f"{kind}.delta", **at, delta=piece)
    yield write(f"{kind}.done", **at, **{field: item[field]})


_GROWTH: dict[str, Callable[[_Numbered, Mapping[str, Json], Mapping[str, Json]], Iterator[bytes]]] = {
    "message": _message_grows,
    "reasoning": _reasoning_grows,
    "function_call": _call_grows,
    "custom_tool_call": _call_grows,
    "tool_search_call": lambda write, at, item: iter(()),
    "compaction": lambda write, at, item: iter(()),
}


def response_extras(request: ParsedRequest) -> dict[str, Json]:
    """The response or conversation it continues, and the reasoning that was removed (responses/response.py:110-118)."""
    body = request.received.body if request.received.body_as_sent is None else request.received.body_as_sent
    before, columns = named_in(body), request.parsed.layout.columns
    went_on = {} if before is None else {before.field: before.name if before.field == PREVIOUS else {"id": before.name}}
    silent = [
        columns.body(index)
        for index in sorted(columns.silent)
        if columns.body(index).startswith(b'{"type":"reasoning"')
    ]
    names = [name for body in silent if (name := parse(body).get("id")) is not None]
    rows = [{"id": name, "action": "removed", "reason": "turn_boundary", "type": "reasoning"} for name in names]
    return {**went_on, **({"input_transformations": rows} if rows else {})}


def store_response(stored: Stored, request: ParsedRequest, answer: ResponseData) -> None:
    """Store a response so that it can be continued; one that only filled the cache has no content to store."""
    if CODEC.prewarm_ending(answer.request) is None:
        stored.keep(request.received, render_response(answer))


CODEC = Codec(
    name="openai_responses",
    provider="openai",
    response_id_prefix="resp",
    workspace_header="openai-project",
    request_checks=refusals.RESPONSES_CHECKS,
    prompt_checks=refusals.PROMPT_CHECKS,
    refuse_unreadable=unreadable,
    refuse_unknown_model=unknown_model,
    error_types=refusals.ERROR_TYPES,
    other_error_type="server_error",
    error_codes=refusals.ERROR_CODES,
    endings_as_errors={"overflow": refusals.TOO_LONG},
    render_error=render_error,
    render_error_event=lambda refusal: _Numbered()(
        "error", code=refusal.code or refusal.type, message=refusal.message, param=refusal.param
    ),
    status_by_error_type=STATUS_BY_ERROR_TYPE,
    render_content=lambda parts: list(items(parts, "")),
    render_response=render_response,
    render_stream=render_stream,
    prewarm_ending=lambda body: "done" if (body.get("prompt_cache_options") or {}).get("prewarm") else None,
    diagnose=openai_diagnosis,
    is_comparable=lambda body: True,
    response_extras=response_extras,
    resolve_stored=Stored.resolved,
    store_response=store_response,
    declared_fields=RESPONSES_TYPE,
)


def render_compacted_response(answer: ResponseData) -> Json:
    """A `CompactedResponse`."""
    sent = answer.request["input"]
    listed = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
    users = [item for item in listed if item.get("type", "message") == "message" and item["role"] == "user"]
    messages = [
        {
            "type": "message",
            "id": f"msg_{answer.number}_{place}",
            "status": "completed",
            **item,
            "content": [{"type": "input_text", "text": item["content"]}]
            if isinstance(item["content"], str)
            else item["content"],
        }
        for place, item in enumerate(users)
    ]
    name = str(answer.number)
    return {
        "id": answer.id,
        "object": "response.compaction",
        "created_at": answer.created_at,
        "output": [*messages, compaction(items(answer.parts, name), name)],
        **answer.render_usage(usage(answer.usage, answer.thinking_tokens)),
    }


COMPACT_CODEC = replace(
    CODEC,
    request_checks=COMPACT_CHECKS,
    render_response=render_compacted_response,
    response_extras=lambda request: {},
    store_response=lambda stored, request, answer: None,
    declared_fields=COMPACT_TYPE,
)


def render_error_message(status: int, error: Json) -> dict[str, Json]:
    """An error as a message over a WebSocket (responses/responses_server_event.py, `ResponseWsError`)."""
    return {"type": "error", "status": status, "error": error}


MESSAGE_CODEC = replace(
    CODEC,
    request_checks=refusals.MESSAGE_CHECKS,
    prewarm_ending=lambda body: "done" if body.get("generate") is False else CODEC.prewarm_ending(body),
    render_error_event=lambda refusal: event(render_error_message(refusal.status, render_error(refusal)["error"])),
    declared_fields=MESSAGE_TYPE,
)
"""`response.create` over a WebSocket at `/v1/responses`."""
INPUT_TOKENS_CODEC = replace(
    CODEC,
    request_checks=INPUT_TOKENS_CHECKS,
    render_count=lambda request: {
        "object": "response.input_tokens",
        "input_tokens": request.parsed.prompt.n_tokens,
    },
    declared_fields=INPUT_TOKENS_TYPE,
)
"""`POST /v1/responses/input_tokens`."""
