"""ephemeral-reminder-then-removed: a reminder rides on the newest message for one call and is gone when that becomes history.

## What it does
The last user message gets an extra block (a reminder, a list of skills, a recap, recalled notes) in a copy made for
the request. The stored message does not have it. In the next call it is history, sent without the block, while the
new last message carries one.

## Why it costs you
What was cached holds the reminder, what is sent next does not: the prefix ends at the message before it. Each turn
writes the turn before once more, and when a breakpoint stood behind the reminder, the whole tail since the last one
in front of it; on Anthropic that is 1.25 times instead of a tenth for all of it. Inside long tool loops it adds up
quietly.

## Example
    outgoing = copy.deepcopy(messages)
    outgoing[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=outgoing)
    messages.append(as_message(reply))

## Use instead
Keep what you sent:

    messages[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

If it must not stay, put it behind the last marker, so that nothing cached contains it; newer Claude models have
system messages with `clear_at` for exactly this. With contextkit, `context.notice(reminder)` is an entry: sent once,
and part of the history from then on.

## Detected by
- source: a copy of the history whose last message is altered and which is sent but not stored; a message that is taken out of
  the history and put behind it again.
- requests: a message carries a block in one call and lacks it in the next.
- guard: the same comparison, when the second call is about to leave.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-agent-sdk-typescript/issues/269
- https://github.com/alvinunreal/oh-my-opencode-slim/issues/790
- https://github.com/anima-research/agent-framework/issues/171
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.callsites import as_keywords
from contextkit.lint.rules.history import come, floated, gone, last_message, stays
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, keyword, last_name, model_calls
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.trace.blocks import text_of
from contextkit.lint.trace.rule import Block, Change, Evidence, RequestRule, Step

_PIECE = 2_000
"""Characters of a reminder behind a tool's result; more than that is the result itself that was cut."""


def _removed(step: Step, change: Change) -> Evidence | None:
    """Text of what was the newest message is gone, and nothing new stands in its place."""
    if change.level != "messages" or not change.was or not _was_newest(step, change):
        return _moved_on(step, change)
    lost = [block for block in gone(change) if not stays(step, block)]
    new = [block for block in come(change) if not lost or block.message <= lost[-1].message]  # what the user says next is no replacement
    is_block = bool(lost) and not new and all(block.type == "text" and block.role != "assistant" for block in lost)
    is_part = len(lost) == len(new) == 1 and _is_less(lost[0], new[0])
    if not is_block and not is_part:
        return None
    n_characters = sum(len(text_of(block)) for block in lost) - sum(len(text_of(block)) for block in new)
    if n_characters <= 0:
        return None
    return Evidence(f"{n_characters:,} characters that the newest message of the call before carried are not in it any more")


def _was_newest(step: Step, change: Change) -> bool:
    """Whether the message was the last the user's side said: the end of the call before, with messages of one role taken together."""
    last = last_message(step.before)
    return all(block.message >= last - 1 for block in change.was)


def _moved_on(step: Step, change: Change) -> Evidence | None:
    """Text that stood at the end of the newest message stands at the end of the new one."""
    moved = floated(step, change)
    if not moved or any(block.type != "text" or block.role == "assistant" for block in moved):
        return None
    return Evidence("the text at the end of the call before has left its message for the newest one", moved[0].path)


def _is_less(was: Block, now: Block) -> bool:
    """Whether a piece was taken from the end or the beginning of what the user or a tool said; of a result no large one."""
    said, left = text_of(was), text_of(now)
    is_part = bool(left.strip()) and (said.startswith(left.rstrip()) or said.endswith(left.lstrip()))
    return is_part and was.role != "assistant" and was.type == now.type and (was.type == "text" or len(said) - len(left) <= _PIECE)


# In code --------------------------------------------------------------------------------------------------------------------------

_COPIES = frozenset({"deepcopy", "copy", "list"})
_ASKS = ("create", "parse", "stream", "completion", "generate_content", "converse")
"""One of these stands where a copy is sent."""
_A_TEXT = 12
"""Characters of a text that is that of one message."""
_GROWS = frozenset({"append", "extend", "insert"})


