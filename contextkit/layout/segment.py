"""The pieces a prompt is cut into.

A *piece* is what an adapter says about one block, one message or one tool; a *segment* is that piece in its place on
the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["tools", "system", "messages"]
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
"""The order every provider renders a prompt in; what changes on one level invalidates it and those behind it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One block before it has a place."""

    level: Level
    """Where it belongs."""
    role: str
    """Who speaks; `""` for a block that continues the message of the piece before (tools and system blocks always)."""
    body: bytes
    """The block in the wire's normal form, without markers."""
    n_tokens: int
    """Its size; the frame of a message it opens included."""
    run: str = ""
    """Pieces of one non-empty run share a lookback position, by the wire's rule (`tool_use`, `tool_result`, …)."""
    opener: bytes = b""
    """What opens its message on the wire, `{"role":"user","content":[`; empty where `body` is the whole message."""
    closer: bytes = b""
    """What closes that message."""
    is_markable: bool = True
    """Whether a breakpoint may stand on it (just before the last byte of `body`)."""
    is_thinking: bool = False
    """Whether some models strip it when a new user turn arrives."""
    is_turn: bool = False
    """Whether it is (part of) a new user turn, as opposed to a tool result."""
    flags: tuple[str, ...] = ()
    """Facts about it that some provider keys a whole level on: `image`, `citations`, a server tool's name."""
    is_silent: bool = False
    """Whether it stands on the wire without entering the key of its own level (it enters through its flags)."""
    is_passing: bool = False
    """Whether it leaves the prompt, and not the wire, when a user message follows."""
    entry: int = -1
    """Sequence of the log entry it comes from, -1 for none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece in its place."""

    entry: int
    """Sequence of the log entry it comes from, -1 for none."""
    level: Level
    """tools, system or messages."""
    role: str
    """Who speaks; `""` for a block that continues a message."""
    lead: bytes
    """What stands before the body on the wire: brackets the segment before left open, commas, the opening of a message.
    """
    body: bytes
    """The block in the wire's normal form."""
    n_tokens: int
    """Its size as the cache counts it: 0 once a model has stripped it."""
    position: int
    """Its lookback position."""
    mark_at: int | None
    """Offset in `body` where a marker is spliced in, None where none may stand."""
