"""Source rules of CKB05 moving-mid-anchor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.marking import MARKER_KEYS, is_marker_target, resolved
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk


def _computed_anchor(node: ast.Assign, view: View) -> Iterator[Hit]:
    for target in filter(is_marker_target, node.targets):
        for part in walk(target):
            if isinstance(part, ast.Subscript) and view.is_history(part.value) and _divides_length(part.slice, view):
                yield Hit(
                    part,
                    "the marked message is chosen by a share of the history's length, so the marker moves to a block that no "
                    "call before has written",
                )


def _divides_length(index: ast.expr, view: View) -> bool:
    """`len(messages) // 2`, `int(len(messages) * 0.7)`: another block as soon as the history has grown."""
    found = resolved(index, view) or index
    has_length = any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len" for part in walk(found)
    )
    shares = (ast.FloorDiv, ast.Div, ast.Mult)
    return has_length and any(isinstance(part, ast.BinOp) and isinstance(part.op, shares) for part in walk(found))


SOURCE = (Pattern((ast.Assign,), _computed_anchor, ("cache_control", "cachePoint"), names=tuple(sorted(MARKER_KEYS))),)
