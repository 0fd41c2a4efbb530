"""parallel-result-order: results of parallel tool calls stand in another order when they are sent again.

## What it does
Calls run side by side and their results are appended as they finish. Later the history is rebuilt from storage, and
there they stand in the order of the calls; or the first sending was in call order and the stored one is in order of
completion.

## Why it costs you
The message with the results is one block sequence in the cache's eyes. Another order differs from the first moved
block on, and so does everything behind. It happens whenever the two orders disagree, which with parallel tools is
most of the time, and again with each resume. On Anthropic the rest of the messages is written at 1.25 times the input
price.

## Example
    results = []
    for done in asyncio.as_completed([run(call) for call in calls]):
        results.append(await done)
    messages.append({"role": "user", "content": [as_block(result) for result in results]})

## Use instead
Run them in any order, send them in the order of the calls, and store that:

    results = await asyncio.gather(*(run(call) for call in calls))       # keeps the order of its arguments
    messages.append({"role": "user", "content": [as_block(result) for result in results]})

`await context.run_calls(limit=8)` keeps each result as it comes; on the wire they stand in call order, once the last
has arrived.

## Detected by
- source: tool results appended from `as_completed`, from a wait for the first, or in a callback.
- requests: the same results, told by their call ids, in another order.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/vercel/ai/issues/16567
- https://github.com/langchain-ai/open-swe/issues/2198
- https://github.com/strands-agents/harness-sdk/issues/2112
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import bodies, messages
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _reordered(step: Step, change: Change) -> Evidence | None:
    """Results, or calls, all of which stood there before and stand there still."""
    touched = (*change.was, *change.now)
    if change.level != "messages" or any(block.type not in ("result", "call") for block in touched):
        return None
    moved = bodies(touched)
    if not moved <= bodies(messages(step.before)) or not moved <= bodies(messages(step.after)):
        return None
    return Evidence(f"the {touched[0].type}s of one turn stand in another order")


HAZARD = Hazard(
    "CKM11", "parallel-result-order", "A", "error", requests=(RequestRule("change", _reordered, 10),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
