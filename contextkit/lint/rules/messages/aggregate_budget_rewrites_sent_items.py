"""Source rules of CKM07 aggregate-budget-rewrites-sent-items."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, IN_CONTENT, IN_HISTORY, AnyFunction, content_writes, unwrapped
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk


def _shared_out(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Contents are cut to a share that is worked out anew over all of them."""
    shares = {last_name(node.targets[0]) for node in view.nodes(function, ast.Assign) if _is_share(node.value)}
    for write in content_writes(function, view) if shares else ():
        limits = [part.upper for part in walk(write.value) if isinstance(part, ast.Slice) and part.upper is not None]
        if any(isinstance(name, ast.Name) and name.id in shares for limit in limits for name in walk(limit)):
            yield Hit(
                write.node, "what was sent is cut to a share of one budget, which becomes smaller with each new result"
            )


def _left_over(function: AnyFunction, view: View) -> Iterator[Hit]:
    """From the newest message back, each is cut to what the newer ones have left: `text[:left]`, `left -= len(text)`."""
    for loop in view.nodes(function, ast.For):
        taken = {last_name(node.target) for node in view.nodes(loop, ast.AugAssign) if isinstance(node.op, ast.Sub)}
        if not taken or not _is_backwards(loop.iter) or not view.is_history(unwrapped(loop.iter)):
            continue
        for write in content_writes(function, view):
            limits = [
                part.upper for part in walk(write.value) if isinstance(part, ast.Slice) and part.upper is not None
            ]
            is_in_loop = any(part is write.node for part in walk(loop))
            if is_in_loop and any(
                isinstance(name, ast.Name) and name.id in taken for limit in limits for name in walk(limit)
            ):
                yield Hit(
                    write.node,
                    "what was sent is cut to what newer messages have left of one budget, less with each of them",
                )


def _is_backwards(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "reversed"


def _is_share(value: ast.expr) -> bool:
    """A budget divided by how many there are, or less what the others take."""
    operators = (ast.FloorDiv, ast.Div, ast.Sub)
    sums = [part for part in walk(value) if isinstance(part, ast.BinOp) and isinstance(part.op, operators)]
    calls = [part for one in sums for part in walk(one) if isinstance(part, ast.Call)]
    return any(last_name(call.func) in ("len", "sum", "total_tokens") for call in calls)


SOURCE = (
    Pattern(
        FUNCTIONS,
        _shared_out,
        (" // ", " / ", " - sum(", " - len("),
        is_near=True,
        also=(IN_HISTORY, IN_CONTENT, ("len", "sum", "total_tokens")),
    ),
    Pattern(FUNCTIONS, _left_over, (" -= ",), is_near=True, also=(IN_HISTORY, IN_CONTENT, ("reversed(",))),
)
