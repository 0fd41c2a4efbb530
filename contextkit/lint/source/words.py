"""Which words of the patterns stand in a file, inside names too: what was learnt of a name is kept for the next file.

Takes words and source, gives the words; knows nothing of syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPACED = bytes(at if at >= 128 or chr(at).isalnum() or at == 95 else 32 for at in range(256))
"""Every byte that cannot stand in a name becomes a space."""
_MOST_NAMES = 1_000_000
"""Names remembered at most."""


class Words:
    """A set of words to look for.

    >>> sorted(Words({b"tool", b"[-1]", b"cache"}).standing_in(b"tools = my_tools[-1]"))
    [b'[-1]', b'tool']
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        names = {word: _longest_name(word) for word in words}
        self.words = frozenset(names)
        self.texts = {word: name for word, name in names.items() if word != name}
        parts = {*names.values()} - {b""}
        self.at_each_place = re.compile(b"(?=(%s))" % _any_of(parts))
        self.inside = {part: frozenset(other for other in parts if other in part) for part in parts}
        self.seen: set[bytes] = set()
        self.holding: dict[bytes, frozenset[bytes]] = {}

    def standing_in(self, source: bytes) -> set[bytes]:
        """Those that stand in a file."""
        names = set(source.translate(_SPACED).split())
        self._learn(names - self.seen)
        found = set[bytes]().union(*map(self.holding.__getitem__, names & self.holding.keys()))
        found.update([word for word, name in self.texts.items() if (not name or name in found) and word in source])
        return found & self.words

    def _learn(self, names: set[bytes]) -> None:
        if len(self.seen) > _MOST_NAMES:
            self.seen.clear()
        self.seen |= names
        for name in names:
            found = self.at_each_place.findall(name)
            if found:
                self.holding[name] = frozenset[bytes]().union(*map(self.inside.__getitem__, found))


def _any_of(words: Iterable[bytes]) -> bytes:
    """A pattern of any of the words, the longest first; by first letter, so that few are tried at each place."""
    longest_first = sorted(words, key=len, reverse=True)
    groups = {word[:1]: b"|".join(other[1:] for other in longest_first if other[:1] == word[:1]) for word in longest_first}
    return b"|".join(b"%s(?:%s)" % group for group in groups.items()) or rb"(?!)"


def _longest_name(text: bytes) -> bytes:
    """The longest part of a text that stands in a name wherever the text stands."""
    return max(text.translate(_SPACED).split(), key=len, default=b"")
