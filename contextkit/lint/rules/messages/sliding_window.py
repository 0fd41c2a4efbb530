"""sliding-window: only the last N messages are sent, so the beginning moves with every turn.

## What it does
The history is cut from the front: `messages[-20:]`, a `deque(maxlen=20)`, or a trimming function that keeps the last.
As long as it is short nothing happens; from the N-th message on, each turn drops the first.

## Why it costs you
A prefix cache starts at the front. With the first message gone the messages share nothing with those of the call
before: on Anthropic tools and system are still read, all messages are written at 1.25 times the input price, every
turn, and never read. The window was meant to save tokens; at reads of a tenth, a history ten times as long would have
cost no more.

## Example
    class Chat:
        def ask(self, text):
            self.messages.append({"role": "user", "content": text})
            return client.messages.create(model=MODEL, max_tokens=1024, messages=self.messages[-20:])

## Use instead
Let it grow while the window allows, then cut rarely and much:

    if n_tokens(messages) > HIGH:
        messages = [summary_of(messages[:-10]), *messages[-10:]]      # down to a low mark, once per many turns

Where a window is needed, move its start in blocks, so that most turns only append. In contextkit nothing falls off
the front; `request.overflow` says when the model's window is full and `context.compact(summary, keep_from=entry)` is
the declared cut.

## Detected by
- source: a slice `[-N:]` of a history, a `deque` with `maxlen`, or a trimming function that keeps the last messages.
- requests: the first messages of one call are the second or third of the call before, and so on each time.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/openclaw/openclaw/issues/115273
- https://github.com/BasedHardware/omi/issues/4694
- https://github.com/mastra-ai/mastra/issues/23667
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import front_cut, messages
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _moved(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    before, after = messages(step.before), messages(step.after)
    lost = front_cut(before, after)
    if not lost or change.at >= len(step.before.blocks) - len(before) + _OPENING + lost:
        return None
    return Evidence(f"the history begins {lost} block{'s' * (lost > 1)} later than in the call before")


_OPENING = 8
"""Blocks of the first messages that may be kept in front of the window."""


HAZARD = Hazard(
    "CKM04", "sliding-window", "A", "error", requests=(RequestRule("change", _moved, 46),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
