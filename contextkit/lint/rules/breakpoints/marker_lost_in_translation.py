"""Source rules of CKB10 marker-lost-in-translation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import field
from contextkit.lint.rules.marking import constant
from contextkit.lint.source.rule import Hit, Pattern, View

_BLOCK_KEYS = ("type", "text")


def _rebuilt(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"type": block["type"], "text": block["text"]}` in a file that marks blocks elsewhere."""
    if not len(_BLOCK_KEYS) <= len(node.keys) <= 4 or None in node.keys:
        return
    copied = [value for key, value in zip(node.keys, node.values, strict=True) if _is_copied(constant(key), value)]
    if len(copied) != len(node.keys) or not all(field(node, name) is not None for name in _BLOCK_KEYS):
        return
    function = view.function()
    if (
        len({ast.unparse(_holder(value)) for value in copied}) == 1
        and function is not None
        and b"cache_control" not in _text(function)
    ):
        yield Hit(node, "a block is rebuilt from fields it names, so a `cache_control` it carried is left out")


def _is_copied(key: object, value: ast.expr) -> bool:
    """Whether a key takes the value the same key has elsewhere."""
    if isinstance(value, ast.Subscript):
        return constant(value.slice) == key
    if (
        not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
        or value.func.attr != "get"
        or not value.args
    ):
        return False
    return constant(value.args[0]) == key and (key != "type" or len(value.args) == 1)


def _holder(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.value
    return value.value if isinstance(value, ast.Subscript) else value


def _text(function: ast.AST) -> bytes:
    return ast.unparse(function).encode("utf-8", "replace")


SOURCE = (Pattern((ast.Dict,), _rebuilt, ("cache_control",), also=(("text",),)),)
