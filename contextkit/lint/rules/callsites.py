"""Where code asks a model again and again: functions called per turn, the names a condition looks at, parts of requests.

Takes syntax and a view of it, answers questions that several source rules share; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.lint.source import nodes as ast
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.rule import View
from contextkit.lint.source.syntax import AnyFunction, walk

_NAME = re.compile(rb"\w+")


def is_per_turn(view: View) -> bool:
    """Whether the function around is called for each turn: by its name, or since it asks the model.

    One that a session runs once is not.
    """
    function = view.function()
    if function is None or function.name in sanitizers.ONCE:
        return False
    return (bool(sinks.PER_TURN.match(function.name)) and not _only_begins(function, view)) or view.calls_model()


def _only_begins(function: AnyFunction, view: View) -> bool:
    """Whether all calls of it in this file stand in constructors: a session runs it once, whatever it is called."""
    uses = uses_of(function, view)
    return bool(uses) and all(_defined_above(use, view.source) in sanitizers.ONCE for use in uses)


def _defined_above(place: int, source: bytes) -> str:
    """The function whose definition begins last before a place: the one around it, where it stands in one."""
    at = source.rfind(b"def ", 0, place)
    name = _NAME.match(source, at + len(b"def ")) if at >= 0 else None
    return name[0].decode() if name else ""


def uses_of(function: AnyFunction, view: View) -> list[int]:
    """Where in its file a function, or another of its name, is called."""
    name, source = function.name.encode(), view.source
    found, at = [], source.find(name + b"(")
    while at >= 0:
        if not (at and _NAME.match(source, at - 1)) and not source.endswith(b"def ", 0, at):
            found.append(at)
        at = source.find(name + b"(", at + 1)
    return found


def span_of(body: list[ast.stmt], view: View) -> tuple[int, int]:
    """Byte offsets of a block's first byte and of the one behind its last."""
    return view.bytes_at(body[0])[0], view.bytes_at(body[-1])[1]


def words_of(node: ast.AST) -> Iterator[str]:
    """The names, attributes and constant texts in an expression."""
    for part in walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def mentions(node: ast.AST, words: re.Pattern[str]) -> bool:
    """Whether a name, attribute or text in an expression matches.

    >>> mentions(ast.parse("step == self.max_steps", mode="eval").body, re.compile("max_"))
    True
    """
    return any(words.search(word) for word in words_of(node))


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of the first keyword argument of one of these names."""
    return next((given.value for name in names for given in call.keywords if given.arg == name), None)


def has_unknown_keywords(call: ast.Call) -> bool:
    """Whether a call passes on a dict of further arguments."""
    return any(given.arg is None for given in call.keywords)


def as_keywords(*names: str) -> tuple[str, ...]:
    """How a call with one of these keywords is written, for the words of a pattern."""
    return tuple(f"{name}{sign}" for name in names for sign in ("=", " ="))


def as_keys(*names: str) -> tuple[str, ...]:
    """How a dict with one of these keys is written."""
    return tuple(f"{quote}{name}{quote}" for name in names for quote in "\"'")


def in_any_case(*words: str) -> tuple[str, ...]:
    """Words as they stand in names of variables, constants and classes."""
    return tuple(form for word in words for form in (word, word.upper(), word.title()))


def text_of(node: ast.AST | None) -> str:
    """The text of a constant, empty for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def field(node: ast.Dict, name: str) -> ast.expr | None:
    """The value under a constant key of a dict display."""
    return next((value for key, value in zip(node.keys, node.values, strict=True) if text_of(key) == name), None)


def last_name(node: ast.AST) -> str:
    """The last name of a name, an attribute, or a subscript with a text for a key."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return text_of(node.slice) if isinstance(node, ast.Subscript) else ""


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the blocks inside it, those of functions and classes left out."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, name, []))


def calls_in(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Every call in a block."""
    return (node for statement in body for node in walk(statement) if isinstance(node, ast.Call))


def takes_next(node: ast.AST) -> bool:
    """Whether an expression is the next item of an iterator that somebody keeps: `next(keys)`, and not
    `next(iter(keys))`.
    """
    return (
        isinstance(node, ast.Call)
        and last_name(node.func) == "next"
        and isinstance((*node.args, node)[0], ast.Name | ast.Attribute)
    )


def is_nothing(node: ast.AST) -> bool:
    """Whether an expression is None or an empty list."""
    is_none = isinstance(node, ast.Constant) and node.value is None
    return (
        is_none
        or (isinstance(node, ast.List | ast.Tuple) and not node.elts)
        or last_name(node) in ("NOT_GIVEN", "omit", "Omit")
    )


def is_model_call(call: ast.Call, view: View) -> bool:
    """Whether a call asks a model through one of the known clients."""
    name = view.dotted(call)
    return (
        name in sinks.MODEL_CALLS
        or ".".join(name.rsplit(".", 2)[-2:]) in sinks.MODEL_CALLS
        or name.endswith("chat.completions.create")
    )
