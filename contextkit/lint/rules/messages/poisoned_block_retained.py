"""Source rules of CKM24 poisoned-block-retained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.marking import module_of
from contextkit.lint.rules.syntax import keyword, model_calls, text_in, unwrapped
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in, last_name, walk

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


SOURCE = (Pattern((ast.ExceptHandler,), _for_this_request, _WORDS, also=((*_WORDS, "ContentPolicy", "HTTPStatus"),)),)
