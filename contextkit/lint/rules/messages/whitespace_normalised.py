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

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM15", "whitespace-normalised", "A", "error", confirmed_by=("messages_changed", "input_changed"))
