"""Source rules of CKB08 too-many-markers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.requests.breakpoints import MAX_BREAKPOINTS as MOST_MARKERS
from contextkit.lint.rules.callsites import as_keys, as_keywords, field, keyword, last_name
from contextkit.lint.rules.marking import MARKER_KEYS, constant, is_marker_target, literal_markers
from contextkit.lint.rules.syntax import model_calls
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.sanitizers import ONCE
from contextkit.lint.source.syntax import walk

_MANY = re.compile(
    r"(?:^|_)(?:blocks|parts|contents?|documents|docs|attachments|chunks|files|memories|memory|sections|system|tools|messages)$"
)

_LEVELS = ("tools", "system", "messages")

_AUTOMATIC = "cache_control"
"""Beside the messages: the server marks the last block, which counts."""

_TAKEN_OFF = re.compile(rb"[\"'](?:cache_control|cachePoint|cache_point)[\"'](?!\s*:)")
"""Code that names a marker other than by writing one: it may take it off."""


def _in_loop(node: ast.For, view: View) -> Iterator[Hit]:
    """A marker on every item of a collection, without a condition and without an end."""
    if not _is_collection(node.iter, view) or any(isinstance(part, ast.Break | ast.Return) for part in walk(node)):
        return
    for statement in node.body:
        is_set = isinstance(statement, ast.Assign) and any(
            _is_item(target, node.target) for target in statement.targets
        )
        if is_set or _appends_marked(statement):
            yield Hit(statement, f"every item of `{ast.unparse(node.iter)}` is marked; a request takes four markers")


def _appends_marked(statement: ast.stmt) -> bool:
    """`content.append({"type": "text", "text": text, "cache_control": MARK})`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    given = call.args[0] if isinstance(call, ast.Call) and last_name(call.func) == "append" and call.args else None
    return isinstance(given, ast.Dict) and any(constant(key) in MARKER_KEYS for key in given.keys)


def _piles_up(node: ast.Call, view: View) -> Iterator[Hit]:
    """A message with a marker is put into a history that is sent, in each turn, and the markers of those before stay."""
    held = (
        node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args else None
    )
    if (
        held is None
        or _TAKEN_OFF.search(view.source)
        or not view.is_history(held)
        or not _is_in_each_turn(node, held, view)
    ):
        return
    if next(literal_markers(node.args[0], view), None) is not None:
        yield Hit(
            node,
            f"a marker comes with every message of `{ast.unparse(held)}` and none is taken off: the fifth call is refused",
        )


def _is_in_each_turn(node: ast.Call, held: ast.expr, view: View) -> bool:
    """Whether it stands under no condition, in a loop of turns or in a method that asks the model about the object's
    own history.
    """
    function, loop = view.function(), view.loop()
    if function is None or any(isinstance(above, ast.If | ast.ExceptHandler) for above in view.parents()):
        return False
    if loop is None:
        return (
            isinstance(held, ast.Attribute)
            and function.name not in ONCE
            and not _is_begun(held, function)
            and view.calls_model()
        )
    return (
        isinstance(loop, ast.For | ast.While | ast.AsyncFor)
        and not _is_begun(held, loop)
        and bool(model_calls(loop, view))
    )


def _is_begun(held: ast.expr, around: ast.AST) -> bool:
    """Whether the history is made anew there."""
    stored = (target for part in walk(around) if isinstance(part, ast.Assign) for target in part.targets)
    return ast.unparse(held) in map(ast.unparse, stored)


def _in_comprehension(node: ast.ListComp, view: View) -> Iterator[Hit]:
    loop = node.generators[0]
    if (
        len(node.generators) == 1
        and not loop.ifs
        and isinstance(node.elt, ast.Dict)
        and _is_collection(loop.iter, view)
    ):
        marked = next((key for key in node.elt.keys if constant(key) in MARKER_KEYS), None)
        if marked is not None:
            yield Hit(marked, f"every item of `{ast.unparse(loop.iter)}` is marked; a request takes four markers")


def _is_item(target: ast.expr, item: ast.expr) -> bool:
    if not is_marker_target(target) or not isinstance(target, ast.Subscript):
        return False
    holder = target.value
    while isinstance(holder, ast.Subscript) and isinstance(
        holder.slice, ast.Constant | ast.UnaryOp
    ):  # m["content"][-1]
        holder = holder.value
    return ast.unparse(holder) == ast.unparse(item)


def _is_collection(node: ast.expr, view: View) -> bool:
    """Whether it may hold any number of blocks: by its name, or since others are unpacked into it."""
    if isinstance(node, ast.List | ast.Tuple):
        others = [item.value for item in node.elts if isinstance(item, ast.Starred)]
        return len(node.elts) > MOST_MARKERS or any(_is_collection(other, view) for other in others)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(_MANY.search(name)) and not _is_cut(name, view)


def _is_cut(name: str, view: View) -> bool:
    """Whether the function takes a slice under this name."""
    function = view.function()
    parts = walk(function) if function else iter(())
    return any(
        isinstance(part, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == name for one in part.targets)
        and any(isinstance(inner, ast.Slice) for inner in walk(part.value))
        for part in parts
    )


def _written_out(node: ast.Call | ast.Dict, view: View) -> Iterator[Hit]:
    parts = [keyword(node, name) if isinstance(node, ast.Call) else field(node, name) for name in _LEVELS]
    if parts[-1] is None:
        return
    is_automatic = (keyword(node, _AUTOMATIC) if isinstance(node, ast.Call) else field(node, _AUTOMATIC)) is not None
    n = is_automatic + sum(1 for part in parts if part is not None for _ in literal_markers(part, view))
    if n > MOST_MARKERS:
        yield Hit(node, f"{n} markers in one request, which takes {MOST_MARKERS}")


_WORDS = ("cache_control", "cachePoint", "cache_point")

SOURCE = (
    Pattern((ast.For,), _in_loop, _WORDS, is_near=True),
    Pattern((ast.Call,), _piles_up, _WORDS, is_near=True, also=((".append",),)),
    Pattern((ast.ListComp,), _in_comprehension, _WORDS, is_near=True),
    Pattern(
        (ast.Call, ast.Dict),
        _written_out,
        _WORDS,
        also=((*as_keywords("messages"), *as_keys("messages")),),
        names=("messages",),
    ),
)
