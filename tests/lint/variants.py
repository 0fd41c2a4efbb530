"""Rewrites of the source cases that keep their meaning, and how many of them the source detector still judges right.

    python -m tests.lint.variants [--select CKS,CKT] [--verbose]
    python -m tests.lint.variants --show CKS01_clock_in_system attribute

prints a table: each rewrite, how many hazardous units of the cases are found in it, and how many clean units are
flagged. A unit is a top-level function or class of a file of `tests/lint_cases/source/`, or a statement of its module
that a comment expects a code at. It is rewritten as a whole, and only units that a rewrite changes are counted.

A unit is found with a code where a finding of that code stands in what it became, or its trail passes through. A clean
unit is flagged where a finding stands in it of a code of the file's level, or of a code that the file expects.
"""

from __future__ import annotations

import argparse
import ast
import copy
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.detect import find_in_code

CASES = Path(__file__).resolve().parents[1] / "lint_cases" / "source"
COMMENT = re.compile(r"# (expect|also): (CK\w\d\d(?:, CK\w\d\d)*)")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Unit:
    """A top-level function or class of a case, or a statement of its module that a code is expected at."""

    name: str
    """Of the function or class; the first line of another statement."""
    first: int
    """First line of what it became, from 1."""
    last: int
    """Last line of what it became."""
    expected: frozenset[str]
    """Codes expected in it; none where it is clean."""
    also: frozenset[str]
    """Codes that may be found in it."""
    is_rewritten: bool
    """Whether the rewrite changed it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A file of cases, rewritten."""

    name: str
    """Of the rewrite: `helper`."""
    files: dict[str, str]
    """Name → source of the files of one package; the first is the case itself."""
    units: tuple[Unit, ...]
    """Units of the first file."""


@dataclass(slots=True)
class _Part:
    """A statement of the module, and what it becomes."""

    name: str
    statements: list[ast.stmt]
    is_unit: bool
    expected: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    is_rewritten: bool = False

    @property
    def node(self) -> ast.stmt:
        """The only statement it was read as."""
        return self.statements[0]


@dataclass(slots=True)
class _Case:
    """A file as parts, before the parts a rewrite adds, and the files it adds."""

    parts: list[_Part]
    added: list[str] = field(default_factory=list)
    """Source of what stands behind the imports."""
    files: dict[str, str] = field(default_factory=dict)
    stem: str = "case"

    def units(self) -> Iterator[_Part]:
        """Parts that are units."""
        return (part for part in self.parts if part.is_unit)


def variants(source: str, stem: str = "case") -> Iterator[Variant]:
    """Each rewrite of a file of cases, which is called `stem`; first the file as it is, only printed anew."""
    for name in REWRITES:
        yield variant(source, name, stem)


@cache
def variant(source: str, name: str, stem: str = "case") -> Variant:
    """One rewrite of a file of cases."""
    case = _Case(_parts(source), stem=stem)
    REWRITES[name](case)
    pieces: list[tuple[_Part | None, str]] = []
    is_begun = False
    for part in case.parts:
        if not is_begun and not _stands_first(part.node):
            pieces.extend((None, text) for text in case.added)
            is_begun = True
        pieces.extend(
            (part if part.is_unit else None, ast.unparse(ast.fix_missing_locations(statement)))
            for statement in part.statements
        )
    lines: list[str] = []
    spans: dict[int, tuple[_Part, int, int]] = {}
    for owner, text in pieces:
        first = len(lines) + 1
        lines.extend([*text.split("\n"), ""])
        if owner is not None:
            spans[id(owner)] = owner, spans.get(id(owner), (owner, first, 0))[1], len(lines) - 1
    units = tuple(
        Unit(part.name, first, last, part.expected, part.also, part.is_rewritten)
        for part, first, last in spans.values()
    )
    return Variant(name, {f"{stem}.py": "\n".join(lines), **case.files}, units)


def _parts(source: str) -> list[_Part]:
    comments = [
        (number, found[1], frozenset(found[2].split(", ")))
        for number, line in enumerate(source.splitlines(), 1)
        for found in COMMENT.finditer(line)
    ]
    parts = []
    n_inside = 0
    for node in ast.parse(source).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        inside = [(kind, codes) for number, kind, codes in comments if first <= number <= (node.end_lineno or first)]
        expected = frozenset().union(*(codes for kind, codes in inside if kind == "expect"))
        also = frozenset().union(*(codes for kind, codes in inside if kind == "also"))
        is_unit = isinstance(node, (*FUNCTION, ast.ClassDef)) or bool(expected)
        name = node.name if isinstance(node, (*FUNCTION, ast.ClassDef)) else ast.unparse(node).split("\n")[0]
        parts.append(_Part(name, [node], is_unit, expected, also))
        n_inside += len(inside)
    assert n_inside == len(comments), "a comment stands outside of each statement"
    return parts


