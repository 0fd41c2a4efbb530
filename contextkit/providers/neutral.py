"""Neutral parts and tool definitions, as the log holds them, and their form on each endpoint.

What has no neutral form is stored verbatim; what another endpoint or model cannot express becomes text. Field names of an
endpoint come with the `Parts` and `Tools` tables of its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidTool
from contextkit.models import Model
from contextkit.prompt.normal_form import normal

JsonObject = Mapping[str, Json]
"""A block, message, tool or entry body as parsed."""


def block_text(block: Mapping[str, Json]) -> str:
    """The text of a block of another wire, or its type in brackets where it has none; a tool's definition as JSON.

    >>> block_text({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    'Be brief.'
    >>> block_text({"type": "thinking", "thinking": "…"}), block_text({"video": {"format": "mp4"}})
    ('[thinking]', '[video]')
    """
    if isinstance(block.get("parameters"), Mapping) and "name" in block:
        return _row(block)
    inside = next((block[key] for key in ("text", "content", "output") if block.get(key)), None)
    if isinstance(inside, list):
        inside = "".join(block_text(part) for part in inside if isinstance(part, dict))
    return inside if isinstance(inside, str) else _held(block)


def _held(block: Mapping[str, Json]) -> str:
    """The same of a block that is named by the key of what it holds, as Bedrock and Gemini name theirs."""
    name, held = next(((key, value) for key, value in block.items() if isinstance(value, Mapping)), ("item", {}))
    words = block_text(held) if "type" not in block and held else "["
    return f"[{block.get('type', name)}]" if words.startswith("[") else words


def reminder(text: str) -> str:
    """Text of the program in the user's turn, in a tag that separates it from the user's own.

    >>> reminder("Phase report: call no tool."), reminder("")
    ('<system>Phase report: call no tool.</system>', '')
    """
    return f"<system>{text}</system>" if text else ""


def user_content(body: Mapping[str, Json]) -> Json:
    """The content of a user message; of a system message between turns, its texts as reminders.

    >>> user_content({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    [{'type': 'text', 'text': '<system>Be brief.</system>'}]
    """
    if body.get("role") != "system":
        return body["content"]
    return [{"type": "text", "text": reminder(block_text(part.get("block", part)))} for part in body["content"]]


UNNAMED = "call#"
"""Begins the id of a call that its provider gave none (Gemini): no other wire takes a `#` in one."""


def call_id(name: str) -> str:
    """The id of a call as any endpoint accepts it.

    >>> call_id("call#0"), call_id("toolu_1")
    ('call-0', 'toolu_1')
    """
    return name.replace("#", "-") if name.startswith(UNNAMED) else name


def announcement(body: Mapping[str, Json]) -> str:
    """Late tools as text: a line for each, its definition as JSON.

    >>> print(announcement({"text": "New tools:", "definitions": [{"name": "ping", "description": "", "parameters": {}}]}))
    New tools:
    {"name":"ping","description":"","parameters":{}}
    """
    return "\n".join([body["text"], *map(_row, body["definitions"])])


def definition_for(definition: Mapping[str, Json], model: Model) -> Mapping[str, Json]:
    """The definition as `model` takes it: a function where it knows no custom tools, or cannot ask its caller for
    tools.

    >>> from contextkit.models import model_named
    >>> sql = {"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}
    >>> [list(definition_for(sql, model_named(name))) for name in ("gpt-5.2", "gpt-4o")]
    [['name', 'description', 'parameters', 'format'], ['name', 'description', 'parameters']]
    """
    is_custom, is_search = "format" in definition, is_tool_search(definition) and "instead" in definition
    if (is_custom and not model.accepts_custom_tools) or (is_search and not model.accepts_tool_search):
        return dict(zip(_FUNCTION, function_of(definition), strict=True))
    return definition


def is_tool_search(definition: Mapping[str, Json]) -> bool:
    """Return whether a definition is that of a search which the model asks its caller to run."""
    block = (definition.get("native") or {}).get("block") or {}
    return (block.get("type"), block.get("execution")) == ("tool_search", "client")


_FUNCTION = ("name", "description", "parameters")


def _row(definition: Mapping[str, Json]) -> str:
    return canonical(dict(zip(_FUNCTION, function_of(definition), strict=True))).decode()


def function_of(definition: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    """Name, description and parameters of a definition, another wire's included.

    Raises `InvalidTool` for a tool only its own provider runs.
    """
    block = definition.get("instead") or (definition["native"]["block"] if "native" in definition else definition)
    fields = block["function"] if isinstance(block.get("function"), dict) else block
    parameters = fields.get("parameters", fields.get("input_schema"))
    if parameters is None or "name" not in fields:
        raise InvalidTool(
            f"tool of type {block.get('type')!r} runs at its own provider only: leave it out or give a function"
        )
    return fields["name"], fields.get("description", ""), parameters


def _chat_custom_tool(names: Mapping[str, Json], input_format: Mapping[str, Json]) -> Json:
    """A grammar stands one level deeper than on Responses."""
    grammar = {key: value for key, value in input_format.items() if key != "type"}
    format_fields = {"type": input_format["type"], **({"grammar": grammar} if grammar else {})}
    return {"type": "custom", "custom": {**names, "format": format_fields}}


_CUSTOM_TOOLS: Mapping[str, Callable[[Mapping[str, Json], Mapping[str, Json]], Json]] = {
    "openai_chat": _chat_custom_tool,
    "openai_responses": lambda names, input_format: {"type": "custom", **names, "format": input_format},
}
"""Endpoint → (name and description, format of the input) → tool (chat/chat_completion_custom_tool_param.py,
responses/custom_tool_param.py)."""


def custom_tool(definition: Mapping[str, Json], wire: str) -> Json:
    """A definition as a custom tool; None for one that is called with named arguments, and where an endpoint has no
    custom tools.

    >>> custom_tool({"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}, "openai_responses")
    {'type': 'custom', 'name': 'sql', 'description': '', 'format': {'type': 'text'}}
    """
    if "format" not in definition or wire not in _CUSTOM_TOOLS:
        return None
    return _CUSTOM_TOOLS[wire]({key: definition[key] for key in ("name", "description")}, definition["format"])


@dataclass(frozen=True, slots=True)
class Parts:
    """Neutral parts of a message ↔ blocks of one endpoint."""

    wire: str
    """The endpoint."""
    text: Callable[[str], Json]
    """A text → its block."""
    media: Mapping[str, Callable[[Any], Json]]
    """Type of an image or document → renderer of its block."""
    candidates: Callable[[JsonObject], list[Json]]
    """Block → neutral images and documents that may render to it."""

    def blocks(self, parts: Json) -> list[Json]:
        """Neutral parts as blocks: native ones of this endpoint unchanged, those of others as text."""
        return [self.block(part) for part in parts]

    def block(self, part: JsonObject) -> Json:
        """One of them."""
        if part["type"] == "native":
            return part["block"] if part["wire"] == self.wire else self.text(block_text(part["block"]))
        return self.text(part["text"]) if part["type"] == "text" else self.media[part["type"]](part)

    def neutral(self, blocks: Json) -> list[Json]:
        """Blocks as neutral parts."""
        return [self.part(block) for block in blocks]

    def part(self, block: JsonObject) -> Json:
        """The neutral part that renders back to `block`, or the block verbatim."""
        likely = (
            [{"type": "text", "text": block["text"]}] if isinstance(block.get("text"), str) else self.candidates(block)
        )
        for part in likely:
            if normal(self.block(part)) == normal(block):
                return part
        return verbatim(self.wire, block)


@dataclass(frozen=True, slots=True)
class Tools:
    """Neutral tool definitions ↔ tools of one endpoint."""

    wire: str
    """The endpoint."""
    tool: Callable[[Any, Any, Any], Json]
    """(name, description, schema) → tool."""
    function: Callable[[JsonObject], tuple[Json, Json, Json]]
    """Tool → the same three, of whatever type they are."""

    def sent(self, definition: JsonObject) -> Json:
        """A neutral definition as it is sent: one of this endpoint's own unchanged."""
        own = definition.get("native")
        if own and own["wire"] == self.wire:
            return own["block"]
        return custom_tool(definition, self.wire) or self.tool(*function_of(definition))

    def definition(self, tool: JsonObject) -> Json:
        """The neutral definition that renders back to `tool`, or the tool verbatim."""
        name, description, schema = self.function(tool)
        if normal(self.tool(name, description, schema)) != normal(tool):
            return {"native": _native_part(self.wire, tool)}
        return {"name": name, "description": description, "parameters": schema}


def verbatim(wire: str, block: JsonObject) -> Json:
    """A block of `wire` as a native part, stored verbatim."""
    return {"type": "native", **_native_part(wire, block)}


def _native_part(wire: str, block: JsonObject) -> dict[str, Json]:
    return {"wire": wire, "block": dict(block)}
