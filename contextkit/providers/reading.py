"""The table of wire shapes: where each keeps tools, system text and messages, and how it spells blocks and markers.

Takes a parsed request body, gives its blocks; recognises a wire by the body's own keys. Knows nothing of files, models
or rules. Field names: anthropic.types 2.11, openai.types 3.52, google-genai 3.4 types, botocore 1.44 bedrock-runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
    text_of,
    tool_blocks,
    type_in,
)
from contextkit.prompt.normal_form import MARKERS
from contextkit.providers.anthropic.blocks import is_billing_header

__all__ = ["SHAPES", "Shape", "n_head", "params_of", "shape_of", "text_of"]

_HEAD_ROLES = ("system", "developer")  # a tuple: a role may be anything, also what has no hash
_SPEAK_CHAT = ("openai", "openrouter", "litellm")
"""Providers that take Chat bodies for Claude too."""
_MESSAGE_KEYS = frozenset({"role", "content", "type", "id", "status", *MARKERS})
"""Of a message: what is no block of its own. Ids and states of replayed output messages are not rendered."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One wire."""

    wire: str
    """Its name."""
    is_it: Callable[[Mapping[str, Json]], bool]
    """Whether a body speaks it; asked in the order of `SHAPES`."""
    array: str
    """Field that holds the messages."""
    taken: frozenset[str]
    """Fields whose content is blocks."""
    head: Callable[[Mapping[str, Json]], Iterator[Block]]
    """Blocks of tools and system that stand in fields of their own."""
    message: Callable[[Json, int, Level], Iterator[Block]]
    """Blocks of one message: its value, index and level."""
    has_system_messages: bool = False
    """Whether system text opens the array of messages."""
    is_framed: bool = True
    """Whether two neighbouring messages of one role differ from one message of both."""


def shape_of(fields: Mapping[str, Json], hint: str) -> Shape | None:
    """The wire of a body, None where it is no model call; `hint` (provider and model) decides where the keys do not."""
    is_claude = "claude" in hint and not hint.startswith(_SPEAK_CHAT)
    if (
        is_claude
        and "messages" in fields
        and "max_tokens" in fields
        and not _speaks_chat(fields)
        and not _is_bedrock(fields)
    ):
        return SHAPES["anthropic_messages"]
    return next((shape for shape in SHAPES.values() if shape.is_it(fields)), None)


def n_head(shape: Shape, messages: list[Json]) -> int:
    """How many leading messages are system text."""
    if not shape.has_system_messages:
        return 0
    return next(
        (i for i, one in enumerate(messages) if not isinstance(one, dict) or one.get("role") not in _HEAD_ROLES),
        len(messages),
    )


# Anthropic
# ----------------------------------------------------------------------------------------------------------------

_ANTHROPIC = {
    "tool_use": "call",
    "server_tool_use": "call",
    "tool_result": "result",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
}
_BILLING_HEADER = b'"x-anthropic-billing-header"'
"""The bytes of every billing header: what it says is no part of the prompt (`providers/anthropic/blocks.py`)."""
_ANTHROPIC_ONLY = ("system", "anthropic_version", "stop_sequences", "mcp_servers", "anthropic_beta")


def _anthropic_head(fields: Mapping[str, Json]) -> Iterator[Block]:
    yield from tool_blocks(fields)
    for block in content_blocks("system", fields.get("system"), "system", -1, "system", _ANTHROPIC):
        yield replace(block, body=_BILLING_HEADER) if is_billing_header(block.value) else block


def _anthropic_message(message: Json, index: int, level: Level) -> Iterator[Block]:
    said = mapped(message, f"messages[{index}]")
    return content_blocks(
        level, said.get("content"), f"messages[{index}].content", index, str(said.get("role", "")), _ANTHROPIC
    )


def _is_anthropic(fields: Mapping[str, Json]) -> bool:
    if not isinstance(fields.get("messages"), list) or _speaks_chat(fields):
        return False
    has_schemas = any(isinstance(tool, dict) and "input_schema" in tool for tool in _items(fields.get("tools")))
    return (
        has_schemas
        or any(name in fields for name in _ANTHROPIC_ONLY)
        or any(part in _ANTHROPIC for part in _part_types(fields))
    )


