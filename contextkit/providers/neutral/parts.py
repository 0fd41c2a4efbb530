"""Neutral parts and tools in one wire's words, and back: what comes back renders to the block it came from, or is that
block verbatim.

Takes the tables of one endpoint, gives both directions. Knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.foreign import function_of, spoken
from contextkit.providers.settings.custom import custom_tool

Block = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Parts:
    """How one endpoint spells the parts of a message."""

    wire: str
    """The endpoint."""
    text: Callable[[str], Json]
    """A text → its block."""
    media: Mapping[str, Callable[[Any], Json]]
    """Type of a picture or document → block."""
    candidates: Callable[[Block], list[Json]]
    """Block → neutral pictures and documents that might be spelled so."""

    def blocks(self, parts: Json) -> list[Json]:
        """Neutral parts as blocks: native ones of this wire stand as they are, others are said as far as they can be."""
        return [self.block(part) for part in parts]

    def block(self, part: Block) -> Json:
        """One of them."""
        if part["type"] == "native":
            return part["block"] if part["wire"] == self.wire else self.text(spoken(part["block"]))
        return self.text(part["text"]) if part["type"] == "text" else self.media[part["type"]](part)

    def neutral(self, blocks: Json) -> list[Json]:
        """Blocks as neutral parts."""
        return [self.part(block) for block in blocks]

    def part(self, block: Block) -> Json:
        """The neutral part that renders back to `block`, or the block verbatim."""
        likely = (
            [{"type": "text", "text": block["text"]}] if isinstance(block.get("text"), str) else self.candidates(block)
        )
        found = next((part for part in likely if normal(self.block(part)) == normal(block)), None)
        return verbatim(self.wire, block) if found is None else found


@dataclass(frozen=True, slots=True)
class Tools:
    """How one endpoint spells tools."""

    wire: str
    """The endpoint."""
    tool: Callable[[Any, Any, Any], Json]
    """(name, description, schema) → tool."""
    function: Callable[[Block], tuple[Json, Json, Json]]
    """Tool → the same three, whatever stands in their places."""

    def sent(self, definition: Block) -> Json:
        """A neutral definition as it is sent: one this wire wrote stands as it is."""
        own = definition.get("native")
        if own and own["wire"] == self.wire:
            return own["block"]
        return custom_tool(definition, self.wire) or self.tool(*function_of(definition))

    def definition(self, tool: Block) -> Json:
        """The neutral definition that renders back to `tool`, or the tool verbatim."""
        name, description, schema = self.function(tool)
        if normal(self.tool(name, description, schema)) != normal(tool):
            return {"native": _kept(self.wire, tool)}
        return {"name": name, "description": description, "parameters": schema}


def verbatim(wire: str, block: Block) -> Json:
    """A block of `wire`, kept verbatim as a part."""
    return {"type": "native", **_kept(wire, block)}


def _kept(wire: str, block: Block) -> dict[str, Json]:
    return {"wire": wire, "block": dict(block)}
