"""Source rules of CKT04 tools-dropped-on-last-turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import (
    as_keywords,
    calls_in,
    field,
    has_unknown_keywords,
    in_any_case,
    is_nothing,
    is_per_turn,
    keyword,
    last_name,
    mentions,
    statements,
    text_of,
)
from contextkit.lint.rules.chosen import reads_history
from contextkit.lint.rules.syntax import IN_HISTORY
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import BLOCKS

_LAST = re.compile(
    r"(?:^|_)(?:last|final|finali[sz]e|max|limit|exhausted|summar\w*|remaining|recover\w*|wrap_?up|force_\w*)(?:_|$)|budget",
    re.IGNORECASE,
)

_IN_LAST = (
    *in_any_case(
        "last", "final", "max", "limit", "exhausted", "summar", "remaining", "recover", "wrap", "force", "budget"
    ),
    "len(",
    "[-",
)

_MESSAGE = "the last call of a run is sent without its tools, and shares no prefix with the calls before it"

_MORE = (ast.Lt, ast.LtE)

_COUNTED = frozenset({*_MORE, ast.Gt, ast.GtE, ast.Eq})
"""How a step's number is compared."""

_COUNTS = frozenset({"range", "count"})
"""What a loop that counts its steps goes through."""

_TESTED = (*_IN_LAST, " < ", " <= ", " > ", " >= ", " == ")
"""One of these stands in a condition on the last step."""


def _branch(node: ast.If, view: View) -> Iterator[Hit]:
    """A branch on the last step that takes the tools away, or one on all others that alone gives them."""
    ends, others = (node.orelse, node.body) if _is_before(node.test) else (node.body, node.orelse)
    found = (
        [one for one in statements(ends) if _takes_away(one)]
        if ends or not others
        else [one for one in others if _gives(one)]
    )
    if found and _is_about_the_last(node.test, view) and is_per_turn(view):
        yield from (Hit(one, _MESSAGE) for one in found)


def _is_before(test: ast.expr) -> bool:
    """`not is_last`, `step < MAX_STEPS`."""
    return isinstance(test, ast.UnaryOp) or (isinstance(test, ast.Compare) and isinstance(test.ops[0], _MORE))


def _is_about_the_last(test: ast.expr, view: View) -> bool:
    return mentions(test, _LAST) or reads_history(test) or _counts_steps(test, view)


def _counts_steps(test: ast.expr, view: View) -> bool:
    """`step == 9`, `step < n - 1` in `for step in range(n)`; what the first step does is not meant."""
    function = view.function()
    if function is None or not isinstance(test, ast.Compare) or type(test.ops[0]) not in _COUNTED:
        return False
    sides = [test.left, *test.comparators]
    if any(isinstance(side, ast.Constant) and side.value == 0 for side in sides):
        return False
    loops = [
        loop
        for loop in view.nodes(function, ast.For)
        if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in _COUNTS
    ]
    return not {loop.target.id for loop in loops if isinstance(loop.target, ast.Name)}.isdisjoint(map(last_name, sides))


def _gives(statement: ast.stmt) -> bool:
    """`request["tools"] = TOOLS`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) and text_of(target.slice) == "tools" for target in targets)


def _takes_away(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return (
            statement.value is not None
            and is_nothing(statement.value)
            and any(last_name(target) == "tools" for target in targets)
        )
    if isinstance(statement, ast.Delete):
        return any(
            isinstance(target, ast.Subscript) and text_of(target.slice) == "tools" for target in statement.targets
        )
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and last_name(call.func) == "pop"
        and bool(call.args)
        and text_of(call.args[0]) == "tools"
    )


def _choice(node: ast.IfExp, view: View) -> Iterator[Hit]:
    """`tools=[] if is_last else TOOLS`."""
    if (
        not _is_about_the_last(node.test, view)
        or is_nothing(node.body) == is_nothing(node.orelse)
        or not is_per_turn(view)
    ):
        return
    above = view.parents()[-1]
    is_argument = isinstance(above, ast.keyword) and above.arg == "tools"
    is_stored = isinstance(above, ast.Assign) and any(last_name(target) == "tools" for target in above.targets)
    if is_argument or is_stored or (isinstance(above, ast.Dict) and field(above, "tools") is node):
        yield Hit(node, _MESSAGE)


def _afterwards(node: ast.For | ast.AsyncFor | ast.While, view: View) -> Iterator[Hit]:
    """A loop asks with tools, and what follows it asks the same way, with the same history, without them."""
    asked = {_asks(call, view) for call in calls_in(node.body) if keyword(call, "tools") is not None} - {None}
    for call in calls_in([*node.orelse, *_behind(node, view)]) if asked else ():
        tools = keyword(call, "tools")
        if (tools is None or is_nothing(tools)) and not has_unknown_keywords(call) and _asks(call, view) in asked:
            yield Hit(call, _MESSAGE)


def _asks(call: ast.Call, view: View) -> tuple[str, str, str] | None:
    """What a call asks: whom, by which model, with which history; None for one that sends none."""
    model, given = keyword(call, "model"), [keyword(call, "messages", "input", "contents"), *call.args]
    history = next((last_name(one) for one in given if one is not None and last_name(one) and view.is_history(one)), "")
    return (ast.dump(call.func), ast.dump(model) if model else "", history) if history else None


def _behind(loop: ast.stmt, view: View) -> list[ast.stmt]:
    """The statements that follow a loop in its block, and in the blocks around that one."""
    found: list[ast.stmt] = []
    inner: ast.AST = loop
    for around in reversed(view.parents()):
        blocks = [block for name in BLOCKS[type(around)] if inner in (block := getattr(around, name))]
        found += [one for block in blocks for one in block[block.index(inner) + 1 :]]
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        inner = around
    return found


SOURCE = (
    Pattern((ast.If,), _branch, ("tools",), is_near=True, tested=(_TESTED,)),
    Pattern((ast.IfExp,), _choice, ("tools",), tested=(_TESTED,)),
    Pattern((ast.For, ast.AsyncFor, ast.While), _afterwards, as_keywords("tools"), is_near=True, also=(IN_HISTORY,)),
)
