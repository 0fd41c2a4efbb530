"""What functions do to a running history, as their syntax shows it: which loops go through it, what they write into its messages.

Takes functions and the questions of `source.rule.View`, gives nodes; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from contextkit.lint.source import nodes as ast
from contextkit.lint.source.rule import View
from contextkit.lint.source.syntax import BUILTINS, by_type, cached, constant_keys, last_name, walk

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

FUNCTIONS: tuple[type[ast.AST], ...] = (ast.FunctionDef, ast.AsyncFunctionDef)
"""What most patterns on a history are shown."""

_CONTENT = frozenset({"content", "text", "contents", "parts"})

IN_HISTORY = ("messages", "history", "msgs", "conversation", "transcript", "dialogue", "input_items")
"""One of these stands in every function that goes through a history."""

IN_CONTENT = tuple(f"{quote}{name}{quote}" for name in sorted(_CONTENT) for quote in "\"'") + tuple(
    f".{name}{equals}" for name in sorted(_CONTENT) for equals in (" =", "=")
)
"""One of these stands where the content of a message is written: `message["content"]`, `message.content =`."""

_WRAPPERS = frozenset({"enumerate", "reversed", "list", "sorted", "zip", "range", "len", "tuple"})

_CALLS = re.compile(
    r"(?:^|\.)(?:messages\.(?:create|stream|parse)|completions\.(?:create|parse|stream)|responses\.(?:create|parse|stream)"
    r"|a?completion|generate_content|generate_content_stream|converse|converse_stream)$"
)

_METHODS = frozenset(
    {
        "create",
        "stream",
        "parse",
        "completion",
        "acompletion",
        "generate_content",
        "generate_content_stream",
        "converse",
        "converse_stream",
    }
)


@dataclass(frozen=True, slots=True)
class Write:
    """A new content for a message that was in the history."""

    node: ast.AST
    """The statement, or the entry of a dict."""
    value: ast.expr
    """What is written."""
    is_old: bool
    """Whether the loop leaves the newest messages out: `messages[:-6]`."""


@cached(8)
def inside(function: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a function, those of functions inside it left out."""
    return tuple(chain.from_iterable(by_type(function).values()))


def unwrapped(node: ast.expr) -> ast.expr:
    """What a loop goes through, without `enumerate`, `reversed` and slices around it."""
    if isinstance(node, ast.Call) and last_name(node.func) in _WRAPPERS and node.args:
        return unwrapped(node.args[-1] if last_name(node.func) == "range" else node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return unwrapped(node.value)
    return node


def messages_of(function: ast.AST, view: View) -> dict[str, bool]:
    """Variables of loops through a history, and through what its messages hold → whether the newest messages are left
    out.
    """
    return _loop_variables(function, cast(Any, view))  # kept by identity, for the pattern that asks next


@cached(8)
def _loop_variables(function: ast.AST, view: View) -> dict[str, bool]:
    found: dict[str, bool] = {}
    loops: list[Any] = list(view.nodes(function, ast.For, ast.comprehension))
    for _ in range(2):
        for loop in loops:
            root = _root(loop.iter)
            if view.is_history(unwrapped(loop.iter)):
                found.update(dict.fromkeys(_names(loop.target), _is_older(loop.iter)))
            elif root in found:
                found.update(dict.fromkeys(_names(loop.target), found[root]))
    return found


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in walk(target) if isinstance(node, ast.Name)]


def _root(node: ast.expr) -> str:
    """The variable an expression begins with."""
    while not isinstance(node, ast.Name):
        inner = (
            node.func
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else getattr(node, "value", None)
        )
        if isinstance(node, ast.Call) and last_name(node.func) in _WRAPPERS and node.args:
            inner = node.args[0]
        if not isinstance(inner, ast.expr):
            return ""
        node = inner
    return node.id


def _is_older(node: ast.expr) -> bool:
    """Whether a slice ends before the newest: `[:-6]`."""
    return any(isinstance(part, ast.Slice) and isinstance(part.upper, ast.UnaryOp) for part in walk(node))


def content_writes(function: AnyFunction, view: View) -> tuple[Write, ...]:
    """What a function writes into messages of the history: by assignment, or as a copy with another content."""
    return _all_writes(function, cast(Any, view))


@cached(8)
def _all_writes(function: AnyFunction, view: View) -> tuple[Write, ...]:
    return tuple(_writes(function, view))


def _writes(function: AnyFunction, view: View) -> Iterator[Write]:
    names = messages_of(function, view)
    for node in view.nodes(function, ast.Assign, ast.Dict):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and last_name(node.targets[0]) in _CONTENT:
            target = node.targets[0]
            is_message = _root(target) in names or _is_indexed(target, view)
            if is_message and isinstance(target, ast.Subscript | ast.Attribute):
                yield Write(node, node.value, names.get(_root(target), False))
        elif isinstance(node, ast.Dict) and names:
            spread = [
                value.id
                for key, value in zip(node.keys, node.values, strict=True)
                if key is None and isinstance(value, ast.Name)
            ]
            keys = constant_keys(node)
            if any(name in names for name in spread) and "content" in keys:
                yield Write(keys["content"], keys["content"], any(names.get(name, False) for name in spread))


def _is_indexed(target: ast.expr, view: View) -> bool:
    """Whether it is a part of `messages[i]`, `i` not the last."""
    for part in walk(target):
        if isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Constant | ast.Slice | ast.UnaryOp):
            return view.is_history(part.value)
    return False


def depends(node: ast.AST, function: AnyFunction, view: View, names: Container[str]) -> bool:
    """Whether a condition around a node looks at more than the message: what is done to every message at every call
    varies nothing.
    """
    for branch in view.nodes(function, ast.If):
        test = getattr(branch, "test", branch)
        said = (
            part.id
            for part in walk(test)
            if isinstance(part, ast.Name) and part.id not in names and part.id not in BUILTINS
        )
        others = (name for name in said if not name[0].isupper())
        if any(others) and any(part is node for part in walk(branch)):
            return True
    return False


_COMPACTS = re.compile(r"compress|compact|summari[sz]e", re.IGNORECASE)

_COMPACTOR = re.compile(rb"\bclass \w*(?:Compress|Compact)")


def compacts(function: AnyFunction, view: View) -> bool:
    """Whether it is a part of a compaction, which writes the history anew anyway: by its name or by the class of its
    file.
    """
    return bool(_COMPACTS.search(function.name) or _COMPACTOR.search(view.source))


def text_in(node: ast.AST) -> str:
    """The constant words of an expression."""
    return " ".join(part.value for part in walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))


def left_out(copy: ast.AST) -> str:
    """The words of what a copy leaves out: `thinking` of `[block for block in blocks if block["type"] != "thinking"]`."""
    tests = [test for part in walk(copy) if isinstance(part, ast.comprehension) for test in part.ifs]
    return " ".join(
        text_in(test)
        for test in tests
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq | ast.NotIn)
    )


def words_in(node: ast.AST) -> str:
    """Names, attributes and constant words of an expression, for a look at what it is about."""
    parts = (getattr(part, "id", "") or getattr(part, "attr", "") or getattr(part, "arg", "") for part in walk(node))
    return f"{' '.join(str(part) for part in parts if part)} {text_in(node)}"


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The argument of one of these names."""
    return next((given.value for given in call.keywords if given.arg in names), None)


def model_calls(node: ast.AST, view: View) -> list[ast.Call]:
    """Calls of a model within a node."""
    calls = (part for part in walk(node) if isinstance(part, ast.Call) and last_name(part.func) in _METHODS)
    return [call for call in calls if _CALLS.search(view.dotted(call))]
