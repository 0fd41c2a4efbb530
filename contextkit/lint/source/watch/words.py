"""Where words stand in a file: all of them found in one pass, then asked for by place.

Takes groups of words and source, gives bits, one for each group; knows nothing of syntax and of what the words are
looked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

from contextkit.lint.source.watch.matching import matcher

Group = tuple[bytes, ...]
"""Words of which one is enough."""
EVERYWHERE = -1
"""The bits of a group that every line has a word of."""


class Words:
    """Groups of words to look for, each with a bit.

    >>> words = Words([(b"tool", b"agent"), (b"cache",)])
    >>> here = words.found_in(b"tools = cache()")
    >>> here.within(0, 15) == words.bits((b"tool", b"agent")) | words.bits((b"cache",)), here.within(0, 7) == words.bits((b"cache",))
    (True, False)
    """

    def __init__(self, groups: Iterable[Group]) -> None:
        self._bits = {group: 1 << at for at, group in enumerate(dict.fromkeys(groups))}
        of_word: dict[bytes, int] = defaultdict(int)
        for group, bit in self._bits.items():
            for word in group:
                of_word[word] |= bit
        self._of_word = [*of_word.values()]
        self._matches = matcher([*of_word])

    def bits(self, *groups: Group) -> int:
        """The bits of some groups."""
        return reduce(or_, map(self._bits.__getitem__, groups), 0)

    def found_in(self, source: bytes) -> Standing:
        """Where they stand in a file."""
        found = self._matches(source)
        return Standing([word for word, _, _ in found], [end for _, _, end in found], self._of_word)


class Standing:
    """Where words stand in one file."""

    __slots__ = ("_ends", "_of_word", "_words")

    def __init__(self, words: list[int], ends: list[int], of_word: Sequence[int]) -> None:
        self._words, self._ends, self._of_word = words, ends, of_word

    def anywhere(self) -> int:
        """The bits of the groups that have a word in the file."""
        return reduce(or_, map(self._of_word.__getitem__, set(self._words)), 0)

    def within(self, start: int, end: int) -> int:
        """The bits of those that have one in a part of it, from the offset of its first byte to the one behind its
        last.

        A word that begins before it and ends in it counts, too: of `not index`, `not in` stands in `index`.
        """
        ends = self._ends
        first = bisect_right(ends, start)
        if first == len(ends) or ends[first] > end:
            return 0
        return reduce(or_, map(self._of_word.__getitem__, {*self._words[first : bisect_right(ends, end, first)]}))

    def up_to_line(self, groups: int, starts: Sequence[int]) -> Sequence[int]:
        """How many words of some groups stand in the lines up to each, from 0 lines on.

        `starts` are the offsets of the lines.
        """
        if groups == EVERYWHERE:
            return range(len(starts) + 1)
        counts = [0] * (len(starts) + 1)
        telling = {word for word in set(self._words) if self._of_word[word] & groups}
        ends = [end for word, end in zip(self._words, self._ends, strict=True) if word in telling] if telling else []
        for end in ends:
            counts[bisect_left(starts, end)] += 1
        return [*accumulate(counts)]
