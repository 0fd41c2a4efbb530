"""ephemeral-reminder-then-removed: a reminder rides on the newest message for one call and is gone when that becomes history.

## What it does
The last user message gets an extra block (a reminder, a list of skills, a recap, recalled notes) in a copy made for
the request. The stored message does not have it. In the next call it is history, sent without the block, while the
new last message carries one.

## Why it costs you
What was cached holds the reminder, what is sent next does not: the prefix ends at the message before it. Each turn
writes the turn before once more, and when a breakpoint stood behind the reminder, the whole tail since the last one
in front of it; on Anthropic that is 1.25 times instead of a tenth for all of it. Inside long tool loops it adds up
quietly.

## Example
    outgoing = copy.deepcopy(messages)
    outgoing[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=outgoing)
    messages.append(as_message(reply))

## Use instead
Keep what you sent:

    messages[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

If it must not stay, put it behind the last marker, so that nothing cached contains it; newer Claude models have
system messages with `clear_at` for exactly this. With contextkit, `context.notice(reminder)` is an entry: sent once,
and part of the history from then on.

## Detected by
- source: a copy of the history whose last message is altered and which is sent but not stored.
- requests: a message carries a block in one call and lacks it in the next.
- guard: the same comparison, when the second call is about to leave.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-agent-sdk-typescript/issues/269
- https://github.com/alvinunreal/oh-my-opencode-slim/issues/790
- https://github.com/anima-research/agent-framework/issues/171
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM09", "ephemeral-reminder-then-removed", "A", "error", confirmed_by=("messages_changed", "input_changed"))
