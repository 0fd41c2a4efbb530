"""Source rules of CKB12 unmarkable-block."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import field
from contextkit.lint.rules.marking import constant
from contextkit.lint.source.rule import Hit, Pattern, View

_THINKING = ("thinking", "redacted_thinking")


def _marked(node: ast.Dict, view: View) -> Iterator[Hit]:
    if field(node, "cache_control") is None:
        return
    text = field(node, "text")
    if constant(field(node, "type")) in _THINKING:
        yield Hit(node, "a thinking block carries a marker, which is refused")
    elif text is not None and _may_be_empty(text):
        yield Hit(text, "a block whose text may be empty carries a marker: an empty block cannot be cached")


def _may_be_empty(text: ast.expr) -> bool:
    """`""`, `answer or ""`, `answer if answer else ""`."""
    if isinstance(text, ast.BoolOp) and isinstance(text.op, ast.Or):
        return _may_be_empty(text.values[-1])
    if isinstance(text, ast.IfExp):
        return _may_be_empty(text.body) or _may_be_empty(text.orelse)
    return constant(text) == ""


SOURCE = (Pattern((ast.Dict,), _marked, ("cache_control",), is_near=True),)
