"""What each kind of layer needs of a prefix: which blocks make a hit, which are out of its reach, which are worth
keeping.

Takes keys and the map of cached ones, gives block numbers; knows nothing of the pool's queue or of requests.

Measured on vLLM 0.33.0: full attention needs every block from the front; a sliding window needs the ceil((window - 1) /
block) blocks before the hit's end, looked for from the right, and a shorter run counts where it starts at the front;
chunked attention needs the blocks of the chunk the next token falls in, and everything left of that chunk counts as
computed even where it is absent; a recurrent layer (Mamba) needs the one block that holds the state at the hit's end.
With EAGLE one more matched block is dropped, but never of a recurrent group. `retention_interval` (None keeps all, 0
what a repeated prompt would need, k one more tail every k tokens) thins sliding windows and recurrent groups. Where a
hit may end inside a block (`Search.is_partial`), full and recurrent groups look at every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

NULL = 0
"""The block that stands where none is needed."""

Kind = Literal["full", "sliding_window", "chunked_local", "mamba"]
"""How a layer attends."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that attend alike and share a block table."""

    kind: Kind = "full"
    """How they attend."""
    size: int = 16
    """Tokens in a block."""
    reach: int = 0
    """Tokens in the window, or in a chunk; 0 for full attention and recurrent layers."""
    n_drafted: int = 0
    """Blocks a recurrent group keeps for drafted tokens."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a hit may be."""

    n_tokens: int
    """It may not be longer."""
    alignment: int
    """It must be a multiple of this many tokens."""
    is_last_dropped: bool = False
    """One more block must match, and is recomputed (EAGLE)."""

    def is_partial(self, group: Group) -> bool:
        """Return whether a hit may end inside a block of this group: then there is a key every `alignment` tokens."""
        return self.alignment < group.size and group.size % self.alignment == 0


Hit = tuple[list[int], int]
"""Blocks, null where none is needed, and how many tokens they cover."""
_Find = Callable[[Group, Sequence[int], Mapping[int, int], Search], Hit]


def _aligned(group: Group, blocks: list[int], alignment: int) -> list[int]:
    while len(blocks) * group.size % alignment:
        blocks.pop()
    return blocks


