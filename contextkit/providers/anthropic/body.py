"""Where a Messages body keeps its blocks. Field names: anthropic.types 2.11."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.prompt.block import Block, listed, mapped, name_in
from contextkit.prompt.prompt import Level
from contextkit.providers.anthropic.blocks import is_billing_header
from contextkit.providers.body import BodyReader, content_parts, has_chat_messages, json_items, parts_of_content

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


def api_path(path: str) -> str:
    """A path in the API's notation.

    >>> api_path("messages[4].content[1].text")
    'messages.4.content.1.text'
    """
    return path.replace("[", ".").replace("]", "")


def head_parts(fields: Mapping[str, Json]) -> Iterator[Block]:
    """Tools and system text."""
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        path = f"tools[{index}]"
        name = name_in(mapped(tool, path)) or str(tool.get("type", ""))
        yield Block("tools", path, -1, name, "tool", tool)
    yield from parts_of_content("system", fields.get("system") or None, "system", -1, "system", _TYPES)


def message_parts(message: Json, index: int, level: Level = "messages") -> Iterator[Block]:
    """The content of one message."""
    path = f"messages[{index}]"
    fields = mapped(message, path)
    role = str(fields.get("role", ""))
    return parts_of_content(level, fields.get("content"), f"{path}.content", index, role, _TYPES)


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
    head_parts=head_parts,
    message_parts=message_parts,
    fixed_body=lambda level, value: _BILLING_HEADER if level == "system" and is_billing_header(value) else None,
    is_framed=False,
)
ELSEWHERE = replace(BODY, fixed_body=lambda level, value: None)
"""Reads bodies that are sent to other hosts than Claude's own: there the billing header is a part of the prompt."""
