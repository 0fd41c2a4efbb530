"""What Bedrock Converse answers: a message, or the events that amount to one.

Field names are those of botocore 1.44, bedrock-runtime: ConverseResponse, ConverseStreamOutput.
"""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

from contextkit.cache.usage import served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.providers.keyed_blocks import KeyedFormat, packed, parse_blocks
from contextkit.providers.provider import Reply
from contextkit.providers.reply_json import plain, read_object, written_object
from contextkit.providers.usage import endpoint_usage

STOPS = {
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "calls",
    "max_tokens": "truncated",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
    "malformed_model_output": "refused",
    "malformed_tool_use": "refused",
    "model_context_window_exceeded": "overflow",
}
"""`stopReason` → what the loop does next (StopReason)."""


def reply(format: KeyedFormat, response: Any) -> Reply:
    """A response of `converse`, or what a stream amounted to."""
    answer = plain(packed(response))
    message = (answer.get("output") or {}).get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise UnreadableReply(
            "not an answer of Bedrock Converse (no output.message): pass what client.converse returned"
        )
    content = [_with_object(block) for block in message["content"]]
    native, text, calls = parse_blocks(format, (block for block in content if block.get("text") != ""), "")
    told = {"content": content, "usage": answer.get("usage")}
    name = (answer.get("ResponseMetadata") or {}).get(
        "RequestId"
    ) or f"converse-{blake2b(canonical(told), digest_size=8).hexdigest()}"
    billed = served(endpoint_usage(format.wire, answer.get("usage")), answer)
    return Reply(name, native, text, calls, STOPS.get(answer.get("stopReason", ""), "done"), billed)


def _with_object(block: Mapping[str, Json]) -> Mapping[str, Json]:
    """A block with arguments that a request takes back."""
    use = block.get("toolUse")
    return (
        {**block, "toolUse": {**use, "input": read_object(use.get("input", {}))}} if isinstance(use, Mapping) else block
    )


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """The response that stream events amount to; what has arrived, where they were cut short."""
    content: dict[int, dict[str, Json]] = {}
    answer: dict[str, Json] = {}
    for event in map(packed, events):
        kind, told = next(iter(event.items()))
        _EVENTS.get(kind, _ignored)(answer, content, told)
    if not answer:
        raise UnreadableReply("the stream ended before messageStart: nothing was said")
    blocks = [_finished(content[index]) for index in sorted(content) if content[index]]
    return {**answer, "output": {"message": {"role": "assistant", "content": blocks}}}


_Content = dict[int, dict[str, Json]]


def _ignored(answer: dict[str, Json], content: _Content, told: Any) -> None:
    """contentBlockStop, and kinds of event that carry nothing."""


def _started(answer: dict[str, Json], content: _Content, told: Any) -> None:
    """Start a block; the fields of a call, a result and a picture grow with later events."""
    ((kind, start),) = told["start"].items()
    content[told["contentBlockIndex"]] = {kind: {**start, **copy.deepcopy(_GROWING.get(kind, {}))}}


def _grew(answer: dict[str, Json], content: _Content, told: Any) -> None:
    block = content.setdefault(told["contentBlockIndex"], {})
    for kind, delta in told["delta"].items():
        _DELTAS.get(kind, _unread)(block, delta)


def _unread(block: dict[str, Json], delta: Any) -> None:
    """A kind of delta that botocore 1.44 does not know."""


def _thought(block: dict[str, Json], delta: Any) -> None:
    inside = block.setdefault("reasoningContent", {})
    if "redactedContent" in delta:
        inside["redactedContent"] = delta["redactedContent"]
        return
    thinking = inside.setdefault("reasoningText", {"text": ""})
    thinking["text"] += delta.get("text", "")
    thinking.update({"signature": delta["signature"]} if "signature" in delta else {})


def _wrote(block: dict[str, Json], delta: Any) -> None:
    block["toolUse"]["input"] += delta["input"]


def _drew(block: dict[str, Json], delta: Any) -> None:
    """A picture comes in pieces, each base64 of its own."""
    inside, source = block.setdefault("image", {}), delta.get("source", {})
    had = (inside.get("source") or {}).get("bytes", "")
    grown = {"bytes": b64encode(b64decode(had) + b64decode(source["bytes"])).decode()} if "bytes" in source else source
    inside.update({**delta, **({"source": grown} if grown else {})})


def _finished(block: dict[str, Json]) -> dict[str, Json]:
    """A call with its arguments read, cited text with its citations; every other block as it has grown."""
    if "citations" in block:
        said = {"content": [{"text": block["text"]}]} if "text" in block else {}
        return {"citationsContent": {**said, "citations": block["citations"]}}
    if "toolUse" in block:
        block["toolUse"]["input"] = written_object(block["toolUse"]["input"] or "{}")
    return block


_GROWING: Mapping[str, Json] = {"toolUse": {"input": ""}, "toolResult": {"content": []}}
_EVENTS: dict[str, Callable[[dict[str, Json], _Content, Any], None]] = {
    "messageStart": lambda answer, content, told: answer.update({"role": told["role"]}),
    "contentBlockStart": _started,
    "contentBlockDelta": _grew,
    "messageStop": lambda answer, content, told: answer.update(told),
    "metadata": lambda answer, content, told: answer.update(told),
}
_DELTAS: dict[str, Callable[[dict[str, Json], Any], None]] = {
    "text": lambda block, delta: block.update({"text": block.get("text", "") + delta}),
    "toolUse": _wrote,
    "toolResult": lambda block, delta: block["toolResult"]["content"].extend(delta),
    "reasoningContent": _thought,
    "citation": lambda block, delta: block.setdefault("citations", []).append(delta),
    "image": _drew,
}
"""Delta → how its block grows (ContentBlockDelta)."""
