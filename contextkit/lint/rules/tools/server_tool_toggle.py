"""Source rules of CKT13 server-tool-toggle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.requests.rules.tools import SERVER_TOOL
from contextkit.lint.rules.callsites import calls_in, field, last_name, statements, text_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_MAKERS = re.compile(r"^(?:Web(?:Search|Fetch)\w*Tool\w*|GoogleSearch|FileSearchTool|CodeInterpreterTool)$")

_WORDS = ("web_search", "web_fetch", "code_execution", "file_search", "WebSearch", "WebFetch", "GoogleSearch", "WEB")


def _added(node: ast.If, view: View) -> Iterator[Hit]:
    """`if wants_search: tools.append({"type": "web_search_…"})` where the model is asked."""
    added: list[ast.AST] = [call for call in calls_in(node.body) if _adds(call, view)]
    added += [
        one
        for one in statements(node.body)
        if isinstance(one, ast.AugAssign) and _adds_to(one.target, [one.value], view)
    ]
    if added and not view.is_constant(node.test) and view.calls_model():
        why = "a server tool is switched on for some calls only; each change computes system and messages again"
        yield from (Hit(one, why) for one in added)


def _adds(call: ast.Call, view: View) -> bool:
    is_call = isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "insert")
    return is_call and isinstance(call.func, ast.Attribute) and _adds_to(call.func.value, call.args, view)


def _adds_to(holder: ast.expr, given: list[ast.expr], view: View) -> bool:
    return view.is_tools(holder) and any(_is_server_tool(part, view) for one in given for part in walk(one))


def _chosen(node: ast.IfExp, view: View) -> Iterator[Hit]:
    """`[WEB_SEARCH] if wants_search else []`."""
    if view.is_constant(node.test) or not any(
        _is_server_tool(part, view) for side in (node.body, node.orelse) for part in walk(side)
    ):
        return
    if view.calls_model() and any(isinstance(above, ast.keyword) and above.arg == "tools" for above in view.parents()):
        yield Hit(
            node, "a server tool is switched on for some calls only; each change computes system and messages again"
        )


def _is_server_tool(node: ast.AST, view: View) -> bool:
    """Whether it is one, written out, made, or kept in a constant of the module."""
    if isinstance(node, ast.Name) and node.id.isupper():
        stored = (one for one in getattr(view.parents()[0], "body", ()) if isinstance(one, ast.Assign))
        kept = (
            one.value
            for one in stored
            if last_name(one.targets[0]) == node.id and isinstance(one.value, ast.Dict | ast.Call)
        )
        return any(_is_server_tool(one, view) for one in kept)
    if isinstance(node, ast.Dict):
        return bool(SERVER_TOOL.match(text_of(field(node, "type"))))
    return isinstance(node, ast.Call) and bool(_MAKERS.match(last_name(node.func)))


SOURCE = (
    Pattern((ast.If,), _added, _WORDS, is_near=True),
    Pattern(
        (ast.IfExp,),
        _chosen,
        _WORDS,
        also=(("search", "Search", "fetch", "Fetch", "code_", "Code", "url", "image_generation", "WEB"),),
    ),
)
