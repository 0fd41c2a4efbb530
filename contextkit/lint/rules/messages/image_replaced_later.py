"""Source rules of CKM18 image-replaced-later."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import in_any_case
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_CONTENT,
    IN_HISTORY,
    AnyFunction,
    compacts,
    content_writes,
    inside,
    left_out,
    messages_of,
    text_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name

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


SOURCE = (
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
)
