"""Which parts of names stand in a text, as bits: what was learnt of a name is kept for the next text.

Takes words and source, gives numbers; knows nothing of syntax.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

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
        self.holding: dict[bytes, int] = {}
        self.telling = set[bytes]()

    def standing_in(self, text: bytes) -> int:
        """The bits of those that stand in a text."""
        names = text.translate(_SPACED).split()
        new = set(names).difference(self.holding)
        if new:
            self._learn(new)
        return self._of(names)

    def standing_in_part(self, text: bytes) -> int:
        """The same for a part of a text that was looked at before."""
        return self._of(text.translate(_SPACED).split())

    def _of(self, names: list[bytes]) -> int:
        return reduce(or_, map(self.holding.__getitem__, self.telling.intersection(names)), ANYWHERE)

    def _learn(self, names: set[bytes]) -> None:
        """Looks for every word in all new names at once."""
        if len(self.holding) > _MOST_NAMES:
            names |= self.holding.keys()
            self.holding.clear()
            self.telling.clear()
        self.holding.update(dict.fromkeys(names, 0))
        text = b" %s " % b" ".join(names)
        for word, bit in self.bits.items():
            if word and word in text:
                self._note(word, bit, text)

    def _note(self, word: bytes, bit: int, text: bytes) -> None:
        """Each name in a text that holds a word."""
        at = text.find(word)
        while at >= 0:
            end = text.index(b" ", at)
            name = text[text.rindex(b" ", 0, at) + 1 : end]
            self.holding[name] |= bit
            self.telling.add(name)
            at = text.find(word, end)
