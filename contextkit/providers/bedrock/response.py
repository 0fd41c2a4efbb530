"""What Bedrock Converse answers: a message, or the events that amount to one.

Field names are those of botocore 1.44, bedrock-runtime: ConverseResponse, ConverseStreamOutput.
"""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
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
    content = []
    for block in message["content"]:
        use = block.get("toolUse")
        called = isinstance(use, Mapping)  # its arguments become those that a request takes back
        content.append({**block, "toolUse": {**use, "input": read_object(use.get("input", {}))}} if called else block)
    native, text, calls = parse_blocks(format, (block for block in content if block.get("text") != ""), "")
    name = (answer.get("ResponseMetadata") or {}).get("RequestId")
    if not name:
        digest = blake2b(canonical({"content": content, "usage": answer.get("usage")}), digest_size=8)
        name = f"converse-{digest.hexdigest()}"
    billed = served(endpoint_usage(format.wire, answer.get("usage")), answer)
    return Reply(name, native, text, calls, STOPS.get(answer.get("stopReason", ""), "done"), billed)


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """The response that stream events amount to; what has arrived, where they were cut short."""
    content: dict[int, dict[str, Json]] = {}
    answer: dict[str, Json] = {}
    for event in map(packed, events):  # contentBlockStop carries nothing
        kind, fields = next(iter(event.items()))
        if kind == "messageStart":
            answer["role"] = fields["role"]
        elif kind == "contentBlockStart":  # fields of a call and a result grow with later events
            ((block_kind, start),) = fields["start"].items()
            growing = copy.deepcopy(_GROWING.get(block_kind, {}))
            content[fields["contentBlockIndex"]] = {block_kind: {**start, **growing}}
        elif kind == "contentBlockDelta":
            block = content.setdefault(fields["contentBlockIndex"], {})
            for delta_kind, delta in fields["delta"].items():
                _grow(block, delta_kind, delta)
        elif kind in ("messageStop", "metadata"):
            answer.update(fields)
    if not answer:
        raise UnreadableReply("the stream ended before messageStart: nothing was said")
    blocks = [_finished(content[index]) for index in sorted(content) if content[index]]
    return {**answer, "output": {"message": {"role": "assistant", "content": blocks}}}


def _grow(block: dict[str, Json], kind: str, delta: Any) -> None:
    """Apply one delta (ContentBlockDelta); a kind that botocore 1.44 does not know changes nothing."""
    if kind == "text":
        block["text"] = block.get("text", "") + delta
    elif kind == "toolUse":
        block["toolUse"]["input"] += delta["input"]
    elif kind == "toolResult":
        block["toolResult"]["content"].extend(delta)
    elif kind == "citation":
        block.setdefault("citations", []).append(delta)
    elif kind == "image":  # comes in pieces, each base64 of its own
        inside, source = block.setdefault("image", {}), delta.get("source", {})
        if "bytes" in source:
            before = (inside.get("source") or {}).get("bytes", "")
            source = {"bytes": b64encode(b64decode(before) + b64decode(source["bytes"])).decode()}
        inside.update({**delta, **({"source": source} if source else {})})
    elif kind == "reasoningContent":
        inside = block.setdefault("reasoningContent", {})
        if "redactedContent" in delta:
            inside["redactedContent"] = delta["redactedContent"]
            return
        thinking = inside.setdefault("reasoningText", {"text": ""})
        thinking["text"] += delta.get("text", "")
        if "signature" in delta:
            thinking["signature"] = delta["signature"]


def _finished(block: dict[str, Json]) -> dict[str, Json]:
    """A call with its arguments read, cited text with its citations; every other block as it has grown."""
    if "citations" in block:
        said = {"content": [{"text": block["text"]}]} if "text" in block else {}
        return {"citationsContent": {**said, "citations": block["citations"]}}
    if "toolUse" in block:
        block["toolUse"]["input"] = written_object(block["toolUse"]["input"] or "{}")
    return block


_GROWING: Mapping[str, Json] = {"toolUse": {"input": ""}, "toolResult": {"content": []}}
"""Kind of a block → its fields that grow."""
