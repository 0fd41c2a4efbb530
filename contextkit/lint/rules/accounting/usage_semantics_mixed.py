"""Source rules of CKA01 usage-semantics-mixed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.facts.load import built_in_table
from contextkit.lint.rules.usages import field, holder
from contextkit.lint.source.rule import Hit, Pattern, View

_WHOLE = ("prompt_tokens", "input_tokens")

_PART = "cached_tokens"
"""OpenAI's: a part of the whole, never beside it."""

_DETAILS = tuple(built_in_table("fields.toml")["usage"]["input_details"])

_ANTHROPIC_PART = "cache_read_input_tokens"


def _added(node: ast.BinOp, view: View) -> Iterator[Hit]:
    """`usage.prompt_tokens + details.cached_tokens`.

    `usage.cache_read_input_tokens / usage.input_tokens`.
    """
    names = {field(node.left): node.left, field(node.right): node.right}
    whole = next((names[name] for name in _WHOLE if name in names), None)
    if isinstance(node.op, ast.Add) and whole is not None and _PART in names:
        inside = holder(names[_PART])
        if any(inside.endswith(detail) or f"'{detail}'" in inside or f".{detail}" in inside for detail in _DETAILS):
            yield Hit(node, f"`{ast.unparse(whole)}` holds the cached tokens already: adding them counts them twice")
    is_share = (
        isinstance(node.op, ast.Div) and field(node.left) == _ANTHROPIC_PART and field(node.right) == "input_tokens"
    )
    if is_share and holder(node.left) == holder(node.right):
        yield Hit(
            node, f"`{ast.unparse(node.right)}` leaves out what was read and written: this share can exceed 100 %"
        )


SOURCE = (Pattern((ast.BinOp,), _added, ("cached_tokens", "cache_read_input_tokens"), is_near=True),)
