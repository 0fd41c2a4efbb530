"""early-eviction: an entry is gone before its time, although nothing changed.

## What it does
Finds calls whose bytes extend the call before, within its lifetime, and that read the head only.

## Why it costs you
A provider may evict: under load, in a failover, by its own policy. Typically the system prompt, which many calls refresh, survives, and
the conversation is written again. No code change helps. It is named so that nobody hunts a bug that is not there, and so that the cost
can be told apart from what can be mended.

## Example
    client.messages.create(**body)
    client.messages.create(**{**body, "messages": body["messages"] + new_turn})

## Use instead
A second anchor closer to the tail limits what an eviction costs; beyond that only a note that it happened. `contextkit report` lists
such misses apart from those with a cause in the text:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, head_ttl="1h"), system=SYSTEM, tools=TOOLS)

## Detected by
- source: not visible.
- requests: an extended prefix, a gap within the lifetime, a marker within reach, and a read no longer than the head.
- guard: not before sending; noticed when the bill comes back.
- provider: silent: the text is the same.

## References
- https://github.com/anthropics/claude-code/issues/94177
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL05", "early-eviction", "B", "note")
