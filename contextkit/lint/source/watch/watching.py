"""Which patterns are asked about which nodes: those whose words stand in the file, in the function, in the node.

Takes the walk's state and patterns, gives handlers with the patterns around them; knows nothing of what a pattern looks for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.rule import Hit
from contextkit.lint.source.summary import Value
from contextkit.lint.source.walk.assignments import Assignments
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.walk.pieces import last_name
from contextkit.lint.source.walk.view import AnyFunction
from contextkit.lint.source.watch.patterns import FROZEN, MARKED, SILENCED, Asking, CodedPattern, Gate, holds, made_ready, rows_in
from contextkit.lint.source.watch.words import Names

_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
_FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_NAMES: dict[type, Callable[[Any], list[Any]]] = {
    ast.Call: lambda node: [keyword.arg for keyword in node.keywords],
    ast.Assign: lambda node: [last_name(target) for target in node.targets],
    ast.Dict: lambda node: [key.value for key in node.keys if type(key) is ast.Constant],
    ast.keyword: lambda node: [node.arg],
}
"""Type of node → the names one has itself."""
_MOST_WATCHES = 4_000
"""Sets of patterns remembered at most."""
_Watch = tuple[dict[type, Handler], dict[type, Asking], frozenset[type]]
"""Handlers with the patterns of some part of a file around them, those patterns by type of node, and those types."""


class Watching(Assignments):
    """Shows nodes to patterns."""

    __slots__ = (
        "file_gates", "may_freeze", "met", "patterns", "plain", "shown", "silencing", "wanted", "watches",
    )  # fmt: skip

    file_gates: list[Gate]
    """What the patterns of the file look for in a function."""
    may_freeze: bool
    """Whether a comment may say that something is frozen."""

    def look_for(self, patterns: tuple[CodedPattern, ...]) -> None:
        """Says once which patterns there are."""
        self.patterns = made_ready(patterns)
        self.met = Names(self.patterns.words)
        self.watches: dict[int, _Watch] = {}
        self.shown: dict[tuple[type, int], tuple[Asking, Handler | None]] = {}

    def watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        standing, patterns = self.met.words_in(self.source), self.patterns
        rows = patterns.in_file(self.source, standing)
        self.file_gates = patterns.gates(rows)
        self.may_mark = bool(standing & patterns.bits((MARKED,)))
        self.may_freeze = bool(standing & patterns.bits((FROZEN,)))
        self.silencing = [word for word in SILENCED if standing & patterns.bits((word,))]
        self._put_around(rows)

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
        for kind, those in self.patterns.asking.items():
            if those & rows:
                key = kind, those & rows
                wanted[kind], handler = self.shown.get(key) or self._shown(*key)
                if handler is not None:
                    table[kind] = handler
        return table, wanted, frozenset(wanted)

    def _shown(self, kind: type, rows: int) -> tuple[Asking, Handler | None]:
        """Some patterns that ask for a type of node, and its handler with them around it."""
        asking = self.patterns.ask(rows)
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
        text = self.source[start:end]
        self._put_around(rows_in(text, self.met.words_in_part(text), self.file_gates))

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
        rows, named, tested = asking
        if named:
            found = [row for name in _NAMES[type(node)](node) for row in named.get(name, ())]
            rows = [*rows, *dict.fromkeys(found)] if found else rows
        if tested:
            start, end = self.bytes_at(node.test)  # type: ignore[attr-defined]
            test = self.source[start:end]
            rows = [*rows, *(row for groups, row in tested if holds(test, groups))]
        if not rows or (self.frozen_lines and self.statement_is_frozen()):
            return
        self.asked = node
        start, end = self.bytes_at(node)
        text = self.source[start:end]
        for code, find, groups in rows:
            if not groups or holds(text, groups):
                for hit in find(node, self) or ():
                    self._note(code, hit)

    def _note(self, code: str, hit: Hit) -> None:
        site = self.site(hit.node)
        place = CodePlace(self.module.path, *site[:4])
        self.module.findings.append(Finding(code, hit.message, place, "source", (site.place(self.module.path),), hit.fix))