def _speaks_chat(fields: Mapping[str, Json]) -> bool:
    said = [one for one in _items(fields.get("messages")) if isinstance(one, dict)]
    opens_with_system = bool(said) and said[0].get("role") in _HEAD_ROLES
    return opens_with_system or any(one.get("role") == "tool" or "tool_calls" in one for one in said)


def _parts(fields: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for one in _items(fields.get("messages")):
        yield from (
            part for part in _items(one.get("content") if isinstance(one, dict) else None) if isinstance(part, dict)
        )


def _items(value: Json) -> list[Json]:
    """An array, nothing for anything else: a guess may look where no array is."""
    return value if isinstance(value, list) else []


def _part_types(fields: Mapping[str, Json]) -> Iterator[str]:
    return (str(part.get("type")) for part in _parts(fields))


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


# Bedrock Converse
# ---------------------------------------------------------------------------------------------------------

_BEDROCK = {
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
_BEDROCK_ONLY = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig")


def _bedrock_head(fields: Mapping[str, Json]) -> Iterator[Block]:
    config = fields.get("toolConfig")
    tools = listed(config.get("tools"), "toolConfig.tools") if isinstance(config, dict) else []
    named = (
        block_of("tools", f"toolConfig.tools[{i}]", -1, name_in(tool, "toolSpec"), "tool", tool)
        for i, tool in enumerate(tools)
    )
    yield from _points(named)
    yield from _points(content_blocks("system", fields.get("system"), "system", -1, "system", _BEDROCK))


def _bedrock_message(message: Json, index: int, level: Level) -> Iterator[Block]:
    said = mapped(message, f"messages[{index}]")
    return _points(
        content_blocks(
            level, said.get("content"), f"messages[{index}].content", index, str(said.get("role", "")), _BEDROCK
        )
    )


def _points(blocks: Iterator[Block]) -> Iterator[Block]:
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


def _is_bedrock(fields: Mapping[str, Json]) -> bool:
    if not isinstance(fields.get("messages"), list):
        return False
    return any(name in fields for name in _BEDROCK_ONLY) or any(
        "type" not in part and _BEDROCK.keys() & part for part in _parts(fields)
    )


def _none(fields: Mapping[str, Json]) -> Iterator[Block]:
    return iter(())


SHAPES: Mapping[str, Shape] = {
    shape.wire: shape
    for shape in (
        Shape(
            "gemini",
            lambda fields: "contents" in fields,
            "contents",
            frozenset({"tools", "systemInstruction", "system_instruction", "contents"}),
            _gemini_head,
            _gemini_content,
        ),
        Shape(
            "bedrock_converse",
            _is_bedrock,
            "messages",
            frozenset({"system", "messages"}),
            _bedrock_head,
            _bedrock_message,
            is_framed=False,
        ),
        Shape(
            "openai_responses",
            _is_responses,
            "input",
            frozenset({"tools", "instructions", "input"}),
            _responses_head,
            _responses_item,
            has_system_messages=True,
        ),
        Shape(
            "anthropic_messages",
            _is_anthropic,
            "messages",
            frozenset({"tools", "system", "messages"}),
            _anthropic_head,
            _anthropic_message,
            is_framed=False,
        ),
        Shape(
            "openai_chat",
            lambda fields: "messages" in fields,
            "messages",
            frozenset({"tools", "messages"}),
            tool_blocks,
            _chat_message,
            has_system_messages=True,
        ),
    )
}
"""Wire → its shape, in the order they are tried: Chat is what any other body with messages is."""


def params_of(shape: Shape, fields: Mapping[str, Any]) -> dict[str, Json]:
    """Top-level fields that are not blocks; what stands beside Bedrock's tools is one."""
    params = {name: value for name, value in fields.items() if name not in shape.taken}
    config = params.get("toolConfig")
    if isinstance(config, dict) and "tools" in config:
        params["toolConfig"] = {name: value for name, value in config.items() if name != "tools"}
    return params
