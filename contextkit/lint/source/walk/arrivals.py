"""Where a value meets the prompt: noted once, frozen where the session makes it once.

Takes the walk's state and a value, gives an `Arrival` of the function it stands in; knows nothing of how values are made.
"""

from __future__ import annotations

import ast

from contextkit.lint.source.rule import Kind, Sink
from contextkit.lint.source.summary import CLEAN, Arrival, Called, Filtered, Frozen, Item, Parameter, Source, Value
from contextkit.lint.source.tables import sanitizers, sinks
from contextkit.lint.source.walk.pieces import last_name, word_of
from contextkit.lint.source.walk.view import View

REQUEST_SINKS = frozenset({"model", "effort", "thinking", "tool_choice", "output", "headers", "template", "ttl", "stream"})
"""A choice between two constants varies only here."""


class Arrivals(View):
    """Notes what reaches the prompt."""

    __slots__ = ("branches", "frozen_lines", "growing", "mid_conversation", "settled")

    branches: list[ast.If]
    """Each `if` that stands around it, outermost first."""
    mid_conversation: bool
    """Whether a system message met now is appended behind a running conversation."""
    settled: Value
    """What a call in a conversation's loop used of the values made before it."""
    frozen_lines: frozenset[int]
    """Lines with `# contextkit: frozen`."""
    growing: dict[int, bool]
    """Loops whether they are conversations, by identity."""

    def arrive(self, sink: Sink, node: ast.expr, label: str, *, is_named: bool = False, value: Value | None = None) -> None:
        """Notes that a value reaches the prompt here, if any part of it may vary."""
        if self.probing or self.statement_is_frozen() or (sink == "cache_key" and _is_conversation(node)):
            return
        found = self.probe(node) if value is None else value
        if sink in REQUEST_SINKS:
            found |= self.chosen(sink, node)
        handed = self._called_by_framework(node, found) if sink == "system" else CLEAN
        if isinstance(node, ast.JoinedStr) and sink == "system" and found:
            found = self.but_for_the_end(node, found)
        if not found and not handed:
            return
        if self.mid_conversation and sink == "system":
            sink = "tail"
        value, in_loop = self._settle(found, is_named) | handed, bool(self.loops or handed)
        self.scope.function.arrivals.append(Arrival(sink, value, self.site(node), label, is_named, in_loop, self._only_for(node)))

    def _only_for(self, node: ast.expr) -> tuple[str, str]:
        """`if kind == "system":` around it, where `kind` is a parameter."""
        for branch in reversed(self.branches):
            test = branch.test
            if type(test) is ast.Compare and type(test.ops[0]) is ast.Eq and type(test.left) is ast.Name:
                is_given = test.left.id in self.scope.function.named
                word, is_inside = word_of(test.comparators[0]), branch.body[0].lineno <= node.lineno <= (branch.body[-1].end_lineno or 0)
                if word and is_given and is_inside:
                    return test.left.id, word
        return "", ""

    def but_for_the_end(self, node: ast.JoinedStr, value: Value) -> Value:
        """The same without what tells of the machine or the user at the very end: nothing stands behind it that others could share."""
        n_behind, place = 0, len(node.values)
        while place and n_behind <= sanitizers.END_OF_PROMPT:
            place -= 1
            n_behind += n_characters(node.values[place])
        last = CLEAN.union(*(self.probe(part) for part in node.values[place:])) & value
        last -= CLEAN.union(*(self.probe(part) for part in node.values[:place]))
        return (value - last) | self.filtered(last, sanitizers.SAME_FOR_A_SESSION) if last else value

    def chosen(self, sink: Sink, node: ast.expr) -> Value:
        """`a if hard else b` as a request parameter: a setting chosen per call."""
        if type(node) is not ast.IfExp or self.is_constant(node.test):
            return CLEAN
        kind: Kind = "model" if sink == "model" else "flag"
        return self.varies(kind, node)

    def _called_by_framework(self, node: ast.expr, value: Value) -> Value:
        """A function handed over as instructions is called once for each run."""
        if type(node) is ast.Lambda:
            return value
        name = self.dotted(node) if type(node) in {ast.Name, ast.Attribute} else ""
        if not name or not self.is_ours(name) or not name.rpartition(".")[2].islower():
            return CLEAN
        return self.number(Called(name, (), self.site(node), False, False))

    def _settle(self, value: Value, is_named: bool) -> Value:
        """What was made before a conversation's loop, or where a session runs once, is frozen."""
        loop = self.loops[-1] if self.loops else None
        if loop is None:
            return self.frozen(value) if self.scope.function.is_once else value
        if not self.grows(loop):
            return value
        first, last = loop.lineno, loop.end_lineno or loop.lineno  # type: ignore[attr-defined]
        outside = frozenset(number for number in value if not first <= self._line_of(number, first) <= last)
        if not is_named:
            self.settled |= outside
        return (value - outside) | self.frozen(outside)

    def _line_of(self, number: int, inside: int) -> int:
        """Where a value is made; what is read anew wherever it is used is made inside."""
        origin = self.module.origins[number]
        if isinstance(origin, Source | Called):
            return origin.site.line
        if isinstance(origin, Filtered | Item):
            return max((self._line_of(part, inside) for part in origin.value), default=0)
        return 0 if isinstance(origin, Parameter | Frozen) else inside

    def grows(self, loop: ast.AST) -> bool:
        """Whether a loop is a conversation: its body adds to a history."""
        known = self.growing.get(id(loop))
        if known is None:
            start, end = self.bytes_at(loop)
            known = self.growing[id(loop)] = sinks.GROWS.search(self.source, start, end) is not None
        return known

    def statement_is_frozen(self) -> bool:
        """Whether `# contextkit: frozen` stands on the statement."""
        return bool(self.frozen_lines) and any(
            line in self.frozen_lines for line in range(self.statement.lineno, self._last_line() + 1)  # type: ignore[attr-defined]
        )

    def _last_line(self) -> int:
        body = getattr(self.statement, "body", None)
        return body[0].lineno - 1 if body else self.statement.end_lineno  # type: ignore[attr-defined, no-any-return]


def n_characters(node: ast.expr) -> int:
    """How long the constant text of an f-string, or of a part of one, is."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return sum(len(part.value.strip()) for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _is_conversation(node: ast.expr) -> bool:
    """Whether a key is made of the conversation's own id: as long as the conversation has it, its prefix is found by it."""
    names = [last_name(part.value if isinstance(part, ast.FormattedValue) else part) for part in _parts(node)]
    return bool(names) and all(map(sinks.CONVERSATION_ID.search, names))


def _parts(node: ast.expr) -> list[ast.expr]:
    return [part for part in node.values if not isinstance(part, ast.Constant)] if isinstance(node, ast.JoinedStr) else [node]
