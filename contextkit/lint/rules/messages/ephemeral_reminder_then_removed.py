"""Source rules of CKM09 ephemeral-reminder-then-removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from contextkit.lint.rules.callsites import as_keywords
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, keyword, model_calls, words_in
from contextkit.lint.rules.tails import parts_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name, walk

_COPIES = frozenset({"deepcopy", "copy", "list"})

_ASKS = ("create", "parse", "stream", "completion", "generate_content", "converse")
"""One of these stands where a copy is sent."""

_A_TEXT = 12
"""Characters of a text that is that of one message."""

_GROWS = frozenset({"append", "extend", "insert"})

_MARKERS = ("cache_control", "cachePoint", "cache_point", "prompt_cache_breakpoint")
"""A message that gets one of these says what it said before."""

_WITHOUT = "the newest message is altered in a copy that is sent and not kept: the next call sends it without that"


def _in_a_copy(function: AnyFunction, view: View) -> Iterator[Hit]:
    """The newest message of a copy is altered, the copy is sent, and the history goes on without it."""
    stored = [node for node in view.nodes(function, ast.Assign) if isinstance(node.targets[0], ast.Name)]
    copies = {last_name(node.targets[0]): _is_deep(node.value) for node in stored if _is_copy(node.value, view)}
    others = [node for node in stored if _replaces_last(node.value, function, view)]
    calls = model_calls(function, view) if copies or others else ()
    sent = {last_name(given) for call in calls if (given := keyword(call, "messages", "input", "contents"))} - {""}
    sent = {name for name in sent if not _is_kept(name, function, view)}
    for node in view.nodes(function, ast.Call, ast.AugAssign, ast.Assign) if copies.keys() & sent else ():
        name = _altered(node)
        if name in copies.keys() & sent and (copies[name] or _is_replaced(node)) and not _is_marked(node):
            yield Hit(node, _WITHOUT)
    yield from (Hit(node, _WITHOUT) for node in others if last_name(node.targets[0]) in sent)


def _is_deep(value: ast.expr) -> bool:
    """Whether the messages are copied too: what is written into one of another copy is written into the history."""
    return isinstance(value, ast.ListComp) or (isinstance(value, ast.Call) and last_name(value.func) == "deepcopy")


def _is_replaced(node: ast.AST) -> bool:
    """`outgoing[-1] = …`: another message stands there."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Subscript) and _is_last(target.slice) and isinstance(target.value, ast.Name)


def _replaces_last(value: ast.expr, function: AnyFunction, view: View) -> bool:
    """`history[:-1] + [{"role": "user", "content": f"{notes}\\n{question}"}]`, where the history goes on with the
    message it had.
    """
    parts = parts_of(value)
    held = parts[0].value if len(parts) == 2 and _is_all_but_last(parts[0]) else None
    if held is None or not view.is_history(held) or not _is_more(parts[1]) or _is_marked(parts[1]):
        return False
    return any(_is_appended(call, held) for call in view.nodes(function, ast.Call))


def _is_all_but_last(node: ast.AST) -> TypeGuard[ast.Subscript]:
    cut = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(cut, ast.Slice) and cut.lower is None and cut.upper is not None and _is_last(cut.upper)


def _is_more(message: ast.AST) -> bool:
    """Whether the content of a message is put together from several pieces."""
    content = constant_keys(message).get("content") if isinstance(message, ast.Dict) else None
    if isinstance(content, ast.JoinedStr):
        return sum(isinstance(part, ast.FormattedValue) for part in content.values) > 1
    return isinstance(content, ast.BinOp) and isinstance(content.op, ast.Add)


def _is_appended(call: ast.Call, held: ast.expr) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "extend")
        and _is_same(call.func.value, held)
    )


def _is_kept(name: str, function: AnyFunction, view: View) -> bool:
    """Whether a copy, or its newest message, becomes the history: it is stored, or given back to who may store it."""
    others = [one for one in view.nodes(function, ast.Assign) if last_name(one.targets[0]) != name]
    stored = [
        one.value for one in others if not isinstance(one.targets[0], ast.Name) or view.is_history(one.targets[0])
    ]
    given = [one.value for one in view.nodes(function, ast.Return)]
    added = [
        part
        for call in view.nodes(function, ast.Call)
        if last_name(call.func) in ("append", "extend")
        for part in call.args
    ]
    return any(_names(value, name) for value in (*stored, *given, *added))


