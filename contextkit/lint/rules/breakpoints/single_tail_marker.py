"""single-tail-marker: with one marker in the messages, any change behind the head loses the whole conversation.

## What it does
Finds requests whose history carries a single marker, on its last block, so that there is nothing between the head and the newest turn
to fall back to.

## Why it costs you
As long as the history only grows, one tail marker is enough. When something in the middle differs, or the provider evicts the newest
entry, the lookup falls through to the marker before it: the end of the system prompt. A session of 150,000 tokens is then read at its
10,000-token head and the rest is written again, at 1.25 times input on Claude. Two reports saw exactly the size of tools plus system
come back after every break.

## Example
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Two of the four markers on the newest two turns, one at a boundary that outlives them (the end of the head, or of a compaction).
`Context` spends one on the head and keeps the end of the request before within reach:

    for message in (messages[-3], messages[-1]):
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Detected by
- source: not visible on its own; a single marker is right for most loops.
- requests: a change in the messages, one marker behind the head and that after the change, no older entry within reach of it.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `messages_changed` names the change that did it, not the missing anchor.

## References
- https://github.com/BYK/loreai/issues/1155
- https://github.com/microsoft/vscode/issues/315505
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import read
from contextkit.lint.rules.marks import has_markers, in_messages, marks_of, n_head, n_tokens, reach

_LEAST_TOKENS = 1000
_ABOUT = 1.2


def _nothing_between(step: Step) -> Evidence | None:
    change = next((change for change in step.changes if change.is_first), None)
    if change is None or change.level != "messages" or not change.is_cached or not has_markers(step.after):
        return None
    if _n_in_messages(step.before) != 1 or _n_in_messages(step.after) > 1:
        return None
    head, seen = n_head(step.before), reach(step)
    kept = n_tokens(step.after, head, change.at)
    if seen.best >= head or kept < _LEAST_TOKENS or not _is_billed_so(step.after, head):
        return None
    return Evidence(
        f"{kept:,} tokens of the messages did not change, but the only marker behind the head stood after the change: they are "
        "billed again",
        path=step.after.blocks[change.at - 1].path,
    )


def _n_in_messages(sent: RecordedCall) -> int:
    return sum(in_messages(sent, mark) for mark in marks_of(sent))


def _is_billed_so(sent: RecordedCall, head: int) -> bool:
    got = read(sent)
    return got is None or got <= _ABOUT * n_tokens(sent, 0, head)


HAZARD = Hazard(
    "CKB06",
    "single-tail-marker",
    "A",
    "warning",
    requests=(RequestRule("step", _nothing_between),),
    confirmed_by=("messages_changed",),
)
