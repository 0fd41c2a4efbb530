"""ttl-silently-downgraded: an hour was meant, and five minutes go out.

## What it does
Finds markers whose lifetime differs from what the program intends: a feature flag, a plan or a telemetry switch quietly takes the short
one.

## Why it costs you
A one-hour head survives a lunch, a five-minute head does not. When the long lifetime is lost on the way (a client turned it off
together with its telemetry, a gateway does not know the field), the bill shows writes under the five-minute counter, and every pause
becomes a rewrite. It looks like bad luck, because each call for itself is right.

## Example
    ttl = "1h" if flags.get("long_cache") else "5m"
    marker = {"type": "ephemeral", "ttl": ttl}

## Use instead
Decide it where the session starts, and check the split that the bill reports:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, ttl="1h"), system=SYSTEM, tools=TOOLS)
    usage = context.ledger[-1].usage
    assert not usage.write_5m

## Detected by
- source: a value that is not constant flows into the lifetime of a marker.
- requests: the lifetime in the body differs from call to call, or the billed split disagrees with it.
- guard: the lifetime differs from that of the call before.
- provider: the counters `ephemeral_5m_input_tokens` and `ephemeral_1h_input_tokens` tell which was written.

## References
- https://github.com/gpambrozio/ClaudeDocs (Claude Code's changelog: the one-hour lifetime taken back, `DISABLE_TELEMETRY`)
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL06", "ttl-silently-downgraded", "D", "warning")
