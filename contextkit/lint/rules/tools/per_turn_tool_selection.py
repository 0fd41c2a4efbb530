"""per-turn-tool-selection: every turn sends a different choice of tools.

## What it does
A retrieval step, a router or a keyword match picks the tools that look relevant to the latest question, and only
those are sent. The next question picks others, although the full set has been known from the beginning.

## Why it costs you
The saving is a few definitions; the price is the whole prompt. Tools lead the prefix, so another choice leaves
nothing of tools, system and messages to read, at Anthropic and at OpenAI. A conversation of 60,000 tokens pays 1.25
times the input price for all of them, where unchanged tools would have let nearly all be read at a tenth.

## Example
    while True:
        relevant = [tool for tool in ALL_TOOLS if matches(tool, question)]
        reply = client.messages.create(model=MODEL, max_tokens=2048, tools=relevant, messages=messages)

## Use instead
Send the full set in a fixed order and narrow what may be called, not what is described. OpenAI takes `tool_choice` of
type `allowed_tools` and names it cache-neutral; on Claude an instruction at the end, a refusal in the tool itself, or
deferred tools with tool search do the same. If one choice is enough, make it once, before the first turn:

    tools = select_tools(task)                     # once per session
    while not done:
        reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

contextkit keeps one sealed toolbox per conversation; another set is `context.retool(tools)`, a new epoch with its
price.

## Detected by
- source: tools filtered, selected or bound inside the loop that asks the model.
- requests: the names differ from call to call while their union over the session stays the same.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/gagan114662/openbot/issues/113
- https://github.com/fkiene/llmtrim/issues/11
- https://github.com/tmustier/pi-for-excel/issues/423
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT03", "per-turn-tool-selection", "A", "error", confirmed_by=("tools_changed",))
