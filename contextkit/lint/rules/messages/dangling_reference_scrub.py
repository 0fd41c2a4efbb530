"""dangling-reference-scrub: earlier messages are scrubbed because a tool, file or server they mention is missing right now.

## What it does
Before each request the history is checked against what exists: a result of a tool whose server is offline, a file
that was deleted. What refers to nothing is replaced by a notice such as `no longer available`. When the server is
back, the original text is too.

## Why it costs you
One replacement in an early message makes everything behind it new, and the restoration does so again. A server that
loses its connection for a minute costs two rewrites of the conversation on Anthropic, each at 1.25 times the input
price, where doing nothing would have been read at a tenth.

## Example
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_result" and tool_of(block) not in registry:
                block["content"] = "The tool that gave this result is no longer available."

    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
What happened, happened: the result stays. Say at the tail what has changed, and refuse calls to what is gone:

    messages.append({"role": "user", "content": "The server `github` is offline; its tools will answer with an error for now."})

Remove references only where the history is rewritten anyway, and never put them back. In contextkit results cannot be
edited; `context.notice(...)` tells of the outage and `call.deny("github is offline")` answers a call.

## Detected by
- source: a history whose contents are replaced by a notice depending on what is registered or exists.
- requests: an earlier tool result becomes a notice, and later often itself again.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/90584
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import ABSENT, is_notice, is_restored
from contextkit.lint.rules.shapes import paired
from contextkit.lint.rules.syntax import FUNCTIONS, IN_CONTENT, IN_HISTORY, AnyFunction, content_writes, text_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.prompt.block import text_of


def _scrubbed(step: Step, change: Change) -> Evidence | None:
    pairs = [(text_of(was), text_of(now)) for was, now in paired(change)] if change.level == "messages" else []
    if not pairs or not all(is_notice(*pair) for pair in pairs):
        return None
    return Evidence(f"an earlier {change.was[0].type} gave way to a notice that something is missing")


def _restored(step: Step, change: Change) -> Evidence | None:
    """A notice gave way to what stood there before it."""
    pairs = [(text_of(was), text_of(now)) for was, now in paired(change)] if change.level == "messages" else []
    if (
        not pairs
        or not all(is_notice(now, was) for was, now in pairs)
        or not is_restored(step, change, len(step.earlier))
    ):
        return None
    return Evidence("a notice that something is missing gave way to what stood there before it")


# In code
# --------------------------------------------------------------------------------------------------------------------------

_NOTICES = (
    "no longer",
    "not available",
    "unavailable",
    "not exist",
    "not found",
    "missing",
    "removed",
    "disconnected",
    "deleted",
    "not installed",
    "not connected",
    "not registered",
)


def _scrubbed_over(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A notice is written over the content of messages that were sent."""
    for write in content_writes(function, view):
        text = text_in(write.value)
        if len(text) < 300 and ABSENT.search(text):
            yield Hit(
                write.node, "messages that were sent give way to a notice that depends on what is there right now"
            )


HAZARD = Hazard(
    "CKM23",
    "dangling-reference-scrub",
    "A",
    "warning",
    source=(Pattern(FUNCTIONS, _scrubbed_over, _NOTICES, is_near=True, also=(IN_HISTORY, IN_CONTENT)),),
    requests=(RequestRule("change", _scrubbed, 20), RequestRule("change", _restored, 20)),
    confirmed_by=("messages_changed", "input_changed"),
)
