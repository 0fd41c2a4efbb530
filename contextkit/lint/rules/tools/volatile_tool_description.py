"""Source rules of CKT08 volatile-tool-description."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import last_name
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Flow, Hit, Kind, Pattern, View

_KINDS: tuple[Kind, ...] = ("clock", "date", "id", "place", "environ", "person", "choice")

_IN_SCHEMAS: tuple[Kind, ...] = ("clock", "date", "place")
"""Kinds that are written into the description of a parameter."""


def _edited(node: ast.Assign | ast.AugAssign, view: View) -> Iterator[Hit]:
    """`function.__doc__ = f"… {os.getcwd()}"`: a tool's description made at run time."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    function = view.function()
    is_once = function is None or function.name in sanitizers.ONCE
    if any(isinstance(target, ast.Attribute) and last_name(target) == "__doc__" for target in targets):
        varying = view.kinds(node.value) & set(_KINDS)
        if varying and not (is_once and varying <= {"clock", "date", "id", "environ", "choice", "person"}):
            yield Hit(
                node, f"a docstring that becomes a tool's description is made at run time and holds a {min(varying)}"
            )


SOURCE = (
    Flow(_KINDS, ("tool",), "{source} varies and stands in a tool's description"),
    Flow(_IN_SCHEMAS, ("schema",), "{source} varies and stands in a tool's schema"),
    Pattern((ast.Assign, ast.AugAssign), _edited, ("__doc__",), is_near=True),
)
