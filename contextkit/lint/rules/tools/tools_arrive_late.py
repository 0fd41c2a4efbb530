"""Source rules of CKT02 tools-arrive-late."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keys, as_keywords, field, is_per_turn, keyword, last_name, statements
from contextkit.lint.source import sources
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _listed(node: ast.Call | ast.Dict, view: View) -> Iterator[Hit]:
    """`create(tools=await server.list_tools(), …)` in a function that is called for each turn."""
    tools = field(node, "tools") if isinstance(node, ast.Dict) else keyword(node, "tools")
    is_maker = tools is not None and isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()
    if tools is None or (is_maker and view.loop() is None) or not is_per_turn(view):
        return
    if "server" in view.kinds(tools) or _is_listed(tools, view):
        yield Hit(
            tools,
            "the tools of a server are listed anew for each request, so one that is late or gone changes the whole prefix",
        )


def _is_listed(tools: ast.expr, view: View) -> bool:
    """Whether the expression, or what the function around made its variables of, asks a server for its tools, in each
    turn of a loop.
    """
    calls = (part for value in _made_of(tools, view) for part in walk(value) if isinstance(part, ast.Call))
    loop = next((one for one in view.parents() if isinstance(one, _LOOPS)), None)
    first = loop.lineno if isinstance(loop, _LOOPS) else 0
    return any(sources.METHODS.get(last_name(call.func)) == "server" and call.lineno >= first for call in calls)


def _made_of(tools: ast.expr, view: View) -> list[ast.expr]:
    """An expression, and what the function around stores in its variables: `response` of `[… for tool in
    response.tools]`.
    """
    function, found, names = view.function(), [tools], set[str]()
    stored = [one for one in statements(function.body) if isinstance(one, ast.Assign)] if function else []
    for value in found:
        new = {part.id for part in walk(value) if isinstance(part, ast.Name)} - names
        names |= new
        found += [one.value for one in stored if any(last_name(target) in new for target in one.targets)]
    return found


SOURCE = (
    Pattern(
        (ast.Call, ast.Dict),
        _listed,
        ("_tools",),
        also=((*as_keywords("tools"), *as_keys("tools")),),
        names=("tools",),
    ),
)
