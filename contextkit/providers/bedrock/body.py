"""Where a Converse body keeps its blocks. Field names: botocore 1.44 bedrock-runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.prompt.block import Block, Level, block_of, content_blocks, listed, mapped, marker_in, name_in
from contextkit.providers.codec import BodyReader, content_parts

_TYPES = {
    "text": "text",
    "image": "image",
    "document": "document",
    "video": "video",
    "toolUse": "call",
    "toolResult": "result",
    "reasoningContent": "thinking",
    "cachePoint": "cachePoint",
    "guardContent": "text",
}
_OWN_FIELDS = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig")


def _head_blocks(fields: Mapping[str, Json]) -> Iterator[Block]:
    config = fields.get("toolConfig")
    tools = listed(config.get("tools"), "toolConfig.tools") if isinstance(config, dict) else []
    named = (
        block_of("tools", f"toolConfig.tools[{i}]", -1, name_in(tool, "toolSpec"), "tool", tool)
        for i, tool in enumerate(tools)
    )
    yield from _marked(named)
    yield from _marked(content_blocks("system", fields.get("system"), "system", -1, "system", _TYPES))


def _message_blocks(message: Json, index: int, level: Level) -> Iterator[Block]:
    said = mapped(message, f"messages[{index}]")
    return _marked(
        content_blocks(
            level, said.get("content"), f"messages[{index}].content", index, str(said.get("role", "")), _TYPES
        )
    )


def _marked(blocks: Iterator[Block]) -> Iterator[Block]:
    """A cachePoint is no block: it marks the one before it."""
    held: Block | None = None
    for block in blocks:
        if isinstance(block.value, dict) and "cachePoint" in block.value:
            held = replace(held, marker=marker_in(block.value["cachePoint"])) if held else None
            continue
        if held:
            yield held
        held = block
    if held:
        yield held


def _is_body(fields: Mapping[str, Json]) -> bool:
    if not isinstance(fields.get("messages"), list):
        return False
    return any(name in fields for name in _OWN_FIELDS) or any(
        "type" not in part and _TYPES.keys() & part for part in content_parts(fields)
    )


BODY = BodyReader(
    endpoint="bedrock_converse",
    is_body=_is_body,
    message_field="messages",
    block_fields=frozenset({"toolConfig.tools", "system", "messages"}),
    head_blocks=_head_blocks,
    message_blocks=_message_blocks,
    is_framed=False,
)
