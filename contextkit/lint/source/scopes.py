"""Reads a syntax tree into functions, classes and what each name is bound to, in order.

A `Scope` is a function, a method or the body of a module. Its bindings say where a name, or `self.name`, gets a value or
is changed, and under which branches and loops; `reaching` picks those that a use at some place may see.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from contextkit.lint.source.parse import Parsed

Key: TypeAlias = "str | int"
"""Key of a dict, index of a list, `.name` of an attribute, or ANY."""
Path: TypeAlias = "tuple[Key, ...]"
"""Keys that are read from a value, outermost first."""
ANY: Final = "*"
"""Any element."""
ADDS: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "extendleft", "write"}
)
TAKES: Final = frozenset({"pop", "remove", "popleft", "clear", "popitem", "discard", "sort", "reverse"})
Block: TypeAlias = "tuple[ast.AST, str]"
"""A statement with branches or a loop, and the branch: `body`, `orelse`, `handlers`, …"""


class Place(NamedTuple):
    """Where a statement stands in its function."""

    order: int
    """Number of the statement, from 0."""
    blocks: tuple[Block, ...] = ()
    """What is around it, outermost first."""

    def loops(self) -> list[ast.AST]:
        """The loops around it, innermost first."""
        return [node for node, _ in reversed(self.blocks) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]

    def excludes(self, other: Place) -> bool:
        """Whether the two are in branches of which one is run."""
        for (one, branch), (two, other_branch) in zip(self.blocks, other.blocks, strict=False):
            if one is not two:
                return False
            if branch != other_branch:
                return isinstance(one, ast.If | ast.Match)
        return False

    def is_around(self, other: Place) -> bool:
        """Whether what runs at the other place has run at this one, where this one stands before it."""
        return self.blocks == other.blocks[: len(self.blocks)]


@dataclass(eq=False, slots=True)
class Binding:
    """A value that a name gets, or a change to what it holds."""

    kind: str
    """`set`; `add` (`append`, `+=`, …); `item` (`name[key] = value`); `take` (`pop`, `del name[0]`, `sort`); `for`, `comp`
    (one item of the value); `param`."""
    value: ast.expr | None
    place: Place
    node: ast.AST
    """What to point at."""
    path: Path = ()
    """Of a target in a tuple its place in the value; of an item its keys."""
    operation: str = ""
    """`append`, `+=`, `pop`, …"""
    scope: Scope = field(default=None)  # type: ignore[assignment]


class CallSite(NamedTuple):
    """A call, and where it stands."""

    node: ast.Call
    scope: Scope
    place: Place


@dataclass(eq=False, slots=True)
class Scope:
    """A function, method or lambda, or the body of a module."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
    module: Module
    name: str
    cls: Class | None = None
    parent: Scope | None = None
    params: list[str] = field(default_factory=list)
    """Names of the positional parameters, then of those by keyword only."""
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    """Name, or `self.name`, → bindings in order."""
    returns: list[tuple[ast.expr, Place]] = field(default_factory=list)
    """What it returns or yields."""
    calls: list[CallSite] = field(default_factory=list)
    functions: dict[str, Scope] = field(default_factory=dict)
    """Functions defined in it."""
    expressions: list[tuple[ast.expr, Place]] = field(default_factory=list)
    """The outermost expressions of its statements."""
    yields: bool = False
    """Whether it gives its results one by one."""

    @property
    def is_module(self) -> bool:
        """Whether it is the body of a module, which runs once."""
        return isinstance(self.node, ast.Module)

    @property
    def receiver(self) -> str:
        """Name of the first parameter of a method, empty for what has none."""
        return (
            self.params[0] if self.cls is not None and self.params and "staticmethod" not in self.decorators() else ""
        )

    def decorators(self) -> list[str]:
        """The last names of its decorators."""
        nodes = getattr(self.node, "decorator_list", [])
        return [last_name(node.func if isinstance(node, ast.Call) else node) for node in nodes]

    def annotation(self, param: str) -> str:
        """The last name of what a parameter is annotated with, empty where it is not."""
        arguments = getattr(self.node, "args", None)
        if arguments is None:
            return ""
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.arg == param and one.annotation is not None:
                node = one.annotation.left if isinstance(one.annotation, ast.BinOp) else one.annotation
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    return node.value.partition("[")[0].partition("|")[0].strip().rpartition(".")[2]
                return last_name(node.value if isinstance(node, ast.Subscript) else node)
        return ""

    def reaching(self, name: str, use: Place) -> list[Binding]:
        """The bindings of a name that a use may see, nearest first; those of comprehensions only in their statement."""
        found = self.bindings.get(name)
        if not found:
            return []
        own = [one for one in found if one.kind == "comp" and one.place.order == use.order]
        if own:
            return own
        loops = use.loops()
        seen: list[Binding] = []
        for one in reversed(found):
            if one.kind == "comp" or one.place.order >= use.order or one.place.excludes(use):
                continue
            seen.append(one)
            if one.kind in ("set", "for", "param") and one.place.is_around(use):
                break
        later = [
            one
            for one in found
            if one.place.order >= use.order
            and one.kind not in ("comp", "param")
            and any(loop is around for loop in loops for around in one.place.loops())
        ]
        return seen + later


