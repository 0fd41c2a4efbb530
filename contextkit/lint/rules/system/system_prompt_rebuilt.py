"""Source rules of CKS10 system-prompt-rebuilt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import last_name

_BUILDS = re.compile(
    r"_*(?:re)?(?:build|make|render|create|generate|compose|assemble|construct)_(?:\w+_)?system_(?:prompt|message|instructions?|text)$"
)

_PATHS = re.compile(
    r"(?:^|_)(?:resume|reload|restore|rehydrate|reopen|switch_model|set_model|change_model|load_session|continue_session)"
)

_STORED = re.compile(r"system|prompt|instruction", re.IGNORECASE)

_WHERE_MISSING = re.compile(r"_or_(?:re)?(?:build|make|render|create|generate|compose|assemble|default|new)")
"""A function of such a name builds only where nothing is stored."""


def _rebuilt(call: ast.Call, view: View) -> Iterator[Hit]:
    function = view.function()
    name = last_name(call.func)
    if function is None or not _PATHS.search(function.name) or _WHERE_MISSING.search(function.name):
        return
    if _BUILDS.match(name) and not _is_where_missing(call, view):
        yield Hit(
            call, f"{name}() makes the system prompt anew in {function.name}(): the session goes on under another one"
        )


def _is_where_missing(call: ast.Call, view: View) -> bool:
    """Whether it is made only where none is stored: `stored or build()`, `if not stored:`, `stored if stored else
    build()`.
    """
    around = view.parents()
    for node, inside in pairwise((*around, call)):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and inside is not node.values[0]:
            return True
        if isinstance(node, ast.If | ast.IfExp) and inside is not node.test and _STORED.search(words_in(node.test)):
            is_otherwise = inside is node.orelse if isinstance(node, ast.IfExp) else inside in node.orelse
            if _says_missing(node.test) != is_otherwise:
                return True
    return False


def _says_missing(test: ast.expr) -> bool:
    """`not x`, `x is None`, `x == ""`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    is_alike = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq)
    return is_alike and isinstance(test, ast.Compare) and not getattr(test.comparators[0], "value", "x")


SOURCE = (
    Pattern(
        (ast.Call,),
        _rebuilt,
        ("system_prompt", "system_message", "system_instruction", "system_text"),
        is_near=True,
    ),
    Flow(("jumbled",), ("system",), "{source} has its items in another order in each process and reaches {sink}"),
)
