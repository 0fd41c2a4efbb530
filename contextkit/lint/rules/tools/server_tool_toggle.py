"""server-tool-toggle: web search, web fetch or citations are switched on and off between turns.

## What it does
A setting of the user interface, or a router, decides per turn whether the provider's own search tool is offered or
whether documents are cited. The switch looks like a parameter, but the provider writes instructions for it into the
system text that nobody sees.

## Why it costs you
On Anthropic turning web search or web fetch on or off, or citations on or off, keeps the cached tools and loses
system and messages. Each change pays for the whole conversation; a user who alternates pays for it every turn, at
1.25 times the input price instead of a tenth.

## Example
    tools = [*TOOLS]
    if looks_like_news(question):
        tools.append({"type": "web_search_20250305", "name": "web_search"})
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Decide once per session, and let the model choose not to search. If searching is rare and costly, give it a
conversation of its own and bring back only the answer:

    tools = [*TOOLS, {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]    # for the whole session

In contextkit `context.spawn(task, tools=[...])` is such a lane: its own log and cache, its cost in the same summary.

## Detected by
- source: a server tool or `citations` set by a flag that is read per call.
- requests: a server tool comes or goes, or `citations.enabled` flips, between two calls of a conversation.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` or `tools_changed` (Anthropic).

## References
- https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT13", "server-tool-toggle", "D", "warning", confirmed_by=("system_changed", "tools_changed"))
