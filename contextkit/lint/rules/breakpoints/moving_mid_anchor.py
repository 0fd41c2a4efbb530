"""moving-mid-anchor: an anchor in the middle of the history is computed from its length and lands elsewhere each time.

## What it does
Finds markers whose place is a function of how long the conversation is (`len(messages) // 2`), so that no request marks a block that an
earlier one has written.

## Why it costs you
A write happens at the marked block only. An anchor that moves every turn writes a new entry each time, at 1.25 times the input price,
and the entries of the turns before lie where no marker looks, unless the new place is within twenty positions behind the old one. The
money is spent twice: once for the write, once for the read that does not come.

## Example
    anchor = len(messages) // 2
    messages[anchor]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
An anchor stays where it was written until a newer one has been written and read. `Context` marks the head, the end of the request
before when it would fall out of reach, and the new end:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096), system=SYSTEM, tools=TOOLS)
    client.messages.create(**context.request())

## Detected by
- source: a marker set at an index computed from the length of the history, other than its end.
- requests: a marker inside what was sent before, on a block that no earlier call had marked or ended with.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent.

## References
- https://github.com/looplj/axonhub/issues/2342
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.history import has_thinking, stays
from contextkit.lint.rules.marking import MARKER_KEYS, is_marker_target, resolved
from contextkit.lint.rules.marks import has_markers, in_messages, marks_of, n_tokens, reach, was_marked
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_LEAST_TOKENS = 100


def _computed_anchor(node: ast.Assign, view: View) -> Iterator[Hit]:
    for target in filter(is_marker_target, node.targets):
        for part in walk(target):
            if isinstance(part, ast.Subscript) and view.is_history(part.value) and _divides_length(part.slice, view):
                yield Hit(
                    part,
                    "the marked message is chosen by a share of the history's length, so the marker moves to a block that no "
                    "call before has written",
                )


def _divides_length(index: ast.expr, view: View) -> bool:
    """`len(messages) // 2`, `int(len(messages) * 0.7)`: another block as soon as the history has grown."""
    found = resolved(index, view) or index
    has_length = any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len" for part in walk(found)
    )
    shares = (ast.FloorDiv, ast.Div, ast.Mult)
    return has_length and any(isinstance(part, ast.BinOp) and isinstance(part.op, shares) for part in walk(found))


def _new_anchor(step: Step) -> Evidence | None:
    if not has_markers(step.after) or (step.after.row.strips_thinking and has_thinking(step.before)):
        return None  # blocks behind thoughts that were taken out are others now
    old = [mark for mark in marks_of(step.before) if in_messages(step.before, mark)]
    if not all(stays(step, step.before.blocks[mark.index]) for mark in old):
        return None  # the markers follow the ends of messages, and one of those ends has left
    seen = reach(step)
    inside = [mark for mark in marks_of(step.after) if in_messages(step.after, mark) and mark.index < seen.shared]
    moved = next((mark for mark in inside if not was_marked(step, mark.index)), None)
    if not old or moved is None or n_tokens(step.after, 0, moved.index + 1) < step.after.row.min_tokens:
        return None
    if (
        n_tokens(step.after, seen.best + 1, max(mark.index for mark in old) + 1) < _LEAST_TOKENS
        and seen.best >= moved.index
    ):
        return None
    return Evidence(
        "the marker moved to a block inside the history that no call before had marked: nothing written before is found there",
        path=moved.path,
        was=old[-1].path,
        now=moved.path,
    )


HAZARD = Hazard(
    "CKB05",
    "moving-mid-anchor",
    "A",
    "error",
    source=(
        Pattern((ast.Assign,), _computed_anchor, ("cache_control", "cachePoint"), names=tuple(sorted(MARKER_KEYS))),
    ),
    requests=(RequestRule("step", _new_anchor),),
)
