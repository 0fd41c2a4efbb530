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
from contextkit.lint.rules.history import is_elided, last_message, rewritten_before, shortened
from contextkit.lint.trace.blocks import text_of
from contextkit.lint.trace.rule import Block, Change, Evidence, RequestRule, Step

_LEAST = 100
"""Bytes that a message has to lose, to be called shortened."""


def _faded(change: Change) -> list[Block]:
    """Blocks of which less is said now."""
    pairs = shortened(change) if change.level == "messages" else []
    return [now for was, now in pairs if is_elided(text_of(was), text_of(now)) and len(was.body) - len(now.body) >= _LEAST]


def _advanced(step: Step, change: Change) -> Evidence | None:
    """The step before shortened earlier messages, this one goes on behind them."""
    faded, before = _faded(change), rewritten_before(step)
    if not faded or not 0 <= before < faded[0].message:
        return None
    distance, moved = last_message(step.after) - faded[-1].message, faded[-1].message - before
    return Evidence(f"messages are shortened up to {distance} from the newest, {moved} further than in the call before")


def _began(step: Step, change: Change) -> Evidence | None:
    """Shape only: older messages are shortened, newer ones are not, and nothing large came."""
    faded = _faded(change)
    if not faded or faded[-1].message >= last_message(step.before):
        return None
    distance = last_message(step.after) - faded[-1].message
    return Evidence(f"messages {distance} or more behind the newest were shortened in place")


HAZARD = Hazard(
    "CKM08", "recency-window-advances", "A", "error",
    requests=(RequestRule("change", _advanced, 28), RequestRule("change", _began, 35)),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
