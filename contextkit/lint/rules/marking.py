"""How code marks blocks and sends them: literal markers, assignments to markers, what a name stands for, one question or a conversation.

Takes nodes of Python's `ast` and the view of the walk, answers questions about them; knows no hazard.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.source.rule import View
from contextkit.lint.source.sinks import PER_TURN
from contextkit.lint.source.syntax import cached, children, walk

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

MARKER_KEYS = frozenset({"cache_control", "cachePoint", "cache_point"})

_BLANK = ast.Pass()


def constant(node: ast.AST | None) -> object:
    """What a literal says, None where it is none."""
    return node.value if isinstance(node, ast.Constant) else None


def says(view: View, *words: bytes) -> bool:
    """Whether one of the words stands anywhere in the file."""
    return any(word in view.source for word in words)


def module_of(view: View) -> ast.AST:
    """The file."""
    above = view.parents()
    return above[0] if above else _BLANK


def runs_again(view: View) -> bool:
    """Whether the code runs again and again in a conversation: in a loop, or in a function of such a name."""
    function = view.function()
    return view.loop() is not None or (function is not None and bool(PER_TURN.match(function.name)))


def is_parameter(view: View, name: str) -> bool:
    """Whether the function around takes an argument of this name."""
    function = view.function()
    if function is None:
        return False
    args = function.args
    return any(arg.arg == name for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))


def assigned(scope: ast.AST, name: str) -> list[ast.expr]:
    """Every expression that is assigned to a name inside a node."""
    return _assignments(scope).get(name, [])


@cached(4)
def _assignments(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """Name → every expression that is assigned to it inside a node."""
    found: dict[str, list[ast.expr]] = {}
    for part in walk(scope):
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            for target in _targets(part):
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(part.value)
    return found


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def resolved(node: ast.expr | None, view: View) -> ast.expr | None:
    """What a name stands for where it is assigned once, in this function or at the top of the file.

    Any other expression itself.
    """
    if not isinstance(node, ast.Name) or is_parameter(view, node.id):
        return node
    function = view.function()
    inside = assigned(function, node.id) if function else []
    found = inside or [value for part in children(module_of(view)) for value in _at_top(part, node.id)]
    return found[0] if len(found) == 1 else node


def in_class(node: ast.Attribute, view: View) -> ast.expr | None:
    """What `self.NAME` or `cls.NAME` stands for where the class's body says it and no method sets it.

    None elsewhere, and for a field.
    """
    around = next((part for part in reversed(view.parents()) if isinstance(part, ast.ClassDef)), None)
    if around is None or not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
        return None
    stored = [part for part in walk(around) if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None]
    if any(
        isinstance(target, ast.Attribute) and target.attr == node.attr for part in stored for target in _targets(part)
    ):
        return None
    return next(
        (value for part in around.body if isinstance(part, ast.Assign) for value in _at_top(part, node.attr)), None
    )


def all_keywords(call: ast.Call, view: View) -> dict[str, ast.expr] | None:
    """What a call is given by name, also by a dict that is written out: `create(**request)`.

    None where that is not known.
    """
    found = {given.arg: given.value for given in call.keywords if given.arg}
    for spread in (given.value for given in call.keywords if given.arg is None):
        known = _entries(resolved(spread, view))
        if known is None:
            return None
        found |= known
        if isinstance(spread, ast.Name):
            later = _set_later(spread.id, view)
            if later is None:
                return None
            found |= later
    return found


def _entries(node: ast.expr | None) -> dict[str, ast.expr] | None:
    """Those of a dict that is written out, `dict(model=…)` too; None where not all of them are."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        found = {given.arg: given.value for given in node.keywords if given.arg}
        return found if len(found) == len(node.keywords) else None
    if not isinstance(node, ast.Dict) or not all(isinstance(constant(key), str) for key in node.keys):
        return None
    return {str(constant(key)): value for key, value in zip(node.keys, node.values, strict=True)}


def _set_later(name: str, view: View) -> dict[str, ast.expr] | None:
    """`request["tools"] = tools`; None where it is filled in another way as well."""
    function = view.function()
    found: dict[str, ast.expr] = {}
    for part in walk(function) if function else ():
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(func, ast.Attribute) and _is_name(func.value, name) and func.attr != "get":
            return None
        given = [*part.args, *(one.value for one in part.keywords if one.arg)] if isinstance(part, ast.Call) else []
        if any(_is_name(one, name) for one in given):
            return None
        if isinstance(part, ast.AugAssign) and _is_name(part.target, name):
            return None
        targets = part.targets if isinstance(part, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Subscript) and _is_name(target.value, name) and isinstance(part, ast.Assign):
                found[str(constant(target.slice) or "")] = part.value
    return None if "" in found else found


def _at_top(part: ast.AST, name: str) -> list[ast.expr]:
    if not isinstance(part, ast.Assign | ast.AnnAssign) or part.value is None:
        return []
    return [part.value for target in _targets(part) if _is_name(target, name)]


def grows(view: View, name: str) -> bool:
    """Whether something is put into a list of this name in the function around."""
    function = view.function()
    inside = walk(function) if function else iter(())
    return any(
        (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in ("append", "extend", "insert")
            and _is_name(part.func.value, name)
        )
        or (isinstance(part, ast.AugAssign) and _is_name(part.target, name))
        for part in inside
    )


def is_single_shot(node: ast.expr, view: View) -> bool:
    """Whether messages are written out where they are sent: one question, no conversation."""
    found = resolved(node, view)
    if not isinstance(found, ast.List) or any(isinstance(item, ast.Starred) for item in found.elts):
        return False
    return not (isinstance(node, ast.Name) and grows(view, node.id))


def marker_sets(scope: ast.AST) -> Iterator[ast.Assign]:
    """Assignments to a marker: `block["cache_control"] = …`."""
    return (part for part in walk(scope) if isinstance(part, ast.Assign) and any(map(is_marker_target, part.targets)))


def is_marker_target(node: ast.expr) -> bool:
    """Whether it is `…["cache_control"]`."""
    return isinstance(node, ast.Subscript) and constant(node.slice) in MARKER_KEYS


def takes_markers_off(scope: ast.AST) -> bool:
    """Whether a marker is removed somewhere inside."""
    return any(map(_removes_marker, walk(scope)))


def _removes_marker(node: ast.AST) -> bool:
    if isinstance(node, ast.Delete):
        return any(map(is_marker_target, node.targets))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "pop":
        return False
    return bool(node.args) and constant(node.args[0]) in MARKER_KEYS


def literal_markers(node: ast.AST, view: View, depth: int = 3) -> Iterator[ast.expr]:
    """Values of `cache_control` in what is written out in an expression, names followed, in the order they are read."""
    if isinstance(node, ast.Name) and depth:
        found = resolved(node, view)
        if found is not None and found is not node:
            yield from literal_markers(found, view, depth - 1)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if constant(key) in MARKER_KEYS:
                yield value
            else:
                yield from literal_markers(value, view, depth)
    elif isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from literal_markers(item, view, depth)
