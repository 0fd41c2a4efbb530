"""What an agent's transcript says, in neutral words: the types the readers of transcripts give.

Turns and their parts in order, times and bills as they were recorded. Knows nothing of any file format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contextkit.cache.usage import Usage
from contextkit.canonical import Json


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str
    """As they stand."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture."""

    media_type: str
    """`image/png`, …"""
    data: str
    """Base64."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that the model returned."""

    text: str
    """As it was shown."""
    signature: str
    """The provider's seal; empty where the reply was cut before it came."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    id: str
    """What its result answers to."""
    name: str
    """The tool."""
    arguments: Json
    """As the model wrote them; those of a cut reply are what had arrived."""


Part = Text | Image | Thinking | Call
Stop = Literal["done", "calls", "truncated", "aborted", "error"]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user turn, or a command the user ran beside the model."""

    at: float
    """Seconds since 1970."""
    parts: tuple[Part, ...]
    """Text and images."""


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """One model call and what came back."""

    started_at: float
    """When the request started."""
    ended_at: float
    """When the reply was complete, or given up."""
    provider: str
    """`anthropic`, …"""
    model: str
    """As asked."""
    parts: tuple[Part, ...]
    """In the order they came."""
    stop: Stop
    """How it ended."""
    error: str | None
    """The provider's or the agent's words, None where it ended well."""
    usage: Usage | None
    """The bill; None where all counters are 0, as no call costs nothing."""
    billed_usd: float | None = None
    """Dollars that the agent says it cost; None where it says none."""


@dataclass(frozen=True, slots=True)
class ToolResultTurn:
    """The answer to a tool call."""

    at: float
    """Seconds since 1970."""
    call_id: str
    """Which call."""
    name: str
    """The tool."""
    parts: tuple[Part, ...]
    """Text and images."""
    is_error: bool
    """Whether the tool failed."""


@dataclass(frozen=True, slots=True)
class EffortChanged:
    """From here on the model thinks more, or less."""

    at: float
    """Seconds since 1970."""
    level: str
    """`off`, `minimal`, `low`, `medium`, `high`, …"""


@dataclass(frozen=True, slots=True)
class ModelChanged:
    """From here on another model is asked."""

    at: float
    """Seconds since 1970."""
    provider: str
    """Whose."""
    model: str
    """Which."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """History was replaced by a summary and what followed `keep_from`."""

    at: float
    """Seconds since 1970."""
    summary: str
    """What now stands for the rest."""
    keep_from: int | None
    """Index in `Recording.events` of the first event that is still sent; None where none is."""
    tokens_before: int
    """Size of the prompt before, as pi counted it."""


Event = UserTurn | AssistantTurn | ToolResultTurn | EffortChanged | ModelChanged | Compacted


@dataclass(frozen=True, slots=True)
class Recording:
    """One session."""

    session: str
    """Its id."""
    effort: str
    """Thinking level at the start."""
    branched_from: str | None
    """File it was copied from, None for a session of its own."""
    events: tuple[Event, ...]
    """What happened, in the order of the file; of a session that branches, on the path from its root to its last entry.
    """
    n_calls_elsewhere: int = 0
    """Model calls on its other branches, which are not among the events."""
