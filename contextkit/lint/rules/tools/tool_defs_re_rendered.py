"""tool-defs-re-rendered: definitions are made anew after a refresh or reconnect, and come out with other bytes.

## What it does
A token is refreshed, a language server crashes and returns, a client object is recreated. The handler rebuilds the
registry, and the new definitions differ in spacing, order, defaults or version text from the old ones. Often the next
turn changes back.

## Why it costs you
The names are equal, so nobody notices, yet each change of bytes in `tools` costs the tools, system and message levels
once; a change and its reversal cost two writes of the whole conversation at 1.25 times the input price (Anthropic,
five-minute entries).

## Example
    class Registry:
        async def on_reconnect(self, server):
            self.tools = [render(tool) for tool in await server.list_tools()]

    client.messages.create(model=MODEL, max_tokens=2048, tools=registry.tools, messages=messages)

## Use instead
Keep the bytes of a definition with a digest of what it was made of, and render again only when that differs:

    def render_once(tool):
        key = hashlib.sha256(json.dumps(tool, sort_keys=True).encode()).digest()
        return rendered.setdefault((tool["name"], key), render(tool))

A contextkit `Toolbox` is sealed: reconnecting replaces the connection behind a tool, never its definition, and
`Toolbox.digest` says whether two are the same.

## Detected by
- source: a registry of tools filled again in a handler for refresh, reconnect or restart.
- requests: names are equal and several definitions change in one step, often to change back a call later.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/90584
- https://github.com/rynfar/meridian/issues/367
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT10", "tool-defs-re-rendered", "A", "warning", confirmed_by=("tools_changed",))
