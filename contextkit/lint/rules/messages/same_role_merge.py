"""Source rules of CKM12 same-role-merge."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.syntax import inside, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk


def _coalesced(branch: ast.If, view: View) -> Iterator[Hit]:
    """Text of a message is added to the one before it where both have one role, and what stood between them may have
    been left out.
    """
    is_same = any(_compares_roles(part) for part in walk(branch.test) if isinstance(part, ast.Compare))
    function = view.function()
    if not is_same or function is None or not _leaves_out(function, view):
        return
    for statement in branch.body:
        for node in (statement, *inside(statement)):
            if _is_joined(node):
                yield Hit(
                    branch.test,
                    "messages of one role are merged on their way out: a later one changes one that was sent",
                )
                return


def _leaves_out(function: ast.AST, view: View) -> bool:
    """Whether a message may be passed over: otherwise what was sent apart is not joined later."""
    loops = [node for node in view.nodes(function, ast.For) if isinstance(node, ast.For)]
    names = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
    skips = (
        node
        for node in view.nodes(function, ast.If)
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue)
    )
    return any(
        len(node.body) == 1 and any(isinstance(part, ast.Name) and part.id in names for part in walk(node.test))
        for node in skips
    )


def _compares_roles(test: ast.Compare) -> bool:
    """`out[-1]["role"] == message["role"]`."""
    sides = [test.left, *test.comparators]
    is_equal = isinstance(test.ops[0], ast.Eq) and len(sides) == 2
    return is_equal and all(last_name(side) == "role" or "role" in words_in(side).split() for side in sides)


def _is_joined(node: ast.AST) -> bool:
    """Whether contents are put together as text: with a separator of blanks or line ends between them."""
    value = node.value if isinstance(node, ast.Assign | ast.AugAssign) else None
    if value is None or "content" not in words_in(node).split():
        return False
    parts = [part.value for part in walk(value) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any(not part.strip() or part.startswith("\n") for part in parts)


SOURCE = (Pattern((ast.If,), _coalesced, ("role",), tested=(("role",),)),)
