"""markers-frozen-at-cap: a program that only adds markers stops at four, and the tail grows uncached.

## What it does
Finds code that sets a marker as long as fewer than four exist, and never moves one: from the fifth turn on all four stand at the front.

## Why it costs you
Anthropic, Bedrock and Qwen take four markers in a request. When none is left for the newest turn, nothing behind the fourth is ever
written, so the part of the conversation that grows is billed as fresh input on every call. The hit rate looks fine at first and sinks
with the length of the session, which is why it goes unseen.

## Example
    if count_markers(messages) < 4:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Let markers slide: one fixed behind the head, the others on the newest turns. Taking a marker off costs nothing, the key does not
contain it. `Context` plans the marks afresh for every request and leaves the blocks alone:

    unmark(messages)
    for message in (messages[-3], messages[-1]):
        mark(message)

## Detected by
- source: a marker added under a condition that compares their number with four, with no removal beside it.
- requests: the last marker stays where it is while at least two turns stand behind it.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent.

## References
- https://github.com/dhanji/g3/issues/78
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.marking import MARKER_KEYS, constant, marker_sets, takes_markers_off
from contextkit.lint.rules.marks import MOST_MARKERS, has_markers, in_messages, marks_of, n_tokens, reach
from contextkit.lint.source.rule import Hit, Pattern, View

_LIMIT = re.compile(
    r"(?i)max\w*(?:marker|breakpoint|cache|anchor)|(?:marker|breakpoint|cache|anchor)\w*(?:max|limit|budget)"
)
_LEAST_TURNS, _LEAST_TOKENS = 2, 50
_SPEAKERS = frozenset({"assistant", "model"})


def _added_while_few(node: ast.If, view: View) -> Iterator[Hit]:
    if not _compares_with_cap(node.test) or not any(marker_sets(ast.Module(node.body, []))):
        return
    function = view.function()
    if function is None or not takes_markers_off(function):
        yield Hit(
            node.test,
            "a marker is added only while there are fewer than four, and none is taken off: the newest turns go unmarked",
        )


def _compares_with_cap(test: ast.expr) -> bool:
    """`count < 4`, `len(marked) <= 3`, `n < MAX_BREAKPOINTS`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    limit, operator = test.comparators[0], test.ops[0]
    is_four = (isinstance(operator, ast.Lt) and constant(limit) == MOST_MARKERS) or (
        isinstance(operator, ast.LtE) and constant(limit) == MOST_MARKERS - 1
    )
    is_named = (
        isinstance(operator, ast.Lt)
        and isinstance(limit, ast.Name | ast.Attribute)
        and bool(_LIMIT.search(ast.unparse(limit)))
    )
    return is_four or is_named


def _frozen(step: Step) -> Evidence | None:
    if not has_markers(step.after):
        return None
    before, after = marks_of(step.before), marks_of(step.after)
    if not before or not after or before[-1].index != after[-1].index or not in_messages(step.after, after[-1]):
        return None
    last, seen = after[-1], reach(step)
    turns, left_out = _turns_behind(step.after, last.index), n_tokens(step.after, last.index + 1)
    if (
        seen.shared <= last.index
        or turns < _LEAST_TURNS
        or left_out < _LEAST_TOKENS
        or len(step.after.blocks) <= len(step.before.blocks)
    ):
        return None
    return Evidence(
        f"the last marker stays where it was while {turns} turns follow it: {left_out:,} tokens are new input each time",
        path=last.path,
    )


def _turns_behind(sent: RecordedCall, index: int) -> int:
    """Messages of the model behind a block."""
    return len({block.message for block in sent.blocks[index + 1 :] if block.role in _SPEAKERS})


HAZARD = Hazard(
    "CKB04",
    "markers-frozen-at-cap",
    "A",
    "warning",
    source=(Pattern((ast.If,), _added_while_few, ("cache_control",), also=(tuple(sorted(MARKER_KEYS)),)),),
    requests=(RequestRule("step", _frozen),),
)
