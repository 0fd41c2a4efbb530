"""ttl-gap: the pause between two calls is longer than the entry lives.

## What it does
Finds calls that come after the lifetime of what the call before wrote or read: a slow tool, an approval, a person who went to lunch.

## Why it costs you
Claude's default is five minutes, counted from the start of the request, or an hour when asked for; OpenAI from gpt-5.6 on keeps 30
minutes at least, Kimi and Qwen five minutes or an hour. After it the bytes are the same and the whole prefix is written again. For
100,000 tokens on `claude-sonnet-5-5` that is 0.25 USD instead of 0.01. An hour costs twice the input price at the write instead of 1.25
times: worth it as soon as one such pause is likelier than a few writes of the newest turn.

## Example
    answer = input("Shall I go on? ")
    messages.append({"role": "user", "content": answer})
    client.messages.create(model=MODEL, max_tokens=4096, cache_control={"type": "ephemeral"}, messages=messages)

## Use instead
The long lifetime where pauses recur, at least for the head, or a call that generates nothing before the entry ends:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, ttl="1h"), system=SYSTEM, tools=TOOLS)
    context.receive(context.request(max_tokens=0).send(client))

## Detected by
- source: not visible; pauses happen at run time.
- requests: start to start exceeds the lifetime of the last write or read, the bytes agree, and the bill, where there is one, shows it.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent: its diagnosis compares text, and the text is the same.

## References
- https://github.com/aaif-goose/goose/issues/11175
- https://github.com/rossoctl/context-guru/issues/86
- https://github.com/anthropics/claude-code/issues/94177
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import asks_nothing
from contextkit.lint.rules.lifetimes import expired


def _too_late(step: Step) -> Evidence | None:
    lost = expired(step)
    if lost is None or lost.is_in_time_from_end or asks_nothing(step.after):
        return None
    return Evidence(
        f"{step.gap_seconds:,.0f} s after the call before, whose entry lived {lost.ttl_seconds:,} s: {lost.tokens:,} tokens "
        "are gone",
        path=lost.path,
    )


HAZARD = Hazard("CKL01", "ttl-gap", "A", "warning", requests=(RequestRule("step", _too_late),))
