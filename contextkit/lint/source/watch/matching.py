"""All places of many words in a text, in one pass.

Takes words and texts, gives places; knows nothing of what the words are for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

try:
    from ahocorasick_rs import BytesAhoCorasick, Implementation
except ImportError:  # no wheel of it fits this machine, or the extra is not installed
    BytesAhoCorasick = None  # type: ignore[assignment, misc]

Match = tuple[int, int, int]
"""Which word, from 0; the offset of its first byte, and of the one behind its last."""
Matcher = Callable[[bytes], list[Match]]
"""Text → every place of every word, whatever else stands there, by where they end."""


def matcher(words: Sequence[bytes]) -> Matcher:
    """What finds some words.

    >>> sorted(matcher([b"tool", b"tools", b"ol"])(b"tools"))
    [(0, 0, 4), (1, 0, 5), (2, 2, 4)]
    """
    if BytesAhoCorasick is None:
        return expression(words)
    find = BytesAhoCorasick(words, implementation=Implementation.DFA).find_matches_as_indexes
    return lambda text: find(text, overlapping=True)


def expression(words: Sequence[bytes]) -> Matcher:
    """The same by one regular expression, which takes some twenty times as long."""
    find = re.compile(b"(?=(%b))" % _branches(sorted(words))).finditer
    beginning = {word: [(at, len(other)) for at, other in enumerate(words) if word.startswith(other)] for word in words}

    def matches(text: bytes) -> list[Match]:
        starts = ((found.start(), word) for found in find(text) for word in beginning[found[1]])
        return sorted(((word, start, start + length) for start, (word, length) in starts), key=itemgetter(2))

    return matches


def _branches(words: Sequence[bytes]) -> bytes:
    """An expression for the longest of some sorted words, in which those that begin alike part where they differ."""
    alike = groupby(filter(None, words), key=lambda word: word[:1])
    ways = [re.escape(letter) + _branches([word[1:] for word in those]) for letter, those in alike]
    return b"(?:%b)%b" % (b"|".join(ways), b"?" if b"" in words else b"") if ways else b""
