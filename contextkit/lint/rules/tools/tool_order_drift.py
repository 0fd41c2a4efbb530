"""tool-order-drift: the same tools leave in another order than last time.

## What it does
The list of tools is filled in whatever order its source yields: servers answering `tools/list` at different speeds, a
map or a set being iterated, plugins being discovered, a server that reconnects and lands at the end. The tools are
the same; their places are not.

## Why it costs you
Tools stand in front of everything. Anthropic renders tools, then system, then messages, and a definition that moves
loses all three levels; OpenAI counts the order of tools as part of the prefix as well. What would have been read at
0.1 times the input price (0.05 and less on the newest models) is written again at 1.25 times or, with the one-hour
lifetime, twice. Each restart and each worker may land on its own order, so they never share an entry.

## Example
    listings = [server.list_tools() for server in servers]
    tools = []
    for listing in asyncio.as_completed(listings):
        tools.extend((await listing).tools)
    client.messages.create(model=MODEL, max_tokens=1024, tools=tools, messages=messages)

## Use instead
One total order by the full name, your own tools first, then those of servers, settled once for a session:

    listings = await asyncio.gather(*listings)
    remote = sorted((tool for listing in listings for tool in listing.tools), key=lambda tool: tool["name"])
    tools = [*NATIVE_TOOLS, *remote]

With contextkit `Toolbox.sorted(tools)` orders them by name, and a `Context` seals what it was given: a toolbox that
differs on reopening raises `HeadChanged` and names the place.

## Detected by
- source: tools made from a set, a folder listing, entry points or tasks in order of completion, without `sorted`, or shuffled;
  tools of several servers put into one list that nobody sorts. Values of a dict keep the order they were put in and
  are not reported.
- requests: the same definitions in another order than in the call before.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/langchain-ai/deepagents/issues/2497
- https://github.com/openclaw/openclaw/issues/58037
- https://github.com/anomalyco/opencode/issues/23571
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.shapes import is_reorder
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, last_name, words_in
from contextkit.lint.source.rule import SORT_ITEMS, SORT_TOOLS, Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import walk


def _moved(step: Step, change: Change) -> Evidence | None:
    if change.level != "tools" or not is_reorder(change):
        return None
    moved = next(
        now.role
        for was, now in zip(change.was, change.now, strict=True)
        if was.role != now.role or was.body != now.body
    )
    return Evidence(f"the same {len(change.now)} tools stand in another order: {moved} is first to have moved")


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


HAZARD = Hazard(
    "CKT01",
    "tool-order-drift",
    "A",
    "error",
    source=(
        Flow(
            ("unordered", "paths"),
            ("tools",),
            "tools are sent in the order of {source}, which nobody promised",
            mends=(SORT_ITEMS, SORT_TOOLS),
        ),
        Pattern(FUNCTIONS, _collected, tuple(sorted(_LOADS)), is_near=True),
    ),
    requests=(RequestRule("change", _moved, 10),),
    confirmed_by=("tools_changed",),
)
