"""content-shape-flip: a message's content is a string in one call and a list of blocks in another.

## What it does
A cache marker needs a block to stand on, so the code wraps the text of the newest message in a list and adds the
marker. In the next call the marker moves on, and the old message goes back to being a plain string.

## Why it costs you
Where a hop or an engine compares what was sent, the two shapes are two prefixes: the message and all behind it are
new. Anthropic documents a string as equal to one text block, so against it directly the change may cost nothing;
adapters, gateways and templates between need not agree, and several projects traced broken caches to this flip. It
strikes in every turn, exactly where the previous turn wrote its entry.

## Example
    def mark_last(messages):
        out = [dict(message) for message in messages]
        if isinstance(out[-1]["content"], str):
            out[-1]["content"] = [{"type": "text", "text": out[-1]["content"], "cache_control": {"type": "ephemeral"}}]
        return out

    client.chat.completions.create(model="anthropic/claude-sonnet-4.6", messages=mark_last(messages))

## Use instead
One shape for all messages, from the moment they are written:

    messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

The marker then comes and goes as a key of its own, which no cache counts as text. contextkit always writes lists of
blocks, and its breakpoints are spliced into bytes that stay the same.

## Detected by
- source: content that is wrapped into a block only where `cache_control` is added, but for files that speak to Anthropic's own client.
- requests: a message with the same text and another JSON shape when its marker has left it, where the provider asked tells the two apart.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/BYK/loreai/issues/1327
- https://github.com/omnara-ai/omnara/issues/480
- https://github.com/anthropics/claude-code/issues/93490
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

import orjson

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import span_of, statements, uses_of
from contextkit.lint.rules.shapes import paired
from contextkit.lint.rules.syntax import constant_keys, last_name, text_in, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import functions_in
from contextkit.prompt.block import Block

_PLAIN = frozenset({"type", "text"})
_STRAIGHT = re.compile(rb"^[ \t]*(?:from|import) anthropic\b", re.MULTILINE)
"""Anthropic's own client: nothing stands between that tells a string from one text block."""
_TEXTS = frozenset({"text", "input_text", "output_text"})


def _flipped(step: Step, change: Change) -> Evidence | None:
    pairs = paired(change)
    if change.level == "tools" or not pairs or not all(_is_flip(*pair) for pair in pairs):
        return None
    return Evidence("the same text, once as a string and once as a list of blocks")


def _is_flip(was: Block, now: Block) -> bool:
    one, other = orjson.loads(was.body), orjson.loads(now.body)
    return was.role == now.role and _bare(one) == _bare(other) and _has_flip(one, other)


def _has_flip(was: Json, now: Json) -> bool:
    """Whether a string stands where a block or a list stands, at the same place."""
    if isinstance(was, str) or isinstance(now, str):
        return type(was) is not type(now)
    if isinstance(was, dict) and isinstance(now, dict):
        return any(_has_flip(was.get(key), now.get(key)) for key in was.keys() & now.keys())
    return False


def _bare(value: Json) -> Json:
    """A list of one text block, and a text block, as its string."""
    if isinstance(value, list):
        return _bare(value[0]) if len(value) == 1 else [_bare(item) for item in value]
    if isinstance(value, dict):
        is_text = isinstance(value.get("text"), str) and value.keys() <= _PLAIN and value.get("type", "text") in _TEXTS
        return value["text"] if is_text else {key: _bare(item) for key, item in value.items()}
    return value


# In code
# --------------------------------------------------------------------------------------------------------------------------


def _wrapped(branch: ast.If, view: View) -> Iterator[Hit]:
    """A string becomes a list of one block where it gets a marker, and only there."""
    marked = [node for node in branch.body if _is_marked_block(node)]
    if not marked or _STRAIGHT.search(view.source):
        return
    said = words_in(branch.test).split()
    if "isinstance" in said and "str" in said and "system" not in text_in(branch.test) and not _marks_system_only(view):
        why = "content becomes a list only where it gets a marker: without it the same text is a string again"
        yield from (Hit(node, why) for node in marked)


def _is_marked_block(node: ast.stmt) -> bool:
    """`message["content"] = [{"text": …, "cache_control": …}]`."""
    if (
        not isinstance(node, ast.Assign)
        or last_name(node.targets[0]) != "content"
        or not isinstance(node.value, ast.List)
    ):
        return False
    blocks = (constant_keys(item) for item in node.value.elts if isinstance(item, ast.Dict))
    return any({"text", "cache_control"} <= keys.keys() for keys in blocks)


def _marks_system_only(view: View) -> bool:
    """Whether the function around is called for system messages alone, which are marked in every request alike."""
    function, around = view.function(), view.parents()
    if function is None or not around:
        return False
    uses = uses_of(function, view)
    callers = [one for one in functions_in(around[0]) if _holds_any(span_of(one.body, view), uses)] if uses else []
    spans = [
        span_of(branch.body, view) for one in callers for branch in statements(one.body) if _is_about_system(branch)
    ]
    return bool(uses) and all(any(_holds_any(span, [use]) for span in spans) for use in uses)


def _holds_any(span: tuple[int, int], places: list[int]) -> bool:
    return any(span[0] <= place < span[1] for place in places)


def _is_about_system(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and "system" in text_in(node.test)


HAZARD = Hazard(
    "CKM10",
    "content-shape-flip",
    "A",
    "error",
    source=(Pattern((ast.If,), _wrapped, ("cache_control",), is_near=True),),
    requests=(RequestRule("change", _flipped, 5),),
    confirmed_by=("messages_changed", "input_changed"),
)
