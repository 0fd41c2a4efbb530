"""What the Responses API answers: a response, or the events that amount to one.

Field names are those of `openai.types.responses.Response`, its output items and stream events (3.52).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.layout.normal_form import VERBATIM, normal
from contextkit.log.entry import Native
from contextkit.providers.foreign import read_object
from contextkit.providers.late.searches import SEARCH, TOOL, is_ours
from contextkit.providers.openai import spellings
from contextkit.providers.openai.responses_items import CUSTOM, NULLABLE, WIRE, answers, whole
from contextkit.providers.openai.spellings import read_arguments
from contextkit.providers.plain import plain
from contextkit.providers.provider import Reply, ReplyCall, kept

_INPUTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "computer_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
    }
)
"""Types of items that do not come from the model (responses/response_input_item_param.py)."""
_UNSENDABLE: Mapping[str, frozenset[str]] = {
    "custom_tool_call": frozenset({"created_by", "status"}),
    "custom_tool_call_output": frozenset({"created_by", "status"}),
    "computer_call_output": frozenset({"created_by", "status"}),
}
"""Type of an item → fields that come with a reply and that no request takes; `created_by` for the others."""
_ANY = frozenset({"created_by"})
_CALLS: dict[str, Callable[[Mapping[str, Json]], ReplyCall]] = {
    "function_call": lambda item: ReplyCall(item["call_id"], item["name"], read_arguments(item["arguments"])),
    "custom_tool_call": lambda item: ReplyCall(CUSTOM + item["call_id"], item["name"], item["input"]),
    "tool_search_call": lambda item: ReplyCall(SEARCH + item["call_id"], TOOL, item["arguments"]),
}
STOPS = {"max_output_tokens": "truncated", "content_filter": "refused"}
"""Why a response is incomplete → what the loop does next (responses/response.py); anything else cut it short."""


COMPACTED = "response.compaction"
"""What `client.responses.compact` returns (responses/compacted_response.py): items that stand in place of the whole
input."""


def reply(response: Any) -> Reply:
    """A `Response`, its dict, or what a stream amounted to.

    Raises `UnreadableReply` for one that failed: nothing of it may be sent again.
    """
    answer = plain(response)
    if answer.get("object", "response") not in ("response", COMPACTED) or not isinstance(answer.get("output"), list):
        raise UnreadableReply(
            f"not a response (object {answer.get('object')!r}): pass what client.responses.create returned"
        )
    if answer.get("status") in ("failed", "cancelled"):
        code = (answer.get("error") or {}).get("code", "no code given")
        raise UnreadableReply(f"response {answer.get('id')!r} {answer['status']} ({code}): send the request again")
    items = [_sendable(item) for item in answer["output"]]
    native = Native(WIRE, answer.get("model", ""), canonical(items))
    said = _text(items), _calls(items), _stop(answer, items), served(usage(answer.get("usage") or {}), answer)
    return Reply(
        answer.get("id", ""),
        native,
        *said,
        {one["id"]: one["reason"] for one in answer.get("input_transformations") or ()},
    )


def turn(items: list[Json], model: str) -> Json:
    """Items of a request body that the model said as the body of an entry."""
    said = normal(items)
    return kept(WIRE, model, said, _text(said), _calls(said))


def is_output(item: Mapping[str, Json]) -> bool:
    """Whether an item of a request body came from the model."""
    return (
        item["role"] == "assistant"
        if item["type"] == "message"
        else item["type"] not in _INPUTS and answers(item) is None
    )


def usage(counters: Mapping[str, Json]) -> Usage:
    """The counters of Responses in ours."""
    details = counters.get("input_tokens_details") or {}
    return spellings.usage(counters.get("input_tokens"), details, counters.get("output_tokens"))


def _sendable(item: Mapping[str, Json]) -> dict[str, Json]:
    said: dict[str, Json] = normal(whole(_requested(item, "")))
    if said.get("type") == "tool_search_call" and isinstance(said.get("arguments"), dict):
        said["arguments"] = read_object(said["arguments"])
    return said


def _requested(value: Json, inside: str) -> Json:
    """`value` with the fields a request has, at every depth.

    `inside` names what it is part of, where it has no type of its own.
    """
    if isinstance(value, list):
        return [_requested(item, inside) for item in value]
    if not isinstance(value, dict):
        return value
    kind = inside if inside in NULLABLE else str(value.get("type", ""))
    unsendable = _UNSENDABLE.get(kind, _ANY)
    known = {
        key: item if key in VERBATIM else _requested(item, f"{kind}.{key}")
        for key, item in value.items()
        if key not in unsendable
    }
    return {**dict.fromkeys(NULLABLE.get(kind, ())), **known}


def _calls(items: list[Json]) -> tuple[ReplyCall, ...]:
    """Calls we are to answer: a search that ran at the API is none."""
    return tuple(_CALLS[item["type"]](item) for item in items if item["type"] in _CALLS and is_ours(item))


def _text(items: list[Json]) -> str:
    """What was said; a refusal where nothing else was."""
    contents = [item["content"] for item in items if item["type"] == "message"]
    parts = [part for content in contents for part in ([{"text": content}] if isinstance(content, str) else content)]
    return "".join(part.get("text", "") for part in parts) or "".join(part.get("refusal", "") for part in parts)


def _stop(answer: Mapping[str, Json], items: list[Json]) -> str:
    if answer.get("object") == COMPACTED:
        return "compacted"
    if answer.get("status", "completed") != "completed":
        return STOPS.get((answer.get("incomplete_details") or {}).get("reason", ""), "truncated")
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    refused = any(part["type"] == "refusal" for part in parts)
    return "refused" if refused else "calls" if _calls(items) else "done"


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """The response that events amount to; of one cut short, the items that were finished.

    Raises `UnreadableReply` when not even `response.created` is among them.
    """
    response: dict[str, Json] = {}
    items: dict[int, Json] = {}
    for event in map(plain, events):
        _EVENTS.get(event.get("type", ""), _ignored)(response, items, event)
    if not response:
        raise UnreadableReply("the stream ended before response.created: nothing was said")
    return response if response.get("output") else {**response, "output": [items[index] for index in sorted(items)]}


_Events = Callable[[dict[str, Json], dict[int, Json], Mapping[str, Json]], None]


def _ignored(response: dict[str, Json], items: dict[int, Json], event: Mapping[str, Json]) -> None:
    """Deltas, progress and kinds of event whose content comes again with the finished item."""


def _stated(response: dict[str, Json], items: dict[int, Json], event: Mapping[str, Json]) -> None:
    response.clear()
    response.update(event["response"])


def _itemised(response: dict[str, Json], items: dict[int, Json], event: Mapping[str, Json]) -> None:
    items[event["output_index"]] = event["item"]


def _failed(response: dict[str, Json], items: dict[int, Json], event: Mapping[str, Json]) -> None:
    response.update(status="failed", error={"code": event.get("code", "error")})


_EVENTS: dict[str, _Events] = {
    "response.created": _stated,
    "response.queued": _stated,
    "response.in_progress": _stated,
    "response.completed": _stated,
    "response.incomplete": _stated,
    "response.failed": _stated,
    "response.output_item.done": _itemised,
    "error": _failed,
}
