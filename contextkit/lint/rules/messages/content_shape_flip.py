"""Source rules of CKM10 content-shape-flip."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from contextkit.lint.rules.callsites import span_of, statements, uses_of
from contextkit.lint.rules.syntax import text_in, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, functions_in, last_name

_STRAIGHT = re.compile(rb"^[ \t]*(?:from|import) anthropic\b", re.MULTILINE)
"""Anthropic's own client: nothing stands between that tells a string from one text block."""


def _wrapped(branch: ast.If, view: View) -> Iterator[Hit]:
    """A string becomes a list of one block where it gets a marker, and only there."""
    marked = [node for node in branch.body if _is_marked_block(node)]
    if not marked or _STRAIGHT.search(view.source):
        return
    said = words_in(branch.test).split()
    if "isinstance" in said and "str" in said and "system" not in text_in(branch.test) and not _marks_system_only(view):
        why = "content becomes a list only where it gets a marker: without it the same text is a string again"
        yield from (Hit(node, why) for node in marked)


def _is_marked_block(node: ast.stmt) -> bool:
    """`message["content"] = [{"text": …, "cache_control": …}]`."""
    if (
        not isinstance(node, ast.Assign)
        or last_name(node.targets[0]) != "content"
        or not isinstance(node.value, ast.List)
    ):
        return False
    blocks = (constant_keys(item) for item in node.value.elts if isinstance(item, ast.Dict))
    return any({"text", "cache_control"} <= keys.keys() for keys in blocks)


def _marks_system_only(view: View) -> bool:
    """Whether the function around is called for system messages alone, which are marked in every request alike."""
    function, around = view.function(), view.parents()
    if function is None or not around:
        return False
    uses = uses_of(function, view)
    callers = [one for one in functions_in(around[0]) if _holds_any(span_of(one.body, view), uses)] if uses else []
    spans = [
        span_of(branch.body, view) for one in callers for branch in statements(one.body) if _is_about_system(branch)
    ]
    return bool(uses) and all(any(_holds_any(span, [use]) for span in spans) for use in uses)


def _holds_any(span: tuple[int, int], places: list[int]) -> bool:
    return any(span[0] <= place < span[1] for place in places)


def _is_about_system(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and "system" in text_in(node.test)


SOURCE = (Pattern((ast.If,), _wrapped, ("cache_control",), is_near=True),)
