"""Source rules of CKT01 tool-order-drift."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, words_in
from contextkit.lint.source.rule import SORT_ITEMS, SORT_TOOLS, Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_LOADS = frozenset({"load_mcp_tools", "list_tools", "list_tools_sync", "get_mcp_tools"})

_SORTS = frozenset({"sort", "sorted"})

_SERVERS = re.compile(r"server|client|session|mcp|connection|toolset|workbench|group", re.IGNORECASE)
"""What a loop goes through that asks one server after the other; the pages of one server come in its own order."""


def _asks_servers(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop goes from server to server, and not from page to page."""
    is_counted = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range"
    return not is_counted and _SERVERS.search(f"{words_in(loop.target)} {words_in(loop.iter)}") is not None


def _collected(function: AnyFunction, view: View) -> Iterator[Hit]:
    """What each server lists goes into one list, which is given back as it came."""
    calls = [node for node in view.nodes(function, ast.Call) if isinstance(node, ast.Call)]
    if not any(last_name(call.func) in _LOADS for call in calls) or any(
        last_name(call.func) in _SORTS for call in calls
    ):
        return
    handed = {part.id for node in view.nodes(function, ast.Return) for part in walk(node) if isinstance(part, ast.Name)}
    for loop in view.nodes(function, ast.For, ast.AsyncFor):
        if not isinstance(loop, ast.For | ast.AsyncFor) or not _asks_servers(loop):
            continue
        inside = [node for node in walk(loop) if isinstance(node, ast.Call)]
        loads = any(last_name(call.func) in _LOADS for call in inside)
        adds = (call for call in inside if isinstance(call.func, ast.Attribute) and call.func.attr == "extend")
        for call in adds if loads else ():
            name = last_name(getattr(call.func, "value", call))
            if name in handed and view.is_tools(getattr(call.func, "value", call)):
                yield Hit(
                    call,
                    "the tools of several servers are kept in the order in which they were listed, which no server promises",
                )


SOURCE = (
    Flow(
        ("unordered", "paths"),
        ("tools",),
        "tools are sent in the order of {source}, which nobody promised",
        mends=(SORT_ITEMS, SORT_TOOLS),
    ),
    Pattern(FUNCTIONS, _collected, tuple(sorted(_LOADS)), is_near=True),
)
