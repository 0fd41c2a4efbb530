"""ttl-order-violation: a marker with a longer lifetime stands behind one with a shorter.

## What it does
Finds requests in which a one-hour marker follows a five-minute one in render order (tools, system, messages).

## Why it costs you
Claude bills mixed lifetimes in bands: what lies before the last one-hour marker as the long write, the rest as the short one. That only
works when the longer come first, so the reverse is a 400. Translating gateways repair the order by dropping one of the lifetimes, and
then the head that should live an hour is gone after five minutes, or everything is written at the price of the hour (2 times input
instead of 1.25).

## Example
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    last = {"type": "text", "text": question, "cache_control": {"type": "ephemeral", "ttl": "1h"}}

## Use instead
The head gets the long lifetime, the tail the short one:

    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    last = {"type": "text", "text": question, "cache_control": {"type": "ephemeral"}}
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, ttl="5m", head_ttl="1h")

## Detected by
- source: lifetimes written as literals in reverse order of tools, system and messages.
- requests: a marker with a longer lifetime behind one with a shorter.
- guard: the same, before the request leaves and is refused.
- provider: an HTTP 400 that names the order.

## References
- https://github.com/Portkey-AI/gateway/issues/1762
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.callsites import field, keyword
from contextkit.lint.rules.marking import constant, literal_markers, resolved
from contextkit.lint.rules.marks import has_markers, marks_of
from contextkit.lint.source.rule import Hit, Pattern, View

_IN_ORDER = ("tools", "system", "messages", "cache_control")
_SECONDS = {"5m": 300, "1h": 3600}


def _short_first(node: ast.Call | ast.Dict, view: View) -> Iterator[Hit]:
    parts = [(name, keyword(node, name) if isinstance(node, ast.Call) else field(node, name)) for name in _IN_ORDER]
    marks = [marker for name, part in parts if part is not None for marker in _markers(name, part, view)]
    for one, other in pairwise(marks):
        was, now = _lifetime(one, view), _lifetime(other, view)
        if was and now and was < now:
            yield Hit(
                other, "a marker with a longer lifetime follows one with a shorter lifetime: such a request is refused"
            )
            return


def _markers(name: str, part: ast.expr, view: View) -> Iterator[ast.expr]:
    return iter((part,)) if name == _IN_ORDER[-1] else literal_markers(part, view)


def _lifetime(marker: ast.expr, view: View) -> int:
    """Seconds a literal marker asks for, 0 where they are not written out."""
    found = resolved(marker, view)
    if not isinstance(found, ast.Dict) or None in found.keys:
        return 0
    ttl = field(found, "ttl")
    return _SECONDS["5m"] if ttl is None else _SECONDS.get(str(constant(resolved(ttl, view))), 0)


def _wrong_order(sent: RecordedCall) -> Evidence | None:
    if not has_markers(sent):
        return None
    late = next((pair for pair in pairwise(marks_of(sent)) if pair[0].ttl_seconds < pair[1].ttl_seconds), None)
    if late is None:
        return None
    one, other = late
    return Evidence(
        f"a marker of {other.ttl_seconds:,} s follows one of {one.ttl_seconds:,} s; longer lifetimes have to come first",
        path=other.path,
        was=one.path,
        now=other.path,
    )


HAZARD = Hazard(
    "CKB09",
    "ttl-order-violation",
    "A",
    "error",
    source=(Pattern((ast.Call, ast.Dict), _short_first, ("1h",), names=_IN_ORDER),),
    requests=(RequestRule("call", _wrong_order),),
)
