"""How code reads the counters of a usage: which field, and of what.

Takes nodes of Python's `ast`, answers questions about them; knows no hazard.
"""

from __future__ import annotations

import ast

from contextkit.lint.rules.marking import constant


def _number(node: ast.AST) -> ast.AST:
    """`x` of `int(x)`."""
    is_cast = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1
    )
    return node.args[0] if is_cast and isinstance(node, ast.Call) else node


def field(node: ast.AST) -> str:
    """The last attribute, key or first argument of `.get` of a chain, or of `getattr`.

    Of `x or 0`, `int(x)`, `x if y else 0` that of x.

    Empty for anything else.
    """
    node = _number(node)
    if isinstance(node, ast.BoolOp):
        return field(node.values[0])
    if isinstance(node, ast.IfExp):
        return field(node.body) or field(node.orelse)
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return str(constant(node.slice) or "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return str(constant(node.args[0]) or "")
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
    ):
        return str(constant(node.args[1]) or "")
    return ""


def holder(node: ast.AST) -> str:
    """What a field is asked of, as written: `reply.usage` of `reply.usage.input_tokens`."""
    node = _number(node)
    if isinstance(node, ast.BoolOp):
        return holder(node.values[0])
    if isinstance(node, ast.IfExp):
        return holder(node.body) or holder(node.orelse)
    if isinstance(node, ast.Attribute | ast.Subscript):
        return ast.unparse(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return ast.unparse(node.func.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and node.args:
        return ast.unparse(node.args[0])
    return ""


def root(node: ast.AST) -> str:
    """The first name of a chain of attributes, keys and calls: `usage` in `usage.details["cached"]` and in
    `getattr(usage, "details")`.
    """
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        is_asked = (
            isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name) and node.func.id == "getattr"
        )
        node = (
            node.args[0]
            if is_asked and isinstance(node, ast.Call)
            else node.func
            if isinstance(node, ast.Call)
            else node.value
        )
    return node.id if isinstance(node, ast.Name) else ""
