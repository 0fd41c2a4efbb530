"""recency-window-advances: what a message looks like depends on how far it is from the end.

## What it does
A rule fades messages by age: the last five in full, the next ten without their images, older ones as one line. The
distance to the tail grows with every turn, so in every turn some message crosses a border and changes.

## Why it costs you
The first changed message lies a constant distance before the end, and everything from there is new: with a border at
fifteen messages, fifteen are written again each turn, at 1.25 times the input price on Anthropic. Several borders
break at the oldest of them. What is saved, at reads of a tenth, rarely pays for that.

## Example
    def render(messages):
        n = len(messages)
        return [full(m) if n - i <= 5 else brief(m) for i, m in enumerate(messages)]

    client.messages.create(model=MODEL, max_tokens=2048, messages=render(messages))

## Use instead
Decide when a message is written how it will look for good, or move the border rarely and in batches:

    if len(messages) - border > 40:                  # not every turn: once in twenty
        messages[border:-20] = [brief(m) for m in messages[border:-20]]
        border = len(messages) - 20

In contextkit a message has one form for as long as it lives; old ones are folded by `context.compact(...)`, a new
epoch.

## Detected by
- source: a rule on earlier messages that uses `len(messages) - i` or a similar distance to the end.
- requests: the place of the first change moves on by a constant number of messages each turn.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/jjuraszek/pi-condense/issues/3
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM08", "recency-window-advances", "A", "error", confirmed_by=("messages_changed", "input_changed"))
