"""Source rules of CKB11 below-minimum."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keywords, has_unknown_keywords, keyword
from contextkit.lint.rules.marking import constant, literal_markers, resolved
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.models import find_model

_CLEARLY = 0.8
"""Share of the minimum below which an estimate by size leaves no doubt."""


def _short_text(node: ast.Call, view: View) -> Iterator[Hit]:
    """The only marker of a call stands behind literal text that is too short for the model named beside it."""
    name = constant(resolved(keyword(node, "model"), view))
    row = find_model(name) if isinstance(name, str) else None
    system, messages = resolved(keyword(node, "system"), view), keyword(node, "messages")
    if (
        row is None
        or row.cache != "breakpoints"
        or not isinstance(system, ast.List)
        or keyword(node, "tools", "cache_control") is not None
    ):
        return
    marks, texts = list(literal_markers(system, view)), [_text(part, view) for part in system.elts]
    if (
        not marks
        or has_unknown_keywords(node)
        or None in texts
        or messages is None
        or any(literal_markers(messages, view))
    ):
        return
    if not isinstance(messages, ast.List):
        return
    size = sum(len(text.encode()) for text in texts if text is not None) / row.bytes_per_token
    if size < _CLEARLY / 2 * row.min_tokens:
        yield Hit(marks[0], f"about {size:,.0f} tokens are marked, and {name} caches nothing below {row.min_tokens:,}")


def _text(part: ast.expr, view: View) -> str | None:
    """The words of a literal block, None where they are not written out."""
    value = (
        next((value for key, value in zip(part.keys, part.values, strict=True) if constant(key) == "text"), None)
        if isinstance(part, ast.Dict)
        else None
    )
    said = constant(resolved(value, view)) if value is not None else None
    return said if isinstance(said, str) else None


SOURCE = (
    Pattern(
        (ast.Call,),
        _short_text,
        ("cache_control",),
        also=(as_keywords("model"), as_keywords("system"), as_keywords("messages")),
        names=("model",),
    ),
)
