"""Reads a syntax tree into functions, classes and what each name is bound to, in order.

A `Scope` is a function, a method or the body of a module. Its bindings say where a name, or `self.name`, gets a value or
is changed, and under which branches and loops; `reaching` picks those that a use at some place may see.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from contextkit.lint.source.parse import Parsed

Path: TypeAlias = "tuple[str | int, ...]"
"""Keys that are read from a value, outermost first: a key of a dict, an index of a list, `.name` of an attribute, or ANY."""
ANY: Final = "*"
"""Any element."""
ADDS: Final = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "write"})
TAKES: Final = frozenset({"pop", "remove", "popleft", "clear", "popitem", "discard", "sort"})
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Place(NamedTuple):
    """Where a statement stands in its function."""

    order: int
    """Number of the statement, from 0."""
    blocks: tuple[tuple[ast.AST, str], ...] = ()
    """The statements around it, outermost first, with the branch: `body`, `orelse`, …"""

    def loops(self) -> list[ast.AST]:
        """Return the loops around it, innermost first."""
        return [node for node, _ in reversed(self.blocks) if isinstance(node, LOOPS)]

    def tests(self) -> list[ast.expr]:
        """Return what is asked by the branches around it."""
        branches = [node for node, _ in self.blocks if isinstance(node, ast.If | ast.Match)]
        return [node.test if isinstance(node, ast.If) else node.subject for node in branches]

    def excludes(self, other: Place) -> bool:
        """Return whether the two are in branches of which one is run."""
        for (one, branch), (two, other_branch) in zip(self.blocks, other.blocks, strict=False):
            if one is not two or branch != other_branch:
                return one is two and isinstance(one, ast.If | ast.Match)
        return False

    def is_around(self, other: Place) -> bool:
        """Return whether what runs at the other place has run at this one, where this one stands before it."""
        return self.blocks == other.blocks[: len(self.blocks)]


class At(NamedTuple):
    """Where an expression is evaluated."""

    scope: Scope
    place: Place
    frame: Frame | None = None
    """The call by which the function was entered, where one was followed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function that a call may run."""

    scope: Scope
    receiver: ast.expr | None = None
    """The object a method is called on."""
    constructs: Class | None = None
    """The class, where the call makes an object and the function is its `__init__`."""


@dataclass(eq=False, slots=True)
class Frame:
    """A call that was entered."""

    call: ast.Call
    at: At
    target: Target

    def outer(self) -> Iterator[Frame]:
        """Yield the call and those it was entered from, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.at.frame


@dataclass(eq=False, slots=True)
class Binding:
    """A value that a name gets, or a change to what it holds."""

    kind: str
    """`set`; `add` (`append`, `+=`, …); `item` (`name[key] = value`); `take` (`pop`, `del name[0]`, `sort`); `for`, `comp`
    (one item of the value); `param`."""
    value: ast.expr | None
    at: At
    node: ast.AST
    """What to point at."""
    path: Path = ()
    """Of a target in a tuple its place in the value; of an item its keys."""
    operation: str = ""
    """`append`, `+=`, `pop`, …"""

    @property
    def scope(self) -> Scope:
        """The function it stands in."""
        return self.at.scope

    def loops(self) -> list[ast.AST]:
        """Return the loops around it, innermost first."""
        return self.at.place.loops()


class CallSite(NamedTuple):
    """A call, and where it stands."""

    node: ast.Call
    at: At


