"""Selects the patterns that may match a file, a statement and a node, by the words that stand there.

All places of all words are located in one pass over the file (`Words`), then asked for by place; patterns are rows of a
bit mask. Comments (`# noqa: CKS01`, `# contextkit: frozen`) are read the same way, without syntax: a text that holds
such words says the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate, chain, groupby
from operator import itemgetter, or_
from typing import Any, NamedTuple

from contextkit.lint.source import nodes as ast
from contextkit.lint.source.rule import Hit, Pattern

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


Group = tuple[bytes, ...]
"""Words of which one is enough."""
EVERYWHERE = -1
"""The bits of a group that every line has a word of."""


class Words:
    """Groups of words to look for, each with a bit.

    >>> words = Words([(b"tool", b"agent"), (b"cache",)])
    >>> here = words.locate(b"tools = cache()")
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

    def locate(self, source: bytes) -> Standing:
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


_FROZEN = re.compile(rb"#\s*contextkit:\s*frozen\b")
_NOQA = re.compile(rb"#\s*noqa(?!\w)(?::\s*([A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)


def frozen_lines(source: bytes) -> frozenset[int]:
    """Lines, from 1, that are said to be made once a session.

    >>> frozen_lines(b"a = 1\\nb = now()  # contextkit: frozen\\n")
    frozenset({2})
    """
    if not _FROZEN.search(source):
        return frozenset()
    return frozenset(at for at, line in enumerate(source.splitlines(), 1) if b"frozen" in line and _FROZEN.search(line))


def silenced_lines(source: bytes, starts: Sequence[int], word: bytes) -> Iterator[tuple[int, frozenset[str]]]:
    """Lines with a `noqa`, spelled as the word is, and the codes it names, none for all.

    `starts` are the offsets of the lines.

    >>> list(silenced_lines(b"a = 1\\nb = 2  # noqa: CKS01\\n", [0, 6, 26], b"noqa"))
    [(2, frozenset({'CKS01'}))]
    """
    ends, at = [*starts, len(source)], source.find(word)
    while at >= 0:
        line = bisect_right(ends, at)
        found = _NOQA.search(source, ends[line - 1], ends[line])
        if found:
            yield line, frozenset(re.split(r"[\s,]+", (found[1] or b"").decode().upper().strip())) - {""}
        at = source.find(word, ends[line])


MARKED, FROZEN, SILENCED = (b"cache_control",), (b"frozen",), ((b"noqa",), (b"NOQA",))
"""Words the walk itself asks for."""
FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
"""Nodes that are shown when the walk has been through their bodies."""
SELDOM = FUNCTIONS | {
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.ExceptHandler,
    ast.Delete,
    ast.ListComp,
    ast.GeneratorExp,
    ast.IfExp,
}
"""Nodes that are asked about wherever they stand; all others only in statements with words that tell of them."""
Groups = tuple[Group, ...]
"""Of each of them a word stands there."""
CodedPattern = tuple[str, Pattern]
"""A hazard's code and one of its patterns."""


@dataclass(slots=True, eq=False)
class Wanted:
    """A pattern that asks for a type of node."""

    needed: int
    """Bits of the groups of words of which one each stands in the node."""
    tested: int
    """Bits of those of which one each stands in its condition."""
    code: str
    """Of the hazard."""
    find: Callable[[Any, Any], Iterable[Hit]]
    """How it is looked for."""


@dataclass(slots=True, eq=False)
class Asking:
    """The patterns that ask for a type of node."""

    plain: list[Wanted]
    """Those asked about each node their words stand in."""
    named: dict[str, list[Wanted]]
    """A name a node has itself → those asked only about nodes that have it."""
    tested: list[Wanted]
    """Those asked only where words stand in the condition."""


class _Row(NamedTuple):
    """A pattern and the bits of its groups of words."""

    pattern: Pattern
    """It."""
    in_file: int
    """Of all of them: one of each stands in a file it can match."""
    telling: int
    """Of the one that tells which statements to look at; 0 for a pattern that asks for what is seldom met, all for one
    without words."""
    wanted: Wanted
    """What is asked of a node."""


class Patterns:
    """Patterns, each a row with a bit, and the words each is looked for by."""

    def __init__(self, patterns: Iterable[CodedPattern]) -> None:
        coded = [(code, pattern, *_groups_of(pattern)) for code, pattern in patterns]
        self.words = Words([MARKED, FROZEN, *SILENCED, *(group for _, _, *groups in coded for group in chain(*groups))])
        self.rows = [self._row(*one) for one in coded]
        self.asking = self._rows_by(lambda one: one.pattern.nodes)
        self._in_file = [*self._rows_by(lambda one: (one.in_file,)).items()]

    def _rows_by(self, keys: Callable[[_Row], Iterable[Any]]) -> dict[Any, int]:
        """The patterns that have a key in common."""
        found: dict[Any, int] = {}
        for at, one in enumerate(self.rows):
            for key in keys(one):
                found[key] = found.get(key, 0) | 1 << at
        return found

    def _row(self, code: str, pattern: Pattern, words: Groups, near: Groups, tested: Groups) -> _Row:
        bits = self.words.bits
        telling = 0 if SELDOM.issuperset(pattern.nodes) else bits(*(*near, *tested)[:1]) or EVERYWHERE
        return _Row(
            pattern, bits(*words, *near, *tested), telling, Wanted(bits(*near), bits(*tested), code, pattern.find)
        )

    def in_file(self, standing: int) -> int:
        """The patterns whose words stand in a file."""
        rows = 0
        for needed, those in self._in_file:
            if needed & standing == needed:
                rows |= those
        return rows

    def telling(self, rows: int) -> int:
        """The groups of words of which one stands in each statement that one of some patterns can match."""
        return reduce(or_, (self.rows[at].telling for at in _places(rows)), 0)

    def ask(self, rows: int) -> Asking:
        """How some patterns that ask for the same type of node are looked for."""
        asking = Asking([], {}, [])
        for one in map(self.rows.__getitem__, _places(rows)):
            for name in one.pattern.names:
                asking.named.setdefault(name, []).append(one.wanted)
            if not one.pattern.names:
                (asking.tested if one.wanted.tested else asking.plain).append(one.wanted)
        return asking


@lru_cache(maxsize=8)
def made_ready(patterns: tuple[CodedPattern, ...]) -> Patterns:
    """Patterns with all that is known of them before a file is read."""
    return Patterns(patterns)


def _groups_of(pattern: Pattern) -> tuple[Groups, Groups, Groups]:
    """The groups of words of which one each stands in the file, in the node, in its condition."""
    names = () if pattern.is_near or pattern.also else (pattern.names,)
    near = _encoded((*((pattern.words,) if pattern.is_near else ()), *pattern.also, *names))
    return _encoded((pattern.words,)), near, _encoded(pattern.tested)


def _encoded(groups: Iterable[Iterable[str]]) -> Groups:
    return tuple(tuple(word.encode() for word in words) for words in groups if words)


def _places(rows: int) -> Iterator[int]:
    """Which bits are set, the lowest first."""
    while rows:
        yield (rows & -rows).bit_length() - 1
        rows &= rows - 1
