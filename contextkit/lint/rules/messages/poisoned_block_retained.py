"""poisoned-block-retained: a rejected image or document is left in the transcript and dropped anew, or not, for each call.

## What it does
The provider refuses a request because of one block: an image too large, a broken document. The error handler sends
the request again without it, and leaves the stored history as it is. The next turn runs into the same error, or takes
another way around it.

## Why it costs you
Calls with and without the block alternate, and each form is a prefix of its own from that block on. Only the form
that was accepted writes an entry, but what is compared, retried and written shifts between the two; every turn also
pays the round trip of a refusal. The sum depends on how often the two forms change places.

## Example
    try:
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        without = [{**m, "content": [b for b in m["content"] if b["type"] != "image"]} for m in messages]
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=without)

## Use instead
Take it out of the history once, at the place where it failed, and leave a word in its stead:

    except anthropic.BadRequestError as error:
        replace_block(messages, block_named_in(error), {"type": "text", "text": "[image refused: too large]"})
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=messages)

Better, check size and type before the block is appended. With contextkit: `context.fork(at=entry)` before the bad
part, and say it again without it; the branch shares everything in front.

## Detected by
- source: a handler of a refused request that sends a filtered copy, made there or by a function of the same file, and does not keep it.
- requests: a block is there and not there in turn, from call to call.
- guard: a block of the call before is missing; the alternation shows after several.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/90363
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import MEDIA, come, gone, is_restored, messages
from contextkit.lint.rules.marking import module_of
from contextkit.lint.rules.syntax import keyword, last_name, model_calls, text_in, unwrapped
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in, walk
from contextkit.prompt.block import Block

_FAULTS = re.compile(r"invalid|bad_?request|unprocessable|unsupported|too_large|\b4(?:00|13|22)\b", re.IGNORECASE)
"""Errors that say something about the request; a call that was given up or met a busy server says nothing."""


def _refused(step: Step, change: Change) -> Evidence | None:
    """A file or image left the history in the call behind one that was refused."""
    lost = [block for block in gone(change) if block.type in MEDIA] if change.level == "messages" else []
    if not lost or not _FAULTS.search(step.before.exchange.error or ""):
        return None
    return Evidence(f"{lost[0].type} at {lost[0].path} was left out after {step.before.exchange.error}", lost[0].path)


def _alternates(step: Step, change: Change) -> Evidence | None:
    """A block that came back, or one that goes for the second time."""
    if change.level != "messages" or len(step.earlier) < 2 or (change.was and change.now and not _has_media(change)):
        return None
    moved = [block for block in (*come(change), *gone(change)) if block.type in MEDIA]
    is_back = not gone(change) and is_restored(step, change)
    if not is_back and not (moved and _is_in_turn(step, moved)):
        return None
    return Evidence(f"{(moved or change.now)[0].type} is there and not there in turn, from call to call")


def _is_in_turn(step: Step, moved: Sequence[Block]) -> bool:
    """Whether blocks were sent, then left out, then sent in the same message again: what came late and went once is not
    that.
    """
    wanted = {(block.body, block.message) for block in moved}
    calls = [{(block.body, block.message) for block in messages(sent)} for sent in (*step.earlier[-4:], step.after)]
    held = ["1" if wanted <= one else "0" for one in calls if wanted <= one or not wanted & one]
    return bool(re.search("10+1", "".join(held)))


def _has_media(change: Change) -> bool:
    return any(block.type in MEDIA for block in (*change.was, *change.now))


# In code
# --------------------------------------------------------------------------------------------------------------------------

_REFUSED = re.compile(r"BadRequest|APIStatusError|InvalidRequest|UnprocessableEntity|ContentPolicy|HTTPStatusError")
_WORDS = ("BadRequest", "APIStatus", "InvalidRequest", "Unprocessable", "ValidationException")
_LEFT_OUT = "a block is left out of this one request and stays in the history: the next call sends it again"


def _for_this_request(handler: ast.ExceptHandler, view: View) -> Iterator[Hit]:
    """A refused request is sent again without a block, and the history keeps it."""
    calls = model_calls(handler, view) if _is_of_a_refusal(handler) else []
    loop = view.loop()
    if not _is_of_a_refusal(handler) or not (calls or (loop is not None and model_calls(loop, view))):
        return
    kept = {ast.unparse(unwrapped(node.targets[0])) for node in view.nodes(handler, ast.Assign)}
    for node in view.nodes(handler, ast.ListComp):
        history = unwrapped(node.generators[0].iter) if _filters(node) else None
        if history is not None and view.is_history(history) and ast.unparse(history) not in kept:
            yield Hit(node, _LEFT_OUT)
    for call in calls:
        if _is_thinned_by_a_helper(keyword(call, "messages", "input", "contents"), kept, view):
            yield Hit(call, _LEFT_OUT)


def _is_of_a_refusal(handler: ast.ExceptHandler) -> bool:
    """Whether it is for errors that say something about the request; one of AWS says so by its code."""
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    return bool(_REFUSED.search(caught)) or (
        caught.endswith("ClientError") and "ValidationException" in text_in(handler)
    )


def _is_thinned_by_a_helper(given: ast.expr | None, kept: set[str], view: View) -> bool:
    """`create(messages=without_images(messages))`, whose function builds another list, filtered."""
    is_call = isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and len(given.args) == 1
    if (
        not isinstance(given, ast.Call)
        or not is_call
        or not view.is_history(given.args[0])
        or ast.unparse(given.args[0]) in kept
    ):
        return False
    helpers = [one for one in functions_in(module_of(view)) if one.name == last_name(given.func)]
    return len(helpers) == 1 and _filters(helpers[0]) and not any(map(_writes_in_place, walk(helpers[0])))


def _writes_in_place(node: ast.AST) -> bool:
    """`message["content"] = …`, `messages.remove(…)`: what is left out there is left out of the history."""
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else ()
    is_removal = isinstance(node, ast.Call) and last_name(node.func) in ("remove", "pop", "clear")
    return is_removal or any(isinstance(target, ast.Subscript | ast.Attribute) for target in targets)


def _filters(node: ast.AST) -> bool:
    return any(loop.ifs for part in walk(node) if isinstance(part, ast.ListComp) for loop in part.generators)


HAZARD = Hazard(
    "CKM24",
    "poisoned-block-retained",
    "B",
    "warning",
    source=(
        Pattern((ast.ExceptHandler,), _for_this_request, _WORDS, also=((*_WORDS, "ContentPolicy", "HTTPStatus"),)),
    ),
    requests=(RequestRule("change", _refused, 16), RequestRule("change", _alternates, 16)),
    confirmed_by=("messages_changed", "input_changed"),
)
