"""Source rules of CKB01 no-breakpoint."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.finding import Fix
from contextkit.lint.rules.callsites import last_name
from contextkit.lint.rules.marking import (
    all_keywords,
    assigned,
    constant,
    grows,
    is_single_shot,
    resolved,
    runs_again,
    says,
)
from contextkit.lint.source.rule import MARK_LAST, Hit, Pattern, View
from contextkit.lint.source.syntax import appended

_SENDS = {"create": "max_tokens", "stream": "max_tokens", "converse": "modelId", "converse_stream": "modelId"}
"""Method → an argument that tells its call from those of other libraries."""

_MARKS = (b"cache_control", b"cachePoint", b"cache_point", b"cache_strategy", b"PromptCaching")

_MESSAGE = "this call sends a growing conversation and marks nothing for caching"


def _unmarked_call(node: ast.Call, view: View) -> Iterator[Hit]:
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr not in _SENDS or says(view, *_MARKS) or not runs_again(view):
        return
    given, name = all_keywords(node, view) or {}, view.dotted(node)
    messages, is_large = given.get("messages"), bool(given.keys() & {"system", "toolConfig"})
    is_ours = (func.attr.startswith("converse") and is_large) or (
        name.endswith(f".messages.{func.attr}") and ".threads." not in name
    )
    if not is_ours or messages is None or _SENDS[func.attr] not in given:
        return
    if _is_conversation(messages, view):
        yield Hit(node, _MESSAGE, _mark(node, view, name))


def _through_litellm(node: ast.Call, view: View) -> Iterator[Hit]:
    """`litellm.completion(model="anthropic/…", messages=messages)`: what leaves is marked where the messages are."""
    if (
        says(view, *_MARKS)
        or view.dotted(node) not in ("litellm.completion", "litellm.acompletion")
        or not runs_again(view)
    ):
        return
    given = all_keywords(node, view) or {}
    messages, model = given.get("messages"), str(constant(resolved(given.get("model"), view)))
    if messages is not None and "claude" in model and _is_kept(messages, view) and _is_conversation(messages, view):
        yield Hit(node, _MESSAGE)


def _through_langchain(node: ast.Call, view: View) -> Iterator[Hit]:
    """`ChatAnthropic(…).invoke(self.messages)`."""
    name = view.dotted(node)
    is_claude = name.startswith("langchain_anthropic.") and ".ChatAnthropic." in name and len(node.args) == 1
    if not is_claude or says(view, *_MARKS) or not runs_again(view):
        return
    if _is_kept(node.args[0], view) and _is_conversation(node.args[0], view):
        yield Hit(node, _MESSAGE)


def _is_kept(messages: ast.expr, view: View) -> bool:
    """Whether a list of messages outlives the call: an attribute, or one that is added to in this function."""
    return isinstance(messages, ast.Attribute) or (isinstance(messages, ast.Name) and grows(view, messages.id))


def _is_conversation(messages: ast.expr, view: View) -> bool:
    """Whether it is a running history, and the call no way out of a mishap."""
    is_mishap = any(isinstance(above, ast.ExceptHandler) for above in view.parents())
    return (
        view.is_history(messages)
        and not is_mishap
        and not is_single_shot(messages, view)
        and not _is_one_question(messages, view)
    )


def _is_one_question(messages: ast.expr, view: View) -> bool:
    """Whether one of the ways to make them is a list of one question, that is never added to: so are the others, then."""
    function = view.function()
    made = assigned(function, messages.id) if function is not None and isinstance(messages, ast.Name) else []
    return any(
        isinstance(one, ast.List) and len(one.elts) == 1 and isinstance(one.elts[0], ast.Dict) for one in made
    ) and not grows(view, last_name(messages))


def _mark(node: ast.Call, view: View, name: str) -> Fix | None:
    """Automatic marking: one argument, the server marks the last block. Bedrock does not take it."""
    if not name.startswith("anthropic.") or "Bedrock" in name or "Vertex" in name or node.args:
        return None
    last = max((view.bytes_at(given) for given in node.keywords), key=lambda place: place[1])
    edit = appended(view.source, last, view.bytes_at(node)[1], 'cache_control={"type": "ephemeral"}')
    return Fix(MARK_LAST, (edit,)) if edit else None


SOURCE = (
    Pattern(
        (ast.Call,),
        _unmarked_call,
        ("messages.create", "messages.stream", ".converse"),
        also=((".create", ".stream", ".converse"),),
    ),
    Pattern((ast.Call,), _through_litellm, ("claude",), also=(("completion",),), names=("messages",)),
    Pattern(
        (ast.Call,), _through_langchain, ("ChatAnthropic",), also=((".invoke", ".ainvoke", ".stream", ".astream"),)
    ),
)
