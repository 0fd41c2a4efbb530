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
- source: not visible; the markers meet only in the request.
- requests: four markers, none of them in the messages, while messages grow.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent.

## References
- https://github.com/NousResearch/hermes-agent/issues/20880
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.marks import MOST_MARKERS, has_markers, in_messages, marks_of, n_head, n_shared, n_tokens

_LEAST_TOKENS = 100


def _none_left(step: Step) -> Evidence | None:
    if not has_markers(step.after):
        return None
    marks, head = marks_of(step.after), n_head(step.after)
    shared = n_shared(step)
    if len(marks) < MOST_MARKERS or any(in_messages(step.after, mark) for mark in marks) or shared <= head:
        return None
    again = n_tokens(step.after, head, shared)
    if again < _LEAST_TOKENS:
        return None
    return Evidence(
        f"all {len(marks)} markers stand on tools and system text, none is left for the messages: {again:,} tokens said before "
        "are new input again",
        path=marks[-1].path,
    )


HAZARD = Hazard("CKB07", "marker-budget-conflict", "A", "warning", requests=(RequestRule("step", _none_left),))
