"""Source rules of CKT10 tool-defs-re-rendered."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import last_name
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_AGAIN = re.compile(
    r"^_*(?:\w+_)?(?:refresh|reconnect|reload|restart|rebuild|resync|re_?register|re_?initiali[sz]e)(?:_\w+)?$|^_*(?:on|handle)_(?:\w+_)?(?:list_)?changed$"
)

_IN_AGAIN = ("refresh", "reconnect", "reload", "restart", "rebuild", "resync", "register", "initiali", "changed")
"""One of these stands in every name that `_AGAIN` matches."""

_OWNERS = ("self", "cls", "session", "state")

_COPIES = ("list", "dict", "set", "tuple", "sorted", "get", "copy", "deepcopy")


def _again(node: ast.FunctionDef | ast.AsyncFunctionDef, view: View) -> Iterator[Hit]:
    """A handler for refresh or reconnect that fills the tools again."""
    if not _AGAIN.match(node.name):
        return
    for part in walk(node):
        if isinstance(part, ast.Assign) and _is_made(part.value) and any(map(_is_kept_tools, part.targets)):
            yield Hit(part, f"`{node.name}` makes the tool definitions anew; what comes out may have other bytes")


def _is_kept_tools(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and bool(sinks.TOOLS.match(target.attr))
        and last_name(target.value) in _OWNERS
    )


def _is_made(value: ast.expr) -> bool:
    inner = value.value if isinstance(value, ast.Await) else value
    if isinstance(inner, ast.ListComp | ast.DictComp):
        return True
    return isinstance(inner, ast.Call) and last_name(inner.func) not in _COPIES


SOURCE = (Pattern((ast.FunctionDef, ast.AsyncFunctionDef), _again, _IN_AGAIN, is_near=True),)
