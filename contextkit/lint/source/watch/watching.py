"""Which patterns are asked about which nodes: those whose words stand in the file, in the function, in the node.

Takes the walk's state and patterns, gives handlers with the patterns around them; knows nothing of what a pattern looks
for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.rule import Hit
from contextkit.lint.source.summary import Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import last_name
from contextkit.lint.source.walk.assignments import Assignments
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.watch.patterns import (
    FROZEN,
    FUNCTIONS,
    MARKED,
    SELDOM,
    SILENCED,
    Asking,
    CodedPattern,
    Wanted,
    made_ready,
)
from contextkit.lint.source.watch.words import Standing

_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
_NAMES: dict[type, Callable[[Any], list[Any]]] = {
    ast.Call: lambda node: [keyword.arg for keyword in node.keywords],
    ast.Assign: lambda node: [last_name(target) for target in node.targets],
    ast.Dict: lambda node: [key.value for key in node.keys if type(key) is ast.Constant],
    ast.keyword: lambda node: [node.arg],
}
"""Type of node → the names one has itself."""
_MOST_WATCHES = 1_000
"""Sets of patterns remembered at most, some kilobytes each."""


class _Watch(NamedTuple):
    """The patterns that the files with some words are asked for."""

    asking: dict[type, Asking]
    """By type of node."""
    types: frozenset[type]
    """Those types."""
    watched: dict[type, Handler]
    """Handlers with all of them around."""
    quiet: dict[type, Handler]
    """Handlers for statements without a word that tells of patterns: only those around that ask for what is seldom met.
    """
    told_by: int
    """The groups of words that tell of patterns."""


class Watching(Assignments):
    """Shows nodes to patterns."""

    __slots__ = (
        "marks",
        "may_freeze",
        "patterns",
        "plain",
        "quiet",
        "shown",
        "silencing",
        "standing",
        "wanted",
        "watched",
        "watches",
    )

    standing: Standing
    """Where the words of all patterns stand in the file."""
    marks: Sequence[int]
    """How many words that tell a statement to be looked at stand in the lines up to each; from 0 lines on."""
    watched: dict[type, Handler]
    """Node type → handler with the patterns of the file around it."""
    quiet: dict[type, Handler]
    """Node type → handler for statements without a word that tells of patterns."""
    plain: dict[type, Handler]
    """Node type → handler without patterns."""
    may_freeze: bool
    """Whether a comment may say that something is frozen."""

    def look_for(self, patterns: tuple[CodedPattern, ...]) -> None:
        """Says once which patterns there are."""
        self.patterns = made_ready(patterns)
        self.watches: dict[int, _Watch] = {}
        self.shown: dict[tuple[type, int], tuple[Asking, Handler | None]] = {}

    def watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        patterns = self.patterns
        self.standing = patterns.words.found_in(self.source)
        standing, bits = self.standing.anywhere(), patterns.words.bits
        rows = patterns.in_file(standing)
        self.may_mark = bool(standing & bits(MARKED))
        self.may_freeze = bool(standing & bits(FROZEN))
        self.silencing = [word for group in SILENCED if standing & bits(group) for word in group]
        known = self.watches.get(rows)
        if known is None:
            if len(self.watches) >= _MOST_WATCHES:
                self.watches.clear()
                self.shown.clear()
            known = self.watches[rows] = self._watch_of(rows)
        self.wanted, self.watched_types, self.watched, self.quiet, told_by = known
        self.marks = self.standing.up_to_line(told_by, self._index())
        self.table = self.watched

    def _watch_of(self, rows: int) -> _Watch:
        wanted, watched, quiet = {}, dict(self.plain), dict(self.plain)
        for kind, those in self.patterns.asking.items():
            if those & rows:
                key = kind, those & rows
                wanted[kind], handler = self.shown.get(key) or self._shown(*key)
                if handler is not None:
                    watched[kind] = handler
                    if kind in SELDOM:
                        quiet[kind] = handler
        return _Watch(wanted, frozenset(wanted), watched, quiet, self.patterns.told_by(rows))

    def _shown(self, kind: type, rows: int) -> tuple[Asking, Handler | None]:
        """Some patterns that ask for a type of node, and its handler with them around it."""
        asking = self.patterns.ask(rows)
        plain = None if kind in FUNCTIONS else self.plain.get(kind, self.nothing)
        is_before = issubclass(kind, ast.stmt) and kind not in _AFTER
        handler = plain and (self._shown_before if is_before else self._shown_after)(plain, asking)
        found = self.shown[kind, rows] = asking, handler
        return found

    def _shown_before(self, plain: Handler, asking: Asking) -> Handler:
        def handler(node: Any) -> Value:
            if not self.probing:
                self.show_to(node, asking)
            return plain(node)

        return handler

    def _shown_after(self, plain: Handler, asking: Asking) -> Handler:
        def handler(node: Any) -> Value:
            value = plain(node)
            if not self.probing:
                if isinstance(node, ast.stmt):
                    self.probed = {}  # what was probed inside held before its branches met
                self.show_to(node, asking)
            return value

        return handler

    def show(self, node: ast.AST) -> None:
        """Shows a node to the patterns that ask for its type."""
        asking = self.wanted.get(type(node))
        if asking and not self.probing:
            self.show_to(node, asking)

    def show_to(self, node: ast.AST, asking: Asking) -> None:
        """Shows a node to those of some patterns whose words stand in it."""
        rows = asking.plain
        if asking.named:
            found = {row: None for name in _NAMES[type(node)](node) for row in asking.named.get(name, ())}
            rows = [*rows, *found]
        if asking.tested:
            there = self.standing.within(*self.bytes_at(node.test))  # type: ignore[attr-defined]
            rows = [*rows, *[row for row in asking.tested if row.tested & there == row.tested]]
        if rows:
            here = self.standing.within(*self.bytes_at(node))
            for row in rows:
                if row.needed & here == row.needed:
                    self._ask(node, row)

    def _ask(self, node: ast.AST, row: Wanted) -> None:
        if self.frozen_lines and self.statement_is_frozen():
            return
        self.asked = node
        for hit in row.find(node, self) or ():
            self._note(row.code, hit)

    def _note(self, code: str, hit: Hit) -> None:
        site = self.site(hit.node)
        place = CodePlace(self.module.path, *site[:4])
        self.module.findings.append(
            Finding(code, hit.message, place, "source", (site.place(self.module.path),), hit.fix)
        )
