"""Where a Converse body keeps its blocks. Field names: botocore 1.44 bedrock-runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from contextkit.canonical import Json
from contextkit.prompt.block import Block, Level, block_of, listed, mapped, marker_in, name_in, type_in
from contextkit.providers.codec import BodyPart, BodyReader, content_parts, parts_of_content

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


def head_parts(fields: Mapping[str, Json]) -> Iterator[BodyPart]:
    """Tools and system text, cachePoints among them."""
    config = fields.get("toolConfig")
    if isinstance(config, dict):
        for index, tool in enumerate(listed(config.get("tools"), "toolConfig.tools")):
            yield BodyPart("tools", f"toolConfig.tools[{index}]", -1, name_in(tool, "toolSpec"), tool)
    yield from parts_of_content("system", fields.get("system"), "system", -1, "system")


def message_parts(message: Json, index: int, level: Level = "messages") -> Iterator[BodyPart]:
    """The content of one message, cachePoints among it."""
    path = f"messages[{index}]"
    fields = mapped(message, path)
    return parts_of_content(level, fields.get("content"), f"{path}.content", index, str(fields.get("role", "")))


def _head_blocks(fields: Mapping[str, Json]) -> Iterator[Block]:
    for _, parts in groupby(head_parts(fields), key=lambda part: part.level):
        yield from _marked(parts)


def _message_blocks(message: Json, index: int, level: Level) -> Iterator[Block]:
    return _marked(message_parts(message, index, level))


def _marked(parts: Iterable[BodyPart]) -> Iterator[Block]:
    """A cachePoint is no block: it marks the one before it."""
    block: Block | None = None
    for part in parts:
        if isinstance(part.value, dict) and "cachePoint" in part.value:
            block = replace(block, marker=marker_in(part.value["cachePoint"])) if block else None
            continue
        if block:
            yield block
        kind = "tool" if part.level == "tools" else type_in(part.value, _TYPES)
        block = block_of(*part[:4], kind, part.value)
    if block:
        yield block


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
