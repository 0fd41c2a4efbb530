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
- source: a loop over earlier messages that assigns a constant to their content.
- requests: the body of an earlier tool result gives way to a short constant while what follows is equal.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/32515
- https://github.com/esengine/DeepSeek-Reasonix/issues/8210
- https://github.com/vercel/eve/issues/175
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import is_placeholder, shortened
from contextkit.lint.rules.syntax import FUNCTIONS, IN_CONTENT, IN_HISTORY, AnyFunction, compacts, content_writes, text_in, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.trace.blocks import text_of
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _pruned(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    pairs = [(text_of(was), text_of(now)) for was, now in shortened(change) if was.type == "result"]
    cleared = [pair for pair in pairs if is_placeholder(*pair)]
    if not cleared or len(cleared) < len(pairs):
        return None
    lost = sum(len(was) - len(now) for was, now in cleared)
    return Evidence(f"{len(cleared)} earlier tool result{'s' * (len(cleared) > 1)} gave way to a placeholder, {lost:,} characters less")


# In code --------------------------------------------------------------------------------------------------------------------------

_WORDS = ("clear", "prun", "truncat", "omit", "remov", "elid", "compact", "trimm", "expire", "collapsed", "redacted", "stripped", "hidden")
_CLEARED = re.compile("|".join((*_WORDS, "old (?:tool|output|result)")), re.IGNORECASE)
_PICTURES = re.compile(r"image|screenshot|picture|photo|frame", re.IGNORECASE)


def _cleared(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A loop through sent messages writes a placeholder over their content."""
    for write in content_writes(function, view):
        text = text_in(write.value)
        is_notice = len(text) < 300 and _CLEARED.search(text) and not _PICTURES.search(text)
        if is_notice and _is_fixed(write.value) and not compacts(function, view):
            yield Hit(write.node, "the content of messages that were sent is replaced by a placeholder")


def _is_fixed(value: object) -> bool:
    """Whether nothing of the old content is kept: a constant, one by its name, or text with figures in it."""
    return type(value).__name__ in ("Constant", "JoinedStr", "List") and "content" not in words_in(value).split()  # type: ignore[arg-type]


HAZARD = Hazard(
    "CKM06", "old-tool-result-pruned", "A", "error",
    source=(Pattern(FUNCTIONS, _cleared, (*_WORDS, *(word.title() for word in _WORDS), "old ", "Old "), is_near=True,
                    also=(IN_HISTORY, IN_CONTENT)),),
    requests=(RequestRule("change", _pruned, 24),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
