"""Source rules of CKB04 markers-frozen-at-cap."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.requests.breakpoints import MAX_BREAKPOINTS as MOST_MARKERS
from contextkit.lint.rules.marking import MARKER_KEYS, constant, marker_sets, takes_markers_off
from contextkit.lint.source.rule import Hit, Pattern, View

_LIMIT = re.compile(
    r"(?i)max\w*(?:marker|breakpoint|cache|anchor)|(?:marker|breakpoint|cache|anchor)\w*(?:max|limit|budget)"
)


def _added_while_few(node: ast.If, view: View) -> Iterator[Hit]:
    if not _compares_with_cap(node.test) or not any(marker_sets(ast.Module(node.body, []))):
        return
    function = view.function()
    if function is None or not takes_markers_off(function):
        yield Hit(
            node.test,
            "a marker is added only while there are fewer than four, and none is taken off: the newest turns go unmarked",
        )


def _compares_with_cap(test: ast.expr) -> bool:
    """`count < 4`, `len(marked) <= 3`, `n < MAX_BREAKPOINTS`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    limit, operator = test.comparators[0], test.ops[0]
    is_four = (isinstance(operator, ast.Lt) and constant(limit) == MOST_MARKERS) or (
        isinstance(operator, ast.LtE) and constant(limit) == MOST_MARKERS - 1
    )
    is_named = (
        isinstance(operator, ast.Lt)
        and isinstance(limit, ast.Name | ast.Attribute)
        and bool(_LIMIT.search(ast.unparse(limit)))
    )
    return is_four or is_named


SOURCE = (Pattern((ast.If,), _added_while_few, ("cache_control",), also=(tuple(sorted(MARKER_KEYS)),)),)
