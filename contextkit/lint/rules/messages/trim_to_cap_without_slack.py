"""trim-to-cap-without-slack: trimming stops exactly at the limit, so a few calls later it has to trim again.

## What it does
While the history is larger than a cap, the oldest messages are removed. The loop ends as soon as the cap is met; the
next answers exceed it again, and every second or third request loses its front.

## Why it costs you
Each trim breaks the prefix at the first message. A session near its limit pays the write price (1.25 times input on
Anthropic) for nearly its whole window every few calls, just when the window is as large as it gets. Trimmed to half,
the same session would trim once in many calls and read at a tenth in between.

## Example
    while n_tokens(messages) > CAP:
        messages.pop(0)
    client.messages.create(model=MODEL, max_tokens=1024, messages=messages)

## Use instead
Two marks: begin at the high one, go down to the low one.

    if n_tokens(messages) > HIGH:
        while n_tokens(messages) > LOW:              # for instance half of HIGH
            messages.pop(0)

How far to go down follows from prices: the rewrite costs 1.25 times what is kept, and the more turns share it the
better. In contextkit the cut is `context.compact(summary, keep_from=entry)`, and the report lists what each
compaction cost.

## Detected by
- source: a loop that pops from the front of a history until a size is no longer above one limit.
- requests: the front of the messages jumps every few calls while the total stays near one value.
- guard: the front has moved, before the call leaves; the pattern shows after several.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/zeroclaw-labs/zeroclaw/issues/10674
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import cuts
from contextkit.lint.rules.syntax import inside, last_name
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _again(step: Step, change: Change) -> Evidence | None:
    """The front was cut, then kept for some calls, and is cut now."""
    if change.level != "messages" or len(step.earlier) < 3:
        return None
    lost = cuts(step)
    last = next((back for back, n in enumerate(reversed(lost[:-1]), 1) if n), 0)
    if not lost[-1] or last < 2:
        return None
    return Evidence(f"the front of the history was cut {last} calls ago, and is cut again by {lost[-1]} block{'s' * (lost[-1] > 1)}")


# In code --------------------------------------------------------------------------------------------------------------------------

_FRONT = (0, 1, 2)


def _to_the_cap(loop: ast.While, view: View) -> Iterator[Hit]:
    """Messages are dropped from the front until one limit is met, which is also where it begins."""
    test = loop.test.values[0] if isinstance(loop.test, ast.BoolOp) else loop.test
    is_above = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Gt | ast.GtE) and not _is_nothing(test.comparators[0])
    if not is_above or not any(_drops(node, view) for node in inside(loop)) or _is_low(test):
        return
    if not any(isinstance(node, ast.If) and isinstance(node.test, ast.Compare) for node in view.parents()):
        yield Hit(loop.test, "trimming stops where it began: a few calls later the front of the history moves again")


def _is_nothing(limit: ast.expr) -> bool:
    """`while len(messages) > 0`: that is no cap."""
    return isinstance(limit, ast.Constant) and limit.value in (0, 1)


def _drops(node: ast.AST, view: View) -> bool:
    """`messages.pop(0)`, `messages.popleft()`, `del messages[0]`, `messages = messages[1:]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pop", "popleft"):
        at = node.args[0] if node.args else None
        is_first = node.func.attr == "popleft" or (isinstance(at, ast.Constant) and at.value in _FRONT)
        return is_first and view.is_history(node.func.value)
    if isinstance(node, ast.Delete) and isinstance(node.targets[0], ast.Subscript):
        at = node.targets[0].slice
        return isinstance(at, ast.Constant) and at.value in _FRONT and view.is_history(node.targets[0].value)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and isinstance(node.value.slice, ast.Slice):
        lower = node.value.slice.lower
        return isinstance(lower, ast.Constant) and view.is_history(node.value.value) and view.is_history(node.targets[0])
    return False


def _is_low(test: ast.expr) -> bool:
    """Whether the limit is named as the lower of two."""
    words = " ".join(last_name(part) for part in walk(test)).lower()
    return any(word in words for word in ("low", "target", "half"))


HAZARD = Hazard(
    "CKM05", "trim-to-cap-without-slack", "A", "warning",
    source=(Pattern((ast.While,), _to_the_cap, ("pop(", "popleft(", "del ", "[1:]", "[2:]"), is_near=True),),
    requests=(RequestRule("change", _again, 45),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
