"""reasoning-stripped-on-replay: the model's earlier reasoning is dropped when the history is sent again.

## What it does
The code keeps the answer of a turn and throws away its thinking blocks or `reasoning_content`, at once or when the
next user turn comes. A type that has no field for them does it without a line of code saying so.

## Why it costs you
What the provider cached ends with the reasoning; what is sent next lacks it, so the prefix breaks at the first
assistant turn and the messages behind it are written again. On Claude since Opus 4.5, Sonnet 4.6 and Haiku 5.5 all
earlier thinking stays in the context; only older models (Sonnet 4.5, Haiku 4.5) drop it themselves. Models that bind
thinking to its prefix allow it to be removed only oldest first, and refuse other gaps. xAI asks for
`reasoning_content` to be sent again, and OpenAI's models since 5.6 keep the reasoning of all turns.

## Example
    for message in history:
        message.pop("reasoning_content", None)
        message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    client.messages.create(model=MODEL, max_tokens=4096, messages=history)

## Use instead
Send back what you received, as it was: order, signatures and all. Prune only where the history is rewritten anyway,
at a compaction.

    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=history)
    history.append({"role": "assistant", "content": [block.model_dump(exclude_unset=True) for block in reply.content]})

`context.receive(reply)` keeps the reply as received, and a column of contextkit's model table says which models drop
thinking.

## Detected by
- source: thinking or reasoning popped or filtered out of a history.
- requests: an assistant message loses blocks when a new user turn arrives.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/19081
- https://github.com/nibor1896/Crow/issues/60
- https://github.com/gptme/gptme/issues/2727
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM01", "reasoning-stripped-on-replay", "A", "error", confirmed_by=("messages_changed", "input_changed"))
