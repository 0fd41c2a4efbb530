"""below-minimum: the marked prefix is shorter than the model caches at all.

## What it does
Finds markers on a prefix below the minimum of its model: 512 tokens for the newest Claude models, 1,024 to 4,096 for older ones, 1,024
for OpenAI and Qwen, 2,048 or 4,096 for Gemini.

## Why it costs you
Below the minimum nothing is written and nothing is said: no error, both counters 0. The minimum is a property of the model, so a prompt
that was cached on one silently is not on the next: 1,500 tokens are enough for Sonnet 4.6 and too few for Opus 4.7 (2,048) or Haiku 4.5
(4,096). In a fan-out of many short calls the whole saving disappears.

## Example
    client.messages.create(
        model="claude-haiku-4-5", max_tokens=300,
        system=[{"type": "text", "text": SHORT_INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}], messages=messages,
    )

## Use instead
Bring what is stable together before the marker (instructions, examples, tool definitions) until it passes the minimum, or leave the
marker out. contextkit's planner omits marks that could not be cached; the minimum stands in its model table:

    context = Context(AnthropicMessages("claude-haiku-4-5", max_tokens=300), system=INSTRUCTIONS + EXAMPLES, tools=TOOLS)

## Detected by
- source: a marker behind literal text that is clearly too short for the model named beside it.
- requests: markers present, no reads and no writes, and an estimate below the model's minimum.
- guard: the estimate, before it is sent.
- provider: silent.

## References
- https://github.com/BerriAI/litellm/issues/33637
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#cache-limitations
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB11", "below-minimum", "A", "warning")
