"""Source rules of CKA02 duplicate-usage-lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.facts.load import built_in_table
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_COUNTERS = frozenset(built_in_table("fields.toml")["usage"]["transcript"])

_KEYS = ("requestId", "request_id", "seen", "dedup", "unique", "message_id", "already")
"""Words of code that counts a call once."""


def _summed(node: ast.Call | ast.AugAssign, view: View) -> Iterator[Hit]:
    """`sum(line["message"]["usage"]["output_tokens"] for line in lines)`, `total += line["message"]["usage"][…]` in a
    loop.
    """
    value = _summand(node, view)
    if value is None or not _is_usage_of_a_line(value):
        return
    around = ast.unparse(view.function() or node)
    if not any(word in around for word in _KEYS):
        yield Hit(node, "a session file holds a call's usage once for each content block; this sum counts it each time")


def _summand(node: ast.Call | ast.AugAssign, view: View) -> ast.expr | None:
    if isinstance(node, ast.AugAssign):
        return node.value if isinstance(node.op, ast.Add) and view.loop() is not None else None
    given = node.args[0] if node.args and isinstance(node.func, ast.Name) and node.func.id == "sum" else None
    return given.elt if isinstance(given, ast.GeneratorExp | ast.ListComp) else None


def _is_usage_of_a_line(value: ast.expr) -> bool:
    """Whether it is `…["message"]["usage"]["…_tokens"]`, as Claude Code writes its lines."""
    said = {part.value for part in walk(value) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return {"message", "usage"} <= said and bool(said & _COUNTERS)


SOURCE = (Pattern((ast.Call, ast.AugAssign), _summed, ("_tokens",), is_near=True),)
