"""marker-on-varying-block: the only marker sits on a block that differs in every request.

## What it does
Finds a marker on the block that carries the clock, the recall or the newest question, with no other marker on the stable part before
it. Automatic marking does the same where the last block always varies.

## Why it costs you
An entry is written at the marked block and only there; the key covers everything up to it. If the marked block varies, each request
writes an entry that no later request can match: a write at 1.25 times the input price every time (2 times with a one-hour lifetime),
and no read at all, although tools and system never moved. Stepping back from the marker does not help, because a lookup only finds
entries that some earlier request has written.

## Example
    system = [
        {"type": "text", "text": INSTRUCTIONS},
        {"type": "text", "text": f"Now: {datetime.now()}", "cache_control": {"type": "ephemeral"}},
    ]

## Use instead
The marker belongs on the last block that stays the same; what varies goes behind it. `Context` marks the end of the head and keeps
notices behind what was sent:

    system = [{"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}]
    context.notice(f"Now: {datetime.now()}")

## Detected by
- source: a value that varies flows into a block that carries a marker.
- requests: no marker before a marked block that was another one in each of three calls, or in two that wrote and read nothing.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `system_changed` or `messages_changed` say that the block moved; that the marker stood on it is not said.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#how-automatic-prefix-checking-works
- https://github.com/QwenLM/qwen-code/issues/11651
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import read, written
from contextkit.lint.rules.marks import estimated, has_markers, marks_of
from contextkit.lint.source.rule import MOVE_MARKER, Flow


def _varying(step: Step) -> Evidence | None:
    change = next((change for change in step.changes if change.is_first), None)
    if change is None or not has_markers(step.before) or not _varies_under_marker(step.before, change):
        return None
    stable = estimated(step.after, 0, change.at)
    if stable + estimated(step.before, change.at, change.at + 1) < step.after.row.min_tokens:
        return None
    if not stable:  # no marker could stand in front of it: that it varies is the hazard
        return None
    if not (_varied_before(step, change) or _writes_only(step.before, step.after)):
        return None
    path = marks_of(step.before)[0].path
    return Evidence(
        f"the first marker stands on a block that differs in every call, so nothing written there is ever read; about "
        f"{stable:,} stable tokens before it carry none",
        path=path,
    )


def _varies_under_marker(before: RecordedCall, change: Change) -> bool:
    """Whether no marker stands before the change, and one on it."""
    marks = marks_of(before)
    return bool(marks) and change.at <= marks[0].index < change.at + len(change.was)


def _varied_before(step: Step, change: Change) -> bool:
    """Whether the block was another one in the call before that, and another than it is now, marked each time."""
    if len(step.earlier) < 2 or not change.now:
        return False
    older, at = step.earlier[-2], marks_of(step.before)[0].index
    marks = marks_of(older)
    if not marks or marks[0].index != at or at >= len(step.after.blocks):
        return False
    versions = {sent.blocks[at].body for sent in (older, step.before, step.after)}
    return len(versions) == 3 and _is_same_up_to(older, step.before, change.at)


def _is_same_up_to(one: RecordedCall, other: RecordedCall, end: int) -> bool:
    return all(a.body == b.body for a, b in zip(one.blocks[:end], other.blocks[:end], strict=True))


def _writes_only(*calls: RecordedCall) -> bool:
    return all(written(sent) > 0 and read(sent) == 0 for sent in calls)


HAZARD = Hazard(
    "CKB02",
    "marker-on-varying-block",
    "D",
    "error",
    source=(
        Flow(
            ("clock", "id", "choice", "recall", "plan"),
            ("marked",),
            "{source} varies and stands in a block that carries a cache marker: what is written there is never read",
            mends=(MOVE_MARKER,),
        ),
    ),
    requests=(RequestRule("step", _varying),),
    confirmed_by=("system_changed", "messages_changed"),
)