def _stands_first(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, (ast.Import, ast.ImportFrom))


# Values: where one stands, and what is put in its place


_EMPTY_CALLS = {"set", "list", "dict", "tuple", "super", "frozenset"}
_ABOUT_TYPES = {"isinstance", "issubclass", "getattr", "hasattr", "super", "type", "cast"}
"""Functions whose arguments nobody takes apart."""
_CONSUMERS = {"list", "tuple", "set", "frozenset", "sorted", "join", "sum", "min", "max", "any", "all", "dict"}
"""Functions and methods that read all of an iterable at once."""
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FRESH = (ast.List, ast.Set, ast.Tuple, ast.ListComp, ast.SetComp)


def _called(node: ast.expr) -> str:
    """Name of the function or method that is called, empty where it has none."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _is_constant(node: ast.AST) -> bool:
    """Whether it holds no name, no call and no text that is put together."""
    return not any(isinstance(one, (ast.Name, ast.Call, ast.JoinedStr, *_DISPLAYS)) for one in ast.walk(node))


def _is_worth_it(node: ast.expr) -> bool:
    """Whether a value is more than a name, a constant or an empty display, and can stand elsewhere."""
    if isinstance(node, (ast.Name, ast.Constant, ast.Lambda, ast.GeneratorExp, ast.Starred, ast.Slice, ast.Yield)):
        return False
    if _is_constant(node) or (isinstance(node, _DISPLAYS) and not next(ast.iter_child_nodes(node), None)):
        return False
    if isinstance(node, (ast.List, ast.Tuple)) and not node.elts:
        return False
    if isinstance(node, ast.Call) and not node.args and not node.keywords and _called(node) in _EMPTY_CALLS:
        return False
    return not any(isinstance(one, (ast.NamedExpr, ast.Yield, ast.YieldFrom)) for one in ast.walk(node))


class _Values:
    """Puts something in the place of each value: of arguments, of what is returned and assigned, of what a text
    embeds, of what is sliced, of what displays hold.

    `replaced` gives for a value the statements in front and what stands in its place. Where statements are needed, a
    value stays that is evaluated conditionally, repeatedly, or behind something that stays: the order in which things
    are evaluated does not change.
    """

    def __init__(
        self,
        replaced: Callable[[ast.expr], tuple[list[ast.stmt], ast.expr]],
        *,
        is_in_place: bool,
        iterated: Callable[[ast.expr], ast.expr] | None = None,
    ) -> None:
        self.replaced = replaced
        self.is_in_place = is_in_place
        self.iterated = iterated
        self.n_replaced = 0
        self.before: list[ast.stmt] = []
        self.is_behind = False
        """Whether something was evaluated in this statement that stays in it."""
        self.n_guards = 0
        """How many conditions and repetitions are around."""

    def rewrite(self, part: _Part) -> None:
        """Rewrite a unit."""
        before = self.n_replaced
        part.statements = [one for statement in part.statements for one in self.statement(statement)]
        part.is_rewritten = self.n_replaced > before

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [one for statement in statements for one in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement, behind what its values need in front."""
        outer = self.before, self.is_behind, self.n_guards
        self.before, self.is_behind, self.n_guards = [], False, 0
        self._head(node)
        before = self.before
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None):
                setattr(
                    node,
                    name,
                    self._class_body(node) if isinstance(node, ast.ClassDef) else self.body(getattr(node, name)),
                )
        for inner in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            inner.body = self.body(inner.body)
        self.before, self.is_behind, self.n_guards = outer
        return [*before, node]

    def _class_body(self, node: ast.ClassDef) -> list[ast.stmt]:
        for inner in node.body:
            if isinstance(inner, (*FUNCTION, ast.ClassDef)):
                self.statement(inner)
        return node.body

    def _head(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(value=ast.expr() as value):
                node.value = self.value(value)
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=ast.Tuple() | ast.List() as value):
                node.value = self.inside(value)
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                node.value = self.value(value)
            case ast.AugAssign(target=target, value=value):
                if self.is_in_place or isinstance(target, ast.Name) or _has_no_call(value):
                    node.value = self.value(value)
            case ast.Expr(value=value):
                node.value = self.plain(value)
            case ast.If(test=test):
                node.test = self.plain(test)
            case ast.While(test=test):
                node.test = self.guarded(test)
            case ast.For(iter=iterable):
                node.iter = self.iterable(iterable, is_read_at_once=False)
            case ast.AsyncFor(iter=iterable):
                node.iter = self.inside(iterable)
            case ast.With(items=[first, *others]) | ast.AsyncWith(items=[first, *others]):
                first.context_expr = self.plain(first.context_expr)
                for other in others:
                    other.context_expr = self.guarded(other.context_expr)
            case ast.Match(subject=subject):
                node.subject = self.plain(subject)

    def value(self, node: ast.expr) -> ast.expr:
        """A value in a place where it can be replaced."""
        was_behind = self.is_behind
        node = self.inside(node)
        if not _is_worth_it(node):
            self._stays(node)
            return node
        if self.is_in_place or not (self.n_guards or was_behind):
            statements, instead = self.replaced(node)
            self.before.extend(statements)
            self.n_replaced += instead is not node
            self.is_behind = was_behind
            return instead
        self._stays(node)
        return node

    def plain(self, node: ast.expr) -> ast.expr:
        """A value in a place where it stays, except a slice, and except values within it."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.value(node)
        node = self.inside(node)
        self._stays(node)
        return node

    def guarded(self, node: ast.expr) -> ast.expr:
        """A value that is evaluated conditionally or repeatedly."""
        self.n_guards += 1
        node = self.plain(node)
        self.n_guards -= 1
        return node

    def iterable(self, node: ast.expr, *, is_read_at_once: bool) -> ast.expr:
        """What is iterated over, at once or with other code between the items."""
        can_be_copied = isinstance(node, _FRESH) or _called(node) in {"sorted", "list", "set"}
        if self.iterated is None or not (can_be_copied or (is_read_at_once and isinstance(node, ast.Name))):
            return self.value(node)
        self.n_replaced += 1
        return self.iterated(self.inside(node))

    def _stays(self, node: ast.expr) -> None:
        if not isinstance(node, (ast.Name, ast.Constant, ast.Lambda, *_DISPLAYS)):
            self.is_behind = True

    def inside(self, node: ast.expr) -> ast.expr:
        """A node, whose values within it are replaced, in the order in which they are evaluated."""
        match node:
            case ast.Call():
                self._call(node)
            case ast.Attribute(value=value, ctx=ast.Load()) if not isinstance(value, ast.Name):
                node.value = self.plain(value)
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
                node.value = self.value(value)
                node.slice = self.plain(index)
            case ast.Slice(lower=lower, upper=upper):
                node.lower = lower and self.plain(lower)
                node.upper = upper and self.plain(upper)
            case ast.BinOp(left=left, right=right):
                node.left = self.plain(left)
                node.right = self.plain(right)
            case ast.UnaryOp(operand=operand):
                node.operand = self.plain(operand)
            case ast.BoolOp(values=[first, *others]):
                node.values = [self.plain(first), *map(self.guarded, others)]
            case ast.Compare(left=left, comparators=[first, *others]):
                node.left = self.plain(left)
                node.comparators = [self.plain(first), *map(self.guarded, others)]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                node.test = self.plain(test)
                node.body, node.orelse = self.guarded(body), self.guarded(orelse)
            case ast.JoinedStr(values=values):
                for one in values:
                    if isinstance(one, ast.FormattedValue):
                        one.value = self.value(one.value)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                node.elts = [self._element(one) for one in elements]
            case ast.Dict(keys=keys, values=values):
                node.values = [self._element(one) for one in values]
                if any(key is not None and not _is_constant(key) for key in keys):
                    self.is_behind = True
            case ast.Starred(value=value):
                node.value = self.value(value)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                node.value = self.inside(value)
            case ast.Yield(value=ast.expr() as value):
                node.value = self.value(value)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, is_read_at_once=not isinstance(node, ast.GeneratorExp))
        return node

    def _element(self, node: ast.expr) -> ast.expr:
        return self.inside(node) if isinstance(node, _DISPLAYS) else self.value(node)

    def _call(self, node: ast.Call) -> None:
        name = _called(node)
        if isinstance(node.func, ast.Attribute):
            if not _is_dotted(node.func):
                node.func.value = self.plain(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.plain(node.func)
        if name in _ABOUT_TYPES:
            return
        is_consumed = name in _CONSUMERS and len(node.args) == 1
        for at, one in enumerate(node.args):
            if is_consumed and isinstance(one, ast.GeneratorExp):
                self._comprehension(one, is_read_at_once=True)
            elif isinstance(one, ast.Starred):
                node.args[at] = self.inside(one)
            elif is_consumed and name != "dict":
                node.args[at] = self.iterable(one, is_read_at_once=True)
            else:
                node.args[at] = self.value(one)
        for keyword in node.keywords:
            keyword.value = self.value(keyword.value)

    def _comprehension(self, node: ast.expr, *, is_read_at_once: bool) -> None:
        assert isinstance(node, _COMPREHENSIONS)
        first, *others = node.generators
        first.iter = (
            self.inside(first.iter) if first.is_async else self.iterable(first.iter, is_read_at_once=is_read_at_once)
        )
        first.ifs = [self.guarded(one) for one in first.ifs]
        for other in others:
            other.iter = self.guarded(other.iter)
            other.ifs = [self.guarded(one) for one in other.ifs]
        self.n_guards += 1
        if isinstance(node, ast.DictComp):
            node.key, node.value = self._element(node.key), self._element(node.value)
        else:
            node.elt = self._element(node.elt)
        self.n_guards -= 1


def _has_no_call(node: ast.AST) -> bool:
    return not any(isinstance(one, (ast.Call, ast.Await)) for one in ast.walk(node))


def _is_dotted(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def _parsed(text: str, **values: ast.expr) -> list[ast.stmt]:
    """Statements of a text, in which each name of `values` is that value."""

    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return values.get(node.id, node)

    return [Filled().visit(one) for one in ast.parse(text).body]


def _expression(text: str, **values: ast.expr) -> ast.expr:
    statement = _parsed(text, **values)[0]
    assert isinstance(statement, ast.Expr)
    return statement.value


# The rewrites


def _unchanged(case: _Case) -> None:
    for part in case.units():
        part.is_rewritten = True


def _extra_variable(case: _Case) -> None:
    n = 0

    def replaced(value: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        nonlocal n
        n += 1
        return _parsed(f"value_{n} = VALUE", VALUE=value), ast.Name(f"value_{n}")

    for part in case.units():
        _Values(replaced, is_in_place=False).rewrite(part)


def _helper(case: _Case) -> None:
    case.added.append("def _same(value):\n    return value")
    for part in case.units():
        _Values(lambda value: ([], _expression("_same(VALUE)", VALUE=value)), is_in_place=True).rewrite(part)


def _extracted(case: _Case) -> None:
    """Each value is made by a function of its own; by a method, where it is made of `self` in a class."""
    n = 0
    made: list[ast.stmt] = []
    methods: list[ast.stmt] = []
    known: set[str] = set()
    is_class = False

    def replaced(value: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        nonlocal n
        inside = list(ast.walk(value))
        if any(isinstance(one, ast.Await) or _called_super(one) for one in inside):
            return [], value
        n += 1
        own = {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        own.update(one.arg for one in inside if isinstance(one, ast.arg))
        names = sorted({one.id for one in inside if isinstance(one, ast.Name)} & known - own)
        if is_class and "self" in names:
            given = ", ".join(name for name in names if name != "self")
            function = _parsed(f"def _made_{n}(self, {given}):\n    return VALUE", VALUE=value)
            methods.extend(function)
            return [], _expression(f"self._made_{n}({given})")
        given = ", ".join(names)
        made.extend(_parsed(f"def _made_{n}({given}):\n    return VALUE", VALUE=value))
        return [], _expression(f"_made_{n}({given})")

    for part in case.units():
        node = part.node
        known, is_class = _bound_names(node), isinstance(node, ast.ClassDef)
        _Values(replaced, is_in_place=True).rewrite(part)
        if isinstance(node, ast.ClassDef):
            node.body.extend(methods)
        elif not isinstance(node, FUNCTION):
            part.statements[:0] = made
            made.clear()
        part.statements.extend(made)
        made.clear()
        methods.clear()


def _called_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "super"


def _bound_names(node: ast.AST) -> set[str]:
    """Names that it binds: parameters, variables, functions within it."""
    names = set()
    for one in ast.walk(node):
        if isinstance(one, ast.arg):
            names.add(one.arg)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            names.add(one.id)
        elif isinstance(one, FUNCTION) and one is not node:
            names.update(inner.name for inner in ast.walk(one) if isinstance(inner, FUNCTION))
        elif isinstance(one, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and one.name:
            names.add(one.name)
    return names


def _other_module(case: _Case) -> None:
    case.added.append(f"from .helpers_{case.stem} import same")
    case.files[f"helpers_{case.stem}.py"] = "def same(value):\n    return value\n"
    for part in case.units():
        _Values(lambda value: ([], _expression("same(VALUE)", VALUE=value)), is_in_place=True).rewrite(part)


def _attribute(case: _Case) -> None:
    n = 0
    case.added.append("class _Box:\n    pass")

    def replaced(value: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        nonlocal n
        n += 1
        return _parsed(f"box_{n} = _Box()\nbox_{n}.value = VALUE", VALUE=value), _expression(f"box_{n}.value")

    for part in case.units():
        _Values(replaced, is_in_place=False).rewrite(part)


def _comprehension(case: _Case) -> None:
    for part in case.units():
        _Values(
            lambda value: ([], _expression("[item for item in [VALUE]][0]", VALUE=value)),
            is_in_place=True,
            iterated=lambda value: _expression("[item for item in VALUE]", VALUE=value),
        ).rewrite(part)


class _Partial(ast.NodeTransformer):
    """Calls with keywords, and calls of what the module defines, are made in two steps.

    What is evaluated first stays first: the first arguments are bound, the others are given in the call.
    """

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.n = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = _called(node)
        if name in _ABOUT_TYPES or not (node.keywords or (node.args and name in self.names)):
            return node
        self.n += 1
        if node.args and node.keywords and all(isinstance(one, (ast.Name, ast.Constant)) for one in node.args):
            return ast.Call(ast.Call(ast.Name("partial"), [node.func], node.keywords), node.args, [])
        if node.keywords:
            n_bound = (len(node.keywords) + 1) // 2
            bound = ast.Call(ast.Name("partial"), [node.func, *node.args], node.keywords[:n_bound])
            return ast.Call(bound, [], node.keywords[n_bound:])
        n_bound = (len(node.args) + 1) // 2
        return ast.Call(ast.Call(ast.Name("partial"), [node.func, *node.args[:n_bound]], []), node.args[n_bound:], [])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = [self.visit(one) if isinstance(one, (*FUNCTION, ast.ClassDef)) else one for one in node.body]
        return node


def _partial(case: _Case) -> None:
    case.added.append("from functools import partial")
    names = {
        one.name
        for part in case.parts
        for one in ast.walk(part.node)
        if isinstance(one, (*FUNCTION, ast.ClassDef)) and not one.name.startswith("__")
    }
    for part in case.units():
        rewriter = _Partial(names)
        part.statements = [rewriter.visit(part.node)]
        part.is_rewritten = rewriter.n > 0


# async


_CONTAINER_METHODS = {name for kind in (list, dict, set, str) for name in dir(kind)}
_ASYNC_CLIENTS = {"Anthropic": "AsyncAnthropic", "OpenAI": "AsyncOpenAI"}


@dataclass(slots=True)
class _Use:
    """A call of a function or method of the module, or of a client's endpoint."""

    call: ast.Call
    owner: str
    """Key of the function it stands in; empty where it stands where nothing can be awaited."""


