"""Source rules of CKT06 deferred-tool-promoted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import last_name, mentions, text_of
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_PROMOTES = re.compile(r"^_*(?:promote|undefer|inline|activate_deferred|load_deferred)(?:_\w*tools?\w*)?$")

_TOOLS = re.compile(r"tool|catalog|registry", re.IGNORECASE)


def _call(node: ast.Call, view: View) -> Iterator[Hit]:
    """`registry.promote(name)`, `tool.pop("defer_loading")`."""
    if not isinstance(node.func, ast.Attribute) or _is_once(view):
        return
    is_promotion = _PROMOTES.match(node.func.attr) and any(
        mentions(part, _TOOLS) for part in (node.func.value, *node.args)
    )
    is_pop = node.func.attr == "pop" and bool(node.args) and text_of(node.args[0]) == "defer_loading"
    if is_promotion or (is_pop and view.loop() is None):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _flag(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`tool["defer_loading"] = False`."""
    is_off = isinstance(node.value, ast.Constant) and node.value.value is False
    if is_off and any(last_name(target) == "defer_loading" for target in node.targets) and not _is_once(view):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _deleted(node: ast.Delete, view: View) -> Iterator[Hit]:
    """`del tool["defer_loading"]`."""
    is_flag = any(isinstance(target, ast.Subscript) and last_name(target) == "defer_loading" for target in node.targets)
    if is_flag and (view.loop() is None or _is_for_some(view)) and not _is_once(view):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _is_for_some(view: View) -> bool:
    """`if tool["name"] in found:` around it.

    A loop that takes the flag from all tools makes copies for another provider.
    """
    tests = (
        part
        for one in view.parents()
        if isinstance(one, ast.If)
        for part in walk(one.test)
        if isinstance(part, ast.Compare)
    )
    return any(isinstance(test.ops[0], ast.In) and not isinstance(test.left, ast.Constant) for test in tests)


def _is_once(view: View) -> bool:
    function = view.function()
    return function is None or function.name in sanitizers.ONCE


SOURCE = (
    Pattern((ast.Call,), _call, ("promote", "defer", "inline_"), is_near=True),
    Pattern((ast.Assign,), _flag, ("defer",), is_near=True, names=("defer_loading",)),
    Pattern((ast.Delete,), _deleted, ("defer_loading",), is_near=True),
)
