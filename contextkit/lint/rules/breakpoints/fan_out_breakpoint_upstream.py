"""fan-out-breakpoint-upstream: siblings share a long start, but the last marker stands before the part they share.

## What it does
Finds sub-agents whose only marker closes the system prompt, while the documents or the transcript that follow are the same for all of
them and only the last message differs.

## Why it costs you
What several requests have in common is read as far as the last marker within it. If ten siblings share 60,000 tokens of material behind
a 5,000-token head, ten times 60,000 tokens are billed as fresh input or written, where nine could have been read at a tenth of the
price (a twentieth on Opus and Sonnet 5.5).

## Example
    def ask(question):
        return client.messages.create(model=MODEL, max_tokens=900, system=[marked(SYSTEM)], messages=[user(MATERIAL + question)])

## Use instead
Split the shared part from the question and mark its end. `context.fork()` gives siblings that share every byte said so far:

    def ask(question):
        content = [{"type": "text", "text": MATERIAL, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": question}]
        return client.messages.create(model=MODEL, max_tokens=900, system=SYSTEM, messages=[{"role": "user", "content": content}])

## Detected by
- source: a function called for many tasks that marks the system prompt only and puts shared text into its message.
- requests: calls of several lanes whose common prefix is longer than what they read, with no marker at its end.
- guard: not before the second sibling; it compares a conversation with itself.
- provider: silent: each sibling is a first request.

## References
- https://github.com/anthropics/claude-code/issues/82739
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB14", "fan-out-breakpoint-upstream", "A", "warning")
