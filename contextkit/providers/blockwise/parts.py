"""Neutral parts as blocks that are named by their one key, and back: what is text, and what is another wire's, is the same everywhere.

Takes how one endpoint spells media, gives both directions. Knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.foreign import spoken

Block = Mapping[str, Json]


def text(said: str) -> Json:
    """Text as a block."""
    return {"text": said}


@dataclass(frozen=True, slots=True)
class Parts:
    """How one wire spells parts."""

    wire: str
    """The endpoint."""
    media: Callable[[Any], Json]
    """A picture or document → block."""
    candidates: Callable[[Block], list[Json]]
    """Block → neutral pictures and documents that might be spelled so."""

    def blocks(self, parts: Json, level: str = "messages") -> list[Json]:
        """Neutral parts as blocks; a system prompt takes text only."""
        spell = self._words if level == "system" else self._block
        return [spell(part) for part in parts]

    def part(self, block: Block) -> Json:
        """The neutral part that renders back to `block`, or the block verbatim."""
        likely = [{"type": "text", "text": block["text"]}] if isinstance(block.get("text"), str) else self.candidates(block)
        found = next((part for part in likely if normal(self._block(part)) == normal(block)), None)
        return {"type": "native", "wire": self.wire, "block": dict(block)} if found is None else found

    def _block(self, part: Block) -> Json:
        if part["type"] == "native":
            return part["block"] if part["wire"] == self.wire else text(spoken(part["block"]))
        return text(part["text"]) if part["type"] == "text" else self.media(part)

    def _words(self, part: Block) -> Json:
        has_words = part["type"] == "native" or "text" in part
        return self._block(part) if has_words else text(str(part.get("url") or f"[{part['type']}]"))
