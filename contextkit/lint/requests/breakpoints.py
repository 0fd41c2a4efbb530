"""Cache breakpoints of recorded calls: where they are, what a lookup from them finds, how many tokens lie in between.

Takes calls and steps, returns positions and token counts; knows no hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.lint.requests.rule import Step
from contextkit.prompt.block import Block

LOOKBACK = 20
"""Positions that a lookup visits, the marker's own included:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching."""

MAX_BREAKPOINTS = 4
"""Markers that a request to Claude, Nova or Qwen may carry, the automatic one included: the same page."""

_IMAGE_TOKENS = 1500

_MEDIA = frozenset({"image", "document", "video"})

_UNMARKABLE = frozenset({"thinking"})

_GROUPED = frozenset({"call", "result"})
"""Types of which a run of neighbours is one position."""

_GROUPING_WIRES = frozenset({"anthropic_messages", "openai_chat"})

_LIFETIMES: Mapping[str, int] = {"5m": 300, "30m": 1800, "1h": 3600, "12h": 43200, "24h": 86400}

_SEEDS = 20


@dataclass(frozen=True, slots=True)
class SentBreakpoint:
    """One marker."""

    index: int
    """Of its block among all blocks of the call."""
    ttl_seconds: int
    """Lifetime it asks for."""
    path: str
    """Where it stands: its block's path with the marker's key, or the field at the top of the body."""


def has_breakpoints(sent: ParsedCall) -> bool:
    """Return whether the model caches at markers, and a request may carry four of them: Claude and Nova, not OpenAI."""
    return sent.row.cache == "breakpoints" and sent.row.provider in ("anthropic", "aws")


def breakpoints_of(sent: ParsedCall) -> tuple[SentBreakpoint, ...]:
    """Every marker of a call in cache order, the one that the provider sets by itself included."""
    if sent.row.cache != "breakpoints":
        return ()
    memoized = _BREAKPOINTS.get(id(sent.blocks))
    if memoized is not None and memoized[0] is sent.blocks and memoized[1] is sent.params:
        return memoized[2]
    breakpoints = tuple(_breakpoints(sent))
    if len(_BREAKPOINTS) >= _MAX_MEMOIZED:
        _BREAKPOINTS.clear()
    _BREAKPOINTS[id(sent.blocks)] = (sent.blocks, sent.params, breakpoints)
    return breakpoints


_BREAKPOINTS: dict[int, tuple[Sequence[Block], Mapping[str, object], tuple[SentBreakpoint, ...]]] = {}

_MAX_MEMOIZED = 64
"""Calls whose markers are remembered: several rules ask for the same ones, one call after the other."""


def _breakpoints(sent: ParsedCall) -> Iterator[SentBreakpoint]:
    automatic = _automatic_breakpoint(sent)
    for index, block in enumerate(sent.blocks):
        if block.marker is not None:
            key = (
                "cachePoint"
                if sent.endpoint == "bedrock_converse"
                else "cache_control"
                if has_breakpoints(sent)
                else "prompt_cache_breakpoint"
            )
            yield SentBreakpoint(index, ttl_seconds(sent, block.marker), f"{block.path}.{key}")
        elif automatic is not None and index == automatic.index:
            yield automatic


def _automatic_breakpoint(sent: ParsedCall) -> SentBreakpoint | None:
    """The marker that the provider puts on the last block that can carry one."""
    requested, options = sent.params.get("cache_control"), sent.params.get("prompt_cache_options")
    is_implicit = sent.row.provider == "openai" and not (
        isinstance(options, dict) and options.get("mode") == "explicit"
    )
    if requested is None and not is_implicit:
        return None
    last = next((i for i in range(len(sent.blocks) - 1, -1, -1) if can_hold_breakpoint(sent.blocks[i])), -1)
    return SentBreakpoint(
        last,
        ttl_seconds(sent, requested if isinstance(requested, dict) else {}),
        "cache_control" if requested is not None else "input",
    )


def can_hold_breakpoint(block: Block) -> bool:
    """Return whether a block can carry a marker: no thinking, no empty text."""
    return block.type not in _UNMARKABLE and not (block.type == "text" and _text(block) == "")


def _text(block: Block) -> object:
    return block.value.get("text", "-") if isinstance(block.value, dict) else block.value


def ttl_seconds(sent: ParsedCall, marker: Mapping[str, object]) -> int:
    """Seconds that a marker asks for: its own, the request's, or the model's default."""
    options = sent.params.get("prompt_cache_options")
    requested = marker.get("ttl") or (options.get("ttl") if isinstance(options, dict) else None)
    return _LIFETIMES.get(str(requested), sent.row.default_ttl_seconds)


