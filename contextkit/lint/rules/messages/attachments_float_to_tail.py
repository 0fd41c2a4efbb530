"""Source rules of CKM21 attachments-float-to-tail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import left_out, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_ATTACHED = re.compile(r"attach|documents?\b|files?\b|images?(?:_url)?\b|media\b|screenshots?\b", re.IGNORECASE)

_KEPT = re.compile(r"(?:self|session|state|ctx|context|agent)\b")


def _added_again(node: ast.AugAssign | ast.Assign | ast.Call, view: View) -> Iterator[Hit]:
    """What the session keeps as attached is added to the newest message, whichever that is."""
    target, value = _parts(node)
    function = view.function()
    if target is None or value is None or function is None or not _is_last(target, view):
        return
    is_per_call = view.calls_model() or re.search(r"build|prepare|with_|attach|render|to_", function.name)
    if (is_per_call and _is_kept(value, view)) or (_ATTACHED.search(words_in(value)) and _is_bared(function, view)):
        yield Hit(
            node, "attachments are added to the newest message of each call: they leave the one they were sent with"
        )


def _is_bared(function: ast.AST, view: View) -> bool:
    """Whether the function takes attachments out of messages: `[block for block in … if block["type"] != "document"]`."""
    return any(_ATTACHED.search(left_out(copy)) for copy in view.nodes(function, ast.ListComp))


def _parts(node: ast.AugAssign | ast.Assign | ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    if isinstance(node, ast.Assign):  # one that keeps what stood there: `last["content"] = [*files, *last["content"]]`
        target = node.targets[0]
        return (target, node.value) if ast.unparse(target) in ast.unparse(node.value) else (None, None)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend") and node.args:
        return node.func.value, node.args[0]
    return None, None


def _is_last(target: ast.expr, view: View) -> bool:
    """`messages[-1]["content"]`."""
    inner = (
        target.value if isinstance(target, ast.Subscript | ast.Attribute) and last_name(target) == "content" else None
    )
    is_index = isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.UnaryOp)
    return is_index and isinstance(inner, ast.Subscript) and view.is_history(inner.value)


def _is_kept(value: ast.expr, view: View) -> bool:
    """Whether it is made of a list that outlives the turn: an attribute, or one the function takes beside the history."""
    lists = [part.generators[0].iter for part in walk(value) if isinstance(part, ast.ListComp)] or [value]
    return any(
        isinstance(part, ast.Attribute) and _KEPT.search(words_in(part)) and _ATTACHED.search(part.attr)
        for part in lists
    )


SOURCE = (Pattern((ast.AugAssign, ast.Assign, ast.Call), _added_again, ("[-1]",), also=(("[-",), ("content",))),)
