"""mid-system-inlined: an adapter moves a system message from the middle of the conversation into the system prompt.

## What it does
The history holds a system message between turns: a reminder, a change of mode. An adapter for another wire collects
all messages of role `system`, joins them and sends them on top; or it turns them into something else and loses their
cache markers.

## Why it costs you
The top-level system text grows with each reminder, so a message that was meant to be appended rewrites the front: on
Anthropic system and messages are computed again each time. A marker that is lost on the way means that nothing is
written at that place, without any error.

## Example
    def to_anthropic(messages):
        system = " ".join(m["content"] for m in messages if m["role"] == "system")
        rest = [m for m in messages if m["role"] != "system"]
        return {"system": system, "messages": rest}

    client.messages.create(model=MODEL, max_tokens=2048, **to_anthropic(history))

## Use instead
Only what stands before the first user turn is the system prompt; the rest keeps its place. Newer Claude models take
`{"role": "system"}` within `messages` behind a user turn; elsewhere the reminder becomes user text:

    head = list(itertools.takewhile(lambda m: m["role"] == "system", messages))
    rest = [as_user(m) if m["role"] == "system" else m for m in messages[len(head):]]

contextkit keeps the place: `context.notice(text)` is written where it is said, and `Context.from_messages` adopts
system messages between turns as such.

## Detected by
- source: messages filtered by the role `system` and joined into the system text.
- requests: the top-level system text grows by a piece when a reminder comes, or a marker that was there is missing.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/maximhq/bifrost/issues/5929
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKS13", "mid-system-inlined", "B", "warning", confirmed_by=("system_changed", "input_changed"))
