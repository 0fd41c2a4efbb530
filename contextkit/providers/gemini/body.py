"""Where a generateContent body keeps its blocks. Field names: google.genai.types 3.4, with and without underscores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.prompt.block import Block, listed, mapped, name_in
from contextkit.prompt.prompt import Level
from contextkit.providers.body import BodyReader, parts_of_content

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
DECLARATIONS = ("functionDeclarations", "function_declarations")
"""Field of a tool that holds functions."""
_SYSTEM = ("systemInstruction", "system_instruction")


def head_parts(fields: Mapping[str, Json]) -> Iterator[Block]:
    """Tools, the functions of each before what else it holds; then system text."""
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        path = f"tools[{index}]"
        for name, value in sorted(mapped(tool, path).items(), key=lambda item: item[0] not in DECLARATIONS):
            yield from _tool_parts(f"{path}.{name}", name, value)
    name = next((name for name in _SYSTEM if name in fields), "")
    instruction = fields.get(name)
    parts = instruction.get("parts") if isinstance(instruction, dict) else instruction
    yield from parts_of_content("system", parts, f"{name}.parts", -1, "system", _TYPES)


def _tool_parts(path: str, name: str, value: Json) -> Iterator[Block]:
    if name not in DECLARATIONS:
        yield Block("tools", path, -1, name, "tool", {name: value}, name)
        return
    for index, declaration in enumerate(listed(value, path)):
        yield Block("tools", f"{path}[{index}]", -1, name_in(declaration), "tool", declaration, name)


def message_parts(content: Json, index: int, level: Level = "messages") -> Iterator[Block]:
    """The parts of one content."""
    path = f"contents[{index}]"
    fields = mapped(content, path)
    role = str(fields.get("role") or "user")
    return parts_of_content(level, fields.get("parts"), f"{path}.parts", index, role, _TYPES)


BODY = BodyReader(
    endpoint="gemini",
    is_body=lambda fields: "contents" in fields,
    message_field="contents",
    block_fields=frozenset({"tools", "contents", *_SYSTEM}),
    head_parts=head_parts,
    message_parts=message_parts,
)
