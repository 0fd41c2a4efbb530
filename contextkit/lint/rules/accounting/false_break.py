r"""false-break: a change behind the last marker is taken for a break.

## What it does
Explains differences that cost nothing: text that was sent and never written, because it stood behind the last marker, may change
freely.

## Why it costs you
Tools that compare two requests as text report such a change as a broken cache. On an explicit cache the question is whether it lies
before the last entry that was written: a tail that is replaced on every call (a reminder, a status line) is billed as fresh input
either way. Calling it a break sends people to repair what works, and hides the findings that matter. On an implicit cache everything
counts, and there such a tail is a break.

## Example
    system = [{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}}]
    messages = [*history, {"role": "user", "content": f"{question}\n\nStatus: {status()}"}]

## Use instead
Nothing. Compare block by block against the place of the last marker, as contextkit's detectors do:

    findings = find_in_requests(ledger, hazards())

## Detected by
- source: not reported.
- requests: not reported: what differs only behind the last marker is left out.
- guard: not reported.
- provider: `messages_changed` may still name it: the diagnosis compares text and does not ask what was written.

## References
- https://github.com/yuki-uix/agent-cost-lab/issues/22
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKA05", "false-break", "A", "note")
