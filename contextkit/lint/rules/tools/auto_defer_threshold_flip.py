"""auto-defer-threshold-flip: crossing a limit of tools or tokens turns inline definitions into deferred ones in mid-session.

## What it does
A harness sends tools in full while there are few of them and defers them behind a search tool above some number or
size. The test is made for every request, so a server that adds three tools, or a longer description, flips the whole
list.

## Why it costs you
Many definitions leave or enter the rendered prefix in one step. On Anthropic a deferred tool stands outside the
prefix and an inline one at its very front, so the flip invalidates tools, system and messages together, and flipping
back does it again.

## Example
    def build_tools(registry):
        if len(registry) > 40:
            return [SEARCH_TOOL, *({**tool, "defer_loading": True} for tool in registry)]
        return registry

    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=build_tools(registry), messages=messages)

## Use instead
Decide once per session, keep the decision with the session, and log when the test would have gone the other way:

    if session.defers_tools is None:
        session.defers_tools = len(registry) > 40
    tools = build_tools(registry, session.defers_tools)

In contextkit tools are sealed with the `Context`, so the mode they were given in stays.

## Detected by
- source: a comparison of the number or size of the tools with a limit, in the function that builds the request.
- requests: several tools change `defer_loading`, or leave and enter the inline list, in one step.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/rynfar/meridian/issues/861
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT05", "auto-defer-threshold-flip", "A", "warning", confirmed_by=("tools_changed",))
