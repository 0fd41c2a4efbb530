"""Source rules of CKT05 auto-defer-threshold-flip."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import filterfalse

from contextkit.lint.rules.callsites import last_name, mentions, words_of
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_SIZE = re.compile(r"(?:^|_)(?:n|num|count|size|tokens?|total)(?:_|$)")

_TOOLS = re.compile(r"tools?(?:_|$)|schemas?(?:_|$)")

_LIMIT = re.compile(r"(?:^|_)(?:max|limit|threshold|budget|cutoff)(?:_|$)", re.IGNORECASE)

_DEFERS = re.compile(r"defer|lazy|tool_search|search_tool|inline_tools|bridge_tool|on_demand", re.IGNORECASE)

_TELLS = sanitizers.CLEAN_METHODS | {"print", "log", "echo"}

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def _threshold(node: ast.If | ast.IfExp, view: View) -> Iterator[Hit]:
    """A number or size of tools beside a limit decides whether they are deferred."""
    function = view.function()
    tests = [part for part in walk(node.test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], _ORDERS)]
    found = next((test for test in tests if _counts_tools(test, view)), None)
    if found is None or function is None or function.name in sanitizers.ONCE:
        return
    body = (
        [*filterfalse(_is_told, (*node.body, *node.orelse))] if isinstance(node, ast.If) else [node.body, node.orelse]
    )
    if any(map(_defers, body)) or (body and mentions(found, _DEFERS)):
        yield Hit(
            found,
            "a limit tested for each request turns tools sent in full into deferred ones in mid-session, and back",
        )


def _is_told(statement: ast.stmt) -> bool:
    """`warnings.warn("consider defer_loading")`, `raise`: advice to whoever reads the log."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, ast.Raise) or (isinstance(call, ast.Call) and last_name(call.func) in _TELLS)


def _defers(part: ast.AST) -> bool:
    """Whether a branch names what is deferred, as a word or as a keyword argument."""
    return mentions(part, _DEFERS) or any(
        isinstance(one, ast.keyword) and _DEFERS.search(one.arg or "") for one in walk(part)
    )


def _counts_tools(test: ast.Compare, view: View) -> bool:
    sides = [test.left, *test.comparators]
    return any(map(_is_limit, sides)) and any(_is_count(side, view) for side in sides)


def _is_limit(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value > 2
    return any(_LIMIT.search(word) or word.isupper() for word in words_of(node))


def _is_count(node: ast.expr, view: View) -> bool:
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id == "len"
            and bool(node.args)
            and _is_tools(node.args[0], view)
        )
    return any(_SIZE.search(word) and _TOOLS.search(word) for word in words_of(node)) and isinstance(
        node, ast.Name | ast.Attribute
    )


def _is_tools(node: ast.expr, view: View) -> bool:
    return view.is_tools(node) or bool(sinks.REGISTRY.search(last_name(node)))


SOURCE = (Pattern((ast.If, ast.IfExp), _threshold, ("defer", "lazy", "search", "inline"), is_near=True),)
