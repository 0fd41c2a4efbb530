"""content-shape-flip: a message's content is a string in one call and a list of blocks in another.

## What it does
A cache marker needs a block to stand on, so the code wraps the text of the newest message in a list and adds the
marker. In the next call the marker moves on, and the old message goes back to being a plain string.

## Why it costs you
Where a hop or an engine compares what was sent, the two shapes are two prefixes: the message and all behind it are
new. Anthropic documents a string as equal to one text block, so against it directly the change may cost nothing;
adapters, gateways and templates between need not agree, and several projects traced broken caches to this flip. It
strikes in every turn, exactly where the previous turn wrote its entry.

## Example
    def mark_last(messages):
        out = [dict(message) for message in messages]
        if isinstance(out[-1]["content"], str):
            out[-1]["content"] = [{"type": "text", "text": out[-1]["content"], "cache_control": {"type": "ephemeral"}}]
        return out

    client.messages.create(model=MODEL, max_tokens=2048, messages=mark_last(messages))

## Use instead
One shape for all messages, from the moment they are written:

    messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

The marker then comes and goes as a key of its own, which no cache counts as text. contextkit always writes lists of
blocks, and its breakpoints are spliced into bytes that stay the same.

## Detected by
- source: content that is wrapped into a block only where `cache_control` is added.
- requests: a message with the same text and another JSON shape when its marker has left it.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/BYK/loreai/issues/1327
- https://github.com/omnara-ai/omnara/issues/480
- https://github.com/anthropics/claude-code/issues/93490
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM10", "content-shape-flip", "A", "error", confirmed_by=("messages_changed", "input_changed"))
