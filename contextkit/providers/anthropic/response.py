"""What Anthropic answers: a message, or the events that amount to one.

Field names are those of `anthropic.types.Message`, `Usage` and the raw stream events (2.11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.log.entry import Native
from contextkit.prompt.normal_form import normal
from contextkit.providers.anthropic.blocks import WIRE
from contextkit.providers.provider import Reply, ReplyCall
from contextkit.providers.reply_json import plain, read_object, written_object
from contextkit.providers.usage import counters_in, endpoint_usage

STOPS = {
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "calls",
    "max_tokens": "truncated",
    "pause_turn": "paused",
    "refusal": "refused",
    "model_context_window_exceeded": "overflow",
    "compaction": "compacted",
}
"""`stop_reason` → what the loop does next (anthropic/types/stop_reason.py)."""


def reply(response: Any) -> Reply:
    """A `Message`, its dict, or what a stream amounted to."""
    message = plain(response)
    if message.get("type") != "message" or not isinstance(message.get("content"), list):
        raise UnreadableReply(
            f"not an Anthropic message (type {message.get('type')!r}): pass what client.messages.create returned"
        )
    blocks = [normal(_sendable(block)) for block in message["content"] if block.get("type") != "text" or block["text"]]
    calls = tuple(
        ReplyCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
    )
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    stop = STOPS.get(message.get("stop_reason") or "", "done")
    gone = {
        row["path"]: row["reason"]
        for row in message.get("input_transformations") or ()
        if row["type"] == "thinking_dropped"
    }
    native = Native(WIRE, message["model"], canonical(blocks))
    return Reply(message["id"], native, text, calls, stop, endpoint_usage(WIRE, message.get("usage")), gone)


_TITLES = {
    "char_location": "document_title",
    "page_location": "document_title",
    "content_block_location": "document_title",
    "web_search_result_location": "title",
    "search_result_location": "title",
}
"""Type of a citation → the field a request must have even when it is null (anthropic/types/citation_*_param.py)."""


_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks that hold what the model wrote as arguments; a request takes objects only
(anthropic/types/tool_use_block_param.py)."""


def _sendable(block: Mapping[str, Json]) -> Mapping[str, Json]:
    """A block as a request takes it back: citations with their title, null or not, and without the file id the API adds
    to them.
    """
    cited, inside = block.get("citations"), block.get("content") if block.get("type") == "mcp_tool_result" else None
    known = {"citations": list(map(_sendable_citation, cited))} if isinstance(cited, list) else {}
    called = {"input": read_object(block.get("input", {}))} if block.get("type") in _CALLS else {}
    return {
        **block,
        **known,
        **called,
        **({"content": list(map(_sendable, inside))} if isinstance(inside, list) else {}),
    }


def _sendable_citation(citation: Mapping[str, Json]) -> Json:
    kept = {key: value for key, value in citation.items() if key != "file_id"}
    title = _TITLES.get(str(citation.get("type")))
    return {title: None, **kept} if title else kept


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """The message that raw stream events amount to; what has arrived, where they were cut short.

    Raises `UnreadableReply` when not even `message_start` is among them.
    """
    message: dict[str, Json] = {}
    for event in map(plain, events):
        _apply(message, event)
    if not message:
        raise UnreadableReply("the stream ended before message_start: nothing was said")
    return message


def _apply(message: dict[str, Json], event: Mapping[str, Json]) -> None:
    """Apply one event; ping, message_stop and kinds not known carry no content."""
    kind = event.get("type", "")
    if kind == "message_start":
        message.update(event["message"])
        message["content"] = list(message.get("content") or [])
    elif kind == "content_block_start":
        message["content"].append(dict(event["content_block"]))
    elif kind == "content_block_delta":
        _grow(message["content"][event["index"]], event["delta"])
    elif kind == "content_block_stop":
        block = message["content"][event["index"]]
        written = block.pop("\0json", None)
        if written:
            block["input"] = written_object(written)
    elif kind == "message_delta":
        changed = {**event["delta"], "input_transformations": event.get("input_transformations")}
        message.update({key: value for key, value in changed.items() if value is not None})
        counters = {key: value for key, value in counters_in(event.get("usage")).items() if value is not None}
        message["usage"] = {**counters_in(message.get("usage")), **counters}


_APPENDED = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("\0json", "partial_json"),
}
"""Type of a delta → field of the block that grows, field of the delta that holds the piece."""


def _grow(block: dict[str, Json], delta: Mapping[str, Json]) -> None:
    """Apply a delta; a kind that is not known changes nothing."""
    kind = delta["type"]
    if kind in _APPENDED:
        key, source = _APPENDED[kind]
        block[key] = block.get(key, "") + delta[source]
    elif kind == "signature_delta":  # comes whole: the last one counts (anthropic/lib/streaming/_messages.py)
        block["signature"] = delta["signature"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    elif kind == "compaction_delta":  # comes in one piece (beta_compaction_content_block_delta.py)
        block.update({key: value for key, value in delta.items() if key != "type" and value is not None})
