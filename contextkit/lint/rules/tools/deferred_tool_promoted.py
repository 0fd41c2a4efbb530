"""deferred-tool-promoted: a tool that was found by search, or seen in the history, is moved into the inline list.

## What it does
Tools are held back and found on demand. Once one has been used, the code promotes it: its definition joins `tools`,
so that the next request can call it directly. Replaying an old session promotes everything that was ever called in
it.

## Why it costs you
Deferring a tool is meant to keep the prefix still. Promotion puts a definition into its front, and from there tools,
system and messages are written again, at the moment when a search result has just made the conversation longer. Every
newly found tool costs one full rewrite.

## Example
    def after_search(found):
        for name in found:
            registry.promote(name)                 # the next request sends it inline

    tools = [tool.definition for tool in registry if tool.promoted]
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Let the definition arrive in the messages. On Claude declare the tool with `defer_loading: true` from the start and
answer the search with `tool_reference` blocks, which are expanded where they stand; adding a deferred tool leaves all
levels valid. In OpenAI's Responses append an `additional_tools` item. Elsewhere route calls through one stable bridge
tool:

    tools = [SEARCH, {"name": "call_tool", "description": "Call a tool found by search.", "input_schema": NAME_AND_ARGUMENTS}]

A contextkit toolbox never grows by itself; give it the bridge tool.

## Detected by
- source: a registry's promotion or an eager flag, driven by the history or by search results.
- requests: one inline definition more, directly behind a result of a tool search.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/QwenLM/qwen-code/issues/10410
- https://github.com/dust-tt/dust/issues/28568
- https://github.com/nearai/ironclaw/issues/7274
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT06", "deferred-tool-promoted", "A", "error", confirmed_by=("tools_changed",))
