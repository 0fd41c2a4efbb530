"""reasoning-stripped-on-replay: the model's earlier reasoning is dropped when the history is sent again.

## What it does
The code keeps the answer of a turn and throws away its thinking blocks or `reasoning_content`, at once or when the
next user turn comes. A type that has no field for them does it without a line of code saying so.

## Why it costs you
What the provider cached ends with the reasoning; what is sent next lacks it, so the prefix breaks at the first
assistant turn and the messages behind it are written again. On Claude since Opus 4.5, Sonnet 4.6 and Haiku 5.5 all
earlier thinking stays in the context; only older models (Sonnet 4.5, Haiku 4.5) drop it themselves. Models that bind
thinking to its prefix allow it to be removed only oldest first, and refuse other gaps. xAI asks for
`reasoning_content` to be sent again, and OpenAI's models since 5.6 keep the reasoning of all turns.

## Example
    def turn(history, text):
        for message in history:
            message.pop("reasoning_content", None)              # of the calls below, which were sent with it
        history.append({"role": "user", "content": text})
        while True:
            answer = client.chat.completions.create(model=MODEL, messages=history).choices[0].message
            history.append(answer.model_dump(exclude_unset=True))
            if not answer.tool_calls:
                return answer.content
            history += results_of(answer.tool_calls)

## Use instead
Send back what you received, as it was: order, signatures and all. Prune only where the history is rewritten anyway,
at a compaction.

    reply = client.messages.create(model=MODEL, max_tokens=4096, messages=history)
    history.append({"role": "assistant", "content": [block.model_dump(exclude_unset=True) for block in reply.content]})

`context.receive(reply)` keeps the reply as received, and a column of contextkit's model table says which models drop
thinking.

## Detected by
- source: thinking or reasoning popped or filtered out of the older messages of a history, under a condition, or before a loop that
  adds what the model said to it. What is left out in the same way in every call is not told: it was never sent.
- requests: an assistant message loses blocks when a new user turn arrives.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/19081
- https://github.com/nibor1896/Crow/issues/60
- https://github.com/gptme/gptme/issues/2727
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.shapes import paired
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    constant_keys,
    content_writes,
    depends,
    last_name,
    left_out,
    messages_of,
    model_calls,
    text_in,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block, json_bytes, text_of


def _stripped(step: Step, change: Change) -> Evidence | None:
    left, kept = set(map(_unsigned, change.now)), set(map(_unsigned, change.was))
    lost = [block for block in change.was if _unsigned(block) not in left]
    if change.level != "messages" or not lost or any(block.type != "thinking" for block in lost):
        return None
    if any(_unsigned(block) not in kept and block.type != "thinking" for block in change.now):
        return None
    fate = "changed" if any(_unsigned(block) not in kept for block in change.now) else "left"
    return Evidence(f"the thinking of earlier turns {fate}, {len(lost)} block{'s' * (len(lost) > 1)}", lost[0].path)


def _unsigned(block: Block) -> bytes:
    """Its bytes without the signature of the thoughts behind it, which Gemini puts on calls and texts."""
    if block.type == "thinking" or not isinstance(block.value, dict) or "thoughtSignature" not in block.value:
        return block.body
    return json_bytes({name: value for name, value in block.value.items() if name != "thoughtSignature"})


def _cut(step: Step, change: Change) -> Evidence | None:
    """The think block within an answer's text is gone."""
    pairs = (
        [(text_of(was), text_of(now)) for was, now in paired(change) if was.type == "text"]
        if change.level == "messages"
        else []
    )
    if not any("<think" in was and "<think" not in now for was, now in pairs):
        return None
    return Evidence("the thinking within an earlier answer's text is gone")


# In code
# --------------------------------------------------------------------------------------------------------------------------

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


HAZARD = Hazard(
    "CKM01",
    "reasoning-stripped-on-replay",
    "A",
    "error",
    source=(
        Pattern(FUNCTIONS, _popped, ("reasoning", "thinking"), is_near=True, also=(IN_HISTORY, _IN_REMOVALS)),
        Pattern((ast.Call,), _dropped, _IN_DROPS, is_near=True, also=(("thinking", "reasoning"),)),
    ),
    requests=(RequestRule("change", _stripped, 19), RequestRule("change", _cut, 21)),
    confirmed_by=("messages_changed", "input_changed"),
)
