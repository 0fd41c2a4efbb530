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
- source: a listing of a server's tools, or of a registry filled in the background, read where the request is built.
- requests: names come or go after the first call of a conversation; on the bill the tokens read fall to nothing at
  the same call.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/rynfar/meridian/issues/367
- https://github.com/anthropics/claude-code/issues/90584
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT02", "tools-arrive-late", "A", "error", confirmed_by=("tools_changed",))
