"""Source rules of CKM22 resume-loses-injected-blocks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.marking import assigned, constant
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import is_system_message, last_name, walk

_LOADS = re.compile(r"(?:^|_)(?:load|resume|restore|reopen|rehydrate|continue)(?:_|$)")

_READS = frozenset(
    {"loads", "load", "read_text", "read", "fetchall", "read_session", "load_session", "model_validate_json"}
)

_TAKES = _READS | {"pop", "get", "copy", "deepcopy"}
"""What gives something that was stored."""

_NOT_AS_SENT = "a block is put in front of a history when it is loaded: it is not the one that was sent"


def _injected(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A stored history gets blocks at its front when it is loaded."""
    calls = view.nodes(function, ast.Call)
    if not _LOADS.search(function.name) or not any(last_name(call.func) in _READS for call in calls):
        return
    joined = [one for one in view.nodes(function, ast.BinOp, ast.List) if _is_put_before(one, view)]
    begun = [one for one in view.nodes(function, ast.Assign) if _is_begun_anew(one, view)]
    yield from (
        Hit(one, _NOT_AS_SENT)
        for one in (*(call for call in calls if _is_front(call, function, view)), *joined, *begun)
    )


def _is_put_before(node: ast.AST, view: View) -> bool:
    """`[environment()] + history`, `[environment(), *history]`, unless it is the system prompt."""
    if isinstance(node, ast.BinOp):
        items = (
            node.left.elts
            if isinstance(node.op, ast.Add) and isinstance(node.left, ast.List) and view.is_history(node.right)
            else []
        )
    else:
        elements = node.elts if isinstance(node, ast.List) else []
        last = elements[-1] if elements else node
        items = elements[:-1] if isinstance(last, ast.Starred) and view.is_history(last.value) else []
    return any(_is_called_for(item) and not is_system_message(item) for item in items)


def _is_called_for(item: ast.expr) -> bool:
    """Whether a function says what it is; a class around a constant does not."""
    return any(isinstance(part, ast.Call) and last_name(part.func)[:1].islower() for part in walk(item))


def _is_begun_anew(node: ast.Assign, view: View) -> bool:
    """`history[0]["content"] = environment() + history[0]["content"]`."""
    target, value = node.targets[0], node.value
    first = (
        target.value if isinstance(target, ast.Subscript) and constant(target.slice) in ("content", "text") else None
    )
    if not isinstance(first, ast.Subscript) or constant(first.slice) != 0 or not view.is_history(first.value):
        return False
    return (
        isinstance(value, ast.BinOp | ast.JoinedStr)
        and _is_called_for(value)
        and ast.unparse(target) in ast.unparse(value)
    )


def _is_front(call: ast.Call, function: AnyFunction, view: View) -> bool:
    """`messages.insert(0, made())`, `messages[0]["content"].insert(1, made())`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "insert" or len(call.args) < 2:
        return False
    if not _is_made(call.args[1]) and not _is_made_before(call.args[1], function):
        return False
    at, target = call.args[0], call.func.value
    inner = (
        target.value.value if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript) else target
    )
    return isinstance(at, ast.Constant) and at.value in (0, 1) and view.is_history(inner)


def _is_made(value: ast.expr) -> bool:
    """Whether it is computed, not taken from what was stored."""
    return any(isinstance(part, ast.Call) for part in walk(value))


def _is_made_before(value: ast.expr, function: AnyFunction) -> bool:
    """`hook = subprocess.run(…).stdout`, put into a block of its own."""
    made = (one for part in walk(value) if isinstance(part, ast.Name) for one in assigned(function, part.id))
    called = ([part for part in walk(one) if isinstance(part, ast.Call)] for one in made)
    return any(calls and not any(last_name(call.func) in _TAKES for call in calls) for calls in called)


SOURCE = (Pattern(FUNCTIONS, _injected, (".insert(", "] +", "[0]", ", *"), is_near=True, also=((*_READS,),)),)