class _Uses(ast.NodeVisitor):
    """Where the module's functions are called or handed on, by key: `name` of a function, `.name` of a method."""

    def __init__(self, keys: set[str], clients: set[str], globals_: set[str]) -> None:
        self.keys, self.clients, self.globals = keys, clients, globals_
        self.uses: dict[str, list[_Use]] = defaultdict(list)
        self.handed_on: set[str] = set()
        self.owner = ""

    def of(self, node: ast.AST, owner: str) -> None:
        """Visit what stands in a function, or where nothing can be awaited."""
        outer, self.owner = self.owner, owner
        self.visit(node)
        self.owner = outer

    def _without_owner(self, node: ast.AST) -> None:
        outer, self.owner = self.owner, ""
        self.generic_visit(node)
        self.owner = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._without_owner(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._without_owner(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._without_owner(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._without_owner(node)

    def visit_Call(self, node: ast.Call) -> None:
        key = self._key(node.func)
        if key:
            self.uses[key].append(_Use(node, self.owner))
            if isinstance(node.func, ast.Attribute) and not key.startswith("client "):
                self.visit(node.func.value)
        else:
            self.visit(node.func)
        for one in [*node.args, *node.keywords]:
            self.visit(one)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.handed_on |= {node.id, f"client {node.id}"}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.handed_on.add(f".{node.attr}")
        self.visit(node.value)

    def _key(self, function: ast.expr) -> str:
        if isinstance(function, ast.Name):
            return function.id if function.id in self.keys else ""
        if not isinstance(function, ast.Attribute):
            return ""
        root = _root(function)
        if root in self.clients and function.attr in {"create", "parse"}:
            return f"client {root}"
        if f".{function.attr}" not in self.keys:
            return ""
        is_own = isinstance(function.value, ast.Name) and function.value.id in {"self", "cls"}
        if is_own or (root not in self.globals and function.attr not in _CONTAINER_METHODS):
            return f".{function.attr}"
        return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _functions(case: _Case) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, _Part]]:
    """Key, node and part of each function and method."""
    for part in case.units():
        if isinstance(part.node, FUNCTION):
            yield part.node.name, part.node, part
        elif isinstance(part.node, ast.ClassDef):
            for one in part.node.body:
                if isinstance(one, FUNCTION):
                    yield f".{one.name}", one, part


def _can_be_async(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    is_generator = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))
    return decorators <= {"staticmethod", "classmethod"} and not node.name.startswith("__") and not is_generator


