"""moving-mid-anchor: an anchor in the middle of the history is computed from its length and lands elsewhere each time.

## What it does
Finds markers whose place is a function of how long the conversation is (`len(messages) // 2`), so that no request marks a block that an
earlier one has written.

## Why it costs you
A write happens at the marked block only. An anchor that moves every turn writes a new entry each time, at 1.25 times the input price,
and the entries of the turns before lie where no marker looks, unless the new place is within twenty positions behind the old one. The
money is spent twice: once for the write, once for the read that does not come.

## Example
    anchor = len(messages) // 2
    messages[anchor]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
An anchor stays where it was written until a newer one has been written and read. `Context` marks the head, the end of the request
before when it would fall out of reach, and the new end:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096), system=SYSTEM, tools=TOOLS)
    client.messages.create(**context.request())

## Detected by
- source: a marker set at an index computed from the length of the history, other than its end.
- requests: a marker in the messages that is neither the newest block nor any place a call before it had marked.
- guard: the same, before it is sent.
- provider: silent.

## References
- https://github.com/looplj/axonhub/issues/2342
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB05", "moving-mid-anchor", "A", "error")
