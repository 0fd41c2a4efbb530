"""Where the walk stands: the file, the function, names, and what was found to vary so far.

Takes a parsed file, gives numbers for origins, full names for names and places for nodes; knows nothing of what an
expression is made of.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from contextkit.lint.finding import Edit, Fix
from contextkit.lint.source.rule import Kind
from contextkit.lint.source.summary import (
    CLEAN,
    MODULE_BODY,
    Filtered,
    Frozen,
    Function,
    Global,
    Module,
    Origin,
    Parameter,
    Site,
    Source,
    Value,
)
from contextkit.lint.source.syntax import nodes as ast

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
BUILTINS = frozenset(dir(builtins))
_TEXT_LIMIT = 60
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


class State:
    """Where the walk stands.

    It and what is built upon it have slots: an object with so many attributes in a dict is a tenth slower to ask.
    """

    __slots__ = (
        "_is_ascii",
        "_lines",
        "_starts",
        "bound",
        "class_types",
        "ids",
        "in_handler",
        "loops",
        "module",
        "names",
        "probing",
        "roots",
        "scope",
        "source",
        "statement",
        "tree",
    )

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

    # Origins
    # --------------------------------------------------------------------------------------------------------------

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
            return (
                self._lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace").strip()
            )
        return re.sub(r"\s+", " ", ast.unparse(node))

    def frozen(self, value: Value) -> Value:
        """The same, made once for the session."""
        return self.number(Frozen(value)) if value else value

    def filtered(self, value: Value, without: frozenset[Kind]) -> Value:
        """The same, with some kinds mended."""
        return self.number(Filtered(value, without)) if value else value

    def parameter(self, name: str) -> Value:
        """The value a parameter of this function has."""
        return self.number(Parameter(self.scope.function.name, name))

    def variable(self, name: str) -> Value:
        """The value a module's variable has, wherever it was set."""
        return self.number(Global(f"{self.module.name}.{name}"))

    def site(self, node: Any) -> Site:
        """Where a node stands; the text of an expression is left to who needs it."""
        try:
            line, column, end_line, end_column = (
                node.lineno,
                node.col_offset,
                node.end_lineno or 1,
                node.end_col_offset or 0,
            )
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

    # Names
    # ----------------------------------------------------------------------------------------------------------------

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

    # Places
    # --------------------------------------------------------------------------------------------------------------

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
