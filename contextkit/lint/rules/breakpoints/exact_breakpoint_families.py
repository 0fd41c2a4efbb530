"""Source rules of CKB13 exact-breakpoint-families."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import inf

from contextkit.lint.rules.callsites import keyword
from contextkit.lint.rules.marking import all_keywords, assigned, constant, is_parameter, resolved, says
from contextkit.lint.source.rule import Hit, Pattern, View

_SHORT_CHARS = 4000
"""A literal shorter than this is below the 1,024 tokens that are cached at all."""

_EXACT = re.compile(r"(?:openai/)?gpt-(?:5\.[6-9]|[6-9])")
"""Names of the models that match at a breakpoint only, those the table does not know as well."""


def _without_breakpoint(node: ast.Call, view: View) -> Iterator[Hit]:
    if not view.dotted(node).endswith("responses.create") or says(view, b"prompt_cache_breakpoint"):
        return
    given = all_keywords(node, view) or {}
    name, said = constant(resolved(given.get("model"), view)), given.get("instructions")
    is_exact = isinstance(name, str) and _EXACT.match(name) is not None
    is_long = _most_characters(said, view) >= _SHORT_CHARS
    if is_exact and said is not None and is_long:
        place = said if any(one.value is said for one in node.keywords) else node
        yield Hit(
            place,
            f"{name} reads up to a breakpoint only, and `instructions` cannot carry one: every conversation writes them again",
        )


def _spread(node: ast.Call, view: View) -> Iterator[Hit]:
    """`responses.create(**params)`, the instructions among them."""
    if keyword(node, "instructions") is None:
        yield from _without_breakpoint(node, view)


def _most_characters(node: ast.expr | None, view: View, depth: int = 3) -> float:
    """How long a text is at most that is written out, in pieces or in several assignments too.

    Infinite where a part of it is not.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _most_characters(node.left, view, depth) + _most_characters(node.right, view, depth)
    if isinstance(node, ast.Name) and depth and not is_parameter(view, node.id):
        function, one = view.function(), resolved(node, view)
        values = [one] if one is not node else assigned(function, node.id) if function else []
        return max((_most_characters(value, view, depth - 1) for value in values), default=inf)
    text = constant(node)
    return len(text) if isinstance(text, str) else inf


SOURCE = (
    Pattern((ast.Call,), _without_breakpoint, ("responses.create",), names=("instructions",)),
    Pattern((ast.Call,), _spread, ("responses.create",), also=(("responses.create",), ("**",))),
)
