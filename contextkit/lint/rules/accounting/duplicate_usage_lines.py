"""duplicate-usage-lines: the same usage stands in several lines of a log and is counted several times.

## What it does
Finds logs in which one call's usage is repeated: Claude Code writes a line per content block with the same figures, Codex repeats its
token count.

## Why it costs you
Nothing is lost from the cache; the sum is wrong. A reply with thinking, text and two tool calls is four lines, so its tokens count four
times: totals are two to four times too high, the reads most of all. The hit rate stays plausible, because it is a ratio, and so the
mistake lives long.

## Example
    total = sum(line["message"]["usage"]["cache_read_input_tokens"] for line in lines if "message" in line)

## Use instead
Count a call once, by its ids, or take differences of a running total. A contextkit ledger holds one row per call:

    calls = {(line["requestId"], line["message"]["id"]): line["message"]["usage"] for line in lines if "requestId" in line}
    total = sum(usage["cache_read_input_tokens"] for usage in calls.values())

## Detected by
- source: a sum of usage fields over the lines of a session file, without a key that removes repetitions.
- requests: the same id, or the same prompt with the same bill, in two rows.
- guard: not affected: it sees each call once.
- provider: silent.

## References
- PyPI claude-session-diagnostics, its parser of session files
- https://github.com/ryoppippi/ccusage (README of its Codex adapter)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from contextkit.facts.load import built_in_table
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import counted
from contextkit.lint.rules.lifetimes import expired
from contextkit.lint.rules.marks import reach
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_COUNTERS = frozenset(built_in_table("fields.toml")["usage"]["transcript"])
_KEYS = ("requestId", "request_id", "seen", "dedup", "unique", "message_id", "already")
"""Words of code that counts a call once."""


def _summed(node: ast.Call | ast.AugAssign, view: View) -> Iterator[Hit]:
    """`sum(line["message"]["usage"]["output_tokens"] for line in lines)`, `total += line["message"]["usage"][…]` in a
    loop.
    """
    value = _summand(node, view)
    if value is None or not _is_usage_of_a_line(value):
        return
    around = ast.unparse(view.function() or node)
    if not any(word in around for word in _KEYS):
        yield Hit(node, "a session file holds a call's usage once for each content block; this sum counts it each time")


def _summand(node: ast.Call | ast.AugAssign, view: View) -> ast.expr | None:
    if isinstance(node, ast.AugAssign):
        return node.value if isinstance(node.op, ast.Add) and view.loop() is not None else None
    given = node.args[0] if node.args and isinstance(node.func, ast.Name) and node.func.id == "sum" else None
    return given.elt if isinstance(given, ast.GeneratorExp | ast.ListComp) else None


def _is_usage_of_a_line(value: ast.expr) -> bool:
    """Whether it is `…["message"]["usage"]["…_tokens"]`, as Claude Code writes its lines."""
    said = {part.value for part in walk(value) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return {"message", "usage"} <= said and bool(said & _COUNTERS)


def _billed_again(step: Step) -> Evidence | None:
    """The same prompt with the same bill, writes and output included: a second call would have read what the first
    wrote.
    """
    usage = step.after.usage
    if usage is None or usage != step.before.usage or not usage.output or counted(usage) == 0 or step.changes:
        return None
    if expired(step):
        return None  # what the first wrote was over: a second call wrote it again
    is_same = len(step.after.blocks) == len(step.before.blocks) == reach(step).shared
    has_written = bool(usage.write_5m or usage.write_1h)
    if not is_same or not (has_written or step.gap_seconds == 0):
        return None
    return Evidence("the same prompt stands here again with the same bill: one call, recorded twice", path="usage")


def _same_id(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    seen: set[str] = set()
    for sent in calls:
        if sent.exchange.id and sent.exchange.id in seen and sent.usage is not None and counted(sent.usage):
            yield Evidence("a call of this id was billed before: one call, recorded twice", path="usage", sent=sent)
        seen.add(sent.exchange.id)


HAZARD = Hazard(
    "CKA02",
    "duplicate-usage-lines",
    "C",
    "note",
    source=(Pattern((ast.Call, ast.AugAssign), _summed, ("_tokens",), is_near=True),),
    requests=(RequestRule("step", _billed_again), RequestRule("session", _same_id)),
)
