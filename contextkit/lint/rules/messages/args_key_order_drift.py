"""Source rules of CKM14 args-key-order-drift."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.syntax import keyword
from contextkit.lint.source.rule import SORT_KEYS, Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name


def _dumped_again(block: ast.Dict, view: View) -> Iterator[Hit]:
    """Arguments are parsed and written anew, or come from a store that keeps no order.

    Sorted ones are the same each time.
    """
    given = constant_keys(block).get("arguments")
    if (
        not isinstance(given, ast.Call)
        or view.dotted(given) not in ("json.dumps", "orjson.dumps", "ujson.dumps")
        or not given.args
    ):
        return
    value, order = given.args[0], keyword(given, "sort_keys")
    is_parsed = isinstance(value, ast.Call) and last_name(value.func) == "loads"
    is_sorted = isinstance(order, ast.Constant) and order.value is True
    if not is_sorted and (is_parsed or "rows" in view.kinds(value)):
        yield Hit(
            given,
            "arguments are written anew from their parsed form: other keys first, other blanks than the model wrote",
        )


SOURCE = (
    Flow(
        ("unsorted_json",),
        ("system", "front"),
        "{source} keeps the order in which the keys came, and reaches {sink}",
        mends=(SORT_KEYS,),
    ),
    Pattern((ast.Dict,), _dumped_again, ("arguments",), is_near=True, names=("arguments",)),
)
