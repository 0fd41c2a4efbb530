"""tool-choice-change: the choice of tools changes, and with it the key of the messages.

## What it does
Finds a `tool_choice`, or a `disable_parallel_tool_use`, that differs from the call before.

## Why it costs you
On Claude it belongs to the level of the messages: tools and system are still read, the history is computed again. Some open templates
(Kimi K3) print it into the prompt. On OpenAI `none` and the list of allowed tools are neutral. It is still cheaper than taking the
tools away, which loses all three levels: one project measured 632 tokens read and 23,943 written after keeping the tools and setting
the choice, where before nothing was read.

## Example
    choice = {"type": "tool", "name": "finish"} if step == LAST else {"type": "auto"}
    client.messages.create(model=MODEL, max_tokens=4096, tools=TOOLS, tool_choice=choice, messages=history)

## Use instead
Leave the choice alone and say it in the newest message; the newest Claude models refuse a forced choice anyway:

    context.user("Finish now: call `finish` with your result.")
    client.messages.create(**context.request())

## Detected by
- source: a value that is not constant flows into `tool_choice` of a call in a loop.
- requests: the choice differs, and the read ends at the system prompt.
- guard: the same, before it is sent.
- provider: Anthropic has no word of its own for it (`unavailable` or `messages_changed`).

## References
- https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKP04", "tool-choice-change", "D", "warning")
