"""Which parts of names stand in a file: what was learnt of a name is kept for the next file.

Takes words and source, gives the words; knows nothing of syntax.
"""

from __future__ import annotations

from collections.abc import Iterable

_SPACED = bytes(at if at >= 128 or chr(at).isalnum() or at == 95 else 32 for at in range(256))
"""Every byte that cannot stand in a name becomes a space."""
_MOST_NAMES = 1_000_000
"""Names remembered at most."""


def longest_name(text: bytes) -> bytes:
    """The longest part of a text that stands in a name wherever the text stands; empty for one without any.

    >>> longest_name(b"messages.create("), longest_name(b" != ")
    (b'messages', b'')
    """
    return max(text.translate(_SPACED).split(), key=len, default=b"")


class Words:
    """A set of parts of names to look for. What holds no letter stands everywhere.

    >>> sorted(Words({b"tool", b"ool", b"cache"}).standing_in(b"tools = my_tools[-1]"))
    [b'', b'ool', b'tool']
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        self.words = frozenset(words) - {b""}
        self.holding: dict[bytes, frozenset[bytes]] = {}

    def standing_in(self, source: bytes) -> frozenset[bytes]:
        """Those that stand in a file."""
        names = set(source.translate(_SPACED).split())
        new = names.difference(self.holding)
        if new:
            self._learn(new)
        return frozenset((b"",)).union(*set(map(self.holding.__getitem__, names)))

    def _learn(self, names: set[bytes]) -> None:
        """Looks for every word in all new names at once."""
        if len(self.holding) > _MOST_NAMES:
            names |= self.holding.keys()
            self.holding.clear()
        self.holding.update(dict.fromkeys(names, frozenset[bytes]()))
        text = b" %s " % b" ".join(names)
        held: dict[bytes, list[bytes]] = {}
        for word in self.words:
            at = text.find(word)
            while at >= 0:
                end = text.index(b" ", at)
                held.setdefault(text[text.rindex(b" ", 0, at) + 1 : end], []).append(word)
                at = text.find(word, end)
        self.holding.update((name, frozenset(found)) for name, found in held.items())
