"""Source rules of CKS09 middleware-order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name

_MARKING = re.compile(r"Cach\w*Middleware$|PromptCach")

_VARYING = re.compile(r"(?:Memory|Recall|Notes)Middleware$")

_LIST = re.compile(r"(?:^|_)middlewares?$")

_ADDING = re.compile(
    r"(?:Skills?|Todo\w*|Planning|SubAgent|Filesystem|Context|Dynamic\w*|Prompt\w*|Instruction\w*)Middleware$"
)


def _later(given: ast.keyword, view: View) -> Iterator[Hit]:
    """A middleware that adds stable text behind the one that sets the marker, or a varying one in front of it."""
    yield from _misplaced([(_name(item), item) for item in _items(given)])


def _misplaced(items: list[tuple[str, ast.expr]]) -> Iterator[Hit]:
    names = [name for name, _ in items]
    marks = next((i for i, name in enumerate(names) if _MARKING.search(name)), -1)
    for i, (name, item) in enumerate(items if marks >= 0 else []):
        if i < marks and _VARYING.search(name):
            yield Hit(item, f"{name} comes before {names[marks]}: text that changes stands inside of what is cached")
        elif i > marks and (name == _ANY or _ADDING.search(name)) and not _MARKING.search(name):
            what = "what the caller hands over" if name == _ANY else name
            yield Hit(item, f"{what} comes behind {names[marks]}: the marker is set before the prompt is complete")


_ANY = "*"
"""Stands for middlewares that a list of another name holds."""


def _name(item: ast.expr) -> str:
    return _ANY if isinstance(item, ast.Starred) else last_name(item.func if isinstance(item, ast.Call) else item)


def _built(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A list that is filled step by step."""
    lists: dict[str, list[tuple[str, ast.expr]]] = {}
    steps = view.nodes(function, ast.Assign, ast.AnnAssign, ast.Call)
    for node in sorted(steps, key=lambda step: (getattr(step, "lineno", 0), getattr(step, "col_offset", 0))):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List):
            name = last_name(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if _LIST.search(name):
                yield from _misplaced(lists.pop(name, []))
                lists[name] = [(_name(item), item) for item in node.value.elts]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and last_name(node.func.value) in lists
            and node.args
        ):
            lists[last_name(node.func.value)] += _added(node.func.attr, node.args[0])
    for items in lists.values():
        yield from _misplaced(items)


def _added(how: str, given: ast.expr) -> list[tuple[str, ast.expr]]:
    if how == "append":
        return [(_name(given), given)]
    if how != "extend":
        return []
    return [(_name(item), item) for item in given.elts] if isinstance(given, ast.List | ast.Tuple) else [(_ANY, given)]


def _items(given: ast.keyword) -> list[ast.expr]:
    is_list = given.arg in ("middleware", "middlewares") and isinstance(given.value, ast.List | ast.Tuple)
    return given.value.elts if is_list and isinstance(given.value, ast.List | ast.Tuple) else []


SOURCE = (
    Pattern((ast.keyword,), _later, ("Middleware",), also=(("middleware",),), names=("middleware", "middlewares")),
    Pattern(FUNCTIONS, _built, ("CachingMiddleware", "PromptCach"), is_near=True),
)
