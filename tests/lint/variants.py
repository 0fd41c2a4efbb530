"""Rewrites of the source cases that keep their behaviour, and what the source detector says about them.

    python -m tests.lint.variants [--verbose]

prints a table: of each rewrite, how many hazardous units are found and how many clean ones are flagged. A
unit is a top-level function or class of a file of `tests/lint_cases/source`, or another statement with an expected
code; only units that a rewrite changes are counted. A unit is found where a finding of its code stands in it or the
trail of one passes through it.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.detect import find_in_code
from tests.lint.test_source_cases import CASES, EXPECT

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SENDS = ("create", "stream", "converse")


@dataclass(slots=True)
class Unit:
    """A part of a case, and what it becomes."""

    name: str
    expected: frozenset[str]
    """Codes; none where it is clean."""
    statements: list[ast.stmt]
    is_rewritten: bool = False
    lines: range = range(0)
    """Where it stands in the rewritten file."""
    elsewhere: range = range(0)
    """Where parts of it stand in the second module."""


@dataclass(slots=True)
class Case:
    """A file of cases."""

    stem: str
    body: list[ast.stmt | Unit] = field(default_factory=list)
    added: str = ""
    """Source that stands behind the imports."""
    helpers: str = ""
    """Source of a second module of the package."""

    def units(self) -> list[Unit]:
        """Return the parts that are units."""
        return [one for one in self.body if isinstance(one, Unit)]

    def source(self) -> str:
        """Print the file, and note where each unit stands."""
        n_imports = max(
            n for n, one in enumerate(self.body, 1) if isinstance(one, ast.Import | ast.ImportFrom) or n == 1
        )
        lines = [*_printed(self.body[:n_imports]), *self.added.split("\n")]
        for one in self.body[n_imports:]:
            first = len(lines) + 1
            lines += _printed(one.statements if isinstance(one, Unit) else [one])
            if isinstance(one, Unit):
                one.lines = range(first, len(lines) + 1)
        return "\n".join(lines)


def _printed(nodes: Iterable[ast.stmt | Unit]) -> list[str]:
    texts = [ast.unparse(ast.fix_missing_locations(node)) for node in nodes if isinstance(node, ast.stmt)]
    return "\n\n".join([*texts, ""]).split("\n")


def read_case(file: Path) -> Case:
    """Read a file of cases into units."""
    source = file.read_text("utf-8")
    codes = [(n, found[1]) for n, line in enumerate(source.splitlines(), 1) for found in EXPECT.finditer(line)]
    case = Case(file.stem)
    for node in ast.parse(source).body:
        expected = frozenset(code for n, code in codes if node.lineno <= n <= (node.end_lineno or n))
        is_unit = expected or isinstance(node, Function | ast.ClassDef)
        name = getattr(node, "name", ast.unparse(node).split("\n")[0])
        case.body.append(Unit(name, expected, [node]) if is_unit else node)
    return case


# Values: of arguments, of what is returned and assigned, of what texts and displays hold
# ----------------------------------------------------------------------------------------------------------------------


class Values:
    """Replaces each value that holds no other, in the order of evaluation."""

    def __init__(self, replaced: Callable[[ast.expr, Values], ast.expr], *, has_loops: bool = False) -> None:
        self.replaced, self.has_loops = replaced, has_loops
        self.n = 0
        self.before: list[ast.stmt] = []
        """Statements in front of the one that is rewritten."""

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements."""
        return [one for node in statements for one in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Rewrite a statement; what its values need stands in front."""
        outer, self.before = self.before, []
        match node:
            case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple() as value):
                self.inside(value)
            case ast.Return(value=ast.expr() as value) | ast.Assign(value=value):
                node.value = self.value(value)
            case ast.Expr(value=value):
                self.inside(value)
            case ast.For(iter=iterable) if self.has_loops:
                node.iter = self.value(iterable)
            case ast.With(items=[item]):
                self.inside(item.context_expr)
        before, self.before = self.before, outer
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, [])
            if isinstance(node, ast.ClassDef):
                inner[:] = [self.statement(one)[0] if isinstance(one, Function) else one for one in inner]
            else:
                inner[:] = self.body(inner)
        for part in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            part.body = self.body(part.body)
        return [*before, node]

    def value(self, node: ast.expr) -> ast.expr:
        """Replace the values within a value, or the value where there are none."""
        n = self.n
        self.inside(node)
        if self.n > n:
            return node
        is_plain = isinstance(node, ast.Name | ast.Constant | ast.Lambda | ast.GeneratorExp | ast.Starred)
        is_empty = not any(isinstance(one, ast.Name | ast.JoinedStr) for one in ast.walk(node))
        if is_plain or is_empty or any(isinstance(one, ast.Yield | ast.NamedExpr) for one in ast.walk(node)):
            return node
        new = self.replaced(node, self)
        self.n += new is not node
        return new

    def inside(self, node: ast.expr) -> None:
        """Replace the values within an expression that are evaluated each time it is."""
        match node:
            case ast.Await(value=value):
                self.inside(value)
            case ast.Call(func=function) if _is_dotted(function):
                node.args = [self.value(one) for one in node.args]
                for keyword in node.keywords:
                    keyword.value = self.value(keyword.value)
            case ast.JoinedStr():
                for part in node.values:
                    if isinstance(part, ast.FormattedValue):
                        part.value = self.value(part.value)
            case ast.List() | ast.Tuple():
                node.elts = [self.value(one) for one in node.elts]
            case ast.Dict():
                node.values = [self.value(one) for one in node.values]


def _is_dotted(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def _replace(unit: Unit, replaced: Callable[[ast.expr, Values], ast.expr], *, has_loops: bool = False) -> None:
    values = Values(replaced, has_loops=has_loops)
    unit.statements = values.body(unit.statements)
    unit.is_rewritten = values.n > 0


def variable(case: Case) -> None:
    """Give each value to a variable first, and what a loop is over."""

    def replaced(node: ast.expr, values: Values) -> ast.expr:
        name = f"value_{values.n}"
        values.before.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())

    for unit in case.units():
        _replace(unit, replaced, has_loops=True)


def helper(case: Case) -> None:
    """Make each value in a function of its own, which is given the variables it needs; requests stay where they are."""
    for unit in case.units():
        made: list[ast.stmt] = []
        _extract(unit, made, f"_made_{case.body.index(unit)}", {"self", "super"})
        is_first = not isinstance(unit.statements[0], Function | ast.ClassDef)
        unit.statements = [*made, *unit.statements] if is_first else [*unit.statements, *made]


def module(case: Case) -> None:
    """Make each value in a function of another module, where it needs none of the functions and classes of this one."""
    lines, names = _printed(case.body), list[str]()
    own = {unit.name.partition(" = ")[0] for unit in case.units()}
    for unit in case.units():
        made: list[ast.stmt] = []
        _extract(unit, made, f"made_{case.body.index(unit)}", {"self", "super", *own})
        first = len(lines) + 1
        lines += _printed(made)
        unit.elsewhere = range(first, len(lines) + 1)
        names += [node.name for node in made if isinstance(node, ast.FunctionDef)]
    case.helpers = "\n".join(lines)
    case.added = f"from .helpers_{case.stem} import {', '.join(names)}\n" if names else ""


def _extract(unit: Unit, made: list[ast.stmt], stem: str, staying: set[str]) -> None:
    local = _bound(unit.statements[0])

    def replaced(node: ast.expr, values: Values) -> ast.expr:
        inside = list(ast.walk(node))
        stays = any(isinstance(one, ast.Await) or getattr(one, "id", "") in staying for one in inside)
        if stays or _last(getattr(node, "func", node)) in _SENDS:
            return node
        names = sorted({one.id for one in inside if isinstance(one, ast.Name)} & local - _bound(node))
        call = f"{stem}_{values.n}({', '.join(names)})"
        function = ast.parse(f"def {call}:\n    return None").body[0]
        function.body = [ast.Return(node)]  # type: ignore[attr-defined]
        made.append(function)
        return ast.parse(call, mode="eval").body

    _replace(unit, replaced)


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a unit or an expression binds: parameters, variables, functions in a function."""
    nodes = list(ast.walk(node))
    names = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    inner = {one.name for one in nodes[1:] if isinstance(one, Function)} if isinstance(node, Function) else set()
    return names | inner | {one.arg for one in nodes if isinstance(one, ast.arg)}


def method(case: Case) -> None:
    """Keep each value in an attribute of an object, and read it by a method."""
    init = "    def __init__(self, value):\n        self.value = value\n"
    case.added = f"class _Box:\n{init}\n    def read(self):\n        return self.value\n"

    def replaced(node: ast.expr, values: Values) -> ast.expr:
        box = ast.Call(ast.Name("_Box", ast.Load()), [node], [])
        return ast.Call(ast.Attribute(box, "read", ast.Load()), [], [])

    for unit in case.units():
        _replace(unit, replaced)


# async
# ----------------------------------------------------------------------------------------------------------------------

_CLIENTS = {"Anthropic": "AsyncAnthropic", "OpenAI": "AsyncOpenAI"}


def asynchronous(case: Case) -> None:
    """Make functions and clients asynchronous where each of their calls can be awaited."""
    holders = [holder for unit in case.units() for holder in (unit.statements, getattr(unit.statements[0], "body", []))]
    functions = [node for holder in holders for node in holder if isinstance(node, ast.FunctionDef)]
    functions = [node for node in functions if not node.decorator_list and not node.name.startswith("__")]
    tree = ast.Module([node for one in case.body for node in (one.statements if isinstance(one, Unit) else [one])], [])
    clients = {
        node.targets[0].id: node.value.func
        for node in tree.body
        if isinstance(node, ast.Assign) and _last(getattr(node.value, "func", node)) in _CLIENTS
    }
    calls = [(_key(call.func, clients), owner) for call, owner in _calls(tree, None)]
    others = {node.name for node in ast.walk(tree) if isinstance(node, Function) and node not in functions}
    others |= {node.name for node in functions if any(isinstance(one, ast.Yield) for one in ast.walk(node))}
    read = Counter(_last(node) for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Load))
    called = Counter(key for key, _ in calls)
    names = {*clients, *(node.name for node in functions)} - others
    names = {name for name in names if read[name] == called[name]}
    while stuck := {key for key, owner in calls if key in names and not _awaits(owner, names)}:
        names -= stuck
    for name in names & clients.keys():
        clients[name].attr = _CLIENTS[clients[name].attr]
    _Awaited(lambda call: _key(call.func, clients) in names).visit(tree)
    for holder in holders:
        for n, node in enumerate(holder):
            if node in functions and node.name in names:
                holder[n] = ast.AsyncFunctionDef(**{name: getattr(node, name) for name in node._fields})
    for unit in case.units():
        own = {node.name for node in ast.walk(unit.statements[0]) if isinstance(node, ast.AsyncFunctionDef)}
        unit.is_rewritten = not own.isdisjoint(names)


