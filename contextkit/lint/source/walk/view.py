"""Where the walk stands, and what can be asked there: names, the running history, what varies in an expression.

Takes a parsed file, gives the state of the walk and the questions of `rule.View`; knows nothing of how expressions are evaluated.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from contextkit.lint.finding import Edit, Fix
from contextkit.lint.source import nodes as ast
from contextkit.lint.source.rule import Kind, Node
from contextkit.lint.source.summary import (
    CLEAN,
    MODULE_BODY,
    Called,
    Filtered,
    Frozen,
    Function,
    Global,
    Item,
    Module,
    Origin,
    Parameter,
    Shown,
    Site,
    Source,
    Value,
)
from contextkit.lint.source.tables import sinks
from contextkit.lint.source.walk.pieces import (
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

__all__ = ["BUILTINS", "AnyFunction", "Scope", "View", "constant_keys", "last_name"]

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
BUILTINS = frozenset(dir(builtins))
_TEXT_LIMIT = 60
_DEPTH = 8
"""How far a question follows assignments: deeper chains are generated code."""
_WITH_A_NAME = frozenset({ast.arg, ast.keyword})
_SCOPES = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda})


@dataclass(slots=True)
class Scope:
    """The function the walk stands in."""

    function: Function
    """What it becomes."""
    node: AnyFunction | None
    """Its syntax, None for a module's body."""
    env: dict[str, Value]
    """Variable (`x`, `x.y`, `x['y']`) → origins."""
    types: dict[str, str]
    """Variable → full name of the class or function it came from."""
    owner: str = ""
    """Class inside the module, empty outside of one."""
    myself: str = ""
    """Name of the first parameter of a method."""


