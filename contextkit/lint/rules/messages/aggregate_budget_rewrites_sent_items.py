"""aggregate-budget-rewrites-sent-items: one budget for all tool output shortens results that were already sent.

## What it does
The total size of tool output is limited, and the shares are computed anew for every request over the whole history. A
large new result takes room from the old ones: they are cut further, although they have been sent in full.

## Why it costs you
The first item that shrinks breaks the prefix, and it is an early one, since old results yield first. Everything
behind it is written at the write price, 1.25 times input on Anthropic, or computed again on hosts with automatic
caches. It strikes in the calls that carry a big result, which are dear already.

## Example
    def fit(messages, budget):
        results = [block for message in messages for block in message["content"] if block["type"] == "tool_result"]
        share = budget // max(1, len(results))
        for block in results:
            block["content"] = block["content"][:share]

    fit(messages, 40_000)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Limit each result once, when it comes in, by what is left then; what was sent stays:

    room = max(1_000, budget - used)
    block = {"type": "tool_result", "tool_use_id": call.id, "content": output[:room]}
    used += len(block["content"])

In contextkit an entry's bytes are fixed when it is written, so a later result cannot touch an earlier one.

## Detected by
- source: output truncated by a share or budget that is computed over the whole history in each call.
- requests: an earlier item becomes shorter in the call to which a large new one was added.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/openclaw/openclaw/issues/132017
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM07", "aggregate-budget-rewrites-sent-items", "A", "error", confirmed_by=("messages_changed", "input_changed"))
