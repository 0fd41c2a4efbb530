"""One model call: what was sent, when, what came back, what it was billed; and what is known of it beside its bill.

A trace is a list of these, whoever recorded it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import Usage

REROUTED = "upstream "
"""What a remark on a setting begins with where an aggregator moved to another host: `upstream alpha → beta`."""
OTHER_PROJECT = "project "
"""The same where the address names another project of a cloud, whose caches are apart: `project alpha → beta`."""
INFERRED_LANE = "conversation "
"""What the name of a lane begins with that nobody recorded: a reader told it from others by what its prompts say."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A prompt without its text, written as a difference to the exchange before it in the same lane: O(turn) to store."""

    keep: int
    """How many leading segments are those of the exchange before."""
    namespaces: tuple[str, str, str]
    """Hex; what besides the segments must be equal at tools, system, messages."""
    level_ends: tuple[int, int]
    """Segments in tools; in tools and system."""
    digests: tuple[str, ...]
    """Hex running digests of the segments after `keep`."""
    ends_tokens: tuple[int, ...]
    """Token ends of the segments after `keep`."""
    positions: tuple[int, ...]
    """Lookback positions of the segments after `keep`."""
    entries: tuple[int, ...]
    """Log sequence of the segments after `keep`, -1 for none."""
    breakpoints: tuple[Breakpoint, ...]
    """Where it might be written."""
    epoch: int = 0
    """How many declared breaks came before it."""
    base: str = ""
    """The first hex digits of the running digest of the last kept segment, by which a reader tells that it has the
    right ones; empty where none is kept, and in rows of older versions."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """A recorded request body, verbatim."""

    request: bytes
    """The JSON that was sent."""


@dataclass(frozen=True, slots=True)
class BlockIds:
    """A prompt as block hashes."""

    size: int
    """Tokens in a block."""
    ids: tuple[int, ...]
    """One id a block, from the front."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt as token ids, written as a difference to what the exchange before it in the same lane left: O(turn) to
    store.
    """

    keep: int
    """How many leading tokens are those of the exchange before, what it generated included."""
    ids: tuple[int, ...]
    """The prompt's token ids after `keep`."""
    generated: tuple[int, ...]
    """What the engine generated, token by token, where that is known."""
    space: str = ""
    """Hex; stands for the salt that keeps its prefixes apart from those of others; empty for none."""
    is_read_skipped: bool = False
    """Whether it asked to read nothing from the cache."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call."""

    id: str
    """The provider's id of the response, or ours where none came."""
    session: str
    """The conversation it belongs to."""
    lane: str
    """`main`, or the branch or sub-agent inside the session: calls of a lane extend one another."""
    at: float
    """When the request started, seconds since 1970."""
    first_byte_at: float | None
    """When the response began, None if unknown or never."""
    ended_at: float | None
    """When it was complete, None if unknown or never."""
    provider: str
    """`anthropic`, `openai`, …: the id prices are looked up under."""
    model: str
    """The model that was asked."""
    prompt: Outline | Bodies | BlockIds | Tokens | None
    """What was sent, as far as it is known."""
    usage: Usage | None
    """What was billed, None where nobody said."""
    predicted: Usage | None
    """What the reference cache expected."""
    error: str | None
    """Why it did not end well: `aborted`, `cut`, `overloaded_error`, …; None when it did."""


RemarkKind = Literal["verdict", "project", "agent", "caller", "repair", "compaction", "setting", "sum", "passed"]
"""verdict: the provider's own diagnosis of a call (`system_changed`); project: where a conversation was held; agent:
who a lane is; caller: `file:line` of the code that sent a call; repair: what a proxy changed in a request before
passing it on; compaction: what rewrote the history since the call before in the lane; setting: a request setting that
is another one than that call's (`effort low → high`); sum: what each row of a lane adds up, where rows are no calls, as
between two scrapes of an engine's counters; passed: what went through a proxy and is no model call it knows, in sizes
only."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One fact about an exchange, a lane or a session."""

    kind: RemarkKind
    """What it says."""
    about: str
    """Id of the exchange (verdict, caller, repair, compaction, setting), the session (project), `session/lane` (agent,
    sum), or the run of the proxy (passed)."""
    text: str
    """In as few words as it has: `system_changed`, `prompts.py:41`, `researcher`."""
