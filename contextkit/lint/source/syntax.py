"""Functions on single pieces of syntax: names of targets, keys of dicts, loop counters, places of templates, safe edits.

They take nodes, or the bytes of a file and offsets in them, and know nothing of where the walk stands.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

from contextkit.lint.finding import Edit
from contextkit.lint.source import nodes as ast
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Kind, Sink

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
BUILTINS = frozenset(dir(builtins))
_ENDS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Constant})
"""What has nodes of its own, or none."""
_PLAIN = frozenset(
    {
        "id",
        "attr",
        "arg",
        "name",
        "asname",
        "module",
        "level",
        "names",
        "ctx",
        "op",
        "ops",
        "lineno",
        "kind",
        "conversion",
        "type_comment",
        "type_ignores",
        "is_async",
        "simple",
        "tag",
        "str",
        "rest",
        "kwd_attrs",
        "cls_name",
    }
)
"""Fields that hold no node, or one that says how its parent is used: `ctx`, `op`."""
_WITH_GAPS = frozenset({ast.Dict, ast.arguments})
"""What has lists with a None for an item: `{**others}`, an argument without a default."""
_WITH_NODES = {ast.Import: "names", ast.ImportFrom: "names"}
"""Where a field of such a name does hold nodes."""
_WORD = 24
"""Characters of a word that says as what something is handed over, at most."""
_P = ParamSpec("_P")
_T = TypeVar("_T")
_forget: list[Callable[[], None]] = []


def cached(n: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Keeps the last `n` answers of a function about nodes for the pattern that asks next.

    None of them is to be changed.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        answers = lru_cache(maxsize=n)(function)
        _forget.append(answers.cache_clear)
        return cast(Callable[_P, _T], answers)

    return decorate


def forget() -> None:
    """Lets go of all answers that are kept, and of the trees they are about."""
    for clear in _forget:
        clear()


class _Fields(dict[type, tuple[str, ...]]):
    """Type of node → its fields that may hold nodes."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        fields = (
            ()
            if kind in (ast.Constant, ast.MatchSingleton)
            else tuple(
                name for name in getattr(kind, "_fields", ()) if name not in _PLAIN or _WITH_NODES.get(kind) == name
            )
        )
        self[kind] = fields
        return fields


_FIELDS = _Fields()


def walk(node: ast.AST) -> list[ast.AST]:
    """What `ast.walk` goes through, in its order and several times as fast.

    Operators and contexts (`ast.Load`) left out.

    >>> [type(part).__name__ for part in walk(ast.parse("a + 1"))]
    ['Module', 'Expr', 'BinOp', 'Name', 'Constant']
    """
    found, fields = [node], _FIELDS
    for part in found:
        kind = type(part)
        for name in fields[kind]:
            value = getattr(part, name, None)
            if value.__class__ is list:
                found += value if kind not in _WITH_GAPS else filter(None, value)
            elif value is not None:
                found.append(value)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives; operators and contexts left out."""
    found: list[ast.AST] = []
    kind = type(node)
    for name in _FIELDS[kind]:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += value if kind not in _WITH_GAPS else filter(None, value)
        elif value is not None:
            found.append(value)
    return found


class _Blocks(dict[type, tuple[str, ...]]):
    """Type of node → its fields that hold statements, or what holds those."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        has_one = kind not in (ast.Lambda, ast.IfExp)
        found = tuple(name for name in getattr(kind, "_fields", ()) if name in _HOLD_STATEMENTS) if has_one else ()
        self[kind] = found
        return found


_HOLD_STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")
BLOCKS = _Blocks()


