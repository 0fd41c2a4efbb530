"""Where Chat Completions and Responses bodies keep their blocks. Field names: openai.types 3.52."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.prompt.block import (
    Block,
    Level,
    block_of,
    content_blocks,
    listed,
    mapped,
    marker_in,
    tool_blocks,
    type_in,
)
from contextkit.prompt.normal_form import MARKERS
from contextkit.providers.codec import BodyReader

_OWN_FIELDS = frozenset({"role", "content", "type", "id", "status", *MARKERS})
"""Fields of a message that are no blocks. Ids and states of replayed output messages are not rendered."""


def _other_blocks(
    message: Mapping[str, Json], path: str, index: int, level: Level, role: str, done: frozenset[str]
) -> Iterator[Block]:
    """Each other field of a message, a block."""
    for name in sorted(message.keys() - done):
        if message[name] is not None:
            yield block_of(level, f"{path}.{name}", index, role, name, message[name])


def _marked(blocks: Iterator[Block], message: Mapping[str, Json]) -> Iterator[Block]:
    """A marker on the message itself stands on its last block."""
    marker = next((message[name] for name in sorted(MARKERS) if message.get(name) is not None), None)
    if marker is None:
        return blocks
    listed_blocks = list(blocks)
    if listed_blocks:
        listed_blocks[-1] = replace(listed_blocks[-1], marker=marker_in(marker))
    return iter(listed_blocks)


# Chat Completions
# -------------------------------------------------------------------------------------------------------------------

_CHAT_TYPES = {"text": "text", "image_url": "image", "file": "document", "refusal": "text"}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


def _chat_blocks(message: Json, index: int, level: Level) -> Iterator[Block]:
    path = f"messages[{index}]"
    fields = mapped(message, path)
    role = str(fields.get("role", ""))
    if role == "tool":
        return iter((block_of(level, path, index, role, "result", fields),))
    return _marked(_chat_fields(fields, path, index, level, role), fields)


def _chat_fields(message: Mapping[str, Json], path: str, index: int, level: Level, role: str) -> Iterator[Block]:
    """Reasoning, then content, then calls, then every other field, each a block."""
    for name in _REASONING:
        if message.get(name) is not None:
            yield block_of(level, f"{path}.{name}", index, role, "thinking", message[name])
    yield from content_blocks(level, message.get("content"), f"{path}.content", index, role, _CHAT_TYPES)
    for place, call in enumerate(listed(message.get("tool_calls"), f"{path}.tool_calls")):
        yield block_of(level, f"{path}.tool_calls[{place}]", index, role, "call", call)
    yield from _other_blocks(message, path, index, level, role, _OWN_FIELDS | {"tool_calls", *_REASONING})


CHAT_BODY = BodyReader(
    endpoint="openai_chat",
    is_body=lambda fields: "messages" in fields,
    message_field="messages",
    block_fields=frozenset({"tools", "messages"}),
    head_blocks=tool_blocks,
    message_blocks=_chat_blocks,
    has_system_messages=True,
)

# Responses
# -------------------------------------------------------------------------------------------------------------------

_RESPONSES_TYPES = {
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "text",
    "input_image": "image",
    "input_file": "document",
    "reasoning": "thinking",
}


def _responses_head(fields: Mapping[str, Json]) -> Iterator[Block]:
    yield from tool_blocks(fields)
    yield from content_blocks("system", fields.get("instructions"), "instructions", -1, "system", _RESPONSES_TYPES)


def _item_blocks(item: Json, index: int, level: Level) -> Iterator[Block]:
    path = f"input[{index}]"
    fields = mapped(item, path)
    kind = fields.get("type") or ("message" if "role" in fields else "item_reference")
    role = str(fields.get("role", ""))
    if kind != "message":
        return iter((block_of(level, path, index, role or "item", type_in({"type": kind}, _RESPONSES_TYPES), fields),))
    return _marked(_item_fields(fields, path, index, level, role), fields)


def _item_fields(message: Mapping[str, Json], path: str, index: int, level: Level, role: str) -> Iterator[Block]:
    yield from content_blocks(level, message.get("content"), f"{path}.content", index, role, _RESPONSES_TYPES)
    yield from _other_blocks(message, path, index, level, role, _OWN_FIELDS)


def _is_responses_body(fields: Mapping[str, Json]) -> bool:
    if "messages" in fields:
        return False
    value = fields.get("input")
    if isinstance(value, list):
        return all(isinstance(item, dict) for item in value)
    return isinstance(value, str) and "embed" not in str(fields.get("model"))


RESPONSES_BODY = BodyReader(
    endpoint="openai_responses",
    is_body=_is_responses_body,
    message_field="input",
    block_fields=frozenset({"tools", "instructions", "input"}),
    head_blocks=_responses_head,
    message_blocks=_item_blocks,
    has_system_messages=True,
)
