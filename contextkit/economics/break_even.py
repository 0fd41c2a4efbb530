"""Computes the sizes of a conversation from which a rewrite of its history pays.

A rewrite costs at once and saves at every later call; waiting a turn costs one more carried history and buys a rewrite
that removes more. So the question is one of optimal stopping: each turn adds one of a few sizes, each turn the cache
outlives the gap or does not, and after each turn the session may be over. A rewrite brings the context back to
`after_tokens`, where everything begins again: one number, the expected cost from there, ties the ends together. The
sizes are solved once from the limit down, and Newton's method gets that number in a few rounds, so the work is the same
however long the session and however large the window.

Only the bill is weighed: what a summary forgets is not in it, unless the rewrite carries a penalty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Growths
from contextkit.errors import UsageError

OUTPUT_RESERVE = 16_384
"""Tokens of the window kept free for a reply if the caller names no limit."""
STEPS = 64
"""Sizes that are solved, closest together just above the rewritten size."""
_ROUNDS = 60
_Places = tuple[tuple[int, float], ...]
"""(index of a size, weight): where the context may stand a call later."""


@dataclass(frozen=True, slots=True)
class _Size:
    """One size of the context with the bills of the next call: cache alive, cache dead."""

    stay: tuple[float, float]
    """The history is left as it is; a turn that does not fit forces a rewrite."""
    rewrite: tuple[float, float]
    """It is rewritten first."""
    following: _Places
    """Where the context stands after the call if the history is left as it is."""
    forced: _Places
    """Where it stands after a turn that forced a rewrite."""


def pays_from(
    rewrite: Rewrite, bills: Bills, limit_tokens: int, *, growths: Growths, cold_share: float, remaining_turns: float
) -> tuple[float | None, float | None]:
    """Compute the smallest contexts from which `rewrite` pays: before a call that reads the cache, before one that misses.

    None if it never pays below `limit_tokens`, the largest prompt that may be sent. `cold_share` of the gaps outlive the
    cache; `remaining_turns` calls follow the next one on average. Raises `UsageError` if the model has no price or the
    rewritten prompt does not fit.

    >>> from contextkit.economics.rhythm import Rhythm
    >>> from contextkit.models import model_named
    >>> from contextkit.prices import price_of
    >>> opus, session = model_named("claude-opus-4-5"), Rhythm()
    >>> sizes = pays_from(
    ...     Rewrite(0, 0, 40_000, 3_000), Bills(opus, price_of("anthropic", opus.name), 300), 180_000,
    ...     growths=session.growths, cold_share=session.longer_than(300), remaining_turns=session.remaining_turns,
    ... )
    >>> [round(size, -3) for size in sizes]
    [81000.0, 62000.0]
    """
    after = rewrite.after_tokens
    if after >= limit_tokens:
        raise UsageError(
            f"a prompt of {after:,} tokens after the rewrite does not fit {limit_tokens:,}: keep a shorter tail"
        )
    room = max(float(limit_tokens - after), 2.0)
    turns = [(share, round(min(max(tokens, 1.0), room - 1))) for share, tokens in growths if share > 0]
    sizes = [after + room * (step / STEPS) ** 2 for step in range(STEPS + 1)]
    fronts = [{new: bills.after(rewrite, new, is_cold=is_cold) for _, new in turns} for is_cold in (False, True)]
    nodes = [_size(rewrite.at(size), size, bills, after + room, turns, fronts, sizes) for size in sizes]
    begin = _places(((share, after + new) for share, new in turns), sizes)
    values, restart = _solve(nodes, begin, cold_share, remaining_turns / (1 + remaining_turns))
    n_open = sum(size + min(new for _, new in turns) <= after + room for size in sizes)
    thresholds: list[float | None] = []
    for moment in (0, 1):
        margins = [
            node.stay[moment] + _mean(values, (*node.following, *node.forced)) - node.rewrite[moment] - restart
            for node in nodes[:n_open]
        ]
        thresholds.append(_first_zero(sizes, margins))
    return thresholds[0], thresholds[1]


def _size(
    rewrite: Rewrite,
    size: float,
    bills: Bills,
    limit: float,
    turns: Sequence[tuple[float, int]],
    fronts: Sequence[Mapping[int, float]],
    sizes: Sequence[float],
) -> _Size:
    """Price the next call at one size, averaged over what it adds; `fronts` prices it behind a rewrite."""
    stay, redo = [], []
    for is_cold in (False, True):
        summary = bills.summary(rewrite, is_cold=is_cold)
        after = fronts[not bills.leaves_warm(rewrite, is_cold=is_cold)]
        redo.append(summary + sum(share * after[new] for share, new in turns))
        bill = 0.0
        for share, new in turns:
            fits = size + new <= limit
            left = bills.stay(rewrite.context_tokens, new, is_cold=is_cold) if fits else summary + after[new]
            bill += share * left
        stay.append(bill)
    following = _places(((share, size + new) for share, new in turns if size + new <= limit), sizes)
    forced = _places(((share, rewrite.after_tokens + new) for share, new in turns if size + new > limit), sizes)
    return _Size((stay[0], stay[1]), (redo[0], redo[1]), following, forced)


def _solve(nodes: Sequence[_Size], begin: _Places, cold: float, goes_on: float) -> tuple[list[float], float]:
    """Compute the expected cost from each size on, and from a rewrite on: the fixed point of one backward pass."""
    values, restart = [0.0] * len(nodes), 0.0
    chances = goes_on * (1 - cold), goes_on * cold
    for _ in range(_ROUNDS):
        mean, slopes = _mean(values, begin), [0.0] * len(nodes)
        above = [value - mean for value in values]  # forced rewrites land low: their sizes are of the pass before
        for i in range(len(nodes) - 1, -1, -1):
            values[i], slopes[i] = _value(i, nodes[i], values, slopes, restart, above, chances)
        step = (_mean(values, begin) - restart) / (1 - _mean(slopes, begin))
        restart += step
        if abs(step) <= 1e-9 * max(abs(restart), 1e-12):
            break
    return values, restart


def _value(
    i: int,
    node: _Size,
    values: Sequence[float],
    slopes: Sequence[float],
    restart: float,
    above: Sequence[float],
    chances: tuple[float, float],
) -> tuple[float, float]:
    """Compute the cost at one size under the best choice, and how it moves with the cost after a rewrite.

    A small turn may end between this size and the next, so the cost stands on both sides; of each choice it is solved
    for exactly.
    """
    own = sum(weight for place, weight in node.following if place == i)
    others = [(place, weight) for place, weight in node.following if place != i]
    share = sum(weight for _, weight in node.forced)
    later = _mean(values, others) + _mean(above, node.forced) + share * restart
    moves = _mean(slopes, others) + share
    best = float("inf"), 0.0
    for choice in product((False, True), repeat=2):  # rewrite with the cache alive, with the cache dead
        cost = slope = stays = 0.0
        for is_rewritten, chance, stay, rewrite in zip(choice, chances, node.stay, node.rewrite, strict=True):
            cost += chance * (rewrite + restart if is_rewritten else stay + later)
            slope += chance * (1.0 if is_rewritten else moves)
            stays += 0.0 if is_rewritten else chance * own
        best = min(best, (cost / (1 - stays), slope / (1 - stays)))
    return best


def _places(contexts: Iterable[tuple[float, float]], sizes: Sequence[float]) -> _Places:
    """Split contexts, each with its share, between the two sizes around each."""
    weights: dict[int, float] = {}
    for share, size in contexts:
        at = min(max(bisect_right(sizes, size) - 1, 0), STEPS - 1)
        part = min(max((size - sizes[at]) / (sizes[at + 1] - sizes[at]), 0.0), 1.0)
        weights[at] = weights.get(at, 0.0) + share * (1 - part)
        weights[at + 1] = weights.get(at + 1, 0.0) + share * part
    return tuple((place, weight) for place, weight in weights.items() if weight)


def _mean(values: Sequence[float], places: Iterable[tuple[int, float]]) -> float:
    return sum(values[place] * weight for place, weight in places)


def _first_zero(sizes: Sequence[float], margins: Sequence[float]) -> float | None:
    """Return the size at which the margins reach zero, on a line between two of them; None if none does."""
    first = next((i for i, margin in enumerate(margins) if margin >= 0), None)
    if not first:
        return None if first is None else sizes[0]
    low, high = margins[first - 1], margins[first]
    return sizes[first - 1] + (sizes[first] - sizes[first - 1]) * low / (low - high)
