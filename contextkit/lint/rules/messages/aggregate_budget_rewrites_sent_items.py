"""aggregate-budget-rewrites-sent-items: one budget for all tool output shortens results that were already sent.

## What it does
The total size of tool output is limited, and the shares are computed anew for every request over the whole history. A
large new result takes room from the old ones: they are cut further, although they have been sent in full.

## Why it costs you
The first item that shrinks breaks the prefix, and it is an early one, since old results yield first. Everything
behind it is written at the write price, 1.25 times input on Anthropic, or computed again on hosts with automatic
caches. It strikes in the calls that carry a big result, which are dear already.

## Example
    def fit(messages, budget):
        results = [block for message in messages for block in message["content"] if block["type"] == "tool_result"]
        share = budget // max(1, len(results))
        for block in results:
            block["content"] = block["content"][:share]

    fit(messages, 40_000)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Limit each result once, when it comes in, by what is left then; what was sent stays:

    room = max(1_000, budget - used)
    block = tool_result(call, output[:room])
    used += len(block["content"])

In contextkit an entry's bytes are fixed when it is written, so a later result cannot touch an earlier one.

## Detected by
- source: output truncated by a share or budget that is computed over the whole history in each call, or by what the newer
  messages have left of one.
- requests: an earlier item becomes shorter in the call to which a large new one was added.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/openclaw/openclaw/issues/132017
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import is_elided, messages, shortened, size, tail
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_CONTENT,
    IN_HISTORY,
    AnyFunction,
    content_writes,
    last_name,
    unwrapped,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block, text_of

_LARGE, _MARK = 2_000, 24


def _squeezed(step: Step, change: Change) -> Evidence | None:
    """Earlier items are cut in the call that brings a large new one."""
    if change.level != "messages" or not _cut(change):
        return None
    cut = [pair for one in step.changes if one.level == "messages" for pair in _cut(one)]
    lost = sum(len(was.body) - len(now.body) for was, now in cut)
    new = max((size([block]) for block in tail(step)), default=0)
    if new < max(_LARGE, lost // 3) or _goes_on(step, cut) or (4 * lost < new and _is_fade(step, cut, new)):
        return None
    return Evidence(
        f"{len(cut)} earlier item{'s' * (len(cut) > 1)} lost {lost:,} bytes in the call that brought one of {new:,}"
    )


def _cut(change: Change) -> list[tuple[Block, Block]]:
    return [(was, now) for was, now in shortened(change) if is_elided(text_of(was), text_of(now))]


def _goes_on(step: Step, cut: list[tuple[Block, Block]]) -> bool:
    """Whether calls before cut other items and left the same mark on them: a window that moves on, whatever came."""
    marks = {_ending(now) for _, now in cut}
    first = cut[0][0].path
    earlier = takewhile(lambda block: block.path != first, messages(step.before))
    return any(_ending(block) in marks for block in earlier if block.type == cut[0][0].type)


def _is_fade(step: Step, cut: list[tuple[Block, Block]], new: int) -> bool:
    """Whether newer results of the same size were left alone, and what came is none out of the usual: only age was
    asked.
    """
    kind, last = cut[0][0].type, max(was.message for was, _ in cut)
    alike = [block for block in messages(step.before) if block.type == kind and len(block.body) >= _LARGE]
    usual = sorted(len(block.body) for block in alike)[len(alike) // 2] if alike else 0
    return new < 2 * usual and any(block.message > last for block in alike)


def _ending(block: Block) -> str:
    """The last letters of a text, digits left out: the mark of what is missing."""
    return re.sub(r"\d+", "", text_of(block)[-_MARK:])


# In code
# --------------------------------------------------------------------------------------------------------------------------


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


HAZARD = Hazard(
    "CKM07",
    "aggregate-budget-rewrites-sent-items",
    "A",
    "error",
    source=(
        Pattern(
            FUNCTIONS,
            _shared_out,
            (" // ", " / ", " - sum(", " - len("),
            is_near=True,
            also=(IN_HISTORY, IN_CONTENT, ("len", "sum", "total_tokens")),
        ),
        Pattern(FUNCTIONS, _left_over, (" -= ",), is_near=True, also=(IN_HISTORY, IN_CONTENT, ("reversed(",))),
    ),
    requests=(RequestRule("change", _squeezed, 30),),
    confirmed_by=("messages_changed", "input_changed"),
)