@dataclass(eq=False, slots=True)
class Scope:
    """A function or method, or the body of a module."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
    module: Module
    name: str
    cls: Class | None = None
    parent: Scope | None = None
    """The function it is defined in."""
    params: list[str] = field(default_factory=list)
    """Names of the positional parameters, then of those by keyword only."""
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    """Name, or `self.name`, → bindings in order."""
    returns: list[tuple[ast.expr, At]] = field(default_factory=list)
    """What it returns or yields."""
    yields: bool = False
    globals: set[str] = field(default_factory=set)
    """Names that it declares to be the module's."""
    calls: list[CallSite] = field(default_factory=list)
    functions: dict[str, Scope] = field(default_factory=dict)
    """Functions defined in it."""
    expressions: list[tuple[ast.expr, At]] = field(default_factory=list)
    """The outermost expressions of its statements."""

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

    def around(self) -> Iterable[Scope]:
        """Return the function and those it is defined in, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def decorators(self) -> list[str]:
        """Return the last names of its decorators."""
        nodes = getattr(self.node, "decorator_list", [])
        return [last_name(node.func if isinstance(node, ast.Call) else node) for node in nodes]

    def annotation(self, param: str) -> str:
        """Return the last name of what a parameter is annotated with, empty where it is not."""
        node = next((one.node.annotation for one in self.bindings[param] if isinstance(one.node, ast.arg)), None)
        while isinstance(node, ast.BinOp | ast.Subscript):
            node = node.left if isinstance(node, ast.BinOp) else node.value
        if isinstance(node, ast.Constant):
            return str(node.value).partition("[")[0].partition("|")[0].strip().rpartition(".")[2]
        return last_name(node) if node is not None else ""

    def reaching(self, name: str, use: Place) -> list[Binding]:
        """Return the bindings of a name that a use may see, nearest first; those of comprehensions only in their
        statement.
        """
        found = self.bindings.get(name, [])
        own = [one for one in found if one.kind == "comp" and one.at.place.order == use.order]
        if own:
            return own
        seen: list[Binding] = []
        for one in reversed(found):
            if one.kind == "comp" or one.at.place.order >= use.order or one.at.place.excludes(use):
                continue
            seen.append(one)
            if one.kind in ("set", "for", "param") and one.at.place.is_around(use):
                break
        loops = use.loops()
        later = [one for one in found if one.at.place.order >= use.order and one.kind not in ("comp", "param")]
        return seen + [one for one in later if any(loop in loops for loop in one.loops())]


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
    frozen: frozenset[int] = frozenset()
    """Lines whose values are declared to be made once."""
    statements: dict[int, range] = field(default_factory=dict)
    """Line → lines of its statement, where somebody asked."""
    texts: set[int] = field(default_factory=set)
    """Lines that end in a text of several lines, filled in with `statements`."""
    _lines: list[bytes] = field(default_factory=list)

    @property
    def top(self) -> Scope:
        """Its body."""
        return self.scopes[0]

    @property
    def text(self) -> bytes:
        """What stands in it."""
        return self.parsed.text

    def lines(self) -> list[bytes]:
        """Return the text by lines."""
        if not self._lines:
            self._lines = self.text.split(b"\n")
        return self._lines


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name: `create` of `client.messages.create`; empty for what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def variable(node: ast.AST) -> str:
    """Return `name`, or `name.attribute` of a variable; empty for what is neither."""
    if isinstance(node, ast.Attribute):
        return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
    return last_name(node)


def read_module(path: str, name: str, package: str, parsed: Parsed) -> Module:
    """Read a file that was parsed."""
    module = Module(path, name, package, parsed)
    module.scopes.append(Scope(parsed.tree, module, "<module>"))
    _Reader(module.top, None).run(parsed.tree.body)
    return module


class _Reader:
    """Reads the statements of one function or class; functions in it get readers of their own."""

    def __init__(self, scope: Scope, cls: Class | None) -> None:
        self.scope, self.cls = scope, cls
        self.order = 0
        self.blocks: tuple[tuple[ast.AST, str], ...] = ()

    @property
    def at(self) -> At:
        return At(self.scope, Place(self.order, self.blocks))

    def run(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.order += 1
            self.statement(statement)

    def inside(self, node: ast.AST, branch: str, statements: Iterable[ast.stmt]) -> None:
        outer, self.blocks = self.blocks, (*self.blocks, (node, branch))
        if isinstance(node, ast.For | ast.AsyncFor) and branch == "body":
            self.bind(node.target, node.iter, "for", (ANY,))
        self.run(statements)
        self.blocks = outer

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node)
                return
            case ast.ClassDef():
                self.in_class(node)
                return
            case ast.Global():
                self.scope.globals.update(node.names)
            case ast.Import() | ast.ImportFrom():
                self.imported(node)
        for value in ast.iter_child_nodes(node):
            if isinstance(value, ast.expr):
                self.expression(value)
        match node:
            case ast.Assign():
                for target in node.targets:
                    self.bind(target, node.value)
            case ast.AnnAssign():
                self.bind(node.target, node.value)
            case ast.AugAssign():
                self.change(node.target, "add", node.value, node, "+=" if isinstance(node.op, ast.Add) else "-=")
            case ast.Return() if node.value is not None:
                self.scope.returns.append((node.value, self.at))
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        self.change(target.value, "take", target.slice, node, "del")
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr)
                    self.bind(item.optional_vars, item.context_expr)
                self.run(node.body)
            case ast.Try() | ast.TryStar():
                self.run(node.body)
                for handler in node.handlers:
                    self.inside(handler, "body", handler.body)
                self.run([*node.orelse, *node.finalbody])
            case ast.If() | ast.While() | ast.For() | ast.AsyncFor():
                self.inside(node, "body", node.body)
                self.inside(node, "orelse", node.orelse)
            case ast.Match():
                for number, case in enumerate(node.cases):
                    self.inside(node, str(number), case.body)

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        imports = self.scope.module.imports
        base = _imported_from(node, self.scope.module) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if base:
                imports[alias.asname or alias.name] = f"{base}.{alias.name}"
            else:
                top = alias.name.partition(".")[0]
                imports[alias.asname or top] = alias.name if alias.asname else top

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        module, arguments = self.scope.module, node.args
        parent = None if self.scope.is_module else self.scope
        scope = Scope(node, module, node.name, self.cls, parent)
        module.scopes.append(scope)
        (self.cls.methods if self.cls is not None else self.scope.functions)[node.name] = scope
        positional = [*arguments.posonlyargs, *arguments.args]
        without = [None] * (len(positional) - len(arguments.defaults))
        defaults = [*without, *arguments.defaults, *arguments.kw_defaults]
        named = [*positional, *arguments.kwonlyargs]
        scope.params = [one.arg for one in named]
        extra = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        for argument, default in zip([*named, *extra], [*defaults, *([None] * len(extra))], strict=True):
            scope.bindings[argument.arg].append(Binding("param", default, At(scope, Place(-1)), argument))
        for decorator in node.decorator_list:
            self.expression(decorator)
        _Reader(scope, None).run(node.body)

    def in_class(self, node: ast.ClassDef) -> None:
        module = self.scope.module
        cls = Class(node.name, module, [name for base in node.bases if (name := _dotted(base, module))])
        module.classes.setdefault(node.name, cls)
        body = Scope(ast.Module([], []), module, "<class>", cls)
        _Reader(body, cls).run(node.body)
        cls.attributes.update(body.bindings)
        module.top.calls += body.calls
        for method in cls.methods.values():
            for name, bindings in method.bindings.items():
                if method.receiver and name.startswith(f"{method.receiver}."):
                    cls.attributes[name.partition(".")[2]] += bindings

    def bind(self, target: ast.expr | None, value: ast.expr | None, kind: str = "set", path: Path = ()) -> None:
        match target:
            case ast.Tuple() | ast.List():
                for number, one in enumerate(target.elts):
                    self.bind(one.value if isinstance(one, ast.Starred) else one, value, kind, (*path, number))
            case ast.Subscript():
                self.change(target, "item", value, target, "[]=")
            case ast.Name() | ast.Attribute() if value is not None and (name := variable(target)):
                self.scope.bindings[name].append(Binding(kind, value, self.at, target, path))

    def change(self, target: ast.expr, kind: str, value: ast.expr | None, node: ast.AST, operation: str) -> None:
        """Note a change to what a name holds, or to a part of it."""
        path: Path = ()
        while isinstance(target, ast.Subscript):
            path = (getattr(target.slice, "value", ANY) if isinstance(target.slice, ast.Constant) else ANY, *path)
            target = target.value
        if name := variable(target):
            self.scope.bindings[name].append(Binding(kind, value, self.at, node, path, operation))

    def expression(self, node: ast.expr) -> None:
        """Note the calls, comprehensions and assignments in an expression."""
        at = self.at
        self.scope.expressions.append((node, at))
        waiting: list[ast.AST] = [node]
        while waiting:
            one = waiting.pop()
            if isinstance(one, ast.Constant | ast.Name):
                continue
            if isinstance(one, ast.Call):
                self.scope.calls.append(CallSite(one, at))
                if isinstance(one.func, ast.Attribute) and one.func.attr in ADDS | TAKES:
                    kind = "add" if one.func.attr in ADDS else "take"
                    self.change(one.func.value, kind, one.args[-1] if one.args else None, one, one.func.attr)
                for given in one.keywords if isinstance(one.func, ast.Attribute) and one.func.attr == "update" else ():
                    if given.arg is not None and (name := variable(one.func.value)):  # type: ignore[attr-defined]
                        binding = Binding("item", given.value, at, given.value, (given.arg,), "[]=")
                        self.scope.bindings[name].append(binding)
            elif isinstance(one, ast.comprehension):
                self.bind(one.target, one.iter, "comp", (ANY,))
            elif isinstance(one, ast.NamedExpr):
                self.bind(one.target, one.value)
            elif isinstance(one, ast.Yield | ast.YieldFrom) and one.value is not None:
                self.scope.returns.append((one.value, at))
                self.scope.yields = True
            waiting.extend(ast.iter_child_nodes(one))


def _dotted(node: ast.expr, module: Module) -> str:
    if isinstance(node, ast.Subscript):
        return _dotted(node.value, module)
    if isinstance(node, ast.Name):
        return module.imports.get(node.id, node.id)
    before = _dotted(node.value, module) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""


def _imported_from(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])