def _find_full(group: Group, keys: Sequence[int], cached: Mapping[int, int], search: Search) -> Hit:
    is_partial = search.is_partial(group)
    ratio = group.size // search.alignment if is_partial else 1
    whole = keys[ratio - 1 :: ratio][: search.n_tokens // group.size]
    blocks: list[int] = list(takewhile(bool, map(cached.get, whole)))  # type: ignore[arg-type]  # no cached block is the null block
    n = len(blocks) * group.size
    if is_partial:
        first = len(blocks) * ratio
        last = min(first + ratio - 1, search.n_tokens // search.alignment, len(keys))
        inside = next((index for index in range(last - 1, first - 1, -1) if keys[index] in cached), None)
        if inside is not None:
            blocks.append(cached[keys[inside]])
            n = (inside + 1) * search.alignment
    if search.is_last_dropped and n:
        n -= min(search.alignment, group.size)
    n -= n % search.alignment
    del blocks[-(-n // group.size) :]
    return blocks, n


def _find_in_window(group: Group, keys: Sequence[int], cached: Mapping[int, int], search: Search) -> Hit:
    n = search.n_tokens // group.size
    needed = _needed(group, search.is_last_dropped)
    blocks, run = [NULL] * n, 0
    for index in range(n - 1, -1, -1):
        block = cached.get(keys[index], NULL)
        if not block:
            run = 0
            continue
        if not run and (index + (not search.is_last_dropped)) * group.size % search.alignment:
            continue
        blocks[index] = block
        run += 1
        if run >= needed:
            del blocks[index + run :]
            break
    else:
        del blocks[run:]
        _aligned(group, blocks, search.alignment)
    if search.is_last_dropped and blocks:
        blocks.pop()
        _aligned(group, blocks, search.alignment)
    return blocks, len(blocks) * group.size


def _find_in_chunk(group: Group, keys: Sequence[int], cached: Mapping[int, int], search: Search) -> Hit:
    first = search.n_tokens // group.reach * group.reach // group.size
    inside = map(cached.get, keys[first : search.n_tokens // group.size])
    found: list[int] = list(takewhile(bool, inside))  # type: ignore[arg-type]
    blocks = [NULL] * first + found
    return blocks, len(blocks) * group.size


def _find_state(group: Group, keys: Sequence[int], cached: Mapping[int, int], search: Search) -> Hit:
    unit = search.alignment if search.is_partial(group) else group.size
    for index in range(min(search.n_tokens // unit, len(keys)) - 1, -1, -1):
        n = (index + 1) * unit
        if keys[index] in cached and n % search.alignment == 0:
            return [NULL] * (index * unit // group.size) + [cached[keys[index]]], n
    return [], 0


_FINDERS: dict[Kind, _Find] = {
    "full": _find_full,
    "sliding_window": _find_in_window,
    "chunked_local": _find_in_chunk,
    "mamba": _find_state,
}

_SKIPPED: dict[Kind, Callable[[int, int], int]] = {
    "full": lambda reach, computed: 0,
    "sliding_window": lambda reach, computed: max(0, computed - reach + 1),
    "chunked_local": lambda reach, computed: computed // reach * reach,
    "mamba": lambda reach, computed: max(0, computed - 1),
}
"""Kind → tokens that no later one attends to, given how many are computed."""


def find(group: Group, keys: Sequence[int], cached: Mapping[int, int], search: Search) -> Hit:
    """The blocks of the longest hit, null where the layer needs none, and its length in tokens.

    >>> find(Group("sliding_window", 2, 4), [0, 1, 2, 3], {0: 5, 2: 7, 3: 8}, Search(8, 2))
    ([0, 0, 7, 8], 8)
    """
    return _FINDERS[group.kind](group, keys, cached, search)


def skipped_tokens(group: Group, computed: int) -> int:
    """Count the leading tokens that no later token attends to."""
    return _SKIPPED[group.kind](group.reach, computed)


def n_skipped(group: Group, computed: int) -> int:
    """Count the leading blocks that no later token attends to.

    >>> n_skipped(Group("sliding_window", 2, 4), 7)
    2
    """
    return _SKIPPED[group.kind](group.reach, computed) // group.size


def _needed(group: Group, is_last_dropped: bool) -> int:
    return -(-(group.reach - 1) // group.size) + is_last_dropped


@dataclass(frozen=True, slots=True)
class Retention:
    """Which full blocks of a window, or which states, are cached."""

    interval: int | None
    """Tokens between two tails that are kept; 0 for none, None for every block a hit could use."""
    alignment: int
    """Hits are multiples of this many tokens."""
    boundaries: Sequence[int]
    """Tokens whose tail is kept: where the same prompt would be hit, and where a shared prefix ended."""
    is_last_dropped: bool
    """Whether a hit needs one more block, and recomputes it."""


def cacheable(group: Group, start: int, end: int, retention: Retention) -> Iterable[int]:
    """Return the blocks of `start`…`end` that are worth caching.

    >>> list(cacheable(Group("sliding_window", 16, 16), 0, 16, Retention(64, 16, (255,), False)))
    [3, 7, 11, 14, 15]
    """
    return _KEPT[group.kind](group, start, end, retention)


def _all_cacheable(group: Group, start: int, end: int, retention: Retention) -> Iterable[int]:
    return range(start, end)


def _cacheable_tails(group: Group, start: int, end: int, retention: Retention) -> Iterable[int]:
    needed, shift = _needed(group, retention.is_last_dropped), int(retention.is_last_dropped)
    segment = retention.alignment if retention.interval is None else retention.interval
    per_segment = segment // group.size
    if retention.alignment % group.size or (segment and needed >= per_segment):
        return range(start, end)
    chosen = (
        set()
        if not segment
        else {i for i in range(max(start, shift), end) if (i - shift) % per_segment >= per_segment - needed}
    )
    if retention.interval is not None:
        for boundary in retention.boundaries:
            last = boundary // retention.alignment * retention.alignment // group.size + shift
            chosen.update(range(max(start, last - needed), min(end, last)))
    return sorted(chosen)


def _cacheable_states(group: Group, start: int, end: int, retention: Retention) -> Iterable[int]:
    per_segment = (retention.interval or 0) // group.size
    if retention.interval is None or (retention.interval and per_segment <= 1):
        return range(start, end)
    last = {
        boundary // retention.alignment * retention.alignment // group.size - 1 for boundary in retention.boundaries
    }
    return [i for i in range(start, end) if i in last or (per_segment and (i + 1) % per_segment == 0)]


_KEPT: dict[Kind, Callable[[Group, int, int, Retention], Iterable[int]]] = {
    "full": _all_cacheable,
    "sliding_window": _cacheable_tails,
    "chunked_local": _all_cacheable,
    "mamba": _cacheable_states,
}
