"""Rows of a file put in the order of their times, since exports often have the latest first.

Takes items that know when they were, gives them in order; what comes too late to be put right is given as it stands,
and reported. Knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, nsmallest
from itertools import chain, islice, pairwise
from typing import TypeVar

from contextkit.importers.source import Source

T = TypeVar("T")
WINDOW = 1_000
"""How many rows are held to be put in order; a file whose first rows run backwards is held as a whole."""
MOST_HELD = 48 << 20
"""Bytes that rows may hold together while they wait: of very long ones fewer are held."""
LOOKED_AT = 16
"""Rows that show which way a file runs."""


def in_time(
    source: Source, items: Iterable[tuple[int, T]], at: Callable[[T], float], size: Callable[[T], int] = lambda item: 0
) -> Iterator[tuple[int, T]]:
    """Each (line, item) by its time, those of one time in the order of the file.

    `size` says how many bytes an item holds.
    """
    rows = iter(items)
    first = list(islice(rows, LOOKED_AT))
    times = [at(item) for _, item in first]
    n_back = sum(one >= other for one, other in pairwise(times))
    if times and times[0] > times[-1] and n_back * 2 > len(times):
        turned = [*first, *rows]
        turned.reverse()
        yield from sorted(turned, key=lambda row: at(row[1]))
        return
    yield from _within(source, chain(first, rows), at, size)


def _within(
    source: Source, rows: Iterable[tuple[int, T]], at: Callable[[T], float], size: Callable[[T], int]
) -> Iterator[tuple[int, T]]:
    heap: list[tuple[float, int, int, T]] = []
    latest, held = 0.0, 0
    for count, (line, item) in enumerate(rows):
        heappush(heap, (at(item), count, line, item))
        held += size(item)
        while len(heap) > WINDOW or held > MOST_HELD:
            when, _, number, ready = heappop(heap)
            held -= size(ready)
            if when < latest:
                source.fault(
                    number, "earlier than the calls before it: a wrong clock, or lines out of order; taken as it stands"
                )
            latest = max(latest, when)
            yield number, ready
    for when, _, number, ready in nsmallest(len(heap), heap):
        if when < latest:
            source.fault(
                number, "earlier than the calls before it: a wrong clock, or lines out of order; taken as it stands"
            )
        latest = max(latest, when)
        yield number, ready
