"""The end of a history beside what becomes of the rest of it: `[summary_of(messages[:-10]), *messages[-10:]]`.

Takes expressions, gives the parts that a list is put together from and what they say of the messages in front; knows no hazard.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeGuard

from contextkit.lint.rules.syntax import AnyFunction
from contextkit.lint.source.rule import View
from contextkit.lint.source.syntax import last_name, made_from, walk

_COPIES = frozenset({"copy", "deepcopy", "dict", "list", "tuple", "set", "model_dump", "to_dict", "asdict"})
"""Functions that give back what they are given, as it is."""

_ASKS = frozenset({"len", "isinstance", "bool", "any", "all"})
"""Functions that say nothing of a size or a need."""

_MORE_OR_LESS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def parts_of(node: ast.AST) -> list[ast.AST]:
    """What a list is put together from: `a`, `b` of `[*a, b]`, of `[b] + a`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*parts_of(node.left), *parts_of(node.right)]
    if isinstance(node, ast.List | ast.Tuple):
        return [
            part for item in node.elts for part in (parts_of(item.value) if isinstance(item, ast.Starred) else [item])
        ]
    return [node]


def lists_in(node: ast.AST) -> list[ast.AST]:
    """The lists that one is made from: `out` of `[system, *out[::-1]]`, not of a text that is joined."""
    return [inner for part in parts_of(node) for inner in ([part, *made_from(part)])]


def appended(node: ast.AST) -> tuple[str, ast.expr] | None:
    """List and item of `out.append(item)`, `out.insert(0, item)`; None of anything else."""
    func = node.func if isinstance(node, ast.Call) else None
    is_added = (
        isinstance(func, ast.Attribute)
        and func.attr in ("append", "insert", "appendleft")
        and isinstance(func.value, ast.Name)
    )
    return (last_name(func.value), node.args[-1]) if is_added and node.args else None  # type: ignore[union-attr, attr-defined]


def joined(parents: Sequence[ast.AST]) -> ast.AST | None:
    """The whole list that a part stands in, of the nodes around that; None where it stands alone."""
    found = None
    for parent in reversed(parents):
        if isinstance(parent, ast.List | ast.Tuple | ast.BinOp):
            found = parent
        elif not isinstance(parent, ast.Starred):
            break
    return found


def is_end(node: ast.AST) -> TypeGuard[ast.Subscript]:
    """`messages[-N:]`, `N` more than one."""
    cut = node.slice if isinstance(node, ast.Subscript) else None
    lower = cut.lower if isinstance(cut, ast.Slice) and cut.upper is None else None
    return isinstance(lower, ast.UnaryOp) and not (isinstance(lower.operand, ast.Constant) and lower.operand.value == 1)


def is_rest(node: ast.AST, end: ast.Subscript) -> bool:
    """`messages[:-N]` beside `messages[-N:]`; the first ones may be left out."""
    cut, upto = getattr(node, "slice", None), getattr(end.slice, "lower", None)
    if not isinstance(node, ast.Subscript) or not isinstance(cut, ast.Slice) or cut.upper is None or upto is None:
        return False
    return ast.unparse(cut.upper) == ast.unparse(upto) and ast.unparse(node.value) == ast.unparse(end.value)


def is_abridged(part: ast.AST, end: ast.Subscript) -> bool:
    """`[brief(m) for m in messages[:-N]]`: each message stays, in other words."""
    if not isinstance(part, ast.ListComp | ast.GeneratorExp) or not is_rest(part.generators[0].iter, end):
        return False
    said, item = part.elt, part.generators[0].target
    is_other = isinstance(said, ast.Dict) or (isinstance(said, ast.Call) and last_name(said.func) not in _COPIES)
    return is_other and any(isinstance(name, ast.Name) and name.id == last_name(item) for name in walk(said))


def is_summed_up(part: ast.AST, end: ast.Subscript, view: View) -> bool:
    """`summary_of(messages[:-N])`, there or in a variable that stands there."""
    function = view.function()
    names = {name.id for name in walk(part) if isinstance(name, ast.Name)}
    stored = (
        [one.value for one in view.nodes(function, ast.Assign) if last_name(one.targets[0]) in names]
        if function
        else []
    )
    return any(_asks_about(call, end) for said in (part, *stored) for call in walk(said) if isinstance(call, ast.Call))


def _asks_about(call: ast.Call, end: ast.Subscript) -> bool:
    return last_name(call.func) not in _COPIES and any(is_rest(given, end) for given in call.args)


def is_rare(end: ast.Subscript, view: View) -> bool:
    """Whether it is done where a test said that there is too much.

    One that has as many as are kept for its limit says so each time.
    """
    function = view.function()
    before = (
        [one for one in view.nodes(function, ast.If) if _leaves(one) and one.lineno < end.lineno] if function else []
    )
    around = [one for one in view.parents() if isinstance(one, ast.If)]
    return any(_is_about_size(one.test, end) for one in (*before, *around))


def _leaves(branch: ast.If) -> bool:
    return isinstance(branch.body[-1], ast.Return)


def _is_about_size(test: ast.expr, end: ast.Subscript) -> bool:
    kept = ast.unparse(getattr(end.slice, "lower", end)).removeprefix("-")
    for part in walk(test):
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], _MORE_OR_LESS):
            return kept not in [ast.unparse(side) for side in (part.left, *part.comparators)]
    return any(isinstance(part, ast.Call) and last_name(part.func) not in _ASKS for part in walk(test))


def is_on_its_way(node: ast.AST, held: ast.expr, function: AnyFunction, view: View) -> bool:
    """Whether a list is given back, handed on or named.

    Not where it takes the history's place for good when there was too much.
    """
    stored = [one for one in view.nodes(function, ast.Assign) if one.value is node]
    places = {ast.unparse(target).removesuffix("[:]") for one in stored for target in one.targets}
    if ast.unparse(held) not in places:
        return True
    branches = [one for one in view.nodes(function, ast.If, ast.While) if any(part is stored[0] for part in walk(one))]
    return not branches and not any(
        _leaves(one) and one.lineno < stored[0].lineno for one in view.nodes(function, ast.If)
    )
