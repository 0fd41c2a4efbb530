"""The table of causes: what can be seen in two neighbouring calls that explains why the second read less.

Takes what is known of a call, of the one before it and of their lane; gives evidence or None, one function a cause. The
order of `CAUSES` is the order they are asked in: what changed the prompt comes before what time or timing did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.layout.segment import LEVELS
from contextkit.ledger.exchange import Exchange, Outline
from contextkit.models import Model

DEFAULT_TTL_SECONDS, LONG_TTL_SECONDS = 300, 3600
"""Assumed where neither the prompt nor the model table says; the second for lanes that were billed long writes
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""

Cause = Literal[
    "below_minimum",
    "first_write",
    "model_changed",
    "compaction",
    "params_changed",
    "tools_changed",
    "system_changed",
    "messages_changed",
    "ttl_expired",
    "cold_fan_out",
    "out_of_reach",
    "aborted",
    "unknown",
]

NOTHING_SAID: Mapping[Cause, str] = MappingProxyType({})
"""Where nobody remarked anything."""

Evidence = tuple[str, bool]
"""Where, and whether it was recorded rather than assumed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a prefix that a call may have left in the cache."""

    segment: int
    """Index of its last segment."""
    digest: bytes
    """Running digest there."""
    position: int
    """Lookback position there."""
    n_tokens: int
    """Its size."""
    ttl_seconds: int | None
    """Lifetime; None where the prompt names no breakpoints, and the end of the prompt stands in for one."""


@dataclass(frozen=True, slots=True)
class Call:
    """What must be kept of a call to judge the next one; prompts are borrowed, so their facts are copied."""

    exchange: Exchange
    """The row."""
    usage: Usage
    """Its bill, every part of the prompt known."""
    prompt_tokens: int
    """Size of the prompt, as billed."""
    outline: Outline | None
    """Its prompt, as a difference; None where it was not recorded."""
    namespaces: tuple[bytes, ...]
    """Of the prompt; empty where it was not recorded."""
    n: int
    """Its segments."""
    marks: tuple[Mark, ...]
    """What it may have left readable, in rising order."""

    @property
    def began_at(self) -> float | None:
        """When its writes became readable, the end standing in for an unknown beginning."""
        return self.exchange.ended_at if self.exchange.first_byte_at is None else self.exchange.first_byte_at


@dataclass(slots=True)
class Lane:
    """What one lane has shown so far."""

    before: Call | None = None
    """The last call with a bill."""
    high_tokens: int = 0
    """High-water mark of what is in the cache; starts again after a miss or a shorter prompt."""
    kept: int = 0
    """Leading segments unchanged since `before`."""
    unbilled: int = 0
    """Calls without a bill since `before`: they may have kept the cache warm, or not."""
    is_long: bool = False
    """Whether long writes were billed."""
    entries: list[int] = field(default_factory=list)
    """Log sequence of each segment."""
    said: Mapping[Cause, str] = field(default_factory=lambda: NOTHING_SAID)
    """Causes that were remarked since `before`, with the words."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A call beside the one before it."""

    lane: Lane
    """Where both stand."""
    before: Call
    """The last call with a bill."""
    now: Call
    """The call that is judged."""
    prompt: Prompt | None
    """What `now` sent."""
    row: Model | None
    """The model table on `now`."""
    place: str = ""
    """Where the two bodies first differ, where they were recorded: `messages[4] byte 812`."""
    is_whole: bool = False
    """Whether bodies were compared, which hold all that was sent."""


def call_of(exchange: Exchange, usage: Usage, prompt: Prompt | None) -> Call:
    """The facts of one call, copied out of its borrowed prompt."""
    outline = exchange.prompt if isinstance(exchange.prompt, Outline) else None
    size = usage.prompt or 0
    if prompt is None or not prompt.n:
        return Call(exchange, usage, size, outline, (), 0, ())
    return Call(exchange, usage, size, outline, prompt.namespaces, prompt.n, _marks(prompt))


def _marks(prompt: Prompt) -> tuple[Mark, ...]:
    ends: list[tuple[int, int | None]] = [
        (mark.segment, mark.ttl_seconds) for mark in prompt.breakpoints if mark.is_written
    ]
    ends = ends or [(prompt.n - 1, None)]
    return tuple(Mark(i, prompt.digests[i], prompt.positions[i], prompt.ends_tokens[i], ttl) for i, ttl in ends)


def _model_changed(pair: Pair) -> Evidence | None:
    was, now = pair.before.exchange, pair.now.exchange
    is_same = (was.provider, was.model) == (now.provider, now.model)
    return None if is_same else (f"{was.provider}/{was.model} → {now.provider}/{now.model}", True)


def _compaction(pair: Pair) -> Evidence | None:
    was, now = pair.before.outline, pair.now.outline
    said = pair.lane.said.get("compaction")
    sizes = f"prompt {pair.before.prompt_tokens:,} → {pair.now.prompt_tokens:,} tokens"
    if was is None or now is None or was.epoch == now.epoch:
        return (f"{said}, {sizes}", True) if said else None
    return f"epoch {was.epoch} → {now.epoch}, {sizes}", True


def _params_changed(pair: Pair) -> Evidence | None:
    levels = zip(LEVELS, pair.before.namespaces, pair.now.namespaces, strict=False)
    level = next((level for level, was, now in levels if was != now), None)
    if level:
        return f"{level}: a request setting outside the prompt's text", True
    said = pair.lane.said.get("params_changed")
    return (said, True) if said else None