def _names(value: ast.expr | None, name: str) -> bool:
    """`outgoing`, `list(outgoing)`, `outgoing[-1]`, `outgoing + [reply]`, `reply, outgoing`."""
    parts = parts_of(value) if value is not None else []
    inner = [
        part.args[0] if isinstance(part, ast.Call) and last_name(part.func) in _COPIES and part.args else part
        for part in parts
    ]
    return any(last_name(one.value if isinstance(one, ast.Subscript) else one) == name for one in inner)


def _is_marked(node: ast.AST) -> bool:
    return any(word in words_in(node).split() for word in _MARKERS)


def _moved(function: AnyFunction, view: View) -> Iterator[Hit]:
    """`messages = [m for m in messages if m != reminder]; messages.append(reminder)`: taken out where it was sent, put
    behind again.
    """
    for node in view.nodes(function, ast.Assign):
        held, copy = node.targets[0], node.value
        if (
            not isinstance(copy, ast.ListComp)
            or not view.is_history(held)
            or not _is_same(copy.generators[0].iter, held)
        ):
            continue
        of_items = {part.id for part in walk(copy.generators[0].target) if isinstance(part, ast.Name)}
        left = {name for test in copy.generators[0].ifs for name in _left_out(test)} - of_items
        if any(_is_put_back(call, held, left) for call in view.nodes(function, ast.Call)):
            yield Hit(node, _AGAIN)
    for call in view.nodes(function, ast.Call):
        func, left = call.func, {name for given in call.args if (name := _name_or_text(given))}
        if not isinstance(func, ast.Attribute) or func.attr != "remove" or not left or not view.is_history(func.value):
            continue
        if any(_is_put_back(one, func.value, left) for one in view.nodes(function, ast.Call)):
            yield Hit(call, _AGAIN)


_AGAIN = "a message is taken out of the history where it was sent, and put behind it again"


def _left_out(test: ast.expr) -> list[str]:
    """`reminder` of `m["content"] != reminder`: what a copy leaves out, by its variable or its text."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotEq | ast.NotIn):
        return []
    return [name for side in (test.left, *test.comparators) if (name := _name_or_text(side))]


def _name_or_text(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    text = node.value if isinstance(node, ast.Constant) else ""
    return text if isinstance(text, str) and len(text) >= _A_TEXT else ""


def _is_put_back(call: ast.Call, held: ast.expr, left: set[str]) -> bool:
    """Whether a call appends to the list what a test has left out of it: they name the same."""
    func = call.func
    is_added = isinstance(func, ast.Attribute) and func.attr == "append" and _is_same(func.value, held)
    return is_added and any(_name_or_text(part) in left for given in call.args for part in walk(given))


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    return bool(last_name(one)) and ast.unparse(one) == ast.unparse(other)


def _is_copy(value: ast.expr, view: View) -> bool:
    """A copy of a history, or a list of copies of its messages."""
    if isinstance(value, ast.ListComp):
        is_plain = isinstance(value.elt, ast.Call) and last_name(value.elt.func) in ("dict", "deepcopy", "copy")
        return is_plain and view.is_history(value.generators[0].iter)
    if isinstance(value, ast.List | ast.Subscript):
        (whole, *rest) = parts_of(value) or [value]
        whole = whole.value if isinstance(whole, ast.Subscript) and _is_whole(whole) else whole
        return not rest and not isinstance(whole, ast.Subscript | ast.Dict) and view.is_history(whole)
    if not isinstance(value, ast.Call) or last_name(value.func) not in _COPIES:
        return False
    of = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else None
    return of is not None and view.is_history(of)


def _is_whole(node: ast.Subscript) -> bool:
    """`messages[:]`."""
    return isinstance(node.slice, ast.Slice) and node.slice.lower is None and node.slice.upper is None


def _altered(node: ast.AST) -> str:
    """The list whose last element a statement alters; empty for anything else."""
    target: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
        target = node.func.value
    elif isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    last = (
        [part.value for part in walk(target) if isinstance(part, ast.Subscript) and _is_last(part.slice)]
        if target
        else []
    )
    return last_name(last[0]) if last else ""


def _is_last(index: ast.expr) -> bool:
    return isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant) and index.operand.value == 1


SOURCE = (
    Pattern(
        FUNCTIONS,
        _in_a_copy,
        ("[-1]", "[:-1]"),
        is_near=True,
        also=(
            as_keywords("messages", "input", "contents"),
            _ASKS,
            ("copy", "list(", "dict(", "[*", "[:]", "[:-1]"),
        ),
    ),
    Pattern(FUNCTIONS, _moved, ("!=", "not in", ".remove("), is_near=True, also=(IN_HISTORY, (".append(",))),
)
