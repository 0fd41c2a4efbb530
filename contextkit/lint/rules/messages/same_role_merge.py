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
            if not message["content"]:                 # an answer that was cut off: the question before it was sent alone
                continue
            if out and out[-1]["role"] == message["role"]:
                out[-1] = {**out[-1], "content": out[-1]["content"] + "\\n\\n" + message["content"]}
            else:
                out.append(message)
        return out

    client.chat.completions.create(model=MODEL, messages=merge_consecutive(messages))

## Use instead
Settle the turns when a message is appended, and never join or split what was sent:

    def append_user(messages, blocks):
        if messages and messages[-1]["role"] == "user" and not messages[-1].get("sent"):
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": "user", "content": blocks})

contextkit does this once, in the log: what has become a segment is not joined with anything later.

## Detected by
- source: a function that merges consecutive messages of one role and passes over some others, so that what stood between two may
  be gone. What is merged in the same way in every call is not told.
- requests: two messages become one, or one two, and their joined text is equal.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/anthropic-sdk-csharp/issues/256
- https://github.com/gptme/gptme/issues/2727
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.history import same_words
from contextkit.lint.rules.syntax import inside, last_name, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block


def _merged(step: Step, change: Change) -> Evidence | None:
    change = change if change.now else _with_next(step, change)
    if (
        change.level != "messages"
        or not change.was
        or not change.now
        or not _is_alike(change)
        or not same_words(change)
    ):
        return None
    was, now = _n_messages(step, change)
    if was == now and len(change.was) == len(change.now):
        return None
    n, m, what = (
        (was, now, "messages of one role")
        if was != now
        else (len(change.was), len(change.now), "text blocks of one message")
    )
    return Evidence(f"{n} {what} became {m} with the same words")


def _with_next(step: Step, change: Change) -> Change:
    """The end of a message that seems gone, beside the same blocks at the front of the next message, where they are."""
    behind = step.after.blocks[change.at : change.at + len(change.was)] if change.is_first else ()
    return (
        replace(change, now=tuple(behind))
        if [one.body for one in behind] == [one.body for one in change.was]
        else change
    )


def _is_alike(change: Change) -> bool:
    """Whether one role says all of it, in text, or in blocks that kept their bytes."""
    blocks = (*change.was, *change.now)
    is_text = all(block.type == "text" for block in blocks)
    return len({block.role for block in blocks}) == 1 and (
        is_text or [one.body for one in change.was] == [one.body for one in change.now]
    )


def _n_messages(step: Step, change: Change) -> tuple[int, int]:
    """Messages that both sides stand in, the one before them counted where one side goes on in it."""
    was, now = (_begins(sent, blocks) for sent, blocks in ((step.before, change.was), (step.after, change.now)))
    before = int(not (was[0] and now[0]))
    return sum(was) + before, sum(now) + before


def _begins(sent: RecordedCall, blocks: Sequence[Block]) -> list[bool]:
    """For each of its neighbouring blocks, whether a message begins with it."""
    at = next(i for i, block in enumerate(sent.blocks) if block is blocks[0])
    return [i == 0 or sent.blocks[i - 1].message != sent.blocks[i].message for i in range(at, at + len(blocks))]


# In code
# --------------------------------------------------------------------------------------------------------------------------


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


HAZARD = Hazard(
    "CKM12",
    "same-role-merge",
    "A",
    "warning",
    source=(Pattern((ast.If,), _coalesced, ("role",), tested=(("role",),)),),
    requests=(RequestRule("change", _merged, 4),),
    confirmed_by=("messages_changed", "input_changed"),
)
