"""tools-arrive-late: tools appear, vanish or come back after the first request of a session.

## What it does
A tool server is still connecting when the first request is built, or drops out and reconnects later. The request
builder takes whatever the registry holds at that moment, so the list grows, shrinks and grows again while the
conversation goes on.

## Why it costs you
One definition more or less changes the first level of the prompt, and on Anthropic and OpenAI alike nothing behind it
can be read: tools, system and messages are billed as new. The loss comes once for each change, at the full length the
conversation has by then; a flapping server charges it twice per flap.

## Example
    async def ask(messages):
        tools = NATIVE_TOOLS + [tool for server in pool.connected() for tool in await server.list_tools()]
        return await client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Wait for the servers, with a deadline, before the first request, and keep that list for the session. What arrives
later goes where it moves nothing: on Claude as a `tool_addition` in a system message or as a deferred tool, in
OpenAI's Responses as an `additional_tools` item.

    async with asyncio.timeout(10):
        await pool.connect_all()
    session.tools = (*NATIVE_TOOLS, *sorted(await pool.list_tools(), key=by_name))

In contextkit the toolbox is sealed when the `Context` is made; `context.retool(tools)` is the declared way to take
another set, and its miss has a name.

## Detected by
- source: the tools of a server listed in the function that asks the model, and given to the request.
- requests: names that no call had before come after the first one; all tools of a server, or the last of the list,
  come or go.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/rynfar/meridian/issues/367
- https://github.com/anthropics/claude-code/issues/90584
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import as_keys, as_keywords, field, is_per_turn, keyword, last_name, statements
from contextkit.lint.rules.toolsets import Moves, are_whole_servers, counted, named, names, set_moves
from contextkit.lint.source import sources
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _flapped(step: Step, change: Change) -> Evidence | None:
    """All tools of a server came, went or came back together."""
    found = set_moves(step, change)
    if (
        found is None
        or found.is_rename
        or not are_whole_servers([*found.gone, *found.come], [*_kept(found.was, found.gone)])
    ):
        return None
    what = [f"{named(found.gone)} went" * bool(found.gone), f"{named(found.come)} came" * bool(found.come)]
    return Evidence(f"tools of a server changed at call {step.turn}: {', '.join(filter(None, what))}")


def _kept(was: tuple[Block, ...], gone: tuple[Block, ...]) -> list[Block]:
    return [block for block in was if block not in gone]


def _late(step: Step, change: Change) -> Evidence | None:
    """Tools came that no call before had, or those at the end of the list went."""
    found = set_moves(step, change)
    if found is None or found.is_swap or found.is_rename:
        return None
    known = {name for sent in step.earlier for name in names(sent)}
    if found.come and not known & {block.role for block in found.come}:
        return Evidence(f"{counted(found.come)} appeared at call {step.turn}: {named(found.come)}")
    if found.gone and 3 * len(found.gone) <= len(found.was) and found.was[-len(found.gone) :] == found.gone:
        return Evidence(
            f"{counted(found.gone)} vanished from the end of the list at call {step.turn}: {named(found.gone)}"
        )
    return _returned(step, found)


def _returned(step: Step, found: Moves) -> Evidence | None:
    """What came had stood at the end of an earlier list that was otherwise this one."""
    if not found.come or found.now[-len(found.come) :] != found.come or 3 * len(found.come) > len(found.now):
        return None
    now = {block.role for block in found.now}
    was_before = any(names(sent) == now for sent in step.earlier[:-1])
    return Evidence(f"{counted(found.come)} came back at call {step.turn}: {named(found.come)}") if was_before else None


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


HAZARD = Hazard(
    "CKT02",
    "tools-arrive-late",
    "A",
    "error",
    source=(
        Pattern(
            (ast.Call, ast.Dict),
            _listed,
            ("_tools",),
            also=((*as_keywords("tools"), *as_keys("tools")),),
            names=("tools",),
        ),
    ),
    requests=(RequestRule("change", _flapped, 50), RequestRule("change", _late, 60)),
    confirmed_by=("tools_changed",),
)
