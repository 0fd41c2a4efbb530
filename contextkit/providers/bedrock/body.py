"""Where a Converse body keeps its blocks. Field names: botocore 1.44 bedrock-runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.prompt.block import MARKER, Block, listed, mapped, name_in
from contextkit.prompt.prompt import Level
from contextkit.providers.body import BodyReader, content_parts, parts_of_content

_TYPES = {
    "text": "text",
    "image": "image",
    "document": "document",
    "video": "video",
    "toolUse": "call",
    "toolResult": "result",
    "reasoningContent": "thinking",
    "guardContent": "text",
}
_OWN_FIELDS = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig")


def head_parts(fields: Mapping[str, Json]) -> Iterator[Block]:
    """Tools and system text; a cachePoint is a marker."""
    config = fields.get("toolConfig")
    if isinstance(config, dict):
        for index, tool in enumerate(listed(config.get("tools"), "toolConfig.tools")):
            path = f"toolConfig.tools[{index}]"
            yield _marked(Block("tools", path, -1, name_in(tool, "toolSpec"), "tool", tool))
    yield from map(_marked, parts_of_content("system", fields.get("system"), "system", -1, "system", _TYPES))


def message_parts(message: Json, index: int, level: Level = "messages") -> Iterator[Block]:
    """The content of one message; a cachePoint is a marker."""
    path = f"messages[{index}]"
    fields = mapped(message, path)
    role = str(fields.get("role", ""))
    return map(_marked, parts_of_content(level, fields.get("content"), f"{path}.content", index, role, _TYPES))


def _marked(part: Block) -> Block:
    """The part; as a marker where it is a cachePoint."""
    if isinstance(part.value, dict) and "cachePoint" in part.value:
        return replace(part, type=MARKER, value=part.value["cachePoint"])
    return part


def _is_body(fields: Mapping[str, Json]) -> bool:
    if not isinstance(fields.get("messages"), list):
        return False
    return any(name in fields for name in _OWN_FIELDS) or any(
        "type" not in part and (_TYPES.keys() & part or "cachePoint" in part) for part in content_parts(fields)
    )


BODY = BodyReader(
    endpoint="bedrock_converse",
    is_body=_is_body,
    message_field="messages",
    model_field="modelId",
    block_fields=frozenset({"toolConfig.tools", "system", "messages"}),
    head_parts=head_parts,
    message_parts=message_parts,
    is_framed=False,
)
