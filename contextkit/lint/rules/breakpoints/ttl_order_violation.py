"""Source rules of CKB09 ttl-order-violation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from contextkit.lint.rules.callsites import field, keyword
from contextkit.lint.rules.marking import constant, literal_markers, resolved
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


SOURCE = (Pattern((ast.Call, ast.Dict), _short_first, ("1h",), names=_IN_ORDER),)
