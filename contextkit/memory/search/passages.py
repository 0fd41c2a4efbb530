"""A long text in passages, and the line that shows one.

Takes text, gives pieces of it; knows nothing of ranking. A text is ranked by its best passage: a megabyte of tool
output competes by the screenful that answers, and the result says where that stands.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from contextkit.memory.reference import line_starts
from contextkit.memory.search.words import terms

PASSAGE_CHARACTERS = 1_600
"""A passage is no longer: about a screenful, four hundred tokens."""
SNIPPET_CHARACTERS = 240
"""A snippet is no longer, its dots aside."""

_BREAKS = ("\n\n", "\n", ". ", " ")
"""Where a passage ends rather, best first."""
_PIECE = re.compile(r"\S{1,16}")
"""A word, or so much of one: text without spaces is shown around its match too."""


def cut(text: str, size: int = PASSAGE_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Start and text of each passage; joined they are the text. An empty text is one empty passage.

    >>> list(cut("one two three", size=8))
    [(0, 'one two '), (8, 'three')]
    """
    start = 0
    while len(text) - start > size:
        end = _end(text, start, size)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _end(text: str, start: int, size: int) -> int:
    """Behind the last good break in the second half of the passage, else where its room ends."""
    for mark in _BREAKS:
        at = text.rfind(mark, start + size // 2, start + size)
        if at >= 0:
            return at + len(mark)
    return start + size


def line_numbers(text: str, starts: Sequence[int]) -> list[int]:
    """In which line each of `starts` stands, counted as `read_reference` counts.

    >>> line_numbers("one" + chr(10) + "x" * 2_500, [0, 4, 2_004])
    [1, 2, 3]
    """
    if len(starts) == 1:
        return [1]
    begins = line_starts(text)
    return [max(1, bisect_right(begins, start)) for start in starts]


def snippet(passage: str, weights: Mapping[str, float], size: int = SNIPPET_CHARACTERS) -> str:
    """The stretch of `passage` whose terms weigh most, the first of equals; a rare term weighs more than common ones.

    White space becomes single spaces.

    >>> snippet("zero " * 20 + "the cache\\nmissed", {"cache": 1.0, "zero": 0.1}, size=20)
    '… zero zero the cache …'
    """
    line = " ".join(passage.split())
    if len(line) <= size:
        return line
    pieces = [(piece.start(), piece.end(), weights.keys() & _text_of(piece[0])) for piece in _PIECE.finditer(line)]
    hits = [(start, end, term) for start, end, matched in pieces for term in matched]
    best = _heaviest(hits, weights, size * 3 // 4)
    earliest = max(0, min(best - size // 4, len(line) - size))
    shown = [(start, end) for start, end, _ in pieces if start >= earliest and end <= earliest + size]
    first, last = (shown[0][0], shown[-1][1]) if shown else (earliest, earliest + size)
    return f"{'… ' if first else ''}{line[first:last]}{' …' if last < len(line) else ''}"


def _heaviest(hits: list[tuple[int, int, str]], weights: Mapping[str, float], width: int) -> int:
    """Where the first stretch of `width` characters begins whose different terms weigh most; each stands in it whole."""
    window: Counter[str] = Counter()
    best, most, first = 0, 0.0, 0
    for index, (_, end, term) in enumerate(hits):
        window[term] += 1
        while first < index and end - hits[first][0] > width:
            window -= Counter((hits[first][2],))  # drops what is counted no more
            first += 1
        weight = math.fsum(weights[term] for term in window)
        if weight > most:
            best, most = hits[first][0], weight
    return best


@lru_cache(maxsize=1 << 16)
def _text_of(piece: str) -> frozenset[str]:
    return frozenset(terms(piece))
