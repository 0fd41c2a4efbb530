"""Source rules of CKL07 keepalive-misfire."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import in_any_case, keyword
from contextkit.lint.rules.marking import constant, module_of, says
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


SOURCE = (
    Pattern((ast.Assign,), _as_long_as_the_lifetime, _MARKS, also=(_NAMES,)),
    Pattern((ast.Assign,), _of_a_warmer, _MARKS, names=("interval", "INTERVAL", "interval_seconds", "period")),
    Pattern((ast.Call,), _sleeps_too_long, _MARKS, also=(("sleep",),)),
    Pattern((ast.Call,), _scheduled, _MARKS, names=("minutes", "seconds")),
)