def _calls(node: ast.AST, owner: Function | None) -> Iterator[tuple[ast.Call, Function | None]]:
    """Yield each call with the function that may await it, None for nobody."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.Call):
            yield one, owner
        is_other = isinstance(one, ast.Lambda | ast.GeneratorExp) or (isinstance(one, Function) and owner is not None)
        inner = one if isinstance(one, Function) else owner
        yield from _calls(one, None if is_other else inner)


def _awaits(owner: Function | None, names: set[str]) -> bool:
    return isinstance(owner, ast.AsyncFunctionDef) or (owner is not None and owner.name in names)


def _last(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _key(function: ast.expr, clients: Container[str]) -> str:
    """Return the client whose `create` is called, for any other call the name of what is called."""
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    return _last(root) if _last(root) in clients and _last(function) == "create" else _last(function)


class _Awaited(ast.NodeTransformer):
    """Awaits some calls."""

    def __init__(self, is_awaited: Callable[[ast.Call], bool]) -> None:
        self.is_awaited = is_awaited

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return ast.Await(node) if self.is_awaited(node) else node


REWRITES = {"variable": variable, "helper": helper, "method": method, "module": module, "async": asynchronous}


# Measuring
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """What the detector says about one rewrite of all cases."""

    n_hazardous: int = 0
    n_clean: int = 0
    missed: list[str] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)
    n_same: int = 0
    """Units that the rewrite does not change."""

    def __str__(self) -> str:
        found = self.n_hazardous - len(self.missed)
        shares = [f"{found}/{self.n_hazardous}", f"{found / max(self.n_hazardous, 1):.1%}"]
        shares += [f"{len(self.flagged)}/{self.n_clean}", f"{len(self.flagged) / max(self.n_clean, 1):.1%}"]
        return "".join(f"{one:>12}" for one in [*shares, self.n_same])


def measure(folder: Path, rewrite: str) -> Row:
    """Rewrite all cases into an empty folder, each into a package of its own, and lint them."""
    row, cases = Row(), [read_case(file) for file in sorted(CASES.glob("*.py"))]
    for case in cases:
        REWRITES[rewrite](case)
        package = folder / case.stem
        package.mkdir()
        (package / "__init__.py").touch()
        (package / f"{case.stem}.py").write_text(case.source(), "utf-8")
        if case.helpers:
            (package / f"helpers_{case.stem}.py").write_text(case.helpers, "utf-8")
    found: dict[str, list[Finding]] = defaultdict(list)
    for one in find_in_code([folder], LintConfig(), hazards()):
        assert isinstance(one.place, CodePlace)
        found[Path(one.place.file).parent.name].append(one)
    for case in cases:
        for unit in case.units():
            row.n_same += not unit.is_rewritten
            if unit.is_rewritten:
                _judge(row, case, unit, found[case.stem])
    return row


def _judge(row: Row, case: Case, unit: Unit, findings: list[Finding]) -> None:
    def is_inside(place: object) -> bool:
        assert isinstance(place, CodePlace)
        return place.line in (unit.lines if Path(place.file).stem == case.stem else unit.elsewhere)

    name = f"{unit.name} of {case.stem}"
    placed = {one.code for one in findings if is_inside(one.place)}
    passed = {one.code for one in findings if any(map(is_inside, one.trail))}
    if unit.expected:
        row.n_hazardous += len(unit.expected)
        row.missed += [f"{code} in {name}" for code in sorted(unit.expected - placed - passed)]
    else:
        row.n_clean += 1
        row.flagged += [f"{code} in {name}" for code in sorted(placed)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.lint.variants", description=__doc__.split("\n")[0])
    parser.add_argument("--verbose", action="store_true", help="list what is missed and what is flagged")
    options = parser.parse_args()
    print(f"{'rewrite':10}{'found':>12}{'':12}{'flagged':>12}{'':12}{'unchanged':>12}")
    for rewrite in REWRITES:
        with tempfile.TemporaryDirectory(prefix="variants-") as folder:
            row = measure(Path(folder), rewrite)
        print(f"{rewrite:10}{row}")
        if options.verbose:
            print(*(f"  missed {one}" for one in row.missed), *(f"  flagged {one}" for one in row.flagged), sep="\n")


if __name__ == "__main__":
    main()
