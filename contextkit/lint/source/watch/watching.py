"""Which patterns are asked about which nodes: those whose words stand in the file, in the function, in the node.

Takes the walk's state and patterns, gives handlers with the patterns around them; knows nothing of what a pattern looks for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.rule import Hit, Pattern
from contextkit.lint.source.summary import Value
from contextkit.lint.source.tables import sinks
from contextkit.lint.source.walk.assignments import Assignments
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.walk.view import AnyFunction
from contextkit.lint.source.watch.words import Words, longest_name

CodedPattern = tuple[str, Pattern]
"""A hazard's code and one of its patterns."""
_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
_FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_MARKED, _FROZEN, _SILENCED = b"cache_control", b"frozen", (b"noqa", b"NOQA")
_MOST_WATCHES = 4_000
"""Sets of patterns remembered at most."""
_Group = tuple[bytes, ...]
_Wanted = tuple[str, Callable[[Any, Any], Iterable[Hit]], tuple[_Group, ...]]
"""A hazard's code, how it is looked for, and groups of words of which one each stands in the node."""
_Watch = tuple[dict[type, Handler], dict[type, list[_Wanted]], frozenset[type]]
"""Handlers with the patterns of some part of a file around them, those patterns by type of node, and those types."""


class _Asked(NamedTuple):
    """A pattern and its words."""

    code: str
    """Of the hazard."""
    pattern: Pattern
    """It."""
    words: _Group
    """Those of which one stands in its file; empty where the node itself is asked."""
    near: tuple[_Group, ...]
    """Groups of which one each stands in the node itself."""
    needed: tuple[int, ...]
    """Bits of the names in the words, and in each of those groups."""


_Written = tuple[int, tuple[tuple[bytes, int], ...]]
"""Of a group of words: the bits of those that are a part of a name; the others, each with the bits of its longest name."""


class _Gate(NamedTuple):
    """What patterns that look for the same words in a node have in common."""

    bits: tuple[int, ...]
    """Of the names in each group of their words."""
    written: tuple[_Written, ...]
    """The groups that do not stand everywhere their names do."""
    rows: int
    """The patterns, a bit for each."""


