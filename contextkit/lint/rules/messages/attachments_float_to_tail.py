"""attachments-float-to-tail: attached files or images move to the newest message with every turn.

## What it does
To keep what the user attached close at hand, the builder takes it out of the message it came with and adds it to the
last one. In the next call it moves again.

## Why it costs you
Two places differ: the old message has lost blocks, the new one has gained them. The prefix ends at the old one, so at
least one turn and all of the attachments are written anew in each call, at 1.25 times the input price. Attachments
are the largest blocks of many conversations, and they are never read from the cache this way.

## Example
    def with_attachments(messages, files):
        bare = [{**m, "content": [b for b in m["content"] if b["type"] != "document"]} for m in messages]
        bare[-1]["content"] += [document(file) for file in files]
        return bare

    client.messages.create(model=MODEL, max_tokens=2048, messages=with_attachments(messages, files))

## Use instead
An attachment belongs where it came in, and is named later rather than repeated:

    messages.append({"role": "user", "content": [*[document(file) for file in files], {"type": "text", "text": question}]})
    ...
    messages.append({"role": "user", "content": f"Concerning {files[0].name} again: {question}"})

If a block has to move, put the marker before the message that carries it, so that at least the history is read. In
contextkit parts stay in the entry they were said in.

## Detected by
- source: attachments taken out of earlier messages or added to the last one anew, per turn.
- requests: a block goes from an earlier message to the last in each call.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/QwenLM/qwen-code/issues/11651
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import MEDIA, floated, gone, messages
from contextkit.lint.trace.rule import Block, Change, Evidence, RequestRule, Step

_LARGE = 1_000
"""Bytes from which on a block of text that moves is an attached file."""


def _floated(step: Step, change: Change) -> Evidence | None:
    lost = {block.body: block for block in gone(change) if _is_attachment(block)} if change.level == "messages" else {}
    floats = [block for block in floated(step, change) if _is_attachment(block)]
    if floats:
        return Evidence(f"{len(floats)} attachment{'s' * (len(floats) > 1)} moved on to the newest message", floats[0].path)
    moved = [block for block in messages(step.after) if block.body in lost and block.message > lost[block.body].message]
    if not moved:
        return None
    return Evidence(f"{len(moved)} attachment{'s' * (len(moved) > 1)} moved from {lost[moved[0].body].path} to {moved[0].path}")


def _is_attachment(block: Block) -> bool:
    return block.type in MEDIA or (block.type == "text" and block.role == "user" and len(block.body) >= _LARGE)


HAZARD = Hazard(
    "CKM21", "attachments-float-to-tail", "A", "error", requests=(RequestRule("change", _floated, 15),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
