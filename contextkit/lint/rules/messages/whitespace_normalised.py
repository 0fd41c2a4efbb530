"""whitespace-normalised: stored text is stripped, dedented or given other line ends before it is sent again.

## What it does
The answer of the model ends with a blank or a line break, a tool prints CRLF, a result is indented. On storing or
loading somebody calls `strip()`, folds empty lines or splits and joins lines. It looks the same on the screen.

## Why it costs you
The provider cached the text as it was produced or sent. One blank less at the end of an answer breaks the prefix
there, and a tokeniser often turns a changed blank into other tokens on both sides of it. Everything behind is written
again on Anthropic or recomputed by llama.cpp, vLLM and the like, where it means seconds of waiting rather than money.

## Example
    reply = client.messages.create(model=MODEL, max_tokens=2048, messages=messages)
    messages.append({"role": "assistant", "content": reply.content[0].text.strip()})

## Use instead
Clean up before the first sending, never after it. What the model said goes back as it came:

    output = textwrap.dedent(output).strip()                       # a tool's result, not sent yet: fine
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": output}]})
    ...
    messages.append({"role": "assistant", "content": [block.model_dump(exclude_unset=True) for block in reply.content]})

Strip for the screen if you like. `context.receive(reply)` and `context.result(call, value)` freeze bytes; nothing
trims them later.

## Detected by
- source: `strip`, `dedent` or a split and join of lines on text of the history.
- requests: the texts of a message are equal once white space is folded.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/mastra-ai/mastra/issues/15880
- https://github.com/SillyTavern/SillyTavern/issues/4611
- https://github.com/antirez/ds4/issues/985
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import same_words
from contextkit.lint.rules.respelled import Respelling, respelling
from contextkit.lint.rules.shapes import texts_of
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    constant_keys,
    content_writes,
    depends,
    last_name,
    messages_of,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _folded(step: Step, change: Change) -> Evidence | None:
    is_blank_gone = change.level == "messages" and len(change.was) != len(change.now) and _is_words_only(change) and same_words(change)
    if respelling(change) is not Respelling.BLANKS and not is_blank_gone:
        return None
    was, now = texts_of(change)
    return Evidence(f"an earlier text is the same but for white space, {len(was):,} characters long then and {len(now):,} now")


def _is_words_only(change: Change) -> bool:
    return all(block.type == "text" for block in (*change.was, *change.now))


# In code --------------------------------------------------------------------------------------------------------------------------

_FOLDS = frozenset({"strip", "rstrip", "lstrip", "dedent", "strip_whitespace", "normalize_whitespace", "collapse_whitespace"})


def _in_history(function: AnyFunction, view: View) -> Iterator[Hit]:
    """White space is taken from some messages of a history, or at some calls."""
    names = messages_of(function, view)
    for write in content_writes(function, view):
        if _folds(write.value) and (write.is_old or depends(write.node, function, view, names)):
            yield Hit(write.value, "white space is taken from messages that were sent with it")


def _folds(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or last_name(value.func) not in _FOLDS or "content" not in words_in(value).split():
        return False
    whole = value.func.value if isinstance(value.func, ast.Attribute) else None
    return not (isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice))


def _of_the_reply(block: ast.Dict, view: View) -> Iterator[Hit]:
    """The model's answer goes into the history without its white space."""
    keys = constant_keys(block)
    role, content = keys.get("role"), keys.get("content")
    if not isinstance(role, ast.Constant) or role.value != "assistant" or not isinstance(content, ast.Call):
        return
    is_reply = any(word in words_in(content).split() for word in ("choices", "response", "reply", "completion", "output_text"))
    if last_name(content.func) not in _FOLDS or not is_reply:
        return
    if any(isinstance(node, ast.Call) and _appends(node, view) for node in view.parents()):
        yield Hit(content, "the model's answer is kept without its white space: what is sent again is not what was cached")


def _appends(call: ast.Call, view: View) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend") and view.is_history(call.func.value)


HAZARD = Hazard(
    "CKM15", "whitespace-normalised", "A", "error",
    source=(
        Pattern(FUNCTIONS, _in_history, ("strip(", "dedent(", "whitespace("), is_near=True, also=(IN_HISTORY, ("content",))),
        Pattern((ast.Dict,), _of_the_reply, ("strip()",), also=(("strip", "dedent", "whitespace"), ("assistant",))),
    ),
    requests=(RequestRule("change", _folded, 14),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
