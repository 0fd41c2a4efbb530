"""Source rules of CKM30 number-format-drift."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import keyword, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_OTHER = frozenset({"Decimal", "str", "float", "Fraction"})

_SAID = re.compile(r"argument|tool_call|tool_input|tool_result", re.IGNORECASE)

_WRITES = re.compile(r"dump|save|store|write|record|insert|append|format|encode")
"""Functions that write what they are given, or keep it."""

_CASTS = frozenset({"str", "repr", "float", "int", "round", "dict", "list", "Decimal"})
"""What gives the value itself."""


def _read_otherwise(call: ast.Call, view: View) -> Iterator[Hit]:
    """Numbers of arguments or results are read as something else than JSON's."""
    if (
        view.dotted(call) != "json.loads"
        or not call.args
        or last_name(keyword(call, "parse_float", "parse_int") or call) not in _OTHER
    ):
        return
    if _SAID.search(words_in(call.args[0])) and not _is_for_tools(call, view):
        yield Hit(call, "numbers are read as another type: written again they have other digits than the model's")


def _is_for_tools(call: ast.Call, view: View) -> bool:
    """Whether all that is made of the values is to call functions with them: `pay(arguments["amount"])`."""
    stored = next((above.targets[0] for above in reversed(view.parents()) if isinstance(above, ast.Assign)), None)
    function = view.function()
    if not isinstance(stored, ast.Name) or function is None:
        return False
    uses = [node for node in view.nodes(function, ast.Name) if node.id == stored.id and isinstance(node.ctx, ast.Load)]
    takers = [_taker(use, function, view) for use in uses]
    return bool(takers) and not any(name is None or _WRITES.search(name) for name in takers)


def _taker(use: ast.Name, function: ast.AST, view: View) -> str | None:
    """The function that a value is given to, innermost, casts left out; None where it stays."""
    around = [
        call
        for call in view.nodes(function, ast.Call)
        if call.func is not use and any(part is use for part in walk(call))
    ]
    return next((name for call in reversed(around) if (name := last_name(call.func)) not in _CASTS), None)


SOURCE = (Pattern((ast.Call,), _read_otherwise, ("parse_float", "parse_int"), is_near=True),)
