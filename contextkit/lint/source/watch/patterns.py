"""Which patterns may match a file, a statement and a node, by the words that stand there: made ready once for all
files.

Takes patterns, gives numbers with a bit for each of them; knows nothing of syntax and of what a pattern looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from operator import or_
from typing import Any, NamedTuple

from contextkit.lint.source.rule import Hit, Pattern
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.watch.words import EVERYWHERE, Group, Words

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
    told_by: int
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
        told_by = 0 if SELDOM.issuperset(pattern.nodes) else bits(*(*near, *tested)[:1]) or EVERYWHERE
        return _Row(
            pattern, bits(*words, *near, *tested), told_by, Wanted(bits(*near), bits(*tested), code, pattern.find)
        )

    def in_file(self, standing: int) -> int:
        """The patterns whose words stand in a file."""
        rows = 0
        for needed, those in self._in_file:
            if needed & standing == needed:
                rows |= those
        return rows

    def told_by(self, rows: int) -> int:
        """The groups of words of which one stands in each statement that one of some patterns can match."""
        return reduce(or_, (self.rows[at].told_by for at in _places(rows)), 0)

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
