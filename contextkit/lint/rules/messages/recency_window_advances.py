"""Source rules of CKM08 recency-window-advances."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    compacts,
    content_writes,
    messages_of,
    model_calls,
)
from contextkit.lint.rules.tails import appended, is_abridged, is_end, is_on_its_way, lists_in, parts_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk


def _by_distance(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Messages are said otherwise once they are some way from the newest."""
    names = messages_of(function, view)
    for write in content_writes(function, view):
        if write.is_old and any(isinstance(part, ast.Slice) for part in walk(write.value)):
            yield Hit(
                write.node,
                "messages are shortened once they are some way from the newest: the border moves with each turn",
            )
    for choice in view.nodes(function, ast.IfExp) if names else ():
        if _is_distance(choice.test, names, view) and _both_say(choice, names):
            yield Hit(choice.test, _MOVES)
    for branch in view.nodes(function, ast.If) if names else ():
        if branch.orelse and _is_distance(branch.test, names, view) and _both_add(branch, names, view):
            yield Hit(branch.test, _MOVES)


_MOVES = "what a message says depends on how far it is from the newest: the border moves with each turn"


def _beside_the_end(function: AnyFunction, view: View) -> Iterator[Hit]:
    """`[brief(m) for m in messages[:-6]] + messages[-6:]`."""
    seen: set[ast.AST] = set()
    for node in view.nodes(function, ast.BinOp, ast.List):
        parts = parts_of(node)
        for end in filter(is_end, parts if len(parts) > 1 else ()):
            is_told = end not in seen and view.is_history(end.value) and any(is_abridged(part, end) for part in parts)
            seen.add(end)
            if is_told and not compacts(function, view) and is_on_its_way(node, end.value, function, view):
                yield Hit(node, _MOVES)


def _is_distance(test: ast.expr, names: dict[str, bool], view: View) -> bool:
    """`len(messages) - i <= 5`, `i < len(messages) - 5`.

    `age <= 5`, where `age` is such a difference or counts from the end.
    """
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return False
    has_index = any(isinstance(part, ast.Name) and part.id in names for part in walk(test))
    return (has_index and _has_difference(test, view)) or any(
        _is_age(side, names, view) for side in (test.left, *test.comparators)
    )


def _has_difference(node: ast.expr, view: View) -> bool:
    differences = [part.left for part in walk(node) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)]
    return any(_is_length(left, view) for left in differences)


def _is_age(node: ast.expr, names: dict[str, bool], view: View) -> bool:
    """`age` of `age = len(messages) - i`, of `for age, m in enumerate(reversed(messages))`."""
    function = view.function()
    if function is None or not isinstance(node, ast.Name):
        return False
    stored = [one.value for one in view.nodes(function, ast.Assign) if last_name(one.targets[0]) == node.id]
    if any(_has_difference(one, view) and any(last_name(part) in names for part in walk(one)) for one in stored):
        return True
    loops: list[ast.For | ast.comprehension] = [
        *view.nodes(function, ast.For),
        *view.nodes(function, ast.comprehension),
    ]
    return any(_counts_from_the_end(one, node.id, view) for one in loops)


def _counts_from_the_end(loop: ast.For | ast.comprehension, name: str, view: View) -> bool:
    target, through = loop.target, loop.iter
    is_counted = (
        isinstance(through, ast.Call) and last_name(through.func) == "enumerate" and isinstance(target, ast.Tuple)
    )
    if not is_counted or last_name(target.elts[0]) != name:  # type: ignore[attr-defined]
        return False
    inner = through.args[0]  # type: ignore[attr-defined]
    is_back = isinstance(inner, ast.Call) and last_name(inner.func) == "reversed" and bool(inner.args)
    return is_back and view.is_history(inner.args[0])


def _is_length(node: ast.expr, view: View) -> bool:
    """`len(messages)`, or a variable that holds it."""
    if isinstance(node, ast.Call) and last_name(node.func) == "len" and node.args:
        return view.is_history(node.args[0])
    function = view.function()
    stored = (
        [
            part.value
            for part in walk(function)
            if isinstance(part, ast.Assign) and last_name(part.targets[0]) == last_name(node)
        ]
        if function and isinstance(node, ast.Name)
        else []
    )
    return any(
        isinstance(value, ast.Call)
        and last_name(value.func) == "len"
        and bool(value.args)
        and view.is_history(value.args[0])
        for value in stored
    )


def _both_say(node: ast.IfExp, names: dict[str, bool]) -> bool:
    """Whether either way gives the message, in full or in brief."""
    used = [
        {part.id for part in walk(way) if isinstance(part, ast.Name)} & names.keys() for way in (node.body, node.orelse)
    ]
    return all(used)


def _both_add(node: ast.If, names: dict[str, bool], view: View) -> bool:
    """Whether either branch appends the message to one list, which is given back or sent."""
    added = [[appended(part) for statement in way for part in walk(statement)] for way in (node.body, node.orelse)]
    lists = [{name for name, said in filter(None, way) if _mentions(said, names)} for way in added]
    both, function = lists[0] & lists[1], view.function()
    if not both or function is None or len(node.body) > 1 or len(node.orelse) > 1:
        return False
    given = [one.value for one in view.nodes(function, ast.Return) if one.value is not None]
    sent = [one.value for call in model_calls(function, view) for one in call.keywords]
    return any(isinstance(part, ast.Name) and part.id in both for one in (*given, *sent) for part in lists_in(one))


def _mentions(node: ast.expr, names: dict[str, bool]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(node))


_UP_TO = (":-", ": -")
"""How `messages[:-6]` and `messages[: -KEEP]` are written."""

SOURCE = (
    Pattern(
        FUNCTIONS,
        _by_distance,
        ("len(", *_UP_TO, "enumerate(reversed("),
        is_near=True,
        also=(IN_HISTORY, (*_UP_TO, "else")),
    ),
    Pattern(FUNCTIONS, _beside_the_end, _UP_TO, is_near=True, also=(IN_HISTORY, ("[-",), (" for ",))),
)
