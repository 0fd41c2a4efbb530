"""Source rules of CKM01 reasoning-stripped-on-replay."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    content_writes,
    depends,
    left_out,
    messages_of,
    model_calls,
    text_in,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name, walk

_THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"})

_TURNS = re.compile(
    r"error|retr(?:y|ied)|fallback|switch|chang|last|old|turn|prev|prior|signature|reject|invalid|attempt|step|fail",
    re.IGNORECASE,
)
"""Words of a condition that holds for one request and not for the next."""

_IN_REMOVALS = (".pop(", " del ", "\tdel ", "!=", "not in")
"""One of these stands where something is taken out, or left out of a copy."""

_DROPS = re.compile(r"(?:^|_)(?:strip|drop|remove|filter|prune|clear|discard|delete)_\w*(?:thinking|reasoning)")

_IN_DROPS = ("strip_", "drop_", "remove_", "filter_", "prune_", "clear_", "discard_", "delete_")
"""One of these stands in every name that `_DROPS` matches."""


def _popped(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Thinking is taken out of some messages of a history, or at some calls: a field that no call ever sends breaks
    nothing.
    """
    names = messages_of(function, view)
    for node in view.nodes(function, ast.Call, ast.Delete) if names else ():
        target = _target(node)
        is_some = (
            isinstance(target, ast.Name)
            and target.id in names
            and (names[target.id] or _varies(node, function, view, names))
        )
        if is_some and not _is_repair(node, function, view):
            yield Hit(node, "reasoning is taken out of messages that were sent with it")
    for write in content_writes(function, view):
        is_some = write.is_old or _varies(write.node, function, view, names)
        if is_some and "thinking" in left_out(write.value):
            yield Hit(write.value, "thinking blocks are filtered out of messages that were sent with them")


def _varies(node: ast.AST, function: AnyFunction, view: View, names: dict[str, bool]) -> bool:
    """Whether it is done in some calls and not in others: under a condition, or once before a loop of calls."""
    if depends(node, function, view, names):
        return True
    loops = (*view.nodes(function, ast.While), *view.nodes(function, ast.For))
    return any(loop.lineno > getattr(node, "end_lineno", loop.lineno) and _adds_replies(loop, view) for loop in loops)


def _adds_replies(loop: ast.AST, view: View) -> bool:
    """Whether a loop calls a model and puts what it says into a history, with its reasoning."""
    if not model_calls(loop, view):
        return False
    calls = [one for one in view.nodes(loop, ast.Call) if last_name(one.func) == "append" and one.args]
    added = [one.args[0] for one in calls if _is_of_history(one, view)]
    answers = [
        one
        for one in added
        if isinstance(one, ast.Dict) and text_in(constant_keys(one).get("role", one)) == "assistant"
    ]
    return any(map(_holds_thoughts, answers)) if answers else any(not isinstance(one, ast.Dict) for one in added)


def _is_of_history(call: ast.Call, view: View) -> bool:
    return isinstance(call.func, ast.Attribute) and view.is_history(call.func.value)


def _holds_thoughts(answer: ast.Dict) -> bool:
    """`{**reply}`, `{…, "reasoning_content": …}`, and all blocks of Anthropic's `reply.content`.

    `….message.content` is a text.
    """
    keys = constant_keys(answer)
    content = keys.get("content")
    is_all = isinstance(content, ast.Attribute) and content.attr == "content" and last_name(content.value) in _REPLIES
    return is_all or None in answer.keys or not _THOUGHTS.isdisjoint(keys)


_REPLIES = frozenset({"reply", "response", "resp", "r"})


def _is_repair(node: ast.AST, function: AnyFunction, view: View) -> bool:
    """Whether it is done where a request was refused, and is asked again at once: the same one would be refused again."""
    handlers = (
        branch
        for handler in view.nodes(function, ast.ExceptHandler)
        for branch in walk(handler)
        if isinstance(branch, ast.If)
    )
    retries = (branch for branch in handlers if branch.body and isinstance(branch.body[-1], ast.Continue))
    return any(part is node for branch in retries for statement in branch.body for part in walk(statement))


def _target(node: ast.AST) -> ast.expr | None:
    """The message a thought is popped or deleted from."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and node.args:
        return node.func.value if text_in(node.args[0]) in _THOUGHTS else None
    if isinstance(node, ast.Delete) and last_name(node.targets[0]) in _THOUGHTS:
        return getattr(node.targets[0], "value", None)
    return None


def _dropped(call: ast.Call, view: View) -> Iterator[Hit]:
    """A function named for it is given the history, at some calls and not at others."""
    name = last_name(call.func)
    if (
        _DROPS.search(name)
        and "count" not in name
        and call.args
        and view.is_history(call.args[0])
        and _is_now_and_then(view)
    ):
        yield Hit(call, f"{name}() takes thinking out of a history that was sent with it")


def _is_now_and_then(view: View) -> bool:
    return any(
        isinstance(above, ast.If | ast.IfExp) and _TURNS.search(words_in(above.test)) for above in view.parents()
    )


SOURCE = (
    Pattern(FUNCTIONS, _popped, ("reasoning", "thinking"), is_near=True, also=(IN_HISTORY, _IN_REMOVALS)),
    Pattern((ast.Call,), _dropped, _IN_DROPS, is_near=True, also=(("thinking", "reasoning"),)),
)
