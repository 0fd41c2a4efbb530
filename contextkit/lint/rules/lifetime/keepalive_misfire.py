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
- source: in a file that marks blocks for five minutes, a keep-alive interval that is not below them, by its name or by the call for no more
  than one token that it stands beside.
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
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import asks_nothing, by_session, left_by, limit_path, read
from contextkit.lint.rules.callsites import in_any_case, keyword
from contextkit.lint.rules.lifetimes import finds_entry_of, has_kin_head
from contextkit.lint.rules.marking import constant, module_of, says
from contextkit.lint.rules.marks import has_markers, marks_of, n_tokens
from contextkit.lint.rules.syntax import model_calls
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in

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
_OF_CACHE = re.compile(r"cache|warm", re.IGNORECASE)
_WARMER = re.compile(r"warm|keep_?alive|refresher", re.IGNORECASE)
"""Names of a class that keeps an entry alive."""
_WIRE = re.compile(
    rb"(?i)(?:^|\W)(?:ws|\w*websocket\w*|socket|sock|conn|connection|redis|sse|mqtt|channel)\b|ws_ping|\.ping\(\)"
)
"""Code that keeps a connection open."""
_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens")
_MARKS = ("cache_control", "cachePoint")
_TOO_LATE = "{} is not below the five minutes that an entry lives, counted from the start of the call before"


def _as_long_as_the_lifetime(node: ast.Assign, view: View) -> Iterator[Hit]:
    """A constant of a file that marks blocks for five minutes."""
    names = [target.id if isinstance(target, ast.Name) else getattr(target, "attr", "") for target in node.targets]
    name, value = next((name for name in names if _INTERVAL.match(name)), ""), _seconds(node.value)
    if not name or value is None or not says(view, b"cache_control", b"cachePoint") or _lives_for_an_hour(view):
        return
    if _SHORT["minute" in name.lower()] <= value < _LONG and (_OF_CACHE.search(name) or not _is_of_a_wire(name, view)):
        yield Hit(node, _TOO_LATE.format(f"`{name}`"))


def _lives_for_an_hour(view: View) -> bool:
    return says(view, b'"1h"', b"'1h'")


def _is_of_a_wire(name: str, view: View) -> bool:
    """Whether what uses an interval keeps a connection open: `await ws.ping()`.

    A setting that nothing uses may be that of the cache.
    """
    mine, used = view.function(), re.compile(rb"\b%s\b" % name.encode())
    others = (function for function in functions_in(module_of(view)) if function is not mine)
    users = [
        text for text in (view.source[slice(*view.bytes_at(function))] for function in others) if used.search(text)
    ]
    return bool(users) and all(_WIRE.search(text) for text in users)


def _of_a_warmer(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`interval = 600` of a class that is there to keep the cache warm."""
    value, above = _seconds(node.value), view.parents()
    owner = next((one.name for one in reversed(above) if isinstance(one, ast.ClassDef)), "")
    if value is not None and _SHORT[False] <= value < _LONG and _WARMER.search(owner) and not _lives_for_an_hour(view):
        yield Hit(node, _TOO_LATE.format(f"`{ast.unparse(node.targets[0])}`"))


def _sleeps_too_long(node: ast.Call, view: View) -> Iterator[Hit]:
    """`time.sleep(300)` in a loop that asks for nothing but the entry's life."""
    value, loop = _seconds(node.args[0]) if len(node.args) == 1 else None, view.loop()
    is_sleep = view.dotted(node) in ("time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep")
    if not is_sleep or value is None or loop is None or not _SHORT[False] <= value < _LONG or _lives_for_an_hour(view):
        return
    if any(map(_generates_nothing, model_calls(loop, view))):
        yield Hit(node, _TOO_LATE.format("the pause"))


def _generates_nothing(call: ast.Call) -> bool:
    return constant(keyword(call, *_LIMITS)) in (0, 1)


def _scheduled(node: ast.Call, view: View) -> Iterator[Hit]:
    """`scheduler.add_job(refresh_cache, "interval", minutes=5)`."""
    interval = _seconds(keyword(node, "minutes", "seconds") or node)
    is_minutes = keyword(node, "minutes") is not None
    names = {one.id for one in (*node.args, *(given.value for given in node.keywords)) if isinstance(one, ast.Name)}
    if interval is None or not names or not _SHORT[is_minutes] <= interval < _LONG / _SHORT[False] * _SHORT[is_minutes]:
        return
    jobs = (one for one in functions_in(module_of(view)) if one.name in names)
    if not _lives_for_an_hour(view) and any(
        _generates_nothing(call) for job in jobs for call in model_calls(job, view)
    ):
        yield Hit(node, _TOO_LATE.format("the interval"))


def _seconds(node: ast.expr) -> float | None:
    """A number, written as it is or as a product of numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _seconds(node.left), _seconds(node.right)
        return left * right if left is not None and right is not None else None
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= _FOREVER:
        return None
    return float(value)


def _misfired(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """Calls that generate nothing, after a real one of their session, and that find nothing of it."""
    for mine in by_session(calls).values():
        last: RecordedCall | None = None
        for sent in mine:
            if not asks_nothing(sent):
                last = sent
            elif last is not None and has_markers(sent) and has_kin_head(last, sent):
                found = _finding(last, sent)
                yield from (found,) if found else ()
                last = last if found else sent


def _finding(last: RecordedCall, sent: RecordedCall) -> Evidence | None:
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
    return Evidence(
        f"a call that should keep {at_stake:,} tokens warm writes instead of reading: {why}",
        path=limit_path(sent),
        sent=sent,
    )


HAZARD = Hazard(
    "CKL07",
    "keepalive-misfire",
    "A",
    "warning",
    source=(
        Pattern((ast.Assign,), _as_long_as_the_lifetime, _MARKS, also=(_NAMES,)),
        Pattern((ast.Assign,), _of_a_warmer, _MARKS, names=("interval", "INTERVAL", "interval_seconds", "period")),
        Pattern((ast.Call,), _sleeps_too_long, _MARKS, also=(("sleep",),)),
        Pattern((ast.Call,), _scheduled, _MARKS, names=("minutes", "seconds")),
    ),
    requests=(RequestRule("session", _misfired),),
    confirmed_by=("tools_changed", "system_changed", "messages_changed"),
)
