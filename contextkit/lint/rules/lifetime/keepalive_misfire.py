"""keepalive-misfire: the call that should keep an entry alive comes too late or is another request.

## What it does
Finds keep-alive calls with an interval as long as the lifetime, or with a body built by other code than the real ones.

## Why it costs you
A read refreshes an entry for free, but only a read. At an interval of 300 seconds the entry is gone each time the timer fires, so each
refresh is a write of everything at 1.25 times input: the cure costs more than the illness. A body with other tools, another effort or a
missing marker writes an entry of its own beside the one that was to be kept.

## Example
    KEEPALIVE_SECONDS = 300
    scheduler.every(KEEPALIVE_SECONDS, lambda: client.messages.create(model=MODEL, max_tokens=1, messages=[PING]))

## Use instead
Well below the lifetime, counted from the start of the last call, and the very bytes of the conversation:

    KEEPALIVE_SECONDS = 240
    context.receive(context.request(max_tokens=0).send(client))

## Detected by
- source: an interval that is not below the lifetime, in a file that marks blocks.
- requests: calls with no more than one token of output, too late or with another body than the conversation's, that read nothing of it.
- guard: not before sending: it compares a conversation with itself.
- provider: `tools_changed`, `system_changed` or `messages_changed` where the keep-alive asks for a comparison.

## References
- https://github.com/anima-research/connectome-host/issues/97
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.bills import asks_nothing, by_session, left_by, read
from contextkit.lint.rules.callsites import in_any_case
from contextkit.lint.rules.lifetimes import finds_entry_of, has_kin_head
from contextkit.lint.rules.marking import constant, says
from contextkit.lint.rules.marks import has_markers, marks_of, n_tokens
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.trace.rule import Evidence, RequestRule, Sent

_INTERVAL = re.compile(
    r"(?i)^_*(?:\w*cache\w*_)?(?:keep_?alive|keep_?warm|refresh|ping|heartbeat|warm\w*)\w*(?:seconds|secs|_sec|_s|interval|period|every|minutes)\w*$"
)
_NAMES = in_any_case("keep", "refresh", "ping", "heartbeat", "warm")
"""One of these stands in every name that `_INTERVAL` matches."""
_LEAST_TOKENS, _LONG = 500, 3600
_FOREVER = 1e12
"""Seconds: a longer number is no time, and may not fit into a float."""
_SHORT = {False: 300, True: 5}
"""Five minutes, in seconds and, by the name, in minutes."""


def _as_long_as_the_lifetime(node: ast.Assign, view: View) -> Iterator[Hit]:
    """A constant of a file that marks blocks for five minutes."""
    names = [target.id if isinstance(target, ast.Name) else getattr(target, "attr", "") for target in node.targets]
    name, value = next((name for name in names if _INTERVAL.match(name)), ""), _seconds(node.value)
    if not name or value is None or not says(view, b"cache_control", b"cachePoint") or says(view, b'"1h"', b"'1h'"):
        return
    if _SHORT["minute" in name.lower()] <= value < _LONG:
        yield Hit(node, f"`{name}` is not below the five minutes that an entry lives, counted from the start of the call before")


def _seconds(node: ast.expr) -> float | None:
    """A number, written as it is or as a product of numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _seconds(node.left), _seconds(node.right)
        return left * right if left is not None and right is not None else None
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= _FOREVER:
        return None
    return float(value)


def _misfired(calls: Sequence[Sent]) -> Iterator[Evidence]:
    """Calls that generate nothing, after a real one of their session, and that find nothing of it."""
    for mine in by_session(calls).values():
        last: Sent | None = None
        for sent in mine:
            if not asks_nothing(sent):
                last = sent
            elif last is not None and has_markers(sent) and has_kin_head(last, sent):
                found = _finding(last, sent)
                yield from (found,) if found else ()
                last = last if found else sent


def _finding(last: Sent, sent: Sent) -> Evidence | None:
    marks, gap = marks_of(last), sent.exchange.at - last.exchange.at
    at_stake = n_tokens(last, 0, marks[-1].index + 1) if marks else 0
    if at_stake < max(_LEAST_TOKENS, last.row.min_tokens) or (read(sent) or 0) >= 0.5 * (left_by(last) or at_stake):
        return None
    ttl = max(mark.ttl_seconds for mark in marks)
    if gap > ttl:
        why = f"{gap:,.0f} s after the last call, whose entry lived {ttl:,} s"
    elif not finds_entry_of(last, sent):
        why = "its body is not the one of the conversation"
    else:
        return None
    return Evidence(f"a call that should keep {at_stake:,} tokens warm writes instead of reading: {why}", path="max_tokens", sent=sent)


HAZARD = Hazard(
    "CKL07", "keepalive-misfire", "A", "warning",
    source=(Pattern((ast.Assign,), _as_long_as_the_lifetime, ("cache_control", "cachePoint"), also=(_NAMES,)),),
    requests=(RequestRule("session", _misfired),), confirmed_by=("tools_changed", "system_changed", "messages_changed"),
)  # fmt: skip
