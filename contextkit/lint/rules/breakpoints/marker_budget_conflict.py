"""marker-budget-conflict: several components set markers, and the history is left without.

## What it does
Finds requests that use up the four markers on tools, system and memory blocks, each set by another layer (framework, memory, gateway),
with fewer than two left for the messages.

## Why it costs you
The budget is four for the whole request. Every layer that marks its own block is right by itself; together they leave none for the part
that grows, so every tool call of the loop is fresh input. In one reported agent each step of the loop missed although every component
had caching switched on. Where the layers add up to five, the request is refused or one marker is dropped.

## Example
    tools[-1]["cache_control"] = MARK                 # the tool registry
    system = [marked(BASE), marked(SKILLS), marked(MEMORY)]  # the prompt builder
    messages = gateway.mark_tail(messages)            # finds no slot left

## Use instead
One place owns all four. Tools and system share one marker, because the key of a later block holds everything before it. In contextkit
the planner is the only one who marks; the blocks that are said carry none:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096), system=[BASE, SKILLS, MEMORY], tools=TOOLS)

## Detected by
- source: markers set in several functions or modules that meet in one request.
- requests: four markers, fewer than two of them in the messages, while messages grow.
- guard: the same, before it is sent.
- provider: silent.

## References
- https://github.com/NousResearch/hermes-agent/issues/20880
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB07", "marker-budget-conflict", "A", "warning")
