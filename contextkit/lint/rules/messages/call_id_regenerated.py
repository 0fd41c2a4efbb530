"""call-id-regenerated: ids of tool calls or items are made up anew when the history is sent again.

## What it does
The provider's id of a call is not stored, or does not fit another wire, and the serialiser makes one: a uuid, or a
prefix with a random part. The next serialisation makes another.

## Why it costs you
The ids are part of what is sent. The first of them that differs ends the reusable prefix, at the first tool call of
the session, so that nearly the whole conversation is written again with each request (1.25 times the input price on
Anthropic). Comparing texts and results shows nothing.

## Example
    def to_wire(turn):
        call_id = f"call_{uuid.uuid4().hex[:12]}"
        return [
            {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": turn.call}]},
            {"role": "tool", "tool_call_id": call_id, "content": turn.result},
        ]

    messages = [message for turn in history for message in to_wire(turn)]
    client.chat.completions.create(model=MODEL, messages=messages)

## Use instead
Store the id that came with the reply. Where there is none, derive one from what never changes:

    call_id = turn.call_id or "call_" + hashlib.sha256(f"{turn.index}:{turn.call}".encode()).hexdigest()[:12]

`context.receive(reply)` keeps the provider's words, ids included; for another wire they are projected the same way
each time.

## Detected by
- source: `uuid4` or a random part that becomes the id of a call or item where stored messages are serialised.
- requests: earlier turns differ only in their ids.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/OpenHands/software-agent-sdk/issues/2905
- https://github.com/NousResearch/hermes-agent/issues/3991
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM13", "call-id-regenerated", "A", "error", confirmed_by=("messages_changed", "input_changed"))
