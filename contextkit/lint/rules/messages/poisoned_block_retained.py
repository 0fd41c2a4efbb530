"""poisoned-block-retained: a rejected image or document is left in the transcript and dropped anew, or not, for each call.

## What it does
The provider refuses a request because of one block: an image too large, a broken document. The error handler sends
the request again without it, and leaves the stored history as it is. The next turn runs into the same error, or takes
another way around it.

## Why it costs you
Calls with and without the block alternate, and each form is a prefix of its own from that block on. Only the form
that was accepted writes an entry, but what is compared, retried and written shifts between the two; every turn also
pays the round trip of a refusal. The sum depends on how often the two forms change places.

## Example
    try:
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        without = [{**m, "content": [b for b in m["content"] if b["type"] != "image"]} for m in messages]
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=without)

## Use instead
Take it out of the history once, at the place where it failed, and leave a word in its stead:

    except anthropic.BadRequestError as error:
        replace_block(messages, block_named_in(error), {"type": "text", "text": "[image refused: too large]"})
        reply = client.messages.create(model=MODEL, max_tokens=2048, messages=messages)

Better, check size and type before the block is appended. With contextkit: `context.fork(at=entry)` before the bad
part, and say it again without it; the branch shares everything in front.

## Detected by
- source: a handler of a refused request that sends a filtered copy and does not keep it.
- requests: a block is there and not there in turn, from call to call.
- guard: a block of the call before is missing; the alternation shows after several.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/90363
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM24", "poisoned-block-retained", "B", "warning", confirmed_by=("messages_changed", "input_changed"))
