"""old-tool-result-pruned: old tool results are replaced by a placeholder long before the window is full.

## What it does
Before each request a loop walks over the history and swaps the content of older tool results for something like
`[cleared]`, to save tokens. The results behind the newest few lose their text one after another.

## Why it costs you
Every replacement stands in the middle of what was cached, and all that follows it is written again. Clearing 2,000
tokens in front of 50,000 saves at most the reads of those 2,000 (a tenth of the price) and pays 1.25 times for the
50,000; the same sum is due the next turn. On models that bind thinking to its prefix, an edited history is a 400 or
drops the reasoning.

## Example
    def prune(messages):
        for message in messages[:-6]:
            for block in message["content"]:
                if block["type"] == "tool_result":
                    block["content"] = "[cleared]"

    prune(messages)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Shorten a result when it arrives, before it is sent for the first time, and keep the rest retrievable. Clear old ones
only together with a rewrite that happens anyway: a compaction, a cold start after a long pause, or where the tokens
saved over the remaining turns exceed the cost.

    result = output if len(output) < LIMIT else output[:LIMIT] + f" [cut; the whole is in {saved_to}]"

In contextkit results are frozen when `context.result(call, value)` is said; `context.compact(...)` is the place to
let go of old ones.

## Detected by
- source: a loop over earlier messages that assigns a constant to their content, or nothing where the newest are left out. Not in a
  copy that is only printed or written to a file.
- requests: the body of an earlier tool result gives way to a short constant while what follows is equal.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/32515
- https://github.com/esengine/DeepSeek-Reasonix/issues/8210
- https://github.com/vercel/eve/issues/175
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import is_placeholder, shortened
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_CONTENT,
    IN_HISTORY,
    AnyFunction,
    Write,
    compacts,
    content_writes,
    last_name,
    text_in,
    unwrapped,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import text_of


def _pruned(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    pairs = [(text_of(was), text_of(now)) for was, now in shortened(change) if was.type == "result"]
    cleared = [pair for pair in pairs if is_placeholder(*pair)]
    if not cleared or len(cleared) < len(pairs):
        return None
    lost = sum(len(was) - len(now) for was, now in cleared)
    return Evidence(
        f"{len(cleared)} earlier tool result{'s' * (len(cleared) > 1)} gave way to a placeholder, {lost:,} characters less"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_WORDS = (
    "clear",
    "prun",
    "truncat",
    "omit",
    "remov",
    "elid",
    "compact",
    "trimm",
    "expire",
    "collapsed",
    "redacted",
    "stripped",
    "hidden",
)
_CLEARED = re.compile("|".join((*_WORDS, "old (?:tool|output|result)")), re.IGNORECASE)
_PICTURES = re.compile(r"image|screenshot|picture|photo|frame", re.IGNORECASE)


_NAMED = ("PLACEHOLDER", "CLEARED", "PRUNED", "ELIDED", "OMITTED", "TRUNCATED", "REMOVED")
"""Words of a constant that is such a notice."""
_EMPTY = ('= ""', "= ''", '": ""', "': ''")
_SHOWS = frozenset(
    {"dumps", "dump", "print", "pprint", "pformat", "write", "writelines", "write_text", "debug", "info", "log", "len"}
)
"""Functions that tell people, or a file, what they are given."""


def _cleared(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A loop through sent messages writes a placeholder over their content."""
    writes = [write for write in content_writes(function, view) if _is_notice(write)]
    if writes and not compacts(function, view) and not _is_of_shown_copies(function, view):
        yield from (
            Hit(write.node, "the content of messages that were sent is replaced by a placeholder") for write in writes
        )


def _is_notice(write: Write) -> bool:
    """Whether what is written says that something was here; or nothing, where the newest messages are left out."""
    value = write.value
    if isinstance(value, ast.Constant) and value.value == "":
        return write.is_old
    if isinstance(value, ast.Name | ast.Attribute):
        name = last_name(value)
        return name.isupper() and any(word in name for word in _NAMED) and not _PICTURES.search(name)
    text = text_in(value)
    return len(text) < 300 and bool(_CLEARED.search(text)) and not _PICTURES.search(text) and _is_fixed(value)


def _is_fixed(value: ast.expr) -> bool:
    """Whether nothing of the old content is kept: a constant, one by its name, or text with figures in it."""
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.JoinedStr | ast.List) and "content" not in words_in(value).split()


def _is_of_shown_copies(function: AnyFunction, view: View) -> bool:
    """Whether all that is gone through are copies, made here, that are only printed or written to a file."""
    loops = [unwrapped(loop.iter) for loop in view.nodes(function, ast.For) if view.is_history(unwrapped(loop.iter))]
    names = {last_name(one) for one in loops}
    copies = {last_name(one.targets[0]) for one in view.nodes(function, ast.Assign) if _is_copy(one.value)}
    return bool(names) and names <= copies and all(_is_only_shown(name, loops, function, view) for name in names)


def _is_copy(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in {"deepcopy", "copy", "loads"}


def _is_only_shown(name: str, loops: list[ast.expr], function: AnyFunction, view: View) -> bool:
    read = [one for one in view.nodes(function, ast.Name) if one.id == name and isinstance(one.ctx, ast.Load)]
    shown = [part for call in view.nodes(function, ast.Call) if last_name(call.func) in _SHOWS for part in walk(call)]
    others = [one for one in read if not any(one is loop for loop in loops)]
    return bool(others) and all(any(one is part for part in shown) for one in others)


HAZARD = Hazard(
    "CKM06",
    "old-tool-result-pruned",
    "A",
    "error",
    source=(
        Pattern(
            FUNCTIONS,
            _cleared,
            (*_WORDS, *(word.title() for word in _WORDS), "old ", "Old ", *_NAMED, *_EMPTY),
            is_near=True,
            also=(IN_HISTORY, IN_CONTENT),
        ),
    ),
    requests=(RequestRule("change", _pruned, 24),),
    confirmed_by=("messages_changed", "input_changed"),
)