def functions_in(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method under a node, found by its statements alone."""
    waiting = [tree]
    for node in waiting:
        for name in BLOCKS[type(node)]:
            waiting += getattr(node, name)
    return [node for node in waiting if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@cached(4)
def by_type(around: ast.AST) -> dict[type, list[ast.AST]]:
    """The nodes inside one, those of functions and classes inside it left out, by their type and in order."""
    found: dict[type, list[ast.AST]] = {}
    waiting = children(around)
    waiting.reverse()
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind in found:
            found[kind].append(node)
        else:
            found[kind] = [node]
        if kind not in _ENDS:
            inside = children(node)
            inside.reverse()
            waiting += inside
    return found


def last_name(node: ast.AST) -> str:
    """The last name of a name, attribute or subscript with a constant key; empty for anything else."""
    kind = type(node)
    if kind is ast.Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    if kind is ast.Attribute:
        return node.attr  # type: ignore[attr-defined, no-any-return]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return ""


def made_from(node: ast.AST) -> list[ast.AST]:
    """The lists an expression keeps: what is copied, sliced, sorted, filtered, added."""
    if isinstance(node, ast.Subscript):
        return [node.value] if isinstance(node.slice, ast.Slice) else []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"copy", "get"}:
            return [node.func.value] if node.func.attr == "copy" else list(_got(node))
        return (
            list(node.args[:1])
            if last_name(node.func) in {"list", "sorted", "reversed", "deepcopy", "copy", "tuple", "filter"}
            else []
        )
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return [node.generators[0].iter]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.List):
        return [item.value for item in node.elts if isinstance(item, ast.Starred)]
    return [node.value] if isinstance(node, ast.Await | ast.NamedExpr) else []


def _got(node: ast.Call) -> Iterator[ast.AST]:
    """`state.get("messages")` is as good as `state["messages"]`."""
    if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        yield ast.Name(node.args[0].value)


def constant_keys(node: ast.Dict) -> dict[str, ast.expr]:
    """The values of a dict display under its constant text keys."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def is_tool_definition(keys: Container[str]) -> bool:
    """Whether a dict with these keys describes a tool."""
    return "name" in keys and any(key in keys for key in sinks.SCHEMA_KEYS)


def is_model_call(name: str, last: str) -> bool:
    """Whether a call of this full name calls a model."""
    return (
        last in sinks.MODEL_METHODS
        or ".".join(name.rsplit(".", 2)[-2:]) in sinks.MODEL_CALLS
        or name in sinks.MODEL_CALLS
    )


def keeps_its_result(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method gives back what it kept in an attribute, where it has it, and keeps it there otherwise.

    >>> keeps_its_result(ast.parse("def f(self):\\n if self._a: return self._a\\n self._a = g()\\n return self._a").body[0])
    True
    """
    first = [part for part in function.body[:3] if type(part) is ast.If][:1]
    given = first[0].body[0] if first and len(first[0].body) == 1 and not first[0].orelse else None
    if not isinstance(given, ast.Return) or not isinstance(given.value, ast.Attribute):
        return False
    cached = ast.dump(given.value.value), given.value.attr
    targets = (target for part in function.body if type(part) is ast.Assign for target in part.targets)
    return any(
        isinstance(target, ast.Attribute) and (ast.dump(target.value), target.attr) == cached for target in targets
    )


@lru_cache(maxsize=10_000)
def made_by(function: str) -> Sink | None:
    """What a function of this name gives back."""
    if sinks.PROMPT_FUNCTION.match(function):
        return "system"
    return "tools" if sinks.TOOLS_FUNCTION.match(function) else None


def as_meant(name: str, tops: Mapping[str, str]) -> str:
    """A full name under the name that its first part has in the tree, where several folders have one of that name.

    >>> as_meant("app.prompts", {"app": "app~2"})
    'app~2.prompts'
    """
    top, dot, rest = name.partition(".")
    return f"{tops.get(top, top)}{dot}{rest}"


@dataclass(slots=True, eq=False)
class CallSpec:
    """What the tables say of calls of one name."""

    is_clean: bool
    """Its result says nothing of its arguments, and no model is shown them."""
    is_answer: bool
    """Its result is what a model or a server says."""
    is_plain: bool
    """Without keywords its arguments reach no prompt."""
    is_common: bool
    """It is no source and no sanitizer, and stores nothing."""
    is_ours: bool
    """It may be of the linted tree."""
    is_text: bool
    """Its result holds the text of its arguments."""
    arguments: sinks.Arguments
    """As what its arguments arrive."""
    is_named: bool
    """Whether it does not call a model."""
    mends: frozenset[Kind] | None
    """What no longer varies in its result."""


FOREIGN = CallSpec(False, False, True, True, False, False, {}, True, None)
"""A call of which nothing is known."""
OURS = replace(FOREIGN, is_ours=True)
"""A call of which no more is known than that it may be of the linted tree."""


def takes_prompts(name: str) -> bool:
    """Whether a call of this name means a prompt by `instructions=` or `tools=`."""
    return sinks.TAKES_PROMPTS.search(name) is not None and sinks.STORES.match(name) is None


def word_of(node: ast.AST) -> str:
    """A text of a word's length, empty for anything else."""
    text = node.value if type(node) is ast.Constant else ""
    return text if type(text) is str and len(text) <= _WORD else ""


def is_system_role(node: ast.expr) -> bool:
    """`"system"`, `Role.SYSTEM`, `MessageRole.SYSTEM.value`."""
    if isinstance(node, ast.Constant):
        return node.value in sinks.SYSTEM_ROLES
    if isinstance(node, ast.Attribute) and node.attr == "value":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr.lower() in sinks.SYSTEM_ROLES


def is_system_message(node: ast.AST | None) -> bool:
    """`{"role": "system", …}`, `SystemMessage(…)`."""
    if isinstance(node, ast.Dict):
        return any(isinstance(value, ast.Constant) and value.value in sinks.SYSTEM_ROLES for value in node.values)
    return isinstance(node, ast.Call) and last_name(node.func) in {"SystemMessage", "SystemPromptPart", "from_system"}


def way_to(node: ast.AST, line: int, around: ast.AST, by_lines: bool) -> tuple[ast.AST, ...]:
    """The nodes from one down to what holds another; `by_lines` only through those on whose lines the other begins."""
    for child in children(around):
        if child is node:
            return (around,)
        if by_lines and line > getattr(child, "end_lineno", line):
            continue
        if by_lines and line < getattr(child, "lineno", line) and not getattr(child, "decorator_list", None):
            continue
        below = way_to(node, line, child, by_lines)
        if below:
            return (around, *below)
    return ()


_BEHIND = re.compile(rb"(?P<space>[ \t\r\n\f]+|\\\r?\n)|(?P<comment>#[^\n]*)|(?P<comma>,)|(?P<close>[)\]}])")
"""What may stand behind the last item of a call or display."""


def appended(source: bytes, last: tuple[int, int], end: int, item: str) -> Edit | None:
    """`item` behind the last one of a call or display that ends at `end`; where each has its own line, so has this one.

    >>> appended(b"f(a, b)", (5, 6), 7, "c=1")
    Edit(start=6, end=6, text=', c=1')
    >>> appended(b"f(\\n    a,\\n)", (7, 8), 11, "c=1")
    Edit(start=9, end=9, text='\\n    c=1,')
    """
    found = _behind(source, last[1], end)
    if found is None:
        return None
    at, comma, has_comment = found
    indent = _indent(source, last[0])
    has_own_line = not has_comment and indent is not None and b"\n" in source[at:end]
    new_line = "\r\n" if b"\r\n" in source[at:end] else "\n"
    if has_own_line and comma and source[comma : source.index(b"\n", comma)].strip() == b"":
        return Edit(comma, comma, f"{new_line}{indent}{item},")
    return Edit(at, at, f",{new_line}{indent}{item}" if has_own_line and not comma else f", {item}")


def _behind(source: bytes, start: int, end: int) -> tuple[int, int, bool] | None:
    """Offset behind the last item and its parentheses, behind the comma that follows (0 where none does), and whether a
    comment does.
    """
    closes, comma, has_comment, at = [start], 0, False, start
    while at < end:
        found = _BEHIND.match(source, at, end)
        if found is None:
            return None
        at = found.end()
        has_comment = has_comment or found.lastgroup == "comment"
        if found.lastgroup == "close":
            closes.append(at)
        comma = at if found.lastgroup == "comma" else comma
    return (closes[-2], comma, has_comment) if len(closes) > 1 and (not comma or comma > closes[-2]) else None


def _indent(source: bytes, start: int) -> str | None:
    """What stands before an item that begins its line, None where something else does."""
    before = source[source.rfind(b"\n", 0, start) + 1 : start]
    return before.decode() if not before.strip() else None


def removed(source: bytes, start: int, end: int) -> Edit | None:
    """An item of a display taken out, with a comma and, where it stood alone on its line, with the line.

    >>> removed(b'{"a": 1, "b": 2}', 9, 15)
    Edit(start=7, end=15, text='')
    """
    behind = re.compile(rb"[ \t]*(,?)[ \t]*(\r?\n)?").match(source, end)
    head = source[source.rfind(b"\n", 0, start) + 1 : start]
    if (
        behind is None
        or source[behind.end() : behind.end() + 1] == b"#"
        or source[behind.start() : behind.end() + 1].strip()[:1] == b")"
    ):
        return None
    if not head.strip() and behind[2]:
        return Edit(start - len(head), behind.end(), "")
    before = source[:start].rstrip()
    if before.endswith(b",") and b"#" not in source[len(before) : start] and not behind[2]:
        return Edit(len(before) - 1, end, "")
    return Edit(start, behind.end(), "") if behind[1] and not behind[2] else None


def wrapped(start: int, end: int, head: str, tail: str) -> tuple[Edit, Edit]:
    """`head` before an expression and `tail` behind it."""
    return Edit(start, start, head), Edit(end, end, tail)


_STEPS = frozenset({ast.Add, ast.Sub})
_NUMBERS = frozenset({int, float})
_SPENT = ("tokens", "cost")
"""Ends of the names of what is used up."""
_LOOPS = frozenset({"range", "count", "trange"})
"""What gives numbers to go through."""


def counts(node: ast.AugAssign) -> bool:
    """Whether it is a step of a counter: `n += 1`, `budget -= usage.output_tokens`."""
    if type(node.op) not in _STEPS:
        return False
    step = node.value
    return type(step.value) in _NUMBERS if type(step) is ast.Constant else last_name(step).endswith(_SPENT)


def counter_of(loop: ast.AST) -> ast.expr | None:
    """What says how often a loop was gone through: `n` of `for n in range(9)`, of `for n, text in enumerate(texts)`."""
    called = (
        last_name(loop.iter.func)
        if isinstance(loop, ast.For | ast.AsyncFor) and isinstance(loop.iter, ast.Call)
        else ""
    )
    target = loop.target if called == "enumerate" or called in _LOOPS else None  # type: ignore[attr-defined]
    if called != "enumerate":
        return target
    return target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else None


_PLACE = re.compile(r"(?<!\{)\{(\w+)\}")


def places_in_system(tree: ast.Module, source: bytes) -> frozenset[str]:
    """`{"time"}` for a template of `("system", "It is {time}.")`.

    >>> text = "ChatPromptTemplate.from_messages([('system', 'It is {time}. {{no}}'), ('human', '{question}')])"
    >>> places_in_system(ast.parse(text), text.encode())
    frozenset({'time'})
    """
    if b"from_messages" not in source and b"SystemMessagePromptTemplate" not in source:
        return frozenset()
    stored = {last_name(part.targets[0]): part.value for part in tree.body if type(part) is ast.Assign}
    texts = (stored.get(last_name(text), text) for text in _system_texts(tree))
    parts = (part.value for text in texts for part in walk(text) if type(part) is ast.Constant)
    return frozenset(place for part in parts if isinstance(part, str) for place in _PLACE.findall(part))


def _system_texts(tree: ast.Module) -> Iterator[ast.expr]:
    for part in walk(tree):
        if type(part) is ast.Tuple and len(part.elts) == 2 and is_system_role(part.elts[0]):
            yield part.elts[1]
        elif (
            type(part) is ast.Call
            and type(part.func) is ast.Attribute
            and last_name(part.func.value) == "SystemMessagePromptTemplate"
        ):
            yield from part.args[:1] or [given.value for given in part.keywords if given.arg == "template"]
