"""Source rules of CKM15 whitespace-normalised."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    content_writes,
    depends,
    messages_of,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, last_name

_FOLDS = frozenset(
    {"strip", "rstrip", "lstrip", "dedent", "strip_whitespace", "normalize_whitespace", "collapse_whitespace"}
)


def _in_history(function: AnyFunction, view: View) -> Iterator[Hit]:
    """White space is taken from some messages of a history, or at some calls."""
    names = messages_of(function, view)
    for write in content_writes(function, view):
        if _folds(write.value) and (write.is_old or depends(write.node, function, view, names)):
            yield Hit(write.value, "white space is taken from messages that were sent with it")


def _folds(value: ast.expr) -> bool:
    if (
        not isinstance(value, ast.Call)
        or last_name(value.func) not in _FOLDS
        or "content" not in words_in(value).split()
    ):
        return False
    whole = value.func.value if isinstance(value.func, ast.Attribute) else None
    return not (isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice))


_REPLY = frozenset({"choices", "response", "reply", "completion", "output_text"})

_STRIPPED = "the model's answer is kept without its white space: what is sent again is not what was cached"


def _of_the_reply(block: ast.Dict, view: View) -> Iterator[Hit]:
    """The model's answer goes into the history without its white space."""
    content = _said_by_assistant(block)
    is_added = any(isinstance(node, ast.Call) and _appends(node, view) for node in view.parents())
    if content is not None and is_added and _is_folded_reply(content):
        yield Hit(content, _STRIPPED)


def _in_a_variable(stored: ast.Assign, view: View) -> Iterator[Hit]:
    """`text = reply.choices[0].message.content.strip()`, which is then appended as what the assistant said."""
    function, target = view.function(), stored.targets[0]
    if function is None or not isinstance(target, ast.Name) or not _is_folded_reply(stored.value):
        return
    others = [
        one for one in view.nodes(function, ast.Assign) if one is not stored and last_name(one.targets[0]) == target.id
    ]
    if not any(isinstance(one.value, ast.Call) for one in others) and _is_kept_as(target.id, function, view):
        yield Hit(stored.value, _STRIPPED)


def _in_a_block(block: ast.Dict, view: View) -> Iterator[Hit]:
    """`blocks.append({"type": "text", "text": block.text.strip()})` for each block of a reply's content, appended as
    the answer.
    """
    function, loop, keys, above = view.function(), view.loop(), constant_keys(block), view.parents()[-1]
    text = keys.get("text")
    is_of_loop = isinstance(loop, ast.For) and last_name(loop.iter) == "content" and not view.is_history(loop.iter)
    if function is None or not is_of_loop or not isinstance(text, ast.Call) or last_name(text.func) not in _FOLDS:
        return
    name = _grown(above)
    if name and _is_kept_as(name, function, view):
        yield Hit(text, _STRIPPED)


def _grown(call: ast.AST) -> str:
    """The variable of `blocks.append(…)`."""
    func = call.func if isinstance(call, ast.Call) else None
    is_added = isinstance(func, ast.Attribute) and func.attr == "append" and isinstance(func.value, ast.Name)
    return last_name(func.value) if is_added and isinstance(func, ast.Attribute) else ""


def _said_by_assistant(block: ast.AST) -> ast.expr | None:
    """The content of a message of the assistant."""
    keys = constant_keys(block) if isinstance(block, ast.Dict) else {}
    role = keys.get("role")
    return keys.get("content") if isinstance(role, ast.Constant) and role.value == "assistant" else None


def _is_folded_reply(content: ast.expr) -> bool:
    is_folded = isinstance(content, ast.Call) and last_name(content.func) in _FOLDS
    return is_folded and not _REPLY.isdisjoint(words_in(content).split())


def _is_kept_as(name: str, function: AnyFunction, view: View) -> bool:
    """Whether a variable is appended to the history as what the assistant said."""
    added = (given for call in view.nodes(function, ast.Call) if _appends(call, view) for given in call.args)
    said = (_said_by_assistant(given) for given in added)
    return any(isinstance(one, ast.Name) and one.id == name for one in said)


def _appends(call: ast.Call, view: View) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "extend")
        and view.is_history(call.func.value)
    )


SOURCE = (
    Pattern(
        FUNCTIONS, _in_history, ("strip(", "dedent(", "whitespace("), is_near=True, also=(IN_HISTORY, ("content",))
    ),
    Pattern((ast.Dict,), _of_the_reply, ("strip()",), also=(("strip", "dedent", "whitespace"), ("assistant",))),
    Pattern((ast.Assign,), _in_a_variable, ("strip()",), is_near=True, also=(tuple(sorted(_REPLY)),)),
    Pattern((ast.Dict,), _in_a_block, ("strip()",), is_near=True, also=((".text",),)),
)