def _local_names(case: _Case) -> set[str]:
    """Names of parameters, of what functions assign, and of functions within functions."""
    names = set()
    for part in case.units():
        methods = part.node.body if isinstance(part.node, ast.ClassDef) else [part.node]
        for one in methods:
            names |= _bound_names(one)
    return names


def _module_names(case: _Case) -> set[str]:
    """Names that the module's statements bind."""
    names = set()
    for part in case.parts:
        match part.node:
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names.update((one.asname or one.name).split(".")[0] for one in imported)
            case ast.Assign(targets=targets):
                names.update(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return names


class _Awaited(ast.NodeTransformer):
    """Some calls are awaited."""

    def __init__(self, calls: set[int]) -> None:
        self.calls = calls

    def visit_Call(self, node: ast.Call) -> ast.expr:
        is_awaited = id(node) in self.calls
        self.generic_visit(node)
        return ast.Await(node) if is_awaited else node


def _async(case: _Case) -> None:
    functions = list(_functions(case))
    was_async = {key for key, node, _ in functions if isinstance(node, ast.AsyncFunctionDef)}
    mixed = was_async & {key for key, node, _ in functions if not isinstance(node, ast.AsyncFunctionDef)}
    changing = {key for key, node, _ in functions if _can_be_async(node)} - was_async - _local_names(case)
    was_async -= mixed
    changing -= {key for key, node, _ in functions if not _can_be_async(node)}
    changing -= {key for key, _, part in functions if isinstance(part.node, ast.ClassDef) and part.node.bases}
    clients = {
        part.node.targets[0].id: part.node.value
        for part in case.parts
        if isinstance(part.node, ast.Assign)
        and isinstance(part.node.targets[0], ast.Name)
        and isinstance(part.node.value, ast.Call)
        and _called(part.node.value) in _ASYNC_CLIENTS
        and isinstance(part.node.value.func, ast.Attribute)
    }
    found = _Uses(changing, set(clients), _module_names(case))
    for part in case.parts:
        inner = [node for _, node, owner in functions if owner is part]
        if not part.is_unit or not inner:
            found.of(part.node, "")
            continue
        for node in inner:
            key = node.name if node is part.node else f".{node.name}"
            for one in node.body:
                found.of(one, key)
            for other in [node.args, *node.decorator_list]:
                found.of(other, "")
        if isinstance(part.node, ast.ClassDef):
            for one in part.node.body:
                if not isinstance(one, FUNCTION):
                    found.of(one, "")
    changing -= found.handed_on
    while True:
        blocked = {key for key in changing if any(use.owner not in changing | was_async for use in found.uses[key])}
        if not blocked:
            break
        changing -= blocked
    awaited = {id(use.call) for key in changing for use in found.uses[key]}
    for name, made in clients.items():
        uses = found.uses[f"client {name}"]
        if f"client {name}" not in found.handed_on and all(use.owner in changing | was_async for use in uses):
            assert isinstance(made.func, ast.Attribute)
            made.func.attr = _ASYNC_CLIENTS[made.func.attr]
            awaited |= {id(use.call) for use in uses}
    for part in case.parts:
        part.statements = [_Awaited(awaited).visit(part.node)]
    for key, node, part in functions:
        if key in changing:
            part.is_rewritten = True
            made_async = ast.AsyncFunctionDef(**{name: getattr(node, name) for name in node._fields})
            if node is part.node:
                part.statements = [made_async]
            else:
                assert isinstance(part.node, ast.ClassDef)
                part.node.body[part.node.body.index(node)] = made_async


# Classes


def _base_class(case: _Case) -> None:
    """The first half of a class's methods stands in a base; a function is a method that its class inherits."""
    for part in case.units():
        if isinstance(part.node, ast.ClassDef):
            _split(part, case, is_whole=False)
    _made_methods(case, is_static=False)


def _subclass(case: _Case) -> None:
    """All that a class holds stands in a base; a function is a static method that its class inherits."""
    for part in case.units():
        if isinstance(part.node, ast.ClassDef):
            _split(part, case, is_whole=True)
    _made_methods(case, is_static=True)


def _split(part: _Part, case: _Case, *, is_whole: bool) -> None:
    node = part.node
    assert isinstance(node, ast.ClassDef)
    is_mangled = any(
        isinstance(one, ast.Attribute) and one.attr.startswith("__") and not one.attr.endswith("__")
        for one in ast.walk(node)
    )
    known = {other.node.name for other in case.units() if isinstance(other.node, ast.ClassDef)}
    is_plain = {ast.unparse(one) for one in node.bases} <= known and not node.keywords
    methods = [one for one in node.body if isinstance(one, FUNCTION)]
    kept = [] if is_whole else methods[(len(methods) + 1) // 2 :]
    if is_mangled or not is_plain or (node.decorator_list and not is_whole) or (not is_whole and not kept):
        return
    base = copy.copy(node)
    base.name = f"_{node.name}Base"
    base.body = [one for one in node.body if one not in kept]
    derived = ast.ClassDef(node.name, [ast.Name(base.name)], [], kept or [ast.Pass()], [])
    part.statements, part.is_rewritten = [base, derived], True


class _Renamed(ast.NodeTransformer):
    """What stands for the names of functions."""

    def __init__(self, instead: dict[str, ast.expr]) -> None:
        self.instead = instead

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.instead.get(node.id, node))


def _made_methods(case: _Case, *, is_static: bool) -> None:
    shadowed = _local_names(case)
    instead: dict[str, ast.expr] = {}
    for part in case.units():
        node = part.node
        if not isinstance(node, FUNCTION) or node.decorator_list or node.name in shadowed:
            continue
        name = "_" + "".join(word.title() for word in node.name.split("_"))
        named_self = (
            bool(node.args.posonlyargs + node.args.args) and (node.args.posonlyargs + node.args.args)[0].arg == "self"
        )
        uses_self = any(isinstance(one, ast.Name) and one.id == "self" for one in ast.walk(node))
        has_self = any(isinstance(one, ast.arg) and one.arg == "self" for one in ast.walk(node))
        if not is_static and (uses_self or has_self) and not named_self:
            continue
        method = copy.copy(node)
        if is_static:
            method.decorator_list = [ast.Name("staticmethod")]
            instead[node.name] = _expression(f"{name}.{node.name}")
        elif named_self:
            instead[node.name] = _expression(f"{name}.{node.name}")
        else:
            method.args = copy.copy(node.args)
            if node.args.posonlyargs:
                method.args.posonlyargs = [ast.arg("self"), *node.args.posonlyargs]
            else:
                method.args.args = [ast.arg("self"), *node.args.args]
            instead[node.name] = _expression(f"{name}().{node.name}")
        base = ast.ClassDef(f"{name}Base", [], [], [method], [])
        derived = ast.ClassDef(name, [ast.Name(f"{name}Base")], [], [ast.Pass()], [])
        part.statements, part.is_rewritten = [base, derived], True
    for part in case.parts:
        part.statements = [_Renamed(instead).visit(one) for one in part.statements]


REWRITES: dict[str, Callable[[_Case], None]] = {
    "unchanged": _unchanged,
    "variable": _extra_variable,
    "helper": _helper,
    "extracted": _extracted,
    "module": _other_module,
    "attribute": _attribute,
    "comprehension": _comprehension,
    "partial": _partial,
    "async": _async,
    "base": _base_class,
    "subclass": _subclass,
}
"""Name → rewrite. `unchanged` is none of them: the case itself, printed anew."""


# Measuring


@dataclass(frozen=True, slots=True)
class Judged:
    """A unit in one rewrite, and a code."""

    stem: str
    """Of the file of cases."""
    unit: str
    code: str
    """Codes that were found, for a clean unit."""
    is_right: bool


@dataclass(slots=True)
class Row:
    """What the detector says about one rewrite of all cases."""

    rewrite: str
    hazardous: list[Judged] = field(default_factory=list)
    """Each unit and each code expected in it."""
    clean: list[Judged] = field(default_factory=list)
    n_skipped: int = 0
    """Units that the rewrite does not change."""

    @property
    def n_found(self) -> int:
        """Hazardous units found, by code."""
        return sum(one.is_right for one in self.hazardous)

    @property
    def n_flagged(self) -> int:
        """Clean units flagged."""
        return sum(not one.is_right for one in self.clean)


def measure(folder: Path, rewrite: str, select: Sequence[str] = ("CK",), files: Sequence[Path] = ()) -> Row:
    """Rewrite cases, all or those of `files`, into an empty folder, each into a package of its own, and lint them."""
    made = {
        file.stem: variant(file.read_text(encoding="utf-8"), rewrite, file.stem)
        for file in files or sorted(CASES.glob("*.py"))
    }
    for stem, one in made.items():
        package = folder / stem
        package.mkdir()
        (package / "__init__.py").write_text("")
        for name, text in one.files.items():
            (package / name).write_text(text, encoding="utf-8")
    findings = defaultdict(list)
    for finding in find_in_code([folder], LintConfig(select=tuple(select)), hazards()):
        for stem in {Path(place.file).parent.name for place in _places(finding)}:
            findings[stem].append(finding)
    row = Row(rewrite)
    for stem, one in made.items():
        _judge(row, stem, one, findings[stem], tuple(select))
    return row


def _judge(row: Row, stem: str, made: Variant, findings: Iterable[Finding], select: tuple[str, ...]) -> None:
    asked = frozenset().union(*(unit.expected for unit in made.units))
    placed: dict[Unit | None, set[str]] = defaultdict(set)
    passed: dict[Unit | None, set[str]] = defaultdict(set)
    for finding in findings:
        through = [unit for place in _places(finding) if (unit := _unit_at(place, f"{stem}.py", made.units))]
        for unit in through:
            passed[unit].add(finding.code)
        if through and (finding.code[2] == stem[2] or finding.code in asked):
            placed[through[0]].add(finding.code)
    for unit in made.units:
        row.n_skipped += not unit.is_rewritten
        if not unit.is_rewritten:
            continue
        row.hazardous.extend(
            Judged(stem, unit.name, code, code in passed[unit])
            for code in sorted(unit.expected)
            if code.startswith(select)
        )
        if not unit.expected and stem.startswith(select):
            wrong = placed[unit] - unit.also
            row.clean.append(Judged(stem, unit.name, ", ".join(sorted(wrong)), not wrong))


def _places(finding: Finding) -> list[CodePlace]:
    return [place for place in (finding.place, *finding.trail) if isinstance(place, CodePlace)]


def _unit_at(place: CodePlace, file: str, units: Iterable[Unit]) -> Unit | None:
    """The unit a place is in."""
    if Path(place.file).name != file:
        return None
    return next((unit for unit in units if unit.first <= place.line <= unit.last), None)


def main() -> None:
    """Print the table, or one rewrite."""
    parser = argparse.ArgumentParser(prog="python -m tests.lint.variants", description=__doc__.split("\n")[0])
    parser.add_argument("--select", default="CK", help="beginnings of codes, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="list what is missed and what is flagged")
    parser.add_argument("--show", nargs=2, metavar=("FILE", "REWRITE"), help="print the code of one rewrite")
    options = parser.parse_args()
    if options.show:
        stem, rewrite = Path(options.show[0]).stem, options.show[1]
        for name, text in variant((CASES / f"{stem}.py").read_text(encoding="utf-8"), rewrite, stem).files.items():
            print(f"# {name}\n{text}")
        return
    select = tuple(options.select.split(","))
    rows = []
    print(f"{'rewrite':15}{'found':>12}{'':8}{'flagged':>12}{'':8}{'units skipped':>14}")
    for rewrite in REWRITES:
        with tempfile.TemporaryDirectory(prefix="variants-") as folder:
            row = measure(Path(folder), rewrite, select)
        print(_line(row))
        rows.append(row)
    total = Row("all rewrites")
    for row in rows[1:]:
        total.hazardous += row.hazardous
        total.clean += row.clean
        total.n_skipped += row.n_skipped
    print(_line(total))
    if options.verbose:
        for row in rows:
            for one in row.hazardous:
                if not one.is_right:
                    print(f"{row.rewrite}: missed {one.code} in {one.unit} of {one.stem}")
            for one in row.clean:
                if not one.is_right:
                    print(f"{row.rewrite}: flagged {one.code} in {one.unit} of {one.stem}")


def _line(row: Row) -> str:
    found, flagged = f"{row.n_found}/{len(row.hazardous)}", f"{row.n_flagged}/{len(row.clean)}"
    return (
        f"{row.rewrite:15}{found:>12}{_share(row.n_found, len(row.hazardous)):>8}"
        f"{flagged:>12}{_share(row.n_flagged, len(row.clean)):>8}{row.n_skipped:>14}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


if __name__ == "__main__":
    main()