def _text_changed(level: int) -> Callable[[Pair], Evidence | None]:
    def ask(pair: Pair) -> Evidence | None:
        segment = first_change(pair)
        if segment is None or _level(pair, segment) != level:
            return None
        if pair.place:
            return pair.place, True
        entry = pair.lane.entries[segment] if segment < len(pair.lane.entries) else -1
        place = f"{LEVELS[level]} segment {segment}"
        return (f"{place}, entry {entry}" if entry >= 0 else place), True

    return ask


def first_change(pair: Pair) -> int | None:
    """Index of the first segment that is not what it was, None where all that was cached is still there.

    A change behind the last breakpoint was never in the cache, and is none here.
    """
    prompt = pair.prompt
    if prompt is None or not pair.before.marks:
        return None
    last = pair.before.marks[-1]
    if prompt.n > last.segment and prompt.digests[last.segment] == last.digest:
        return None
    return pair.lane.kept


def _level(pair: Pair, segment: int) -> int:
    """The level it stands on in either prompt, the earlier one where they differ: a tool put behind the tools moves all
    the rest.
    """
    ends = [(call.outline.level_ends, call.n) for call in (pair.before, pair.now) if call.outline]
    return min((segment >= tools) + (segment >= system) for (tools, system), n in ends if segment < n)


def _ttl(pair: Pair) -> tuple[int, bool]:
    """Lifetime of what the lane left in the cache, and whether it was recorded."""
    recorded = pair.before.marks[-1].ttl_seconds if pair.before.marks else None
    if recorded is not None:
        return recorded, True
    if pair.row:
        return (pair.row.ttls_seconds[-1] if pair.lane.is_long else pair.row.default_ttl_seconds), False
    return (LONG_TTL_SECONDS if pair.lane.is_long else DEFAULT_TTL_SECONDS), False


def _gap(pair: Pair) -> float:
    """From start to start: a lifetime counts from the start of the request that wrote or read."""
    return pair.now.exchange.at - pair.before.exchange.at


def _ttl_expired(pair: Pair) -> Evidence | None:
    gap, (ttl, is_recorded) = _gap(pair), _ttl(pair)
    shown = f"{gap:.1f}" if int(gap) == ttl else f"{int(gap)}"
    return (f"gap {shown} s > {ttl} s", is_recorded and not pair.lane.unbilled) if gap > ttl else None


def not_yet(call: Call, now: Call) -> Evidence | None:
    """Whether `now` started before `call` began to answer, so that it could not read what `call` wrote."""
    if call.began_at is None or now.exchange.at >= call.began_at:
        return None
    early = call.began_at - now.exchange.at
    return (
        f"started {early:.1f} s before the response of {call.exchange.id!r} began",
        call.exchange.first_byte_at is not None,
    )


def _cold_fan_out(pair: Pair) -> Evidence | None:
    return not_yet(pair.before, pair.now)


def _out_of_reach(pair: Pair) -> Evidence | None:
    if pair.prompt is None or not pair.before.marks or pair.before.marks[-1].ttl_seconds is None:
        return None
    last, positions = pair.before.marks[-1], pair.prompt.positions
    behind = [
        (positions[mark.segment] - last.position, mark.lookback)
        for mark in pair.prompt.breakpoints
        if mark.segment >= last.segment
    ]
    if not behind:
        return f"no breakpoint at or behind segment {last.segment}, up to which the call before was cached", True
    if any(distance < lookback for distance, lookback in behind):
        return None
    distance, lookback = min(behind)
    return f"{distance} positions behind the last breakpoint, a lookup visits {lookback}", True


def _aborted(pair: Pair) -> Evidence | None:
    call = pair.before
    has_begun = call.exchange.first_byte_at is not None or bool(call.usage.output)
    return (
        None
        if call.exchange.error is None or has_begun
        else (f"{call.exchange.id!r} ended before its response began", False)
    )


CAUSES: tuple[tuple[Cause, Callable[[Pair], Evidence | None]], ...] = (
    ("model_changed", _model_changed),
    ("compaction", _compaction),
    ("params_changed", _params_changed),
    ("tools_changed", _text_changed(0)),
    ("system_changed", _text_changed(1)),
    ("messages_changed", _text_changed(2)),
    ("ttl_expired", _ttl_expired),
    ("cold_fan_out", _cold_fan_out),
    ("out_of_reach", _out_of_reach),
    ("aborted", _aborted),
)
"""Asked from the top; the first that has evidence is the cause."""


def nothing_visible(pair: Pair) -> str:
    """What can be said of a miss that nothing explains."""
    gap, (ttl, _) = _gap(pair), _ttl(pair)
    if pair.prompt and pair.before.outline:
        intact = (
            "prefix intact"
            if pair.is_whole or pair.prompt.level_ends[1]
            else "messages intact, tools and system not in the record"
        )
        return f"{intact}, gap {int(gap)} s ≤ {ttl} s"
    was, now = pair.before.prompt_tokens, pair.now.prompt_tokens
    shrunk = f", and shrank from {was:,} to {now:,} tokens" if now < was else ""
    return f"the prompt was not recorded{shrunk}; gap {int(gap)} s ≤ {ttl} s"
