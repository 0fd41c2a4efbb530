"""Where a Messages body keeps its blocks. Field names: anthropic.types 2.11."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.prompt.block import Block, Level, content_blocks, mapped, tool_blocks
from contextkit.providers.anthropic.blocks import is_billing_header
from contextkit.providers.codec import BodyReader, content_parts, has_chat_messages, json_items

_TYPES = {
    "tool_use": "call",
    "server_tool_use": "call",
    "tool_result": "result",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
}
_BILLING_HEADER = b'"x-anthropic-billing-header"'
"""The bytes of every billing header: what it says is no part of the prompt (`providers/anthropic/blocks.py`)."""
_OWN_FIELDS = ("system", "anthropic_version", "stop_sequences", "mcp_servers", "anthropic_beta")


def _head_blocks(fields: Mapping[str, Json]) -> Iterator[Block]:
    yield from tool_blocks(fields)
    for block in content_blocks("system", fields.get("system"), "system", -1, "system", _TYPES):
        yield replace(block, body=_BILLING_HEADER) if is_billing_header(block.value) else block


def _message_blocks(message: Json, index: int, level: Level) -> Iterator[Block]:
    said = mapped(message, f"messages[{index}]")
    return content_blocks(
        level, said.get("content"), f"messages[{index}].content", index, str(said.get("role", "")), _TYPES
    )


def _is_body(fields: Mapping[str, Json]) -> bool:
    if not isinstance(fields.get("messages"), list) or has_chat_messages(fields):
        return False
    has_schemas = any(isinstance(tool, dict) and "input_schema" in tool for tool in json_items(fields.get("tools")))
    return (
        has_schemas
        or any(name in fields for name in _OWN_FIELDS)
        or any(str(part.get("type")) in _TYPES for part in content_parts(fields))
    )


BODY = BodyReader(
    endpoint="anthropic_messages",
    is_body=_is_body,
    message_field="messages",
    block_fields=frozenset({"tools", "system", "messages"}),
    head_blocks=_head_blocks,
    message_blocks=_message_blocks,
    is_framed=False,
)