def distance(sent: ParsedCall, start: int, end: int) -> int:
    """Positions from one block to a later one."""
    if sent.endpoint not in _GROUPING_WIRES:
        return end - start
    blocks = sent.blocks
    return sum(
        blocks[i].type not in _GROUPED or blocks[i].type != blocks[i - 1].type for i in range(start + 1, end + 1)
    )


def in_messages(sent: ParsedCall, mark: SentBreakpoint) -> bool:
    """Return whether a marker stands in the messages, not in tools or system text."""
    return sent.blocks[mark.index].level == "messages"


def n_head(sent: ParsedCall) -> int:
    """Blocks of tools and system."""
    return next((i for i, block in enumerate(sent.blocks) if block.level == "messages"), len(sent.blocks))


def n_bytes(blocks: Sequence[Block]) -> float:
    """Bytes of text, a picture counted as what it is billed rather than as what it weighs."""
    return float(
        sum(
            len(block.body) if block.type not in _MEDIA else min(len(block.body), _IMAGE_TOKENS * 4) for block in blocks
        )
    )


def estimated(sent: ParsedCall, start: int = 0, end: int | None = None) -> int:
    """Tokens of some of its blocks, by their size."""
    return int(n_bytes(sent.blocks[start:end]) / sent.row.bytes_per_token)


def n_tokens(sent: ParsedCall, start: int = 0, end: int | None = None) -> int:
    """Tokens of some of its blocks: their share of the prompt that was billed, an estimate by size where it was not."""
    billed = sent.usage.prompt if sent.usage else None
    whole = n_bytes(sent.blocks)
    if not billed or not whole:
        return estimated(sent, start, end)
    return int(billed * n_bytes(sent.blocks[start:end]) / whole)


def n_shared(step: Step) -> int:
    """Leading blocks of the call before that the later one still begins with."""
    return next(
        (change.at for change in step.changes if change.is_first), min(len(step.before.blocks), len(step.after.blocks))
    )


@dataclass(frozen=True, slots=True)
class Readable:
    """What a call can read of what was written before it."""

    shared: int
    """Leading blocks both calls have."""
    last: int
    """The last block that the call before wrote and that is still there, -1 where there is none."""
    best: int
    """The last block written by any call before that a marker of the later call finds, -1 where there is none."""


def readable_of(step: Step) -> Readable:
    """How far the later call can read, time left out."""
    memoized = next(iter(_READABLE), None)
    if memoized is not None and memoized[0] is step:
        return memoized[1]
    shared = n_shared(step)
    written = sorted({*_entries(step, shared)})
    last = max((mark.index for mark in breakpoints_of(step.before) if mark.index < shared), default=-1)
    readable = Readable(shared, last, _last_readable(step.after, written))
    _READABLE[:] = [(step, readable)]
    return readable


_READABLE: list[tuple[Step, Readable]] = []
"""The step asked for last: several rules ask for it."""


def _entries(step: Step, shared: int) -> Iterator[int]:
    """Blocks at which a call before wrote an entry that the later call still begins with."""
    blocks = step.before.blocks
    for sent in (*step.earlier[-_SEEDS:-1], step.before):
        for mark in breakpoints_of(sent):
            if mark.index < shared and sent.blocks[mark.index].body == blocks[mark.index].body:
                yield mark.index


def _last_readable(sent: ParsedCall, written: Sequence[int]) -> int:
    marks = [mark.index for mark in breakpoints_of(sent)]
    return next(
        (entry for entry in reversed(written) if any(is_within_lookback(sent, mark, entry) for mark in marks)), -1
    )


def is_within_lookback(sent: ParsedCall, mark: int, entry: int) -> bool:
    """Return whether a lookup from a marker comes by an entry; OpenAI's goes by breakpoints and knows no window of
    blocks.
    """
    return entry <= mark and (sent.row.provider == "openai" or distance(sent, entry, mark) < LOOKBACK)


def was_breakpoint(step: Step, index: int) -> bool:
    """Return whether an earlier call marked a block, or ended there."""
    body = step.after.blocks[index].body
    theirs = (sent for sent in step.earlier if index < len(sent.blocks) and sent.blocks[index].body == body)
    return any(
        index == len(sent.blocks) - 1 or any(mark.index == index for mark in breakpoints_of(sent)) for sent in theirs
    )
