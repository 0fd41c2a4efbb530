"""unmarkable-block: a marker on an empty text block or on thinking is refused or ignored.

## What it does
Finds markers on blocks that cannot carry one: empty text, thinking and redacted thinking, parts inside another block such as citations.

## Why it costs you
Claude's thinking blocks have no field for a marker; an empty text block with one is a 400. Where a layer drops the marker instead, the
newest turn is not written and the next request finds only what an older marker left. It shows first when a model answers with tool
calls alone, or with thinking last.

## Example
    reply = {"role": "assistant", "content": [{"type": "text", "text": answer or ""}]}
    reply["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Step back to the nearest block that may be marked. Automatic marking does so on the server, and contextkit's planner does it on its
side:

    block = next(part for part in reversed(content) if part["type"] not in ("thinking", "redacted_thinking") and part.get("text") != "")
    block["cache_control"] = {"type": "ephemeral"}

## Detected by
- source: a marker on a text that may be empty, or on the last block of a reply without looking at its type.
- requests: a marker on an empty text or a thinking block.
- guard: the same, before it is sent.
- provider: an HTTP 400 that names the block.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-cannot-be-cached
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB12", "unmarkable-block", "D", "error")
