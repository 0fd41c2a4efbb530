"""markers-frozen-at-cap: a program that only adds markers stops at four, and the tail grows uncached.

## What it does
Finds code that sets a marker as long as fewer than four exist, and never moves one: from the fifth turn on all four stand at the front.

## Why it costs you
Anthropic, Bedrock and Qwen take four markers in a request. When none is left for the newest turn, nothing behind the fourth is ever
written, so the part of the conversation that grows is billed as fresh input on every call. The hit rate looks fine at first and sinks
with the length of the session, which is why it goes unseen.

## Example
    if count_markers(messages) < 4:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Let markers slide: one fixed behind the head, the others on the newest turns. Taking a marker off costs nothing, the key does not
contain it. `Context` plans the marks afresh for every request and leaves the blocks alone:

    unmark(messages)
    for message in (messages[-3], messages[-1]):
        mark(message)

## Detected by
- source: a marker added under a condition that compares their number with four, with no removal beside it.
- requests: the last marker stays where it is while at least two turns are appended behind it.
- guard: the same, before it is sent.
- provider: silent.

## References
- https://github.com/dhanji/g3/issues/78
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB04", "markers-frozen-at-cap", "A", "warning")
