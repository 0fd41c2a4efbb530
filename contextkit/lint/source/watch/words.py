"""Which parts of names stand in a text, as bits: what was learnt of a name is kept for the next text.

Takes words and source, gives numbers; knows nothing of syntax. Capital and small letters are the same here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from operator import or_

_SPACED = bytes(ord(chr(at).lower()) if at < 128 and (chr(at).isalnum() or at == 95) else at if at >= 128 else 32 for at in range(256))
"""Every byte that cannot stand in a name becomes a space, every capital letter a small one."""
_MOST_NAMES = 1_000_000
"""Names remembered at most."""
_SHORTEST = 3
"""Letters of a word at least: three that follow one another say which words may stand in a name."""
ANYWHERE = 1
"""The bit of a text that holds no name: it may stand anywhere."""

_Letters = tuple[int, int, int]


@lru_cache(maxsize=10_000)
def longest_name(text: bytes) -> bytes:
    """The longest part of a text that stands in a name wherever the text stands, in small letters; empty for one of two letters.

    >>> longest_name(b"Messages.create("), longest_name(b"if x != ")
    (b'messages', b'')
    """
    name = max(text.translate(_SPACED).split(), key=len, default=b"")
    return name if len(name) >= _SHORTEST else b""


class Words:
    """Parts of names to look for, in small letters, at least three of them, each with a bit.

    >>> words = Words({b"tool", b"ool", b"cache"})
    >>> Names(words).words_in(b"TOOLS = my_tools[-1]") == ANYWHERE | words.bits[b"tool"] | words.bits[b"ool"]
    True
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        wanted = sorted({*words} - {b""})
        self.bits = {b"": ANYWHERE, **{word: ANYWHERE << at for at, word in enumerate(wanted, 1)}}
        self.having = self._by_rarest(wanted)
        self.rarest = frozenset(self.having)

    def _by_rarest(self, words: Iterable[bytes]) -> dict[_Letters, list[tuple[bytes, int]]]:
        """Three letters → the words, with their bits, in which no others are rarer: a name without those holds none of them."""
        common = Counter(letters for word in words for letters in _letters(word))
        found: dict[_Letters, list[tuple[bytes, int]]] = {}
        for word in words:
            found.setdefault(min(_letters(word), key=common.__getitem__), []).append((word, self.bits[word]))
        return found


class Names:
    """The names met so far, and which words stand in each."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.holding: dict[bytes, int] = {}
        self.telling = set[bytes]()

    def words_in(self, text: bytes) -> int:
        """The bits of the words that stand in a text."""
        names = set(text.translate(_SPACED).split())
        new = names.difference(self.holding)
        if new:
            self._learn(new)
        return self._of(names & self.telling)

    def words_in_part(self, text: bytes) -> int:
        """The same for a part of a text that was looked at before."""
        return self._of(self.telling.intersection(text.translate(_SPACED).split()))

    def _of(self, names: Iterable[bytes]) -> int:
        return reduce(or_, map(self.holding.__getitem__, names), ANYWHERE)

    def _learn(self, names: set[bytes]) -> None:
        if len(self.holding) > _MOST_NAMES:
            names |= self.holding.keys()
            self.holding.clear()
            self.telling.clear()
        among, having = self.words.rarest.intersection, self.words.having
        for name in names:
            bits = 0
            for letters in among(zip(name, name[1:], name[2:], strict=False)):
                for word, bit in having[letters]:
                    if word in name:
                        bits |= bit
            self.holding[name] = bits
            if bits:
                self.telling.add(name)


def _letters(word: bytes) -> Iterator[_Letters]:
    """Each three letters that follow one another."""
    return zip(word, word[1:], word[2:], strict=False)
