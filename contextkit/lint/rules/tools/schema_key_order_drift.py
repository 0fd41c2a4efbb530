"""Source rules of CKT07 schema-key-order-drift."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import field, last_name
from contextkit.lint.source.rule import SORT_ITEMS, SORT_KEYS, Flow, Hit, Pattern, View

_MAKES = ("list", "tuple", "set", "frozenset")


def _required(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"properties": …, "required": list(set(…))}`."""
    value = field(node, "required")
    if value is None or field(node, "properties") is None or not _is_set(value):
        return
    yield Hit(value, "`required` takes the order of a set, which differs from process to process")


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) in _MAKES:
        return last_name(node.func) in _MAKES[2:] or (bool(node.args) and _is_set(node.args[0]))
    return isinstance(node, ast.Set | ast.SetComp)


SOURCE = (
    Flow(
        ("unordered", "paths"),
        ("schema",),
        "the schema takes the order of {source}, which differs from process to process",
        mends=(SORT_ITEMS,),
    ),
    Flow(
        ("unsorted_json",),
        ("tool", "schema", "tools"),
        "{source} keeps the order in which the keys came, and reaches {sink}",
        mends=(SORT_KEYS,),
    ),
    Pattern((ast.Dict,), _required, ("required",), is_near=True, also=(("properties",),), names=("required",)),
)
