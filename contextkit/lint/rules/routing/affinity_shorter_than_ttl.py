"""Source rules of CKR02 affinity-shorter-than-ttl."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import in_any_case, last_name
from contextkit.lint.source.rule import Hit, Pattern, View

_PIN = re.compile(
    r"(?:sticky|affinity|pin|pinned)_(?:\w+_)?(?:ttl|seconds|secs|timeout|expiry|lifetime)(?:_\w+)?$|^default_in_memory_ttl$",
    re.IGNORECASE,
)

_PIN_WORDS = in_any_case("sticky", "affinity", "pin", "in_memory_ttl")
"""One of these stands in every name that `_PIN` matches."""

_LONG = (b'"ttl": "1h"', b"'ttl': '1h'", b'ttl="1h"', b"ttl='1h'", b'"ttl":"1h"')

_HOUR = 3600


def _short_pin(node: ast.Assign | ast.keyword, view: View) -> Iterator[Hit]:
    """`STICKY_SECONDS = 300` beside markers of an hour."""
    names = [node.arg or ""] if isinstance(node, ast.keyword) else [last_name(target) for target in node.targets]
    value = node.value.value if isinstance(node.value, ast.Constant) else None
    seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if 0 < seconds < _HOUR and any(map(_PIN.search, names)) and any(words in view.source for words in _LONG):
        yield Hit(node.value, f"the pin ends after {seconds} seconds, while the markers of this file pay for an hour")


SOURCE = (Pattern((ast.Assign, ast.keyword), _short_pin, ("1h",), also=(_PIN_WORDS,)),)
