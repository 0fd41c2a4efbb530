"""tools-dropped-on-last-turn: the last call of a run is sent without tools, or with one finishing tool.

## What it does
To force an answer in words (the step limit is reached, a summary is wanted, an error is being recovered from) the
code empties `tools` or swaps the list for a single `finish` tool.

## Why it costs you
The last call is the longest of the run. Without its tools it shares no prefix with the calls before and is billed
whole, on Anthropic and OpenAI alike. Keeping the tools and setting `tool_choice` is better but not free on Anthropic:
tools and system are read, messages are not. One measured fix went from 0 to 632 tokens read, with 23,943 still
written. Where the last turn is large, an instruction beats both.

## Example
    for step in range(MAX_STEPS):
        last = step == MAX_STEPS - 1
        reply = client.messages.create(model=MODEL, max_tokens=2048, tools=[] if last else TOOLS, messages=messages)

## Use instead
Leave the tools where they are and say it at the tail:

    if last:
        messages[-1]["content"].append({"type": "text", "text": "Answer now in words; call no further tool."})
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=TOOLS, messages=messages)

On OpenAI `tool_choice="none"` is cache-neutral by its guide. In contextkit say it with `context.notice("Answer now in
words.")`, or for one call `context.request(tool_choice={"type": "none"})`; the tools cannot drop out.

## Detected by
- source: a branch on the last step, a limit or a summary that sets tools to nothing, to an empty list, or pops them.
- requests: the last call of a conversation has fewer tools than the one before, and what follows them is equal.
- guard: fewer tools than in the call before; that it is the last call is not known then.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/OpenRouterTeam/typescript-agent/issues/68
- https://github.com/jaseci-labs/jac/issues/8386
- https://github.com/dust-tt/dust/issues/28498
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT04", "tools-dropped-on-last-turn", "A", "warning", confirmed_by=("tools_changed",))