class Watching(Assignments):
    """Shows nodes to patterns."""

    __slots__ = (
        "words", "patterns", "gates", "telling", "every_word", "every_row", "asking", "named", "written", "watches", "shown",
        "asked_last", "file_gates", "may_freeze", "silencing", "wanted", "plain",
    )  # fmt: skip

    def look_for(self, patterns: Iterable[CodedPattern]) -> None:
        """Says once which patterns there are."""
        coded = [(code, pattern, _encoded(pattern)) for code, pattern in patterns]
        every = {word for _, _, groups in coded for group in groups for word in group}
        self.words = Words(map(longest_name, (*every, *sinks.WORDS, *sinks.CASED_WORDS, _MARKED, _FROZEN, *_SILENCED)))
        self.patterns = [self._asked_for(*one) for one in coded]
        self.gates = [self._gate(near, rows) for near, rows in self._rows_by(lambda one: (one.near,)).items()]
        self.telling, cased = self._bits(sinks.WORDS), (word for _, _, groups in coded for word in groups[0])
        self.every_word = [(word, self._bits((word,))) for word in dict.fromkeys((*sinks.CASED_WORDS, *cased))]
        self.asking = self._rows_by(lambda one: one.pattern.nodes)
        self.every_row = (1 << len(self.patterns)) - 1
        self.named = [*self._rows_by(lambda one: one.needed).items()]
        whole = self._rows_by(lambda one: filter(None, (one.words,)))
        self.written = [(words, rows) for words, rows in whole.items() if any(map(_is_written, words))]
        self.watches: dict[int, _Watch] = {}
        self.asked_last = b"", 0
        self.shown: dict[tuple[type, int], tuple[list[_Wanted], Handler | None]] = {}

    def _rows_by(self, keys: Callable[[_Asked], Iterable[Any]]) -> dict[Any, int]:
        """The patterns that have a key in common, a bit for each."""
        found: dict[Any, int] = {}
        for at, one in enumerate(self.patterns):
            for key in keys(one):
                found[key] = found.get(key, 0) | 1 << at
        return found

    def _asked_for(self, code: str, pattern: Pattern, groups: tuple[_Group, ...]) -> _Asked:
        near = tuple(sorted(filter(None, groups if pattern.is_near else groups[1:]), key=len))  # what is soon found missing first
        needed = tuple(map(self._bits, filter(None, groups)))
        return _Asked(code, pattern, () if pattern.is_near else groups[0], near, needed)

    def _gate(self, near: tuple[_Group, ...], rows: int) -> _Gate:
        written = tuple(self._split_by_names(group) for group in near if any(map(_is_written, group)))
        return _Gate(tuple(map(self._bits, near)), written, rows)

    def _split_by_names(self, group: _Group) -> _Written:
        names = tuple(word for word in group if not _is_written(word))
        return self._bits(names), tuple((word, self._bits((word,))) for word in group if _is_written(word))

    def _bits(self, words: _Group) -> int:
        bits = 0
        for word in words:
            bits |= self.words.bits[longest_name(word)]
        return bits

    def has_a_word(self, source: bytes) -> bool:
        """Whether a word of any sink or pattern stands in a file."""
        standing = self._standing_in(source)
        return bool(standing & self.telling) or any(bits & standing and word in source for word, bits in self.every_word)

    def _standing_in(self, source: bytes) -> int:
        """The words that stand in a file, which is asked about once more when it is read."""
        if self.asked_last[0] is not source:
            self.asked_last = source, self.words.standing_in(source)
        return self.asked_last[1]

    asked_last: tuple[bytes, int]
    """A file and the words in it."""

    def watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        standing = self._standing_in(self.source)
        rows = self._rows_in_file(standing)
        self.file_gates = [(bits, written, those & rows) for bits, written, those in self.gates if those & rows]
        self.may_mark = bool(standing & self.words.bits[_MARKED])
        self.may_freeze = bool(standing & self.words.bits[_FROZEN])
        self.silencing = [word for word in _SILENCED if standing & self._bits((word,))]
        self._put_around(rows)

    def _rows_in_file(self, standing: int) -> int:
        """The patterns whose words stand in the file, a bit for each."""
        rows = self.every_row
        for bits, those in self.named:
            if not bits & standing:
                rows &= ~those
        for words, those in self.written:
            if those & rows and not any(word in self.source for word in words):
                rows &= ~those
        return rows

    may_freeze: bool
    """Whether a comment may say that something is frozen."""

    def _put_around(self, rows: int) -> None:
        """Handlers with these patterns around them, from now on."""
        known = self.watches.get(rows)
        if known is None:
            if len(self.watches) >= _MOST_WATCHES:
                self.watches.clear()
                self.shown.clear()
            known = self.watches[rows] = self._watch_of(rows)
        self.table, self.wanted, self.watched_types = known

    def _watch_of(self, rows: int) -> _Watch:
        wanted, table = {}, dict(self.plain)
        for kind, those in self.asking.items():
            if those & rows:
                key = kind, those & rows
                wanted[kind], handler = self.shown.get(key) or self._shown(*key)
                if handler is not None:
                    table[kind] = handler
        return table, wanted, frozenset(wanted)

    def _shown(self, kind: type, rows: int) -> tuple[list[_Wanted], Handler | None]:
        """Some patterns that ask for a type of node, and its handler with them around it."""
        asking = [(one.code, one.pattern.find, one.near) for one in map(self.patterns.__getitem__, _places(rows))]
        plain = None if kind in _FUNCTIONS else self.plain.get(kind)
        is_before = issubclass(kind, ast.stmt) and kind not in _AFTER
        handler = plain and (self._shown_before if is_before else self._shown_after)(plain, asking)
        found = self.shown[kind, rows] = asking, handler
        return found

    plain: dict[type, Handler]
    """Node type → handler without patterns."""

    def look_inside(self, node: AnyFunction) -> None:
        """Only patterns whose words stand in a function are asked about its nodes."""
        start, end = self.bytes_at(node)
        text, open_rows = self.source[start:end], 0
        words = self.words.standing_in_part(text)
        for bits, written, rows in self.file_gates:
            for part in bits:
                if not part & words:
                    break
            else:
                if not written or _stand_in(text, words, written):
                    open_rows |= rows
        self._put_around(open_rows)

    def _shown_before(self, plain: Handler, rows: list[_Wanted]) -> Handler:
        def handler(node: Any) -> Value:
            if not self.probing:
                self.show_to(node, rows)
            return plain(node)

        return handler

    def _shown_after(self, plain: Handler, rows: list[_Wanted]) -> Handler:
        def handler(node: Any) -> Value:
            value = plain(node)
            if not self.probing:
                self.show_to(node, rows)
            return value

        return handler

    def show(self, node: ast.AST) -> None:
        """Shows a node to the patterns that ask for its type."""
        rows = self.wanted.get(type(node))
        if rows and not self.probing:
            self.show_to(node, rows)

    def show_to(self, node: ast.AST, rows: list[_Wanted]) -> None:
        """Shows a node to those of some patterns whose words stand in it."""
        if self.frozen_lines and self.statement_is_frozen():
            return
        self.asked = node
        start, end = self.bytes_at(node)
        text = self.source[start:end]
        for code, find, groups in rows:
            for group in groups:
                for word in group:
                    if word in text:
                        break
                else:
                    break
            else:
                for hit in find(node, self) or ():
                    self._note(code, hit)

    def _note(self, code: str, hit: Hit) -> None:
        site = self.site(hit.node)
        place = CodePlace(self.module.path, *site[:4])
        self.module.findings.append(Finding(code, hit.message, place, "source", (site.place(self.module.path),), hit.fix))


def _encoded(pattern: Pattern) -> tuple[_Group, ...]:
    return tuple(tuple(word.encode() for word in words) for words in (pattern.words, *pattern.also))


def _is_written(word: bytes) -> bool:
    """Whether a word is more than a part of a name, so that it need not stand where its name does."""
    return longest_name(word) != word


def _stand_in(text: bytes, standing: int, groups: tuple[_Written, ...]) -> bool:
    """Whether a word of each group stands in a text, of whose names it is known what they hold."""
    for names, words in groups:
        if names & standing:
            continue
        for word, bits in words:
            if bits & standing and word in text:
                break
        else:
            return False
    return True


def _places(rows: int) -> Iterator[int]:
    """Which bits are set, the lowest first."""
    while rows:
        yield (rows & -rows).bit_length() - 1
        rows &= rows - 1
