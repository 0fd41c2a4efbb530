"""Source rules of CKM28 server-side-edit-without-floor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.usages import root
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name


def _no_floor(edit: ast.Dict, view: View) -> Iterator[Hit]:
    keys = constant_keys(edit)
    kind = keys.get("type")
    is_edit = isinstance(kind, ast.Constant) and str(kind.value).startswith("clear_tool_uses")
    if is_edit and "clear_at_least" not in keys and None not in edit.keys and not _gets_one_later(view):
        yield Hit(
            edit, "tool results are cleared with no `clear_at_least`: a few tokens may cost the cache of all the rest"
        )


def _gets_one_later(view: View) -> bool:
    """Whether the floor is set on the variable the edit is stored in: `edit["clear_at_least"] = …`,
    `edit.update(clear_at_least=…)`.
    """
    stored = next((above.targets[0] for above in reversed(view.parents()) if isinstance(above, ast.Assign)), None)
    around = view.function() or next(iter(view.parents()), None)
    if not isinstance(stored, ast.Name) or around is None or b"clear_at_least" not in view.source:
        return False
    set_later = (
        target
        for node in view.nodes(around, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    )
    updated = (node for node in view.nodes(around, ast.Call) if last_name(node.func) in ("update", "setdefault"))
    return any(root(node) == stored.id and "clear_at_least" in ast.unparse(node) for node in (*set_later, *updated))


SOURCE = (Pattern((ast.Dict,), _no_floor, ("clear_tool_uses",), is_near=True),)
