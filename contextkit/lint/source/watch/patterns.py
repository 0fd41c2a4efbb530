"""Which patterns may match a file, and a function in it, by the words that stand there: made ready once for all files.

Takes patterns, gives numbers with a bit for each of them; knows nothing of syntax and of what a pattern looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from contextkit.lint.source.rule import Hit, Pattern
from contextkit.lint.source.watch.words import Words, longest_name

MARKED, FROZEN, SILENCED = b"cache_control", b"frozen", (b"noqa", b"NOQA")
"""Words the walk itself asks for."""
CodedPattern = tuple[str, Pattern]
"""A hazard's code and one of its patterns."""
Group = tuple[bytes, ...]
"""Words of which one is enough."""
Wanted = tuple[str, Callable[[Any, Any], Iterable[Hit]], tuple[Group, ...]]
"""A hazard's code, how it is looked for, and groups of words of which one each stands in the node."""


class Asking(NamedTuple):
    """The patterns that ask for a type of node."""

    plain: list[Wanted]
    """Those asked about each node."""
    named: dict[str, list[Wanted]]
    """A name a node has itself → those asked only about nodes that have it."""
    tested: list[tuple[tuple[Group, ...], Wanted]]
    """Those asked only where words stand in the condition, with those words."""


class _Row(NamedTuple):
    """A pattern and its words."""

    code: str
    """Of the hazard."""
    pattern: Pattern
    """It."""
    words: Group
    """Those of which one stands in its file; empty where the node itself is asked."""
    near: tuple[Group, ...]
    """Groups of which one each stands in the node itself; its names, where it asks for some."""
    tested: tuple[Group, ...]
    """Groups of which one each stands in the node's condition, and so in the node."""
    needed: tuple[int, ...]
    """Bits of the names in the words, and in each of those groups."""


_Written = tuple[int, tuple[tuple[bytes, int], ...]]
"""Of a group of words: the bits of those that are a part of a name; the others, each with the bits of its longest name."""


class Gate(NamedTuple):
    """What patterns that look for the same words in a node have in common."""

    bits: tuple[int, ...]
    """Of the names in each group of their words."""
    written: tuple[_Written, ...]
    """The groups that do not stand everywhere their names do."""
    rows: int
    """The patterns, a bit for each."""


class Patterns:
    """Patterns, each a row with a bit, and the words each is looked for by."""

    def __init__(self, patterns: Iterable[CodedPattern]) -> None:
        coded = [(code, pattern, _encoded((pattern.words, *pattern.also))) for code, pattern in patterns]
        every = {word for _, one, groups in coded for group in (*groups, *_encoded((*one.tested, one.names))) for word in group}
        self.words = Words(map(longest_name, (*every, MARKED, FROZEN, *SILENCED)))
        self.rows = [self._row(*one) for one in coded]
        self.every_row = (1 << len(self.rows)) - 1
        self.asking = self._rows_by(lambda one: one.pattern.nodes)
        self._gates = [self._gate(near, rows) for near, rows in self._rows_by(lambda one: ((*one.tested, *one.near),)).items()]
        self._named = [*self._rows_by(lambda one: one.needed).items()]
        whole = self._rows_by(lambda one: filter(None, (one.words,)))
        self._written = [((self._split_by_names(words),), rows) for words, rows in whole.items() if any(map(_is_written, words))]

    def _rows_by(self, keys: Callable[[_Row], Iterable[Any]]) -> dict[Any, int]:
        """The patterns that have a key in common."""
        found: dict[Any, int] = {}
        for at, one in enumerate(self.rows):
            for key in keys(one):
                found[key] = found.get(key, 0) | 1 << at
        return found

    def _row(self, code: str, pattern: Pattern, groups: tuple[Group, ...]) -> _Row:
        names, tested = _encoded((pattern.names,)), _encoded(pattern.tested)
        near = names if pattern.names else tuple(filter(None, groups if pattern.is_near else groups[1:]))
        near = tuple(sorted(near, key=len))  # what is soon found missing first
        needed = tuple(map(self.bits, filter(None, (*groups, *tested, *names))))
        return _Row(code, pattern, () if pattern.is_near else groups[0], near, tested, needed)

    def _gate(self, near: tuple[Group, ...], rows: int) -> Gate:
        written = tuple(self._split_by_names(group) for group in near if any(map(_is_written, group)))
        return Gate(tuple(map(self.bits, near)), written, rows)

    def _split_by_names(self, group: Group) -> _Written:
        names = tuple(word for word in group if not _is_written(word))
        return self.bits(names), tuple((word, self.bits((word,))) for word in group if _is_written(word))

    def bits(self, words: Group) -> int:
        """The bits of the names in some words."""
        bits = 0
        for word in words:
            bits |= self.words.bits[longest_name(word)]
        return bits

    def in_file(self, source: bytes, standing: int) -> int:
        """The patterns whose words stand in a file."""
        rows = self.every_row
        for bits, those in self._named:
            if not bits & standing:
                rows &= ~those
        for groups, those in self._written:
            if those & rows and not _stand_in(source, standing, groups):
                rows &= ~those
        return rows

    def gates(self, rows: int) -> list[Gate]:
        """What some patterns look for in a node."""
        return [Gate(gate.bits, gate.written, gate.rows & rows) for gate in self._gates if gate.rows & rows]

    def ask(self, rows: int) -> Asking:
        """How some patterns that ask for the same type of node are looked for."""
        asking = Asking([], {}, [])
        for one in map(self.rows.__getitem__, _places(rows)):
            code, find, names = one.code, one.pattern.find, one.pattern.names
            for name in names:
                asking.named.setdefault(name, []).append((code, find, ()))
            if one.tested and not names:
                asking.tested.append((one.tested, (code, find, one.near)))
            elif not names:
                asking.plain.append((code, find, one.near))
        return asking


@lru_cache(maxsize=8)
def made_ready(patterns: tuple[CodedPattern, ...]) -> Patterns:
    """Patterns with all that is known of them before a file is read."""
    return Patterns(patterns)


def rows_in(text: bytes, standing: int, gates: Iterable[Gate]) -> int:
    """The patterns whose words stand in a part of a file, of whose names it is known which words they hold."""
    rows = 0
    for bits, written, those in gates:
        for part in bits:
            if not part & standing:
                break
        else:
            if not written or _stand_in(text, standing, written):
                rows |= those
    return rows


def _stand_in(text: bytes, standing: int, groups: tuple[_Written, ...]) -> bool:
    """Whether a word of each group stands in a text."""
    for names, words in groups:
        if names & standing:
            continue
        for word, bits in words:
            if bits & standing and word in text:
                break
        else:
            return False
    return True


def holds(text: bytes, groups: tuple[Group, ...]) -> bool:
    """Whether a word of each group stands in a text."""
    for group in groups:
        for word in group:
            if word in text:
                break
        else:
            return False
    return True


def _encoded(groups: Iterable[Iterable[str]]) -> tuple[Group, ...]:
    return tuple(tuple(word.encode() for word in words) for words in groups)


def _is_written(word: bytes) -> bool:
    """Whether a word is more than a part of a name, so that it need not stand where its name does."""
    return longest_name(word) != word


def _places(rows: int) -> Iterator[int]:
    """Which bits are set, the lowest first."""
    while rows:
        yield (rows & -rows).bit_length() - 1
        rows &= rows - 1
