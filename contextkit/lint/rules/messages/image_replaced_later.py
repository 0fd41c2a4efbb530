"""image-replaced-later: an image is taken out of the history once it has been seen.

## What it does
Screenshots are large, so older ones are exchanged for a line of text, a file's name, or nothing: keep the last two,
drop the rest. Each new screenshot pushes an old one over the border.

## Why it costs you
The exchanged block stands in the middle of what was cached, and all messages behind it are new: on Anthropic 1.25
times the input price for each, every time a screenshot is made. There, adding or removing an image anywhere loses the
message level besides. An image that stays costs a tenth of its tokens per turn, often less than one rewrite.

## Example
    def prune_images(messages, keep=2):
        images = [block for message in messages for block in message["content"] if block["type"] == "image"]
        for block in images[:-keep]:
            block.clear()
            block.update(type="text", text="[screenshot removed]")

    prune_images(messages)
    client.messages.create(model=MODEL, max_tokens=2048, messages=messages)

## Use instead
Decide on the way in whether an image is worth keeping, at what size, and let it stay until the next compaction:

    image = shrink(screenshot, longest_side=1024)
    content = [{"type": "image", "source": image}] if worth_seeing(screenshot) else [{"type": "text", "text": describe(screenshot)}]
    messages.append({"role": "user", "content": content})

If they must go, drop many at once. In contextkit a part said stays until `context.compact(summary, keep_from=entry)`.

## Detected by
- source: functions that prune images, or keep the last few, over a history; images left out of all but the newest messages.
- requests: an image block gives way to text, or is gone, at a place that was sent before.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/openclaw/openclaw/issues/58038
- https://github.com/anthropics/claude-code/issues/91705
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import in_any_case
from contextkit.lint.rules.history import pictures_lost
from contextkit.lint.rules.shapes import paired
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_CONTENT,
    IN_HISTORY,
    AnyFunction,
    compacts,
    content_writes,
    inside,
    last_name,
    left_out,
    messages_of,
    text_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.prompt.block import text_of


def _replaced(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    n = len(change.was) if _is_removed(change) else change.now and (pictures_lost(change) or _lost_beside(step, change))
    if not n:
        return None
    return Evidence(f"{n} image{'s' * (n > 1)} of earlier messages {'gave way to text' if change.now else 'are gone'}")


def _is_removed(change: Change) -> bool:
    return not change.now and all(pictures_lost(change) and block.type == "image" for block in change.was)


def _lost_beside(step: Step, change: Change) -> int:
    """Images that the message lost where a text of it, which is another part, says now that they are gone."""
    added = [
        text_of(now).removeprefix(text_of(was)) for was, now in paired(change) if text_of(now).startswith(text_of(was))
    ]
    if not any(len(text) < 300 and _PICTURES.search(text) and _GONE.search(text) for text in added):
        return 0
    beside = (one for one in step.changes if one.was and one.was[0].message == change.was[0].message)
    return sum(map(pictures_lost, beside))


# In code
# --------------------------------------------------------------------------------------------------------------------------

_PRUNES = re.compile(
    r"(?:prune|strip|drop|remove|filter|limit|trim|keep|clear)\w*_(?:\w*_)?(?:images?|screenshots?|media)",
    re.IGNORECASE,
)
_CUTS = re.compile(
    r"prune|strip|drop|remove|filter|limit|trim|keep|clear|prepare|compact|shrink|only|without", re.IGNORECASE
)
_PICTURES = re.compile(r"image|screenshot|picture|photo", re.IGNORECASE)
_GONE = re.compile(r"remov|omit|clear|prun|elid|expire|strip|no longer|old|previous|deleted", re.IGNORECASE)


_REFUSED = re.compile(r"(?:not|n't) (?:support|accept|allow)|unsupported|reject|refus", re.IGNORECASE)


def _placeholder(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Words are written over the images of messages that were sent."""
    for write in content_writes(function, view):
        text = text_in(write.value)
        is_notice = (
            len(text) < 300
            and _PICTURES.search(text)
            and _GONE.search(text)
            and not isinstance(write.value, ast.ListComp)
        )
        if is_notice and not _is_refusal(function) and not compacts(function, view):
            yield Hit(write.node, "images of messages that were sent give way to words")


def _pruned(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A function named for it goes through a history and alters its messages."""
    if (
        not _PRUNES.search(function.name)
        or not messages_of(function, view)
        or _is_refusal(function)
        or compacts(function, view)
    ):
        return
    yield from (
        Hit(node, f"{function.name}() takes images out of messages that were sent with them")
        for node in inside(function)
        if _alters(node)
    )


def _filtered(function: AnyFunction, view: View) -> Iterator[Hit]:
    """`message["content"] = [part for part in … if part["type"] != "image"]` for all but the newest messages."""
    for write in content_writes(function, view) if view.calls_model() or _CUTS.search(function.name) else ():
        if write.is_old and _PICTURES.search(left_out(write.value)) and not compacts(function, view):
            yield Hit(write.node, "images are left out of messages that were sent with them")


def _is_refusal(function: AnyFunction) -> bool:
    """Whether it says that a model would not take images: what was refused stands in no cache."""
    return bool(_REFUSED.search(text_in(function)))


def _alters(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return last_name(node.targets[0]) == "content" and isinstance(node.targets[0], ast.Subscript | ast.Attribute)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("remove", "clear") and last_name(node.func.value) not in ("", "self")
    return False


HAZARD = Hazard(
    "CKM18",
    "image-replaced-later",
    "A",
    "error",
    source=(
        Pattern(
            FUNCTIONS,
            _placeholder,
            ("image", "screenshot", "picture", "photo"),
            is_near=True,
            also=(IN_HISTORY, IN_CONTENT),
        ),
        Pattern(
            FUNCTIONS,
            _filtered,
            ("image", "screenshot", "picture", "photo"),
            is_near=True,
            also=(IN_HISTORY, IN_CONTENT, ("!=", "not in"), ("[:-",)),
        ),
        Pattern(
            FUNCTIONS,
            _pruned,
            ("image", "screenshot", "media"),
            also=(IN_HISTORY, in_any_case("image", "screenshot", "media")),
        ),
    ),
    requests=(RequestRule("change", _replaced, 17),),
    confirmed_by=("messages_changed", "input_changed"),
)
