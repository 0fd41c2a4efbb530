"""ttl-counts-from-start: the lifetime runs from the start of a request, and a long answer uses it up.

## What it does
Finds gaps that look shorter than the lifetime because they were measured from the end of an answer.

## Why it costs you
On Claude the clock starts when a request that writes or reads starts. An answer that takes four minutes leaves one minute of five for
the tools and for whoever reads it. A scheduler that measures from the end believes it has time left and pays the rewrite, most often
after the longest answers, which belong to the longest prompts.

## Example
    reply = client.messages.create(**body)
    deadline = time.monotonic() + 300

## Use instead
Measure from start to start. contextkit's ledger keeps the start, the first byte and the end of every call, and its reference cache
counts from the start:

    deadline = time.monotonic() + 300
    reply = client.messages.create(**body)

## Detected by
- source: not visible; it depends on how long an answer takes.
- requests: end to start is shorter than the lifetime, start to start longer, the bytes agree, and the read falls.
- guard: the same, before it is sent.
- provider: silent: the text is the same.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#how-prompt-caching-works
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL02", "ttl-counts-from-start", "D", "warning")
