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
- requests: end to start is within the lifetime, start to start beyond it, the bytes agree, and the bill, where there is one, shows it.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent: the text is the same.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#how-prompt-caching-works
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.lifetimes import expired


def _used_up_by_the_answer(step: Step) -> Evidence | None:
    lost = expired(step)
    if lost is None or not lost.is_in_time_from_end:
        return None
    return Evidence(
        f"within {lost.ttl_seconds:,} s of the end of the answer, but {step.gap_seconds:,.0f} s after its start, from which it "
        f"runs: {lost.tokens:,} tokens are gone",
        path=lost.path,
    )


HAZARD = Hazard(
    "CKL02", "ttl-counts-from-start", "D", "warning", requests=(RequestRule("step", _used_up_by_the_answer),)
)