def _in_a_copy(function: AnyFunction, view: View) -> Iterator[Hit]:
    """The newest message of a copy is altered, the copy is sent, and the history goes on without it."""
    copies = {last_name(node.targets[0]) for node in view.nodes(function, ast.Assign) if _is_copy(node.value, view)}
    calls = model_calls(function, view) if copies else ()
    sent = {last_name(given) for call in calls if (given := keyword(call, "messages", "input", "contents"))}
    for node in view.nodes(function, ast.Call, ast.AugAssign, ast.Assign) if copies & sent else ():
        if _altered(node) in copies & sent:
            yield Hit(node, "the newest message is altered in a copy that is sent and not kept: the next call sends it without that")


def _moved(function: AnyFunction, view: View) -> Iterator[Hit]:
    """`messages = [m for m in messages if m != reminder]; messages.append(reminder)`: taken out where it was sent, put behind again."""
    for node in view.nodes(function, ast.Assign):
        held, copy = node.targets[0], node.value
        if not isinstance(copy, ast.ListComp) or not view.is_history(held) or not _is_same(copy.generators[0].iter, held):
            continue
        of_items = {part.id for part in walk(copy.generators[0].target) if isinstance(part, ast.Name)}
        left = {name for test in copy.generators[0].ifs for name in _left_out(test)} - of_items
        if any(_is_put_back(call, held, left) for call in view.nodes(function, ast.Call)):
            yield Hit(node, "a message is taken out of the history where it was sent, and put behind it again")


def _left_out(test: ast.expr) -> list[str]:
    """`reminder` of `m["content"] != reminder`: what a copy leaves out, by its variable or its text."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotEq | ast.NotIn):
        return []
    return [name for side in (test.left, *test.comparators) if (name := _name_or_text(side))]


def _name_or_text(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    text = node.value if isinstance(node, ast.Constant) else ""
    return text if isinstance(text, str) and len(text) >= _A_TEXT else ""


def _is_put_back(call: ast.Call, held: ast.expr, left: set[str]) -> bool:
    """Whether a call appends to the list what a test has left out of it: they name the same."""
    func = call.func
    is_added = isinstance(func, ast.Attribute) and func.attr == "append" and _is_same(func.value, held)
    return is_added and any(_name_or_text(part) in left for given in call.args for part in walk(given))


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    return bool(last_name(one)) and ast.unparse(one) == ast.unparse(other)


def _is_copy(value: ast.expr, view: View) -> bool:
    """A copy of a history, or a list of copies of its messages."""
    if isinstance(value, ast.ListComp):
        is_plain = isinstance(value.elt, ast.Call) and last_name(value.elt.func) in ("dict", "deepcopy", "copy")
        return is_plain and view.is_history(value.generators[0].iter)
    if not isinstance(value, ast.Call) or last_name(value.func) not in _COPIES:
        return False
    of = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else None
    return of is not None and view.is_history(of)


def _altered(node: ast.AST) -> str:
    """The list whose last element a statement alters; empty for anything else."""
    target: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
        target = node.func.value
    elif isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    last = [part.value for part in walk(target) if isinstance(part, ast.Subscript) and _is_last(part.slice)] if target else []
    return last_name(last[0]) if last else ""


def _is_last(index: ast.expr) -> bool:
    return isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant) and index.operand.value == 1


HAZARD = Hazard(
    "CKM09", "ephemeral-reminder-then-removed", "A", "error",
    source=(Pattern(FUNCTIONS, _in_a_copy, ("[-1]",), is_near=True,
                    also=(as_keywords("messages", "input", "contents"), _ASKS, ("copy", "list(", "dict("))),
            Pattern(FUNCTIONS, _moved, ("!=", "not in"), is_near=True, also=(IN_HISTORY, (".append(",)))),
    requests=(RequestRule("change", _removed, 18),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
