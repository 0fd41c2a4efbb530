"""ttl-order-violation: a marker with a longer lifetime stands behind one with a shorter.

## What it does
Finds requests in which a one-hour marker follows a five-minute one in render order (tools, system, messages).

## Why it costs you
Claude bills mixed lifetimes in bands: what lies before the last one-hour marker as the long write, the rest as the short one. That only
works when the longer come first, so the reverse is a 400. Translating gateways repair the order by dropping one of the lifetimes, and
then the head that should live an hour is gone after five minutes, or everything is written at the price of the hour (2 times input
instead of 1.25).

## Example
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    last = {"type": "text", "text": question, "cache_control": {"type": "ephemeral", "ttl": "1h"}}

## Use instead
The head gets the long lifetime, the tail the short one:

    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    last = {"type": "text", "text": question, "cache_control": {"type": "ephemeral"}}
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, ttl="5m", head_ttl="1h")

## Detected by
- source: lifetimes written as literals in reverse order of tools, system and messages.
- requests: the same order in a body; a lifetime that was asked for and another that was billed.
- guard: the same, before it is sent.
- provider: an HTTP 400 that names the order.

## References
- https://github.com/Portkey-AI/gateway/issues/1762
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB09", "ttl-order-violation", "A", "error")
