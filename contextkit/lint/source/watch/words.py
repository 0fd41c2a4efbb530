"""Which parts of names stand in a text, as bits: what was learnt of a name is kept for the next text.

Takes words and source, gives numbers; knows nothing of syntax. Capital and small letters are the same here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from operator import or_

_SPACED = bytes(ord(chr(at).lower()) if at < 128 and (chr(at).isalnum() or at == 95) else at if at >= 128 else 32 for at in range(256))
"""Every byte that cannot stand in a name becomes a space, every capital letter a small one."""
_MOST_NAMES = 1_000_000
"""Names remembered at most."""
ANYWHERE = 1
"""The bit of a text that holds no name: it may stand anywhere."""


@lru_cache(maxsize=10_000)
def longest_name(text: bytes) -> bytes:
    """The longest part of a text that stands in a name wherever the text stands, in small letters; empty for one without any.

    >>> longest_name(b"Messages.create("), longest_name(b" != ")
    (b'messages', b'')
    """
    return max(text.translate(_SPACED).split(), key=len, default=b"")


class Words:
    """Parts of names to look for, in small letters, each with a bit.

    >>> words = Words({b"tool", b"ool", b"cache"})
    >>> words.standing_in(b"TOOLS = my_tools[-1]") == ANYWHERE | words.bits[b"tool"] | words.bits[b"ool"]
    True
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        wanted = sorted({*words} - {b""}, key=lambda word: (len(word), word))
        self.bits = {b"": ANYWHERE, **{word: ANYWHERE << at for at, word in enumerate(wanted, 1)}}
        self.with_core = dict(_by_core(wanted))
        self.holding: dict[bytes, int] = {}
        self.telling = set[bytes]()

    def standing_in(self, text: bytes) -> int:
        """The bits of those that stand in a text."""
        names = set(text.translate(_SPACED).split())
        new = names.difference(self.holding)
        if new:
            self._learn(new)
        return self._of(names & self.telling)

    def standing_in_part(self, text: bytes) -> int:
        """The same for a part of a text that was looked at before."""
        return self._of(self.telling.intersection(text.translate(_SPACED).split()))

    def _of(self, names: Iterable[bytes]) -> int:
        return reduce(or_, map(self.holding.__getitem__, names), ANYWHERE)

    def _learn(self, names: set[bytes]) -> None:
        """Looks for every word in all new names at once."""
        if len(self.holding) > _MOST_NAMES:
            names |= self.holding.keys()
            self.holding.clear()
            self.telling.clear()
        self.holding.update(dict.fromkeys(names, 0))
        text = _one_text(names)
        for core, words in self.with_core.items():
            if core in text:
                for name in _names_with(core, text):
                    self.holding[name] |= reduce(or_, [self.bits[word] for word in words if word in name])
                    self.telling.add(name)


def _by_core(words: Iterable[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """The words that hold no other, and below each those that hold it, which stand nowhere else: the shorter ones come first."""
    left = dict.fromkeys(words)
    text = _one_text(left)
    for core in [*left]:
        if core in left:
            below = [word for word in _names_with(core, text) if word in left]
            yield core, below
            for word in below:
                del left[word]


def _one_text(names: Iterable[bytes]) -> bytes:
    return b" %s " % b" ".join(names)


def _names_with(word: bytes, text: bytes) -> Iterator[bytes]:
    """The names in a text that hold a word."""
    at = text.find(word)
    while at >= 0:
        end = text.index(b" ", at)
        yield text[text.rindex(b" ", 0, at) + 1 : end]
        at = text.find(word, end)
