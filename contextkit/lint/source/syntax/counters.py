"""What counts the turns of a conversation, or what is left of its budget.

Takes loops and assignments, gives what is counted there; knows nothing of where the walk stands.
"""

from __future__ import annotations

from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import last_name

_STEPS = frozenset({ast.Add, ast.Sub})
_NUMBERS = frozenset({int, float})
_SPENT = ("tokens", "cost")
"""Ends of the names of what is used up."""
_LOOPS = frozenset({"range", "count", "trange"})
"""What gives numbers to go through."""


def counts(node: ast.AugAssign) -> bool:
    """Whether it is a step of a counter: `n += 1`, `budget -= usage.output_tokens`."""
    if type(node.op) not in _STEPS:
        return False
    step = node.value
    return type(step.value) in _NUMBERS if type(step) is ast.Constant else last_name(step).endswith(_SPENT)


def counter_of(loop: ast.AST) -> ast.expr | None:
    """What says how often a loop was gone through: `n` of `for n in range(9)`, of `for n, text in enumerate(texts)`."""
    called = (
        last_name(loop.iter.func)
        if isinstance(loop, ast.For | ast.AsyncFor) and isinstance(loop.iter, ast.Call)
        else ""
    )
    target = loop.target if called == "enumerate" or called in _LOOPS else None  # type: ignore[attr-defined]
    if called != "enumerate":
        return target
    return target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else None
