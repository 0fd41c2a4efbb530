"""Where OpenAI Chat, OpenAI Responses and Gemini bodies keep their blocks.

Field names: openai.types 3.52, google-genai 3.4 types.
"""

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
    name_in,
    tool_blocks,
    type_in,
)
from contextkit.prompt.normal_form import MARKERS
from contextkit.providers.codec import BodyReader

_MESSAGE_KEYS = frozenset({"role", "content", "type", "id", "status", *MARKERS})
"""Of a message: what is no block of its own. Ids and states of replayed output messages are not rendered."""

# OpenAI Chat
# --------------------------------------------------------------------------------------------------------------

_CHAT = {"text": "text", "image_url": "image", "file": "document", "refusal": "text"}
_THOUGHT = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


def _chat_message(message: Json, index: int, level: Level) -> Iterator[Block]:
    path = f"messages[{index}]"
    said = mapped(message, path)
    role = str(said.get("role", ""))
    if role == "tool":
        return iter((block_of(level, path, index, role, "result", said),))
    return _marked_last(_chat_fields(said, path, index, level, role), said)


def _chat_fields(said: Mapping[str, Json], path: str, index: int, level: Level, role: str) -> Iterator[Block]:
    """Thinking, then words, then calls, then whatever else it says, each a block."""
    for key in _THOUGHT:
        if said.get(key) is not None:
            yield block_of(level, f"{path}.{key}", index, role, "thinking", said[key])
    yield from content_blocks(level, said.get("content"), f"{path}.content", index, role, _CHAT)
    for place, call in enumerate(listed(said.get("tool_calls"), f"{path}.tool_calls")):
        yield block_of(level, f"{path}.tool_calls[{place}]", index, role, "call", call)
    for key in sorted(said.keys() - _MESSAGE_KEYS - {"tool_calls", *_THOUGHT}):
        if said[key] is not None:
            yield block_of(level, f"{path}.{key}", index, role, key, said[key])


def _marked_last(blocks: Iterator[Block], said: Mapping[str, Json]) -> Iterator[Block]:
    """A marker on the message itself stands on its last block."""
    marker = next((said[name] for name in sorted(MARKERS) if said.get(name) is not None), None)
    if marker is None:
        return blocks
    found = list(blocks)
    return iter([*found[:-1], *(replace(last, marker=marker_in(marker)) for last in found[-1:])])


# OpenAI Responses
# ---------------------------------------------------------------------------------------------------------

_RESPONSES = {
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
    yield from content_blocks("system", fields.get("instructions"), "instructions", -1, "system", _RESPONSES)


def _responses_item(item: Json, index: int, level: Level) -> Iterator[Block]:
    path = f"input[{index}]"
    said = mapped(item, path)
    kind, role = said.get("type") or ("message" if "role" in said else "item_reference"), str(said.get("role", ""))
    if kind != "message":
        return iter((block_of(level, path, index, role or "item", type_in({"type": kind}, _RESPONSES), said),))
    return _marked_last(_responses_fields(said, path, index, level, role), said)


def _responses_fields(said: Mapping[str, Json], path: str, index: int, level: Level, role: str) -> Iterator[Block]:
    yield from content_blocks(level, said.get("content"), f"{path}.content", index, role, _RESPONSES)
    for key in sorted(said.keys() - _MESSAGE_KEYS):
        if said[key] is not None:
            yield block_of(level, f"{path}.{key}", index, role, key, said[key])


def _is_responses(fields: Mapping[str, Json]) -> bool:
    given = fields.get("input")
    is_items = isinstance(given, list) and all(isinstance(item, dict) for item in given)
    return "messages" not in fields and (
        is_items or (isinstance(given, str) and "embed" not in str(fields.get("model")))
    )


# Gemini
# -------------------------------------------------------------------------------------------------------------------

_GEMINI = {
    "thought": "thinking",
    "text": "text",
    "inlineData": "image",
    "inline_data": "image",
    "fileData": "document",
    "file_data": "document",
    "functionCall": "call",
    "function_call": "call",
    "functionResponse": "result",
    "function_response": "result",
    "thoughtSignature": "text",
}
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def _gemini_head(fields: Mapping[str, Json]) -> Iterator[Block]:
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        for key, value in mapped(tool, f"tools[{index}]").items():
            yield from _gemini_tools(f"tools[{index}].{key}", key, value)
    name = next((name for name in ("systemInstruction", "system_instruction") if name in fields), "")
    said = fields.get(name)
    content = said.get("parts") if isinstance(said, dict) else said
    yield from content_blocks("system", content, f"{name}.parts", -1, "system", _GEMINI)


def _gemini_tools(path: str, key: str, value: Json) -> Iterator[Block]:
    if key not in _DECLARATIONS:
        yield block_of("tools", path, -1, key, "tool", {key: value})
        return
    for index, declared in enumerate(listed(value, path)):
        yield block_of("tools", f"{path}[{index}]", -1, name_in(declared), "tool", declared)


def _gemini_content(content: Json, index: int, level: Level) -> Iterator[Block]:
    said = mapped(content, f"contents[{index}]")
    return content_blocks(
        level, said.get("parts"), f"contents[{index}].parts", index, str(said.get("role", "user")), _GEMINI
    )


CHAT_BODY = BodyReader(
    endpoint="openai_chat",
    is_body=lambda fields: "messages" in fields,
    message_field="messages",
    block_fields=frozenset({"tools", "messages"}),
    head_blocks=tool_blocks,
    message_blocks=_chat_message,
    has_system_messages=True,
)
RESPONSES_BODY = BodyReader(
    endpoint="openai_responses",
    is_body=_is_responses,
    message_field="input",
    block_fields=frozenset({"tools", "instructions", "input"}),
    head_blocks=_responses_head,
    message_blocks=_responses_item,
    has_system_messages=True,
)
GEMINI_BODY = BodyReader(
    endpoint="gemini",
    is_body=lambda fields: "contents" in fields,
    message_field="contents",
    block_fields=frozenset({"tools", "systemInstruction", "system_instruction", "contents"}),
    head_blocks=_gemini_head,
    message_blocks=_gemini_content,
)
