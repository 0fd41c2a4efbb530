"""Source rules of CKM27 compaction-too-early."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import inside, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_FOLDS = re.compile(r"summar|compact|condens|fold", re.IGNORECASE)

_SIZES = re.compile(r"token|window|context|budget|limit", re.IGNORECASE)

_EARLY = 0.6
"""Share of the window up to which a fold is early: at reads of a tenth, carrying the history costs less."""


def _at_a_share(branch: ast.If, view: View) -> Iterator[Hit]:
    """A fold at a fixed share of the window, far from its end."""
    test = branch.test
    if (
        not isinstance(test, ast.Compare)
        or not isinstance(test.ops[0], ast.Gt | ast.GtE)
        or not _SIZES.search(words_in(test))
    ):
        return
    shares = [part.value for side in test.comparators for part in walk(side) if isinstance(part, ast.Constant)]
    is_early = any(isinstance(share, float) and 0 < share <= _EARLY for share in shares)
    calls = [node for one in branch.body for node in (one, *inside(one)) if isinstance(node, ast.Call)]
    if is_early and any(_FOLDS.search(last_name(call.func)) for call in calls):
        yield Hit(test, "the history is folded at a fixed share of the window, whatever reading and writing it cost")


SOURCE = (Pattern((ast.If,), _at_a_share, ("summar", "compact", "condens"), is_near=True),)
