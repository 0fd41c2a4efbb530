"""keepalive-misfire: the call that should keep an entry alive comes too late or is another request.

## What it does
Finds keep-alive calls with an interval as long as the lifetime, or with a body built by other code than the real ones.

## Why it costs you
A read refreshes an entry for free, but only a read. At an interval of 300 seconds the entry is gone each time the timer fires, so each
refresh is a write of everything at 1.25 times input: the cure costs more than the illness. A body with other tools, another effort or a
missing marker writes an entry of its own beside the one that was to be kept.

## Example
    KEEPALIVE_SECONDS = 300
    scheduler.every(KEEPALIVE_SECONDS, lambda: client.messages.create(model=MODEL, max_tokens=1, messages=[PING]))

## Use instead
Well below the lifetime, counted from the start of the last call, and the very bytes of the conversation:

    KEEPALIVE_SECONDS = 240
    context.receive(context.request(max_tokens=0).send(client))

## Detected by
- source: an interval constant that is not below the lifetime, or a keep-alive that builds its own request.
- requests: calls with no more than one token of output that write instead of read.
- guard: such a call whose prefix differs from the conversation, before it is sent.
- provider: `tools_changed`, `system_changed` or `messages_changed` where the keep-alive asks for a comparison.

## References
- https://github.com/anima-research/connectome-host/issues/97
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL07", "keepalive-misfire", "A", "warning")
