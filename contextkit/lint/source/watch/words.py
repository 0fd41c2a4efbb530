"""Which parts of names stand in a text, as bits: what was learnt of a name is kept for the next text.

Takes words and source, gives numbers; knows nothing of syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPACED = bytes(at if at >= 128 or chr(at).isalnum() or at == 95 else 32 for at in range(256))
"""Every byte that cannot stand in a name becomes a space."""
_MOST_NAMES = 1_000_000
"""Names remembered at most."""
ANYWHERE = 1
"""The bit of a text that holds no name: it may stand anywhere."""


def longest_name(text: bytes) -> bytes:
    """The longest part of a text that stands in a name wherever the text stands; empty for one without any.

    >>> longest_name(b"messages.create("), longest_name(b" != ")
    (b'messages', b'')
    """
    return max(text.translate(_SPACED).split(), key=len, default=b"")


class Words:
    """Parts of names to look for, each with a bit.

    >>> words = Words({b"tool", b"ool", b"cache"})
    >>> words.standing_in(b"tools = my_tools[-1]") == ANYWHERE | words.bits[b"tool"] | words.bits[b"ool"]
    True
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        wanted = sorted({*words} - {b""})
        self.bits = {b"": ANYWHERE, **{word: ANYWHERE << at for at, word in enumerate(wanted, 1)}}
        self.at_each_place = re.compile(b"(?=(%s))" % _any_of(wanted))
        self.inside: dict[bytes, int] = {}
        self.holding: dict[bytes, int] = {}

    def standing_in(self, text: bytes) -> int:
        """The bits of those that stand in a text."""
        return self.standing_in_each(text, [(0, len(text))])[0]

    def standing_in_each(self, text: bytes, spans: Sequence[tuple[int, int]]) -> list[int]:
        """The same for parts of a text."""
        spaced = text.translate(_SPACED)
        each = [spaced[start:end].split() for start, end in spans]
        new = set[bytes]().union(*each).difference(self.holding)
        if new:
            self._learn(new)
        found = []
        for names in each:
            bits = ANYWHERE
            for held in set(map(self.holding.__getitem__, names)):
                bits |= held
            found.append(bits)
        return found

    def _learn(self, names: set[bytes]) -> None:
        """Looks for every word in all new names at once."""
        if len(self.holding) > _MOST_NAMES:
            names |= self.holding.keys()
            self.holding.clear()
        holding = self.holding
        holding.update(dict.fromkeys(names, 0))
        text = b" %s " % b" ".join(names)
        for found in self.at_each_place.finditer(text):
            at, word = found.start(), found[1]
            bits = self.inside.get(word)
            if bits is None:
                bits = self.inside[word] = sum(bit for other, bit in self.bits.items() if other in word)
            holding[text[text.rindex(b" ", 0, at) + 1 : text.index(b" ", at)]] |= bits


def _any_of(words: Iterable[bytes]) -> bytes:
    """A pattern of any of the words, the longest first; by first letter, so that few are tried at each place."""
    longest_first = sorted(words, key=len, reverse=True)
    groups = {word[:1]: b"|".join(other[1:] for other in longest_first if other[:1] == word[:1]) for word in longest_first}
    return b"|".join(b"%s(?:%s)" % group for group in groups.items()) or rb"(?!)"