@dataclass(eq=False, slots=True)
class Class:
    """A class: its methods, and what is stored in its attributes."""

    name: str
    module: Module
    bases: list[str]
    """Dotted names of its bases."""
    methods: dict[str, Scope] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    """Attribute → bindings in the class's body and in its methods."""


@dataclass(eq=False, slots=True)
class Module:
    """One file."""

    path: str
    name: str
    package: str
    parsed: Parsed
    imports: dict[str, str] = field(default_factory=dict)
    """Local name → full dotted name."""
    scopes: list[Scope] = field(default_factory=list)
    """Its body, then every function in it."""
    classes: dict[str, Class] = field(default_factory=dict)
    top: Scope = field(default=None)  # type: ignore[assignment]
    silenced: dict[int, frozenset[str]] = field(default_factory=dict)
    """Line → codes that are not reported there; none for all."""
    frozen: frozenset[int] = frozenset()
    """Lines whose values are declared to be made once."""
    _lines: list[bytes] = field(default_factory=list)

    def lines(self) -> list[bytes]:
        """The text by lines."""
        if not self._lines:
            self._lines = self.parsed.text.split(b"\n")
        return self._lines


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name: `create` of `client.messages.create`; empty for what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def read_module(path: str, name: str, package: str, parsed: Parsed) -> Module:
    """Read a file that was parsed."""
    module = Module(path, name, package, parsed)
    module.top = Scope(parsed.tree, module, "<module>")
    module.scopes.append(module.top)
    _Reader(module.top, None).run(parsed.tree.body)
    return module


