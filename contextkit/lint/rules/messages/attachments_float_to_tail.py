"""attachments-float-to-tail: attached files or images move to the newest message with every turn.

## What it does
To keep what the user attached close at hand, the builder takes it out of the message it came with and adds it to the
last one. In the next call it moves again.

## Why it costs you
Two places differ: the old message has lost blocks, the new one has gained them. The prefix ends at the old one, so at
least one turn and all of the attachments are written anew in each call, at 1.25 times the input price. Attachments
are the largest blocks of many conversations, and they are never read from the cache this way.

## Example
    def with_attachments(messages, files):
        bare = [{**m, "content": [b for b in m["content"] if b["type"] != "document"]} for m in messages]
        bare[-1]["content"] += [document(file) for file in files]
        return bare

    client.messages.create(model=MODEL, max_tokens=2048, messages=with_attachments(messages, files))

## Use instead
An attachment belongs where it came in, and is named later rather than repeated:

    messages.append({"role": "user", "content": [*[document(file) for file in files], {"type": "text", "text": question}]})
    ...
    messages.append({"role": "user", "content": f"Concerning {files[0].name} again: {question}"})

If a block has to move, put the marker before the message that carries it, so that at least the history is read. In
contextkit parts stay in the entry they were said in.

## Detected by
- source: what the session keeps as attached, or what the same function takes out of all messages, added to the last one anew.
- requests: a block goes from an earlier message to the last in each call.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/QwenLM/qwen-code/issues/11651
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import MEDIA, floated, is_answer, messages, stays
from contextkit.lint.rules.syntax import last_name, left_out, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block

_LARGE = 1_000
"""Bytes from which on a block of text that moves is an attached file."""


def _floated(step: Step, change: Change) -> Evidence | None:
    floats = [block for block in floated(step, change) if _is_attachment(block)]
    if floats:
        return Evidence(
            f"{len(floats)} attachment{'s' * (len(floats) > 1)} moved on to the newest message", floats[0].path
        )
    moved = _moved(step, change) if change.level == "messages" else []
    if not moved:
        return None
    was, now = moved[0]
    return Evidence(f"{len(moved)} attachment{'s' * (len(moved) > 1)} moved from {was.path} to {now.path}")


def _moved(step: Step, change: Change) -> list[tuple[Block, Block]]:
    """Attachments that left their message, each with itself in a later one, an answer between: two messages made of one
    are no move.
    """
    after = messages(step.after)
    lost = {block.body: block for block in change.was if _is_attachment(block) and not stays(step, block)}
    answers = [block.message for block in after if is_answer(block)] if lost else []
    pairs = [(lost[block.body], block) for block in after if block.body in lost]
    return [(was, now) for was, now in pairs if any(was.message < answer < now.message for answer in answers)]


def _is_attachment(block: Block) -> bool:
    return block.type in MEDIA or (block.type == "text" and block.role == "user" and len(block.body) >= _LARGE)


# In code
# --------------------------------------------------------------------------------------------------------------------------

_ATTACHED = re.compile(r"attach|documents?\b|files?\b|images?(?:_url)?\b|media\b|screenshots?\b", re.IGNORECASE)
_KEPT = re.compile(r"(?:self|session|state|ctx|context|agent)\b")


def _added_again(node: ast.AugAssign | ast.Assign | ast.Call, view: View) -> Iterator[Hit]:
    """What the session keeps as attached is added to the newest message, whichever that is."""
    target, value = _parts(node)
    function = view.function()
    if target is None or value is None or function is None or not _is_last(target, view):
        return
    is_per_call = view.calls_model() or re.search(r"build|prepare|with_|attach|render|to_", function.name)
    if (is_per_call and _is_kept(value, view)) or (_ATTACHED.search(words_in(value)) and _is_bared(function, view)):
        yield Hit(
            node, "attachments are added to the newest message of each call: they leave the one they were sent with"
        )


def _is_bared(function: ast.AST, view: View) -> bool:
    """Whether the function takes attachments out of messages: `[block for block in … if block["type"] != "document"]`."""
    return any(_ATTACHED.search(left_out(copy)) for copy in view.nodes(function, ast.ListComp))


def _parts(node: ast.AugAssign | ast.Assign | ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    if isinstance(node, ast.Assign):  # one that keeps what stood there: `last["content"] = [*files, *last["content"]]`
        target = node.targets[0]
        return (target, node.value) if ast.unparse(target) in ast.unparse(node.value) else (None, None)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend") and node.args:
        return node.func.value, node.args[0]
    return None, None


def _is_last(target: ast.expr, view: View) -> bool:
    """`messages[-1]["content"]`."""
    inner = (
        target.value if isinstance(target, ast.Subscript | ast.Attribute) and last_name(target) == "content" else None
    )
    is_index = isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.UnaryOp)
    return is_index and isinstance(inner, ast.Subscript) and view.is_history(inner.value)


def _is_kept(value: ast.expr, view: View) -> bool:
    """Whether it is made of a list that outlives the turn: an attribute, or one the function takes beside the history."""
    lists = [part.generators[0].iter for part in walk(value) if isinstance(part, ast.ListComp)] or [value]
    return any(
        isinstance(part, ast.Attribute) and _KEPT.search(words_in(part)) and _ATTACHED.search(part.attr)
        for part in lists
    )


HAZARD = Hazard(
    "CKM21",
    "attachments-float-to-tail",
    "A",
    "error",
    source=(Pattern((ast.AugAssign, ast.Assign, ast.Call), _added_again, ("[-1]",), also=(("[-",), ("content",))),),
    requests=(RequestRule("change", _floated, 15),),
    confirmed_by=("messages_changed", "input_changed"),
)
