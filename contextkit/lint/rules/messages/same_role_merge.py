"""same-role-merge: neighbouring messages of one role are merged in one call and separate in another.

## What it does
Two user messages in a row (a tool's result and a question, or what was left over after pruning) are joined into one
before sending. Whether they are depends on how the history was loaded, or on what stands between them by now.

## Why it costs you
The text is the same, its division is not. Anthropic says that it merges consecutive messages of one role into a turn
itself, so the division alone may be harmless there; texts joined with a separator are not. On OpenAI each message has
its own header and ending, and automatic breakpoints lie at message endings. Local templates print a header per
message. From the first merged pair on the prompt is computed again.

## Example
    def merge_consecutive(messages):
        out = []
        for message in messages:
            if out and out[-1]["role"] == message["role"]:
                out[-1] = {**out[-1], "content": out[-1]["content"] + " " + message["content"]}
            else:
                out.append(message)
        return out

    client.chat.completions.create(model=MODEL, messages=merge_consecutive(load(session)))

## Use instead
Settle the turns when a message is appended, and never join or split what was sent:

    def append_user(messages, blocks):
        if messages and messages[-1]["role"] == "user" and not messages[-1].get("sent"):
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": "user", "content": blocks})

contextkit does this once, in the log: what has become a segment is not joined with anything later.

## Detected by
- source: a function that merges consecutive messages of one role, applied to a history on its way out.
- requests: two messages become one, or one two, and their joined text is equal.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/anthropic-sdk-csharp/issues/256
- https://github.com/gptme/gptme/issues/2727
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import same_words
from contextkit.lint.rules.syntax import inside, last_name, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.trace.rule import Block, Change, Evidence, RequestRule, Step


def _merged(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages" or not change.was or not change.now or not _is_regrouped(change) or not same_words(change):
        return None
    was, now = _n_messages(change.was), _n_messages(change.now)
    n, m, what = (was, now, "messages of one role") if was != now else (len(change.was), len(change.now), "text blocks of one message")
    return Evidence(f"{n} {what} became {m} with the same words")


def _is_regrouped(change: Change) -> bool:
    blocks = (*change.was, *change.now)
    is_plain = all(block.type == "text" for block in blocks) and len({block.role for block in blocks}) == 1
    return is_plain and (len(change.was) != len(change.now) or _n_messages(change.was) != _n_messages(change.now))


def _n_messages(blocks: tuple[Block, ...]) -> int:
    return len({block.message for block in blocks})


# In code --------------------------------------------------------------------------------------------------------------------------

def _coalesced(branch: ast.If, view: View) -> Iterator[Hit]:
    """Text of a message is added to the one before it where both have one role, and what stood between them may have been left out."""
    is_same = any(_compares_roles(part) for part in walk(branch.test) if isinstance(part, ast.Compare))
    function = view.function()
    if not is_same or function is None or not _leaves_out(function, view):
        return
    for statement in branch.body:
        for node in (statement, *inside(statement)):
            if _is_joined(node):
                yield Hit(branch.test, "messages of one role are merged on their way out: a later one changes one that was sent")
                return


def _leaves_out(function: ast.AST, view: View) -> bool:
    """Whether a message may be passed over: otherwise what was sent apart is not joined later."""
    loops = [node for node in view.nodes(function, ast.For) if isinstance(node, ast.For)]
    names = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
    skips = (node for node in view.nodes(function, ast.If) if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue))
    return any(len(node.body) == 1 and any(isinstance(part, ast.Name) and part.id in names for part in walk(node.test)) for node in skips)


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


HAZARD = Hazard(
    "CKM12", "same-role-merge", "A", "warning",
    source=(Pattern((ast.If,), _coalesced, ("role",), tested=(("role",),)),),
    requests=(RequestRule("change", _merged, 13),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