class _Reader:
    """Reads the statements of one function; functions in it get readers of their own."""

    def __init__(self, scope: Scope, cls: Class | None) -> None:
        self.scope, self.cls = scope, cls
        self.order = 0
        self.blocks: tuple[Block, ...] = ()

    def run(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.order += 1
            self.statement(statement)

    def place(self) -> Place:
        return Place(self.order, self.blocks)

    def inside(self, node: ast.AST, branch: str, statements: Iterable[ast.stmt]) -> None:
        outer, self.blocks = self.blocks, (*self.blocks, (node, branch))
        self.run(statements)
        self.blocks = outer

    def statement(self, node: ast.stmt) -> None:  # noqa: C901, PLR0912 - one branch for each statement of Python
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, self.cls if isinstance(self.scope.node, ast.Module) or self.cls else None)
            case ast.ClassDef():
                self.in_class(node)
            case ast.Import():
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self.scope.module.imports[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom():
                base = _imported_from(node, self.scope.module)
                for alias in node.names:
                    self.scope.module.imports[alias.asname or alias.name] = f"{base}.{alias.name}"
            case ast.Assign():
                self.expression(node.value)
                for target in node.targets:
                    self.bind(target, node.value)
            case ast.AnnAssign():
                if node.value is not None:
                    self.expression(node.value)
                    self.bind(node.target, node.value)
            case ast.AugAssign():
                self.expression(node.value)
                self.change(node.target, "add", node.value, node, "+=" if isinstance(node.op, ast.Add) else "-=")
            case ast.Return():
                if node.value is not None:
                    self.expression(node.value)
                    self.scope.returns.append((node.value, self.place()))
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        self.change(target.value, "take", target.slice, node, "del")
            case ast.For() | ast.AsyncFor():
                self.expression(node.iter)
                outer, self.blocks = self.blocks, (*self.blocks, (node, "body"))
                self.bind(node.target, node.iter, "for", (ANY,))
                self.run(node.body)
                self.blocks = outer
                self.inside(node, "orelse", node.orelse)
            case ast.While():
                self.expression(node.test)
                self.inside(node, "body", node.body)
                self.inside(node, "orelse", node.orelse)
            case ast.If():
                self.expression(node.test)
                self.inside(node, "body", node.body)
                self.inside(node, "orelse", node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, item.context_expr)
                self.run(node.body)
            case ast.Try() | ast.TryStar():
                self.run(node.body)
                for handler in node.handlers:
                    self.inside(handler, "handler", handler.body)
                self.run(node.orelse)
                self.run(node.finalbody)
            case ast.Match():
                self.expression(node.subject)
                for number, case in enumerate(node.cases):
                    self.inside(node, f"case {number}", case.body)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: Class | None) -> None:
        module = self.scope.module
        parent = None if self.scope.is_module or cls is not None else self.scope
        scope = Scope(node, module, node.name, cls, parent)
        module.scopes.append(scope)
        if cls is not None:
            cls.methods[node.name] = scope
        else:
            self.scope.functions[node.name] = scope
        reader = _Reader(scope, None)
        arguments = node.args
        defaults: dict[str, ast.expr] = {}
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            defaults[argument.arg] = default
        for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if keyword_default is not None:
                defaults[argument.arg] = keyword_default
        for argument in (*positional, *arguments.kwonlyargs):
            scope.params.append(argument.arg)
            scope.bindings[argument.arg].append(
                Binding("param", defaults.get(argument.arg), Place(-1), argument, scope=scope)
            )
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                scope.bindings[extra.arg].append(Binding("param", None, Place(-1), extra, scope=scope))
        for decorator in node.decorator_list:
            self.expression(decorator)
        reader.run(node.body)

    def in_class(self, node: ast.ClassDef) -> None:
        module = self.scope.module
        cls = Class(node.name, module, [name for base in node.bases if (name := _dotted(base, module))])
        module.classes.setdefault(node.name, cls)
        reader = _Reader(Scope(ast.Module([], []), module, "<class>", cls), cls)
        reader.run(node.body)
        for name, bindings in reader.scope.bindings.items():
            cls.attributes[name] += bindings
        module.top.calls += [site._replace(scope=module.top) for site in reader.scope.calls]
        for method in cls.methods.values():
            if receiver := method.receiver:
                for name, bindings in method.bindings.items():
                    if name.startswith(f"{receiver}."):
                        cls.attributes[name.partition(".")[2]] += bindings

    def bind(self, target: ast.expr, value: ast.expr, kind: str = "set", path: Path = ()) -> None:
        match target:
            case ast.Tuple() | ast.List():
                for number, one in enumerate(target.elts):
                    self.bind(one.value if isinstance(one, ast.Starred) else one, value, kind, (*path, number))
            case ast.Subscript():
                self.change(target, "item", value, target, "[]=")
            case ast.Name() | ast.Attribute():
                if name := _variable(target):
                    self.scope.bindings[name].append(Binding(kind, value, self.place(), target, path, scope=self.scope))

    def change(self, target: ast.expr, kind: str, value: ast.expr | None, node: ast.AST, operation: str) -> None:
        """Note a change to what a name holds, or to a part of it."""
        keys: list[Key] = []
        while isinstance(target, ast.Subscript):
            keys.append(target.slice.value if isinstance(target.slice, ast.Constant) else ANY)  # type: ignore[arg-type]
            target = target.value
        if name := _variable(target):
            binding = Binding(kind, value, self.place(), node, tuple(reversed(keys)), operation, self.scope)
            self.scope.bindings[name].append(binding)

    def expression(self, node: ast.expr) -> None:
        """Note the calls, comprehensions and functions in an expression."""
        place = self.place()
        self.scope.expressions.append((node, place))
        waiting: list[ast.AST] = [node]
        while waiting:
            one = waiting.pop()
            kind = type(one)
            if kind is ast.Constant or kind is ast.Name:
                continue
            if kind is ast.Call:
                assert isinstance(one, ast.Call)
                self.scope.calls.append(CallSite(one, self.scope, place))
                if isinstance(one.func, ast.Attribute) and (one.func.attr in ADDS or one.func.attr in TAKES):
                    kind_of_change = "add" if one.func.attr in ADDS else "take"
                    value = one.args[-1] if one.args else None
                    self.change(one.func.value, kind_of_change, value, one, one.func.attr)
            elif kind in (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp):
                for generator in one.generators:  # type: ignore[attr-defined]
                    self.bind(generator.target, generator.iter, "comp", (ANY,))
            elif kind is ast.NamedExpr:
                self.bind(one.target, one.value)  # type: ignore[attr-defined]
            elif kind in (ast.Yield, ast.YieldFrom) and one.value is not None:  # type: ignore[attr-defined]
                self.scope.returns.append((one.value, place))  # type: ignore[attr-defined]
                self.scope.yields = True
            waiting.extend(ast.iter_child_nodes(one))


def _variable(node: ast.expr) -> str:
    """`name`, or `name.attribute` of a variable; empty for what is neither."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _dotted(node: ast.expr, module: Module) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return module.imports.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value, module)):
        return f"{before}.{node.attr}"
    return ""


def _imported_from(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".") if module.package else []
    kept = parts[: len(parts) - node.level + 1] if node.level > 1 else parts
    return ".".join([*kept, *([node.module] if node.module else [])])
