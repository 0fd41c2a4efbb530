"""single-tail-marker: with one marker in the messages, any change behind the head loses the whole conversation.

## What it does
Finds requests whose history carries a single marker, on its last block, so that there is nothing between the head and the newest turn
to fall back to.

## Why it costs you
As long as the history only grows, one tail marker is enough. When something in the middle differs, or the provider evicts the newest
entry, the lookup falls through to the marker before it: the end of the system prompt. A session of 150,000 tokens is then read at its
10,000-token head and the rest is written again, at 1.25 times input on Claude. Two reports saw exactly the size of tools plus system
come back after every break.

## Example
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Two of the four markers on the newest two turns, one at a boundary that outlives them (the end of the head, or of a compaction).
`Context` spends one on the head and keeps the end of the request before within reach:

    for message in (messages[-3], messages[-1]):
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Detected by
- source: not visible on its own; a single marker is right for most loops.
- requests: after a change in the messages the read equals tools plus system, and only one marker stood behind them.
- guard: the same, before it is sent.
- provider: `messages_changed` names the change that did it, not the missing anchor.

## References
- https://github.com/BYK/loreai/issues/1155
- https://github.com/microsoft/vscode/issues/315505
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB06", "single-tail-marker", "A", "warning")
