"""Source rules of CKM19 image-re-encoded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, inside, keyword, messages_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk


def _each_time(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Images of a history are resized or saved again while it is written."""
    names = messages_of(function, view)
    for node in inside(function) if names else ():
        if isinstance(node, ast.For | ast.ListComp) and any(name in names for name in _targets(node)):
            yield from (
                Hit(call, "images of the history are made anew for each request: other bytes at the same place")
                for call in inside(node)
                if isinstance(call, ast.Call) and _encodes(call) and _moves(call, node)
            )


_PLACED = re.compile(
    r"(?:^|_)(?:i|idx|index|place|position|recent|last|newest|old|older|age|turns?|remaining|budget|total|tier)(?:_|$)"
)
"""Names of what differs from request to request for the same message."""


def _moves(call: ast.Call, loop: ast.AST) -> bool:
    """Whether how it is made depends on where the message stands, or on what else is sent: the same again gives the
    same bytes.
    """
    tests = [
        node.test
        for node in walk(loop)
        if isinstance(node, ast.If | ast.IfExp) and any(part is call for part in walk(node))
    ]
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(_PLACED.search(word) for node in (*tests, *given) for word in _names_in(node))


def _names_in(node: ast.AST) -> list[str]:
    """The variables in an expression."""
    return [part.id for part in walk(node) if isinstance(part, ast.Name)]


def _targets(node: ast.For | ast.ListComp) -> list[str]:
    target = node.target if isinstance(node, ast.For) else node.generators[0].target
    return [part.id for part in walk(target) if isinstance(part, ast.Name)]


def _encodes(call: ast.Call) -> bool:
    """`picture.resize(…)`, `picture.thumbnail(…)`, `picture.save(…, quality=70)`."""
    name = last_name(call.func)
    return name in ("resize", "thumbnail", "resize_image", "compress_image") or (name == "save" and _has_quality(call))


def _has_quality(call: ast.Call) -> bool:
    return keyword(call, "quality", "format") is not None


SOURCE = (Pattern(FUNCTIONS, _each_time, ("resize", "thumbnail", "quality=", "compress_image"), also=(IN_HISTORY,)),)
