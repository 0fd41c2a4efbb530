"""Source rules of CKM05 trim-to-cap-without-slack."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import AnyFunction, inside, model_calls
from contextkit.lint.rules.tails import appended, lists_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_FRONT = (0, 1, 2)


def _to_the_cap(loop: ast.While, view: View) -> Iterator[Hit]:
    """Messages are dropped from the front until one limit is met, which is also where it begins."""
    tests = loop.test.values if isinstance(loop.test, ast.BoolOp) else [loop.test]
    caps = [test for test in tests if _is_above(test)]
    if not caps or not any(_drops(node, view) for node in inside(loop)) or _is_low(loop.test):
        return
    if not _is_below_a_mark(view):
        yield Hit(loop.test, "trimming stops where it began: a few calls later the front of the history moves again")


def _is_below_a_mark(view: View) -> bool:
    """Whether another limit says when it begins."""
    return any(isinstance(node, ast.If) and isinstance(node.test, ast.Compare) for node in view.parents())


def _is_above(test: ast.expr) -> bool:
    """`n_tokens(messages) > CAP`; not `now - history[0].at > CAP`, which asks how old the first one is."""
    if (
        not isinstance(test, ast.Compare)
        or not isinstance(test.ops[0], ast.Gt | ast.GtE)
        or _is_nothing(test.comparators[0])
    ):
        return False
    items = [part.slice for part in walk(test) if isinstance(part, ast.Subscript)]
    return not any(isinstance(item, ast.Constant) and item.value == 0 for item in items)


def _is_nothing(limit: ast.expr) -> bool:
    """`while len(messages) > 0`: that is no cap."""
    return isinstance(limit, ast.Constant) and limit.value in (0, 1)


def _drops(node: ast.AST, view: View) -> bool:
    """`messages.pop(0)`, `messages.popleft()`, `del messages[0]`, `messages = messages[1:]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pop", "popleft"):
        at = node.args[0] if node.args else None
        is_first = node.func.attr == "popleft" or (isinstance(at, ast.Constant) and at.value in _FRONT)
        return is_first and view.is_history(node.func.value)
    if isinstance(node, ast.Delete) and isinstance(node.targets[0], ast.Subscript):
        at = node.targets[0].slice
        return isinstance(at, ast.Constant) and at.value in _FRONT and view.is_history(node.targets[0].value)
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.value.slice, ast.Slice)
    ):
        lower = node.value.slice.lower
        return (
            isinstance(lower, ast.Constant) and view.is_history(node.value.value) and view.is_history(node.targets[0])
        )
    return False


def _is_low(test: ast.expr) -> bool:
    """Whether the limit is named as the lower of two."""
    words = " ".join(last_name(part) for part in walk(test)).lower()
    return any(word in words for word in ("low", "target", "half"))


_SIDE = re.compile(
    r"summar|compact|title|judge|classif|recall|export|preview|search|split|chunk|overlap", re.IGNORECASE
)
"""Functions that look for messages to do something else with."""


def _until_full(loop: ast.For, view: View) -> Iterator[Hit]:
    """From the newest message back, messages are kept until a budget is used up: `for m in reversed(messages)`, with a
    `break`.
    """
    function, item = view.function(), loop.target
    if function is None or not isinstance(item, ast.Name) or not _is_backwards(loop.iter, view) or _is_aside(function):
        return
    sums = {last_name(node.target) for node in inside(loop) if isinstance(node, ast.AugAssign)}
    ends = [
        node.test
        for node in inside(loop)
        if isinstance(node, ast.If) and any(isinstance(part, ast.Break) for part in node.body)
    ]
    full = [test for test in ends if _is_over(test, sums)]
    kept = {name for node in inside(loop) if (name := _keeps(node, item.id))}
    if full and kept and not _is_low(full[0]) and not _is_below_a_mark(view) and _is_given(kept, function, view):
        yield Hit(
            full[0],
            "messages are kept from the newest back until the limit is reached: with each new one the front moves",
        )


def _is_aside(function: AnyFunction) -> bool:
    """Whether it is about something else by its name, or is given texts instead of messages."""
    said = (ast.unparse(one.annotation) for one in function.args.args if one.annotation is not None)
    return bool(_SIDE.search(function.name)) or any(one in ("list[str]", "List[str]", "Sequence[str]") for one in said)


def _is_backwards(node: ast.expr, view: View) -> bool:
    """`reversed(messages)`, `messages[::-1]`; not of the first or last few."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "reversed" and bool(node.args) and view.is_history(node.args[0])
    cut = node.slice if isinstance(node, ast.Subscript) else None
    return (
        isinstance(cut, ast.Slice)
        and cut.step is not None
        and isinstance(node, ast.Subscript)
        and view.is_history(node.value)
    )


def _is_over(test: ast.expr, sums: set[str]) -> bool:
    """`used + n > budget`, where `used` grows in the loop."""
    compares = [
        part for part in walk(test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Gt | ast.GtE)
    ]
    return any(isinstance(part, ast.Name) and part.id in sums for one in compares for part in walk(one.left))


def _keeps(node: ast.AST, item: str) -> str:
    """The list that the message is put into."""
    held, given = appended(node) or ("", None)
    return held if isinstance(given, ast.Name) and given.id == item else ""


def _is_given(kept: set[str], function: AnyFunction, view: View) -> bool:
    """Whether the list is given back alone, sent, or takes the place of the history."""
    back = [
        one.value
        for one in view.nodes(function, ast.Return)
        if one.value is not None and not isinstance(one.value, ast.Tuple)
    ]
    sent = [one.value for call in model_calls(function, view) for one in call.keywords]
    stored = [one.value for one in view.nodes(function, ast.Assign) if view.is_history(one.targets[0])]
    lists = (part for value in (*back, *sent, *stored) for part in lists_in(value))
    return any(isinstance(one, ast.Name) and one.id in kept for one in lists)


SOURCE = (
    Pattern((ast.While,), _to_the_cap, ("pop(", "popleft(", "del ", "[1:]", "[2:]"), is_near=True),
    Pattern(
        (ast.For,),
        _until_full,
        ("reversed(", "[::-1]"),
        is_near=True,
        also=(("break",), (".append(", ".insert(0", ".appendleft(")),
    ),
)
