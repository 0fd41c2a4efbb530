"""Cache entries that expired between two calls, by the lifetime their breakpoint or model has.

Takes steps, returns an `Expired`; knows no hazard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contextkit.lint.requests.breakpoints import (
    breakpoints_of,
    is_within_lookback,
    n_head,
    n_shared,
    n_tokens,
    readable_of,
)
from contextkit.lint.requests.rule import RecordedCall, Step
from contextkit.lint.requests.usage import cache_key_parameters, n_common_blocks, read_tokens, tokens_left_cached
from contextkit.prompt.block import Block

_MIN_TOKENS = 500

_READ_SHARE = 0.5
"""Share of what was there from which on it counts as read: somebody kept it warm, or the provider kept it longer."""


@dataclass(frozen=True, slots=True)
class Expired:
    """What the call before left, and time took away."""

    tokens: int
    """How much."""
    ttl_seconds: int
    """How long it lived."""
    path: str
    """Up to where it went."""
    is_in_time_from_end: bool
    """Whether the gap is within the lifetime when it is measured from the end of the answer."""


def expired(step: Step) -> Expired | None:
    """What was lost to the time between two calls; None where nothing was, or where the bill says that it was read."""
    gap = step.gap_seconds
    if gap <= _shortest(step.before) or all(sent.call.error for sent in step.earlier):
        return None  # a call that failed may have left nothing, but then what is older is over too
    expired_entry = (
        _expired_breakpoint(step, gap) if step.before.row.cache == "breakpoints" else _expired_prefix(step, gap)
    )
    if expired_entry is None or expired_entry.tokens < _MIN_TOKENS or _was_read(step):
        return None
    return expired_entry


def pause_text(step: Step) -> str:
    """The time between two calls, in words."""
    seconds = step.gap_seconds
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _shortest(sent: RecordedCall) -> int:
    return min((mark.ttl_seconds for mark in breakpoints_of(sent)), default=_ttl_seconds(sent))


_RETENTIONS = {"in_memory": 3600, "in-memory": 3600, "24h": 86_400}
"""`prompt_cache_retention` → seconds an entry is kept at most
(https://developers.openai.com/api/docs/guides/prompt-caching)."""


def _ttl_seconds(sent: RecordedCall) -> int:
    """How long a cache without markers keeps an entry: as long as was asked for, else as the model's row says."""
    return _RETENTIONS.get(str(sent.params.get("prompt_cache_retention")), sent.row.default_ttl_seconds)


def _expired_breakpoint(step: Step, gap: float) -> Expired | None:
    readable, marks = readable_of(step), breakpoints_of(step.before)
    shared = [mark for mark in marks if mark.index <= readable.best]
    over = [mark for mark in shared if mark.ttl_seconds < gap]
    alive = max((mark.index + 1 for mark in shared if mark.ttl_seconds >= gap), default=0)
    if not over or over[-1].index < alive or n_tokens(step.after, 0, over[-1].index + 1) < step.after.row.min_tokens:
        return None
    lost = over[-1]
    return Expired(
        n_tokens(step.after, alive, lost.index + 1),
        lost.ttl_seconds,
        step.before.blocks[lost.index].path,
        _is_in_time(step, lost.ttl_seconds),
    )


def _expired_prefix(step: Step, gap: float) -> Expired | None:
    """Of a cache without markers, whose lifetime is known, or whose bill shows that it is over."""
    row, end = step.before.row, n_shared(step)
    is_known = row.confidence not in ("UNSURE", "ASSUMED") or (
        read_tokens(step.after) == 0 and tokens_left_cached(step.before) > 0
    )
    tokens = n_tokens(step.after, 0, end)
    if not row.provider or not is_known or not end or tokens < max(row.min_tokens, 2 * row.granularity_tokens):
        return None
    ttl = _ttl_seconds(step.before)
    return Expired(tokens, ttl, step.before.blocks[end - 1].path, _is_in_time(step, ttl))


def _is_in_time(step: Step, ttl: int) -> bool:
    ended = step.before.call.ended_at
    return ended is not None and step.after.call.at - ended <= ttl


def _was_read(step: Step) -> bool:
    got, there = read_tokens(step.after), tokens_left_cached(step.before)
    return (
        got is not None
        and there > 0
        and got >= _READ_SHARE * min(there, n_tokens(step.after, 0, n_shared(step)) or there)
    )


def finds_entry_of(one: RecordedCall, other: RecordedCall) -> bool:
    """Return whether a later call begins with something that `one` marked, looks there, and asks with the same
    parameters.
    """
    if one.row.name != other.row.name or cache_key_parameters(one) != cache_key_parameters(other):
        return False
    shared, mine = n_common_blocks(one.blocks, other.blocks), breakpoints_of(other)
    return any(
        mark.index < shared and any(is_within_lookback(other, own.index, mark.index) for own in mine)
        for mark in breakpoints_of(one)
    )


def has_related_head(one: RecordedCall, other: RecordedCall) -> bool:
    """Return whether at least half of the smaller one's tools and system text stands in the other as well."""
    heads = [sent.blocks[: n_head(sent)] for sent in (one, other)]
    shared = {block.body for block in heads[0]} & {block.body for block in heads[1]}
    least = min(map(_n_bytes, heads))
    return least > 0 and 2 * sum(map(len, shared)) >= least


def _n_bytes(blocks: Sequence[Block]) -> int:
    return sum(len(block.body) for block in blocks)
