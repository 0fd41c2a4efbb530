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
from contextkit.lint.rules.history import is_elided, shortened, size, tail
from contextkit.lint.trace.blocks import text_of
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step

_LARGE = 2_000


def _squeezed(step: Step, change: Change) -> Evidence | None:
    """Earlier items are cut in the call that brings a large new one."""
    if change.level != "messages":
        return None
    cut = [(was, now) for was, now in shortened(change) if is_elided(text_of(was), text_of(now))]
    lost = sum(len(was.body) - len(now.body) for was, now in cut)
    new = max((size([block]) for block in tail(step)), default=0)
    if not cut or new < max(_LARGE, lost // 2):
        return None
    return Evidence(f"{len(cut)} earlier item{'s' * (len(cut) > 1)} lost {lost:,} bytes in the call that brought one of {new:,}")


HAZARD = Hazard(
    "CKM07", "aggregate-budget-rewrites-sent-items", "A", "error", requests=(RequestRule("change", _squeezed, 30),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
