"""marker-on-varying-block: the only marker sits on a block that differs in every request.

## What it does
Finds a marker on the block that carries the clock, the recall or the newest question, with no other marker on the stable part before
it. Automatic marking does the same where the last block always varies.

## Why it costs you
An entry is written at the marked block and only there; the key covers everything up to it. If the marked block varies, each request
writes an entry that no later request can match: a write at 1.25 times the input price every time (2 times with a one-hour lifetime),
and no read at all, although tools and system never moved. Stepping back from the marker does not help, because a lookup only finds
entries that some earlier request has written.

## Example
    system = [
        {"type": "text", "text": INSTRUCTIONS},
        {"type": "text", "text": f"Now: {datetime.now()}", "cache_control": {"type": "ephemeral"}},
    ]

## Use instead
The marker belongs on the last block that stays the same; what varies goes behind it. `Context` marks the end of the head and keeps
notices behind what was sent:

    system = [{"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}]
    context.notice(f"Now: {datetime.now()}")

## Detected by
- source: a value that varies flows into a block that carries a marker.
- requests: the marked block differs from call to call, nothing before it is marked, and each call writes without reading.
- guard: the same, from the second call on.
- provider: `system_changed` or `messages_changed` say that the block moved; that the marker stood on it is not said.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#how-automatic-prefix-checking-works
- https://github.com/QwenLM/qwen-code/issues/11651
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB02", "marker-on-varying-block", "D", "error")
