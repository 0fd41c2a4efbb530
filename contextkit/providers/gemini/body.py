"""Where a generateContent body keeps its blocks. Field names: google.genai.types 3.4, in both spellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.prompt.block import Block, Level, block_of, content_blocks, listed, mapped, name_in
from contextkit.providers.codec import BodyReader

_TYPES = {
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
_SYSTEM = ("systemInstruction", "system_instruction")


def _head_blocks(fields: Mapping[str, Json]) -> Iterator[Block]:
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        for name, value in mapped(tool, f"tools[{index}]").items():
            yield from _tool_blocks(f"tools[{index}].{name}", name, value)
    name = next((name for name in _SYSTEM if name in fields), "")
    instruction = fields.get(name)
    parts = instruction.get("parts") if isinstance(instruction, dict) else instruction
    yield from content_blocks("system", parts, f"{name}.parts", -1, "system", _TYPES)


def _tool_blocks(path: str, name: str, value: Json) -> Iterator[Block]:
    if name not in _DECLARATIONS:
        yield block_of("tools", path, -1, name, "tool", {name: value})
        return
    for index, declaration in enumerate(listed(value, path)):
        yield block_of("tools", f"{path}[{index}]", -1, name_in(declaration), "tool", declaration)


def _content_blocks(content: Json, index: int, level: Level) -> Iterator[Block]:
    path = f"contents[{index}]"
    fields = mapped(content, path)
    role = str(fields.get("role", "user"))
    return content_blocks(level, fields.get("parts"), f"{path}.parts", index, role, _TYPES)


BODY = BodyReader(
    endpoint="gemini",
    is_body=lambda fields: "contents" in fields,
    message_field="contents",
    block_fields=frozenset({"tools", "contents", *_SYSTEM}),
    head_blocks=_head_blocks,
    message_blocks=_content_blocks,
)
