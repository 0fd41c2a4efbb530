"""Source rules of CKM03 switch-dependent-history-rewrite."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import in_any_case
from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source.rule import Hit, Pattern, View

_REWRITES = re.compile(
    r"strip|convert|drop|clean|sanitiz|remove|normali[sz]e|downgrade|flatten|transform", re.IGNORECASE
)


def _for_this_call(branch: ast.If, view: View) -> Iterator[Hit]:
    """A history that is converted where the model is another one than last time."""
    test = branch.test
    is_switch = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
    sides = [words_in(side) for side in (test.left, *test.comparators)] if isinstance(test, ast.Compare) else []
    if not is_switch or not all("model" in side.lower() or "provider" in side.lower() for side in sides):
        return
    for node in branch.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        is_local = isinstance(target, ast.Name) and view.is_history(target)
        if is_local and isinstance(node, ast.Assign) and _REWRITES.search(words_in(node.value)):
            yield Hit(
                node,
                "the history is converted for the one call in which the model changes, and sent as it was in the next",
            )


SOURCE = (Pattern((ast.If,), _for_this_call, (" != ",), tested=(("!=",), in_any_case("model", "provider"))),)
