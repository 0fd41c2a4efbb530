"""Responses of the Gemini Interactions API, whole and streamed. Field names: google.genai.interactions 3.6.1
(Interaction, InteractionSSEEvent, Usage).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.log.entry import Native
from contextkit.prompt.normal_form import normal
from contextkit.providers.adapter import Answering
from contextkit.providers.gemini_interactions.body import WIRE
from contextkit.providers.provider import Reply, ReplyCall, plain
from contextkit.providers.usage import GEMINI_INTERACTIONS, read_usage

STATUSES: Mapping[str, str] = {
    "completed": "done",
    "requires_action": "calls",
    "incomplete": "truncated",
    "budget_exceeded": "truncated",
    "requires_continuation": "paused",
}
"""`status` → next step of the loop; every other ends in a refusal."""
_UNFINISHED = (None, "in_progress", "queued", "idle")


def reply(response: Any) -> Reply:
    """Parse an `Interaction`, its dict, or a joined stream. Raises `UnreadableReply` for anything else."""
    interaction: dict[str, Any] = plain(response)
    if "status" not in interaction:
        raise UnreadableReply("not an interaction (no status): pass what client.interactions.create returned")
    steps = [normal(step) for step in interaction.get("steps") or []]
    calls = tuple(
        ReplyCall(step["id"], step["name"], step.get("arguments") or {})
        for step in steps
        if step.get("type") == "function_call"
    )
    texts = [
        part.get("text", "")
        for step in steps
        if step.get("type") == "model_output"
        for part in step.get("content") or ()
        if part.get("type") == "text"
    ]
    native = Native(WIRE, interaction.get("model") or "", canonical(steps))
    stop = STATUSES.get(interaction["status"], "refused")
    usage_ = usage(interaction.get("usage") or {})
    return Reply(interaction.get("id") or "", native, "".join(texts), calls, stop, usage_)


def usage(counters: Mapping[str, Json]) -> Usage:
    """The usage of an interaction: its input includes cached tokens, thoughts are no part of its output, writing is free.

    >>> usage({"total_input_tokens": 100, "total_cached_tokens": 60, "total_output_tokens": 5, "total_thought_tokens": 7})
    Usage(fresh=40, read=60, writes={}, output=12)
    """
    return read_usage(GEMINI_INTERACTIONS, counters) or Usage()


def is_complete(response: Mapping[str, Json]) -> bool:
    """Whether the interaction came to an end, its own or a limit's."""
    return response.get("status") not in _UNFINISHED


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """Join the events of a stream into an interaction; a truncated stream gives the part that arrived."""
    interaction: dict[str, Any] = {}
    steps: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    for event in map(plain, events):
        kind, index = event.get("event_type"), event.get("index", 0)
        if kind in ("interaction.created", "interaction.completed"):
            interaction.update({name: value for name, value in event["interaction"].items() if value is not None})
        elif kind == "interaction.status_update":
            interaction["status"] = event["status"]
        elif kind == "step.start":
            steps[index] = dict(event["step"])
        elif kind == "step.delta" and index in steps:
            delta = event["delta"]
            if delta.get("type") == "arguments_delta":
                arguments[index] = arguments.get(index, "") + (delta.get("arguments") or "")
            else:
                _grow(steps[index], delta)
    if not interaction:
        raise UnreadableReply("the stream ended before its first event: nothing was said")
    for index, text in arguments.items():
        try:
            steps[index]["arguments"] = json.loads(text)
        except ValueError:
            steps[index]["arguments"] = {}  # cut in the middle: the call is not complete either
    if not interaction.get("steps"):
        interaction["steps"] = [steps[index] for index in sorted(steps)]
    return interaction


def _grow(step: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to the step it belongs to."""
    kind = delta.get("type")
    if kind == "thought_signature":
        step["signature"] = delta.get("signature")
    elif kind == "thought_summary":
        _append(step, "summary", delta.get("content") or {})
    elif kind in ("text", "image", "audio", "document", "video"):
        _append(step, "content", delta)


def _append(step: dict[str, Any], field: str, part: Mapping[str, Any]) -> None:
    """Append a part; text continues the text before it."""
    parts = step.setdefault(field, None) or []
    step[field] = parts
    if parts and part.get("type") == "text" == parts[-1].get("type"):
        parts[-1]["text"] += part.get("text") or ""
    else:
        parts.append(dict(part))


RESPONSES = Answering(reply, is_complete, usage, joined)
