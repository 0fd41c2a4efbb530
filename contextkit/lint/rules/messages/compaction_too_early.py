"""compaction-too-early: the history is folded so often that the folding costs more than carrying it.

## What it does
Compaction starts at a fixed share of the window, say half, whatever the tokens cost while they are cached. It
shortens the history, which grows back in a few turns, and starts again.

## Why it costs you
A compaction pays three times: the call that writes the summary, the rewrite of what is kept, and the loss of a warm
prefix. Carried tokens cost a tenth of the input price per turn, on newer models a twentieth or a fortieth. Where
reads are at 0.05 and writes at 1.25 times, one token written costs as much as 25 turns of reading it; folding that
comes back sooner loses money, and details as well.

## Example
    def before_request(messages):
        if n_tokens(messages) > 0.5 * WINDOW:
            messages[:-4] = [summarise(messages[:-4])]

    before_request(messages)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Compare the two, and fold when it pays or when the cache is cold anyway:

    saved = dropped_tokens * READ_PRICE * turns_left
    spent = kept_tokens * WRITE_PRICE + summary_cost
    if saved > spent or gap_seconds > TTL_SECONDS or n_tokens(messages) > 0.9 * WINDOW:
        messages[:-4] = [summarise(messages[:-4])]

In contextkit a compaction is an entry with its price in tokens; `contextkit report` shows what each has cost, and
`request.overflow` when one is needed.

## Detected by
- source: a compaction triggered by a fixed ratio of the window, without regard to price or lifetime.
- requests: the history shrinks, is written cold and grows, several times in a session.
- guard: a shrunken history, before the call leaves; that it comes too early shows over several.
- provider: `messages_changed` (Anthropic), `context_compacted` (OpenAI).

## References
- https://github.com/esengine/DeepSeek-Reasonix/issues/3968
- https://github.com/NousResearch/hermes-agent/issues/62389
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM27", "compaction-too-early", "A", "warning", confirmed_by=("messages_changed", "context_compacted"))
