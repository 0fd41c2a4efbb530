"""effort-change: the effort differs between two calls of one conversation.

## What it does
Finds a reasoning effort (`output_config.effort`, `reasoning.effort`, `reasoning_effort`) that is chosen per turn.

## Why it costs you
Effort is printed into the prompt or is part of the key, depending on the model: on Claude the messages are computed again, on some
models what precedes them too; on OpenAI it belongs to the key. Turning it down for an easy step saves output tokens and pays the whole
history for it. Sending a model's default explicitly counts as leaving it out.

## Example
    effort = "low" if is_simple(step) else "high"
    client.messages.create(model=MODEL, max_tokens=4096, output_config={"effort": effort}, messages=history)

## Use instead
One effort for a session. Where the provider offers a change in band, send that: OpenAI's `configuration_update` item, Claude's system
message with an effort of its own (beta). In contextkit it is a parameter of the provider, set once:

    provider = AnthropicMessages("claude-opus-5-5", max_tokens=4096, output_config={"effort": "high"})

## Detected by
- source: a value that is not constant flows into the effort of a call in a loop.
- requests: the effort differs from the call before, and the read falls.
- guard: the same, before it is sent.
- provider: `reasoning_effort_changed` from OpenAI; Anthropic has no word of its own for it (`unavailable` or `messages_changed`).

## References
- https://github.com/openai/codex/issues/35416
- https://github.com/anthropics/claude-code/issues/92444
- https://github.com/anomalyco/opencode/issues/48513
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKP02", "effort-change", "A", "warning", confirmed_by=("reasoning_effort_changed",))
