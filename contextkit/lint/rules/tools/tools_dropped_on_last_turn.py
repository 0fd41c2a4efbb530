"""tools-dropped-on-last-turn: the last call of a run is sent without tools, or with one finishing tool.

## What it does
To force an answer in words (the step limit is reached, a summary is wanted, an error is being recovered from) the
code empties `tools` or swaps the list for a single `finish` tool.

## Why it costs you
The last call is the longest of the run. Without its tools it shares no prefix with the calls before and is billed
whole, on Anthropic and OpenAI alike. Keeping the tools and setting `tool_choice` is better but not free on Anthropic:
tools and system are read, messages are not. One measured fix went from 0 to 632 tokens read, with 23,943 still
written. Where the last turn is large, an instruction beats both.

## Example
    for step in range(MAX_STEPS):
        last = step == MAX_STEPS - 1
        reply = client.messages.create(model=MODEL, max_tokens=2048, tools=[] if last else TOOLS, messages=messages)

## Use instead
Leave the tools where they are and say it at the tail:

    if last:
        messages[-1]["content"].append({"type": "text", "text": "Answer now in words; call no further tool."})
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=TOOLS, messages=messages)

On OpenAI `tool_choice="none"` is cache-neutral by its guide. In contextkit say it with `context.notice("Answer now in
words.")`, or for one call `context.request(tool_choice={"type": "none"})`; the tools cannot drop out.

## Detected by
- source: a branch on the last step, a step's number, a limit or a summary that sets tools to nothing, to an empty list,
  or pops them; one on all steps but the last that alone gives them; a call behind a loop that asks the same, but without.
- requests: all tools go, or all but one that finishes, or some at a call that is told to end; and their return.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/OpenRouterTeam/typescript-agent/issues/68
- https://github.com/jaseci-labs/jac/issues/8386
- https://github.com/dust-tt/dust/issues/28498
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
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
from contextkit.lint.rules.toolsets import Moves, counted, named, names, said_now, set_moves
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import BLOCKS

_FINISHES = re.compile(
    r"^(?:final|finish|submit|answer|respond|done|complete|terminate|summar|report|structured_output)", re.IGNORECASE
)
_TOLD = re.compile(
    r"final answer|last (?:step|turn|iteration|call)|max(?:imum|\.)? (?:number of )?(?:steps|iterations|turns|tool calls)"
    r"|(?:step|iteration|turn) limit|no (?:more|further) tools?|without (?:us|call)ing (?:any )?(?:more |further )?tools?|answer now"
    r"|\bsummari[sz]e\b|wrap up|\bconclude\b",
    re.IGNORECASE,
)
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


def _dropped(step: Step, change: Change) -> Evidence | None:
    found = set_moves(step, change)
    if found is None or found.held_back or found.promoted:
        return None
    if not found.now:
        return Evidence(f"all {len(found.was)} tools are gone at call {step.turn}")
    if found.gone and _is_finish(found):
        return Evidence(f"only {named(found.now)} is left of {len(found.was)} tools at call {step.turn}")
    if found.gone and not found.come and _TOLD.search(said_now(step)):
        return Evidence(f"{counted(found.gone)} left out of the call that is told to end: {named(found.gone)}")
    return _back(step, found)


def _is_finish(found: Moves) -> bool:
    return len(found.now) == 1 < len(found.was) and bool(_FINISHES.match(found.now[0].role))


def _back(step: Step, found: Moves) -> Evidence | None:
    """After a call without tools they are there again."""
    if found.was or not any(names(sent) for sent in step.earlier[:-1]):
        return None
    return Evidence(f"{counted(found.come)} back after a call without any")


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


HAZARD = Hazard(
    "CKT04",
    "tools-dropped-on-last-turn",
    "A",
    "warning",
    source=(
        Pattern((ast.If,), _branch, ("tools",), is_near=True, tested=(_TESTED,)),
        Pattern((ast.IfExp,), _choice, ("tools",), tested=(_TESTED,)),
        Pattern(
            (ast.For, ast.AsyncFor, ast.While), _afterwards, as_keywords("tools"), is_near=True, also=(IN_HISTORY,)
        ),
    ),
    requests=(RequestRule("change", _dropped, 40),),
    confirmed_by=("tools_changed",),
)
