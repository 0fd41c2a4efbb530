"""image-replaced-later: an image is taken out of the history once it has been seen.

## What it does
Screenshots are large, so older ones are exchanged for a line of text, a file's name, or nothing: keep the last two,
drop the rest. Each new screenshot pushes an old one over the border.

## Why it costs you
The exchanged block stands in the middle of what was cached, and all messages behind it are new: on Anthropic 1.25
times the input price for each, every time a screenshot is made. There, adding or removing an image anywhere loses the
message level besides. An image that stays costs a tenth of its tokens per turn, often less than one rewrite.

## Example
    def prune_images(messages, keep=2):
        images = [block for message in messages for block in message["content"] if block["type"] == "image"]
        for block in images[:-keep]:
            block.clear()
            block.update(type="text", text="[screenshot removed]")

    prune_images(messages)
    client.messages.create(model=MODEL, max_tokens=2048, messages=messages)

## Use instead
Decide on the way in whether an image is worth keeping, at what size, and let it stay until the next compaction:

    image = shrink(screenshot, longest_side=1024)
    content = [{"type": "image", "source": image}] if worth_seeing(screenshot) else [{"type": "text", "text": describe(screenshot)}]
    messages.append({"role": "user", "content": content})

If they must go, drop many at once. In contextkit a part said stays until `context.compact(summary, keep_from=entry)`.

## Detected by
- source: functions that prune images, or keep the last few, over a history.
- requests: an image block gives way to text, or is gone, at a place that was sent before.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/openclaw/openclaw/issues/58038
- https://github.com/anthropics/claude-code/issues/91705
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import pictures_lost
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _replaced(step: Step, change: Change) -> Evidence | None:
    lost = pictures_lost(change) if change.level == "messages" and change.now else 0
    if not lost and not _is_removed(change):
        return None
    n = lost or len(change.was)
    return Evidence(f"{n} image{'s' * (n > 1)} of earlier messages {'gave way to text' if change.now else 'are gone'}")


def _is_removed(change: Change) -> bool:
    return change.level == "messages" and not change.now and all(pictures_lost(change) and block.type == "image" for block in change.was)


HAZARD = Hazard(
    "CKM18", "image-replaced-later", "A", "error", requests=(RequestRule("change", _replaced, 17),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
