"""prewarm-mismatch: the warm-up is another request than the one it should warm.

## What it does
Finds a pre-warming call built by its own code: other thinking, other effort, no tools, its only marker at the very end.

## Why it costs you
A warm-up pays a full write so that the first real call reads. If its head differs in one parameter that is rendered into the prompt, or
if its only marker closes its own throw-away message, the real call finds nothing and writes again: twice the price and no gain. Claude
refuses some combinations for a call that generates nothing (streaming, thinking switched on by budget, an answer schema, a forced
tool), which tempts one to leave them out.

## Example
    client.messages.create(model=MODEL, max_tokens=1, system=SYSTEM, messages=[{"role": "user", "content": "hi"}])
    client.messages.create(model=MODEL, max_tokens=4096, system=SYSTEM, tools=TOOLS, thinking=ADAPTIVE, messages=messages)

## Use instead
The same builder, with one field changed and a marker at the end of what is shared:

    context.receive(context.request(max_tokens=0).send(client))
    context.receive(context.request().send(client))

## Detected by
- source: a call with no more than one token of output whose arguments differ from those of the main call in the same module.
- requests: a call without output writes, and the first real call writes its head again.
- guard: the first real call, when its head differs from the warm-up's.
- provider: `tools_changed` or `system_changed` when the real call asks to be compared with the warm-up.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pre-warming-the-cache
- https://github.com/NousResearch/hermes-agent/issues/73017
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL09", "prewarm-mismatch", "D", "warning")
