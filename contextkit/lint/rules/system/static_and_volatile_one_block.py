"""Source rules of CKS08 static-and-volatile-one-block."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Kind, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name, walk

_VOLATILE: frozenset[Kind] = frozenset({"clock", "date", "id", "recall", "plan", "user", "place", "choice", "person"})

_MOMENT = re.compile(
    r"(?:current|selected|active|visible|open)_(?:page|screen|tab|file|view|url|window)$|(?:page|screen|tab|window)_(?:title|url)$"
)
"""Names of what the user looks at."""


def _one_block(block: ast.Dict, view: View) -> Iterator[Hit]:
    """A marked block of the system whose text joins what stays and what varies."""
    keys = constant_keys(block)
    text = keys.get("text")
    if "cache_control" not in keys or text is None or not _stays(text, view):
        return
    if not view.kinds(text) & _VOLATILE and not _is_of_the_moment(text, view):
        return
    if any(_is_system(node) for node in view.parents()):
        yield Hit(
            text,
            "what stays and what varies stand in one block in front of its marker: each call writes it, none reads it",
        )


def _is_of_the_moment(text: ast.expr, view: View) -> bool:
    """Whether it holds what is on the user's screen, as a parameter's name says, in a function that a session runs more
    than once.
    """
    function = view.function()
    if function is None or function.name in sanitizers.ONCE:
        return False
    stored = [node.value for node in view.nodes(function, ast.Assign) if last_name(node.targets[0]) == last_name(text)]
    given = {
        argument.arg for argument in (*function.args.args, *function.args.kwonlyargs) if _MOMENT.match(argument.arg)
    }
    return bool(given) and any(
        isinstance(part, ast.Name) and part.id in given for value in (text, *stored) for part in walk(value)
    )


def _stays(text: ast.expr, view: View) -> bool:
    """Whether a part of it is a fixed text."""
    parts = (
        text.values
        if isinstance(text, ast.JoinedStr)
        else [text.left, text.right]
        if isinstance(text, ast.BinOp)
        else []
    )
    return any(view.is_constant(part) for part in parts) or bool(not parts and isinstance(text, ast.Name | ast.Call))


def _is_system(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return (node.arg or "").startswith("system")
    if isinstance(node, ast.Assign):
        return any("system" in words_in(target) for target in node.targets)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "system" in node.name


SOURCE = (
    Pattern((ast.Dict,), _one_block, ("cache_control",), is_near=True, also=(("text",),), names=("cache_control",)),
)
