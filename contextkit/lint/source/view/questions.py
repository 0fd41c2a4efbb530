"""What can be asked where the walk stands: what varies in an expression, what is a history, what calls a model, what
stands around.

Takes the walk's state, answers the questions of `rule.View`; knows nothing of how expressions are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

from contextkit.lint.source.rule import Kind, Node
from contextkit.lint.source.summary import Called, Filtered, Item, Module, Origin, Shown, Source, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import (
    by_type,
    children,
    constant_keys,
    functions_in,
    is_model_call,
    is_tool_definition,
    last_name,
    made_from,
    walk,
    way_to,
)
from contextkit.lint.source.tables import sinks
from contextkit.lint.source.view.state import BUILTINS, AnyFunction, State

_DOTTED = re.compile(rb"[\w.]*\Z")
_LONG = 80
"""Characters of a dotted name, at most."""
_DEPTH = 8
"""How far a question follows assignments: deeper chains are generated code."""


class Questions(State):
    """Answers of the walk. Satisfies `rule.View` once `evaluate` is given."""

    __slots__ = (
        "_assigned",
        "_callers",
        "_functions",
        "_parents",
        "asked",
        "called",
        "display",
        "probed",
        "stored",
    )

    stored: dict[str, list[ast.expr]]
    """Variable → the lists, calls and the like that this function stored in it."""

    def open(self, module: Module, source: bytes, tree: ast.Module, roots: frozenset[str]) -> None:
        """Begin a file."""
        super().open(module, source, tree, roots)
        self.stored, self.probed = {}, {}
        self._parents: dict[ast.AST, tuple[ast.AST, ...]] = {}
        self._assigned: dict[int, dict[str, list[ast.expr]]] = {}
        self._callers: dict[int, bool] = {}
        self._functions: dict[str, list[AnyFunction]] | None = None

    def probe(self, node: ast.AST) -> Value:
        """The origins of an expression, without noting anything.

        An expression is evaluated once a statement: handlers probe what they have evaluated, and nested expressions
        would otherwise be evaluated twice at each level, 2 ** depth times in all.
        """
        if _is_plain_name(node):
            return self._probed(node)
        known = self.probed.get(node)
        if known is None:
            value = self._probed(node)
            self.probed[node] = value, self.called, self.display
            return value
        value, self.called, self.display = known
        return value

    def _probed(self, node: ast.AST) -> Value:
        before, self.probing = self.probing, True
        try:
            return self.evaluate(node)
        finally:
            self.probing = before

    probed: dict[ast.AST, tuple[Value, Any, Any]]
    """Expression of the current statement → its origins, and what `called` and `display` were after it was evaluated.
    """
    called: Any
    display: Any

    evaluate: Callable[[ast.AST], Value]

    def kinds(self, node: ast.AST) -> frozenset[Kind]:
        """What varies in an expression; see `rule.View`."""
        found = self._kinds_of(self.probe(node), _DEPTH, {})
        return found | {"history"} if self.is_history(node) else found

    def _kinds_of(self, value: Value, depth: int, known: dict[tuple[int, int], frozenset[Kind]]) -> frozenset[Kind]:
        """The kinds of some origins; `known` are those of each that was met on the way: many ways lead to the same one."""
        found: frozenset[Kind] = frozenset()
        for number in value if depth else ():
            key = number, depth
            if key not in known:
                known[key] = frozenset()
                known[key] = self._kinds_of_origin(self.module.origins[number], depth - 1, known)
            found |= known[key]
        return found

    def _kinds_of_origin(
        self, origin: Origin, depth: int, known: dict[tuple[int, int], frozenset[Kind]]
    ) -> frozenset[Kind]:
        if isinstance(origin, Source):
            return frozenset({origin.kind})
        if isinstance(origin, Filtered):
            inside = self._kinds_of(origin.value, depth, known) - origin.without
            return frozenset({"date" if kind == "clock" else kind for kind in inside}) if origin.is_daily else inside
        if isinstance(origin, Item | Shown):
            return self._kinds_of(origin.value, depth, known)
        if not isinstance(origin, Called):
            return frozenset()
        local = self.module.functions.get(origin.callee.removeprefix(f"{self.module.name}."))
        values = [value for _, value in origin.arguments] + ([local.returned] if local else [])
        return frozenset[Kind]().union(*(self._kinds_of(value, depth, known) for value in values))

    def is_history(self, node: ast.AST) -> bool:
        """Whether it is the running list of messages; see `rule.View`."""
        return self._is_named(node, sinks.HISTORY, set())

    def is_tools(self, node: ast.AST) -> bool:
        """Whether it is a list of tools or a tool definition; see `rule.View`."""
        return self._is_named(node, sinks.TOOLS, set()) or (
            isinstance(node, ast.Dict) and is_tool_definition(constant_keys(node))
        )

    def is_prompt(self, node: ast.AST) -> bool:
        """Whether it is system text; see `rule.View`."""
        return self._is_named(node, sinks.PROMPT, set())

    def _is_named(self, node: ast.AST, words: re.Pattern[str], asked: set[str]) -> bool:
        """By its own name, by the name of what it was made from, or by what was stored in it."""
        name = last_name(node)
        if name and words.match(name):
            return True
        if isinstance(node, ast.Name):
            if node.id in asked:
                return False
            asked.add(node.id)
            return any(self._is_named(value, words, asked) for value in self.stored.get(node.id, ()))
        return not isinstance(node, ast.Attribute) and any(
            self._is_named(part, words, asked) for part in made_from(node)
        )

    def stored_in(self, name: str) -> list[ast.expr]:
        """The expressions this function assigns to a variable."""
        node = self.scope.node
        if node is None:
            return []
        if id(node) not in self._assigned:
            found: dict[str, list[ast.expr]] = {}
            for part in walk(node):
                if isinstance(part, ast.Assign):
                    for target in part.targets:
                        if isinstance(target, ast.Name):
                            found.setdefault(target.id, []).append(part.value)
            self._assigned[id(node)] = found
        return self._assigned[id(node)].get(name, [])

    def is_constant(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether it is made of what never changes in a session; see `rule.View`."""
        if isinstance(node, ast.Name):
            stored = self.stored_in(node.id)
            if stored:
                return bool(depth) and all(self.is_constant(value, depth - 1) for value in stored)
            return node.id not in self.scope.env and (
                node.id in self.names or node.id in BUILTINS or node.id in self.bound
            )
        if isinstance(node, ast.Attribute):
            is_mine = isinstance(node.value, ast.Name) and node.value.id == self.scope.myself
            return self._is_settled(node.attr) if is_mine else self.is_constant(node.value, depth)
        if isinstance(node, ast.Call):
            return self.dotted(node) in {"str", "tuple", "list", "dict", "frozenset", "int", "textwrap.dedent"} and all(
                self.is_constant(argument, depth) for argument in node.args
            )
        return all(self.is_constant(child, depth) for child in children(node) if isinstance(child, ast.expr))

    def _is_settled(self, attribute: str) -> bool:
        stored = self.module.attributes.get((self.scope.owner, attribute), [])
        return bool(stored) and all(is_once for _, is_once in stored)

    def calls_model(self) -> bool:
        """Whether the function around calls a model, itself or through this file; see `rule.View`."""
        return self.scope.node is not None and self._calls_model(self.scope.node, _DEPTH)

    def asks_model(self, node: ast.AST) -> bool:
        """Whether a loop or function calls a model, itself or through this file."""
        return self._calls_model(node, _DEPTH)

    def converses(self, node: ast.AST) -> bool:
        """Whether a loop or function goes through the turns of a conversation: adds to messages that outlive it, and
        calls a model.
        """
        start, end = self.bytes_at(node)
        if not any(self.source.find(word, start, end) >= 0 for word in sinks.TALKS):
            return False
        held = {self._written_up_to(found.end()) for found in sinks.CONVERSES.finditer(self.source, start, end)}
        return bool(held) and self._calls_model(node, _DEPTH) and not held <= self._begun_in(node, held)

    def _written_up_to(self, end: int) -> str:
        """`self.messages`, where the name ends there."""
        found = _DOTTED.search(self.source, max(0, end - _LONG), end)
        return found[0].decode("ascii", "replace") if found else ""

    def _begun_in(self, node: ast.AST, held: set[str]) -> set[str]:
        """Those of some lists that a loop or function begins itself, or that hang on what a loop goes through."""
        stored = (target for one in self.nodes(node, ast.Assign) for target in one.targets)
        annotated = (one.target for one in self.nodes(node, ast.AnnAssign) if one.value is not None)
        begun = {ast.unparse(target) for target in (*stored, *annotated)}
        targets = walk(node.target) if isinstance(node, ast.For | ast.AsyncFor) else []
        gone_through = {part.id for part in targets if isinstance(part, ast.Name)}
        return {one for one in held if one in begun or one.partition(".")[0] in gone_through}

    def _calls_model(self, node: ast.AST, depth: int) -> bool:
        known = self._callers.get(id(node))
        if known is not None:
            return known
        self._callers[id(node)] = False
        names = {last_name(call.func): call for call in walk(node) if isinstance(call, ast.Call)}
        found = any(is_model_call(self.dotted(call.func), name) for name, call in names.items())
        if not found and depth:
            found = any(self._calls_model(other, depth - 1) for name in names for other in self._functions_named(name))
        self._callers[id(node)] = found
        return found

    def _functions_named(self, name: str) -> list[AnyFunction]:
        if self._functions is None:
            self._functions = {}
            for node in functions_in(self.tree):
                self._functions.setdefault(node.name, []).append(node)
        return self._functions.get(name, [])

    def nodes(self, around: ast.AST, *types: type[Node]) -> tuple[Node, ...]:
        """The nodes of some types inside a function or statement; see `rule.View`."""
        found: dict[Any, list[Any]] = by_type(around)
        if len(types) == 1:
            return tuple(found.get(types[0], ()))
        return tuple(chain.from_iterable([found.get(kind, ()) for kind in types]))

    def loop(self) -> ast.AST | None:
        """The innermost loop around the node; see `rule.View`."""
        return self.loops[-1] if self.loops else None

    asked: ast.AST
    """The node a pattern is shown."""

    def function(self) -> AnyFunction | None:
        """The function around the node; see `rule.View`."""
        return self.scope.node

    def parents(self) -> tuple[ast.AST, ...]:
        """The nodes around the one a pattern is shown, outermost first; see `rule.View`."""
        node = self.asked
        found = self._parents.get(node)
        if found is None:
            line = getattr(node, "lineno", 0)
            found = self._parents[node] = (
                way_to(node, line, self.tree, True) or way_to(node, line, self.tree, False) or ()
            )
        return found


def _is_plain_name(node: ast.AST) -> bool:
    """Whether it is a constant, a variable or an item of one: cheap to evaluate, and another one after each assignment."""
    holder = node.value if isinstance(node, ast.Attribute | ast.Subscript) else node
    return isinstance(holder, ast.Name | ast.Constant)
