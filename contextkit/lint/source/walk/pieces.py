"""What single pieces of syntax say: the name of a target, the keys of a dict, what a list was made from.

Takes nodes, gives names and nodes; knows nothing of where the walk stands.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from contextkit.lint.source.tables import sinks

_OTHERS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef})
"""What has nodes of its own."""
_EMPTY = frozenset({ast.Load, ast.Store, ast.Del, ast.Add})
"""Nodes nobody asks for, and that stand everywhere."""


def by_type(around: ast.AST) -> dict[type, list[ast.AST]]:
    """The nodes inside one, those of functions and classes inside it left out, by their type and in order."""
    found: dict[type, list[ast.AST]] = {}
    waiting = [around]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if node is not around:
            found.setdefault(kind, []).append(node)
            if kind in _OTHERS:
                continue
        children: list[ast.AST] = []
        for name in node._fields:
            part = getattr(node, name, None)
            if type(part) is list:
                children.extend(item for item in part if isinstance(item, ast.AST))
            elif isinstance(part, ast.AST) and type(part) not in _EMPTY:
                children.append(part)
        waiting.extend(reversed(children))
    return found


def last_name(node: ast.AST) -> str:
    """The last name of a name, attribute or subscript with a constant key; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return ""


def made_from(node: ast.AST) -> list[ast.AST]:
    """The lists an expression keeps: what is copied, sliced, sorted, filtered, added."""
    if isinstance(node, ast.Subscript):
        return [node.value] if isinstance(node.slice, ast.Slice) else []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"copy", "get"}:
            return [node.func.value] if node.func.attr == "copy" else list(_got(node))
        return list(node.args[:1]) if last_name(node.func) in {"list", "sorted", "reversed", "deepcopy", "copy", "tuple", "filter"} else []
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return [node.generators[0].iter]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.List):
        return [item.value for item in node.elts if isinstance(item, ast.Starred)]
    return [node.value] if isinstance(node, ast.Await | ast.NamedExpr) else []


def _got(node: ast.Call) -> Iterator[ast.AST]:
    """`state.get("messages")` is as good as `state["messages"]`."""
    if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        yield ast.Name(node.args[0].value)


def constant_keys(node: ast.Dict) -> dict[str, ast.expr]:
    """The values of a dict display under its constant text keys."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def is_tool_definition(keys: Container[str]) -> bool:
    """Whether a dict with these keys describes a tool."""
    return "name" in keys and any(key in keys for key in sinks.SCHEMA_KEYS)


def is_model_call(name: str, last: str) -> bool:
    """Whether a call of this full name calls a model."""
    return last in sinks.MODEL_METHODS or ".".join(name.rsplit(".", 2)[-2:]) in sinks.MODEL_CALLS or name in sinks.MODEL_CALLS
