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
from contextkit.lint.source.walk.assignments import Assignments
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.walk.view import AnyFunction
from contextkit.lint.source.watch.words import ANYWHERE, Words, longest_name

CodedPattern = tuple[str, Pattern]
"""A hazard's code and one of its patterns."""
_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
_FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_MARKED, _FROZEN, _SILENCED = b"cache_control", b"frozen", (b"noqa", b"NOQA")
_Group = tuple[bytes, ...]
_Wanted = tuple[str, Callable[[Any, Any], Iterable[Hit]], tuple[_Group, ...], tuple[int, ...]]
"""A hazard's code, how it is looked for, groups of words of which one each stands in the node, and the bits of those groups."""
_Watch = tuple[dict[type, Handler], dict[type, list[_Wanted]], frozenset[type]]
"""Handlers with the patterns of some part of a file around them, those patterns by type of node, and those types."""


class _Asked(NamedTuple):
    """A pattern and its words."""

    code: str
    """Of the hazard."""
    pattern: Pattern
    """It."""
    words: _Group
    """Those of which one stands in its file."""
    near: tuple[_Group, ...]
    """Groups of which one each stands in the node itself."""
    bits: tuple[int, ...]
    """Of the names in those groups."""
    file_bits: int
    """Of the names in the words."""


class Watching(Assignments):
    """Shows nodes to patterns."""

    def look_for(self, patterns: Iterable[CodedPattern]) -> None:
        """Says once which patterns there are."""
        coded = [(code, pattern, _encoded(pattern)) for code, pattern in patterns]
        every = {longest_name(word) for _, _, groups in coded for group in groups for word in group}
        self.words = Words({*every, _MARKED, _FROZEN, *_SILENCED})
        self.patterns = [self._asked_for(*one) for one in coded]
        self.written = {one.near: tuple(group for group in one.near if any(map(_is_written, group))) for one in self.patterns}
        self.every_word = [(word, self._bits((word,))) for word in dict.fromkeys(word for one in self.patterns for word in one.words)]

    def _asked_for(self, code: str, pattern: Pattern, groups: tuple[_Group, ...]) -> _Asked:
        near = tuple(filter(None, groups if pattern.is_near else groups[1:]))
        return _Asked(code, pattern, groups[0], near, tuple(map(self._bits, near)), self._bits(groups[0]))

    def _bits(self, words: _Group) -> int:
        bits = 0
        for word in words:
            bits |= self.words.bits[longest_name(word)]
        return bits

    def has_a_word(self, source: bytes) -> bool:
        """Whether a word of any pattern stands in a file."""
        standing = self.words.standing_in(source)
        return any(bits & standing and word in source for word, bits in self.every_word)

    def watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        standing = self._standing()
        wanted: dict[type, list[_Wanted]] = {}
        for code, pattern, words, near, bits, file_bits in self.patterns:
            if (file_bits and not file_bits & standing) or not _are_met(bits, standing):
                continue
            if not pattern.is_near and words and not any(word in self.source for word in words):
                continue
            row = code, pattern.find, near, bits
            for kind in pattern.nodes:
                wanted.setdefault(kind, []).append(row)
        self.everything = wanted
        every = {row[2]: row[3] for rows in wanted.values() for row in rows}
        self.gates = {near: (1 << place, bits, self.written[near]) for place, (near, bits) in enumerate(every.items())}
        self.watches: dict[int, _Watch] = {}
        self.may_mark = bool(standing & self.words.bits[_MARKED])
        self.may_freeze = bool(standing & self.words.bits[_FROZEN])
        self.silencing = [word for word in _SILENCED if standing & self.words.bits[word]]
        self._put_around(wanted)

    may_freeze: bool = False
    """Whether a comment may say that something is frozen."""

    def _standing(self) -> int:
        """The words of the whole file, and of each of its functions."""
        functions = sorted(_outermost(self.tree), key=lambda node: (node.lineno, node.col_offset))
        inside = [self.bytes_at(function) for function in functions]
        between = [*zip((0, *(end for _, end in inside)), (*(start for start, _ in inside), len(self.source)), strict=True)]
        found = self.words.standing_in_each(self.source, [*inside, *between])
        self.standing: dict[ast.AST, int] = dict(zip(functions, found, strict=False))
        whole = ANYWHERE
        for bits in found:
            whole |= bits
        return whole

    def _put_around(self, wanted: dict[type, list[_Wanted]]) -> _Watch:
        """Handlers with these patterns around them, from now on."""
        table = dict(self.plain)
        for kind, rows in wanted.items():
            plain = self.plain.get(kind)
            if plain is not None and kind not in _FUNCTIONS:
                is_before = issubclass(kind, ast.stmt) and kind not in _AFTER
                table[kind] = (self._shown_before if is_before else self._shown_after)(plain, rows)
        self.table, self.wanted, self.watched_types = found = table, wanted, frozenset(wanted)
        return found

    plain: dict[type, Handler]
    """Node type → handler without patterns."""

    def look_inside(self, node: AnyFunction, outer: AnyFunction | None) -> None:
        """Only patterns whose words stand in a function, or in the one around it, are asked about its nodes."""
        words = self.standing.get(node) or self.standing.get(outer or node)
        if words is None:
            start, end = self.bytes_at(node)
            words = self.words.standing_in(self.source[start:end])
        self.standing[node] = words
        open_gates = 0
        for gate, bits, written in self.gates.values():
            for part in bits:
                if not part & words:
                    break
            else:
                if not written or self._stand_in(node, written):
                    open_gates |= gate
        known = self.watches.get(open_gates)
        if known is not None:
            self.table, self.wanted, self.watched_types = known
            return
        near = {kind: [row for row in rows if self.gates[row[2]][0] & open_gates] for kind, rows in self.everything.items()}
        self.watches[open_gates] = self._put_around({kind: rows for kind, rows in near.items() if rows})

    def _stand_in(self, node: ast.AST, groups: tuple[_Group, ...]) -> bool:
        """Whether a word of each group stands in a node."""
        start, end = self.bytes_at(node)
        find_word = self.source.find
        return all(any(find_word(word, start, end) >= 0 for word in group) for group in groups)

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
        self.asked(node)
        start, end, find_word = -1, -1, self.source.find
        for code, find, groups, _ in rows:
            if groups and end < 0:
                start, end = self.bytes_at(node)
            for group in groups:
                for word in group:
                    if find_word(word, start, end) >= 0:
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


def _is_written(word: bytes) -> bool:
    """Whether a word is more than a part of a name, so that it need not stand where its name does."""
    return longest_name(word) != word


def _encoded(pattern: Pattern) -> tuple[_Group, ...]:
    return tuple(tuple(word.encode() for word in words) for words in (pattern.words, *pattern.also))


def _are_met(bits: tuple[int, ...], standing: int) -> bool:
    return all(part & standing for part in bits)


def _outermost(tree: ast.AST) -> Iterator[AnyFunction]:
    """Every function that stands in no other one."""
    waiting = [tree]
    for node in waiting:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            continue
        for name in _BLOCKS:
            waiting += getattr(node, name, ())
