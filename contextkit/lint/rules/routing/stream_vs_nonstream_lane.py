"""Source rules of CKR09 stream-vs-nonstream-lane."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import (
    as_keywords,
    calls_in,
    has_unknown_keywords,
    is_model_call,
    keyword,
    last_name,
)
from contextkit.lint.source.rule import Hit, Pattern, View

_CARRIES = frozenset(
    {
        "prompt_cache_key",
        "cache_control",
        "extra_headers",
        "extra_body",
        "prompt_cache_retention",
        "tools",
        "system",
        "thinking",
    }
)

_STREAMS = frozenset({"stream", "converse_stream", "generate_content_stream"})


def _branches(node: ast.If, view: View) -> Iterator[Hit]:
    """Two branches ask the model, one streams, and one of them leaves out what the cache needs."""
    other_way = node.orelse or (_behind(node, view) if isinstance(node.body[-1], ast.Return) else [])
    pairs = [(a, b) for a in _asked(node.body, view) for b in _asked(other_way, view) if _streams(a) != _streams(b)]
    for one, other in pairs[:1]:
        left_out = (_given(one) ^ _given(other)) & _CARRIES
        if left_out and not has_unknown_keywords(one) and not has_unknown_keywords(other):
            poorer = one if left_out & _given(other) else other
            yield Hit(
                poorer, f"the streaming and the plain call differ in `{min(left_out)}`, so they share no cached prefix"
            )


def _behind(node: ast.If, view: View) -> list[ast.stmt]:
    """What stands behind an `if` in its block: the other way, where the `if` returns."""
    blocks = (getattr(part, name, []) for part in view.parents()[-1:] for name in ("body", "orelse", "finalbody"))
    return next((block[block.index(node) + 1 :] for block in blocks if isinstance(block, list) and node in block), [])


def _asked(body: list[ast.stmt], view: View) -> list[ast.Call]:
    return [call for call in calls_in(body) if is_model_call(call, view)]


def _streams(call: ast.Call) -> bool:
    value = keyword(call, "stream")
    return last_name(call.func) in _STREAMS or (isinstance(value, ast.Constant) and value.value is True)


def _given(call: ast.Call) -> frozenset[str]:
    return frozenset(given.arg for given in call.keywords if given.arg)


SOURCE = (
    Pattern((ast.If,), _branches, ("stream",), is_near=True, also=((*as_keywords("stream"), ".stream", "stream("),)),
)