class View:
    """The state of the walk. Satisfies `rule.View` once `evaluate` is given.

    It and what is built upon it have slots: an object with so many attributes in a dict is a tenth slower to ask.
    """

    __slots__ = (
        "_assigned", "_callers", "_functions", "_is_ascii", "_lines", "_parents", "_starts", "asked", "bound", "class_types", "ids",
        "in_handler", "loops", "module", "names", "probing", "roots", "scope", "source", "statement", "stored", "tree",
    )  # fmt: skip

    source: bytes
    module: Module
    scope: Scope
    probing: bool
    in_handler: bool
    """Whether it stands in an `except`."""

    def open(self, module: Module, source: bytes, tree: ast.Module, roots: frozenset[str]) -> None:
        """Begin a file."""
        self.module, self.source, self.tree, self.roots = module, source, tree, roots
        self.ids: dict[Origin, Value] = {}
        self.names = module.names
        self.scope = Scope(Function(f"{module.name}.{MODULE_BODY}", is_once=True), None, {}, {})
        self.loops: list[ast.AST] = []
        self.statement: ast.AST = tree
        self.probing = False
        self.class_types: dict[tuple[str, str], str] = {}
        self.bound: set[str] = set()
        self._starts: list[int] | None = None
        self._is_ascii = source.isascii()
        self._lines: list[bytes] = []
        self._parents: dict[ast.AST, tuple[ast.AST, ...]] = {}
        self.stored: dict[str, list[ast.expr]] = {}
        self._assigned: dict[int, dict[str, list[ast.expr]]] = {}
        self._callers: dict[int, bool] = {}
        self._functions: dict[str, list[AnyFunction]] | None = None

    # Origins --------------------------------------------------------------------------------------------------------------

    def number(self, origin: Origin) -> Value:
        """The value that has this one origin."""
        found = self.ids.get(origin)
        if found is None:
            found = self.ids[origin] = frozenset((len(self.module.origins),))
            self.module.origins.append(origin)
        return found

    def varies(self, kind: Kind, node: ast.AST) -> Value:
        """The value of an expression that is a source; in a handler, the way of a mishap, none is."""
        if self.in_handler:
            return CLEAN
        site = self.site(node)
        if isinstance(node, ast.expr):
            text = self._written(node)
            site = site._replace(text=text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…")
        return self.number(Source(kind, site))

    def _written(self, node: ast.expr) -> str:
        """An expression as it stands in the file, on one line."""
        self._index()
        if node.lineno == node.end_lineno and node.lineno <= len(self._lines):
            return self._lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace").strip()
        return re.sub(r"\s+", " ", ast.unparse(node))

    def frozen(self, value: Value) -> Value:
        """The same, made once for the session."""
        return self.number(Frozen(value)) if value else value

    def filtered(self, value: Value, without: frozenset[Kind]) -> Value:
        """The same, with some kinds mended."""
        return self.number(Filtered(value, without)) if value else value

    def site(self, node: Any) -> Site:
        """Where a node stands; the text of an expression is left to who needs it."""
        try:
            line, column, end_line, end_column = node.lineno, node.col_offset, node.end_lineno or 1, node.end_col_offset or 0
        except AttributeError:  # a module, a comprehension
            line, column, end_line, end_column = 1, 0, 1, 0
        around = self.statement
        last = end_line if type(around) in _SCOPES else getattr(around, "end_lineno", None) or end_line
        text = node.arg or "" if type(node) in _WITH_A_NAME else ""
        if self._is_ascii:
            return Site(line, column + 1, end_line, end_column + 1, text, last)
        return Site(line, self._column(line, column), end_line, self._column(end_line, end_column), text, last)

    def _column(self, line: int, offset: int) -> int:
        if self._starts is None:
            self._index()
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        return len(text[:offset].decode("utf-8", "replace")) + 1

    def _index(self) -> list[int]:
        if self._starts is None:
            bom = 3 if self.source.startswith(b"\xef\xbb\xbf") else 0
            self._lines = self.source[bom:].splitlines(keepends=True)
            self._starts = [*accumulate(map(len, self._lines), initial=bom)]
        return self._starts

    # Names ----------------------------------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str:
        """The full name something stands for; see `rule.View`."""
        kind = type(node)
        while kind is ast.Call or kind is ast.Await:
            node = node.func if kind is ast.Call else node.value  # type: ignore[attr-defined]
            kind = type(node)
        if kind is ast.Attribute:
            return self._attribute_name(node)  # type: ignore[arg-type]
        if kind is not ast.Name:
            return ""
        name, scope = node.id, self.scope  # type: ignore[attr-defined]
        found = scope.types.get(name)
        if found is not None:
            return found
        if name == scope.myself:
            return f"{self.module.name}.{scope.owner}"
        if name in scope.env:
            return ""
        return self.names.get(name) or (name if name in BUILTINS else self._starred(name))

    def _starred(self, name: str) -> str:
        """The full name of what only `from a import *` can have brought."""
        star = self.names.get("*")
        return f"{star[:-1]}{name}" if star is not None and name not in self.bound else ""

    def _attribute_name(self, node: ast.Attribute) -> str:
        value, attribute, scope = node.value, node.attr, self.scope
        if type(value) is ast.Name:
            name = value.id
            if name == scope.myself:
                known = self.class_types.get((scope.owner, attribute))
                if known is not None:
                    return known
            known = scope.types.get(f"{name}.{attribute}")
            if known is not None:
                return known
            head = self.dotted(value)
        elif type(value) is ast.Call and type(value.func) is ast.Name and value.func.id == "super":
            head = next(iter(self.module.classes.get(self.scope.owner, ())), "")
        else:
            head = self.dotted(value)
            if type(value) is not ast.Attribute and self.gives_unknown(head):
                head = ""
        return f"{head or '?'}.{attribute}"

    def gives_unknown(self, name: str) -> bool:
        """Whether a name is a function of the tree, whose result is of a class that its name does not say."""
        return name.rpartition(".")[2].lstrip("_")[:1].islower() and self.is_ours(name)

    def is_ours(self, name: str) -> bool:
        """Whether a full name may be of the linted tree."""
        return name.partition(".")[0] in self.roots

    # Questions of patterns ------------------------------------------------------------------------------------------------

    def probe(self, node: ast.AST) -> Value:
        """The origins of an expression, without noting anything."""
        before, self.probing = self.probing, True
        try:
            return self.evaluate(node)
        finally:
            self.probing = before

    evaluate: Callable[[ast.AST], Value]

    def kinds(self, node: ast.AST) -> frozenset[Kind]:
        """What varies in an expression; see `rule.View`."""
        found = frozenset(self._kinds_of(self.probe(node), _DEPTH))
        return found | {"history"} if self.is_history(node) else found

    def _kinds_of(self, value: Value, depth: int) -> Iterator[Kind]:
        for origin in (self.module.origins[number] for number in value if depth):
            if isinstance(origin, Source):
                yield origin.kind
            elif isinstance(origin, Filtered):
                inside = set(self._kinds_of(origin.value, depth - 1)) - origin.without
                yield from {"date" if kind == "clock" else kind for kind in inside} if origin.is_daily else inside
            elif isinstance(origin, Item | Shown):
                yield from self._kinds_of(origin.value, depth - 1)
            elif isinstance(origin, Called):
                for _, argument in origin.arguments:
                    yield from self._kinds_of(argument, depth - 1)
                local = self.module.functions.get(origin.callee.removeprefix(f"{self.module.name}."))
                yield from self._kinds_of(local.returned if local else CLEAN, depth - 1)

    def is_history(self, node: ast.AST) -> bool:
        """Whether it is the running list of messages; see `rule.View`."""
        return self._is_named(node, sinks.HISTORY, set())

    def is_tools(self, node: ast.AST) -> bool:
        """Whether it is a list of tools or a tool definition; see `rule.View`."""
        return self._is_named(node, sinks.TOOLS, set()) or (isinstance(node, ast.Dict) and is_tool_definition(constant_keys(node)))

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
        return not isinstance(node, ast.Attribute) and any(self._is_named(part, words, asked) for part in made_from(node))

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
            return node.id not in self.scope.env and (node.id in self.names or node.id in BUILTINS or node.id in self.bound)
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

    def converses(self, node: ast.AST) -> bool:
        """Whether a loop or function goes through the turns of a conversation: adds to its messages and calls a model."""
        return sinks.CONVERSES.search(self.source, *self.bytes_at(node)) is not None and self._calls_model(node, _DEPTH)

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
            found = self._parents[node] = way_to(node, line, self.tree, True) or way_to(node, line, self.tree, False) or ()
        return found

    def bytes_at(self, node: Any) -> tuple[int, int]:
        """Byte offsets of a node; see `rule.View`."""
        starts = self._starts or self._index()
        try:
            return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        except AttributeError:  # a module, a comprehension
            return starts[0], starts[0]

    def offer(self, spot: tuple[int, int, int, int], title: str, *edits: Edit | None) -> None:
        """A safe change for what is found at a place; none where one of its edits is not safe."""
        known = tuple(edit for edit in edits if edit is not None)
        if len(known) == len(edits) and not self.probing:
            self.module.fixes.setdefault(spot, Fix(title, known))

    def parameter(self, name: str) -> Value:
        """The value a parameter of this function has."""
        return self.number(Parameter(self.scope.function.name, name))

    def variable(self, name: str) -> Value:
        """The value a module's variable has, wherever it was set."""
        return self.number(Global(f"{self.module.name}.{name}"))
