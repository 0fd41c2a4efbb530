"""model-switch-or-fallback: another model answers in the middle of a conversation, and no cache follows it there.

## What it does
Finds sessions in which the model changes from one call to the next: a router that picks by difficulty, a fallback after an error, a
cheap model for one step.

## Why it costs you
Every provider keeps its entries per model, and some per account behind a fallback. The whole prompt is written again for the new model,
and once more on the way back if its entry has expired meanwhile. With 100,000 tokens of history at Claude's usual ratio (a write 1.25
times input, a read a tenth or a twentieth) one detour costs as much as twelve to twenty-five turns that stay. On newer Claude models
thinking is bound to its model family, so the detour may lose reasoning or fail as well.

## Example
    for model in (MAIN, FALLBACK):
        with suppress(anthropic.APIStatusError):
            return client.messages.create(model=model, max_tokens=4096, system=SYSTEM, messages=history)

## Use instead
Retry on the same model first; give other models tasks of their own, with a short prompt. In contextkit a conversation has one provider
and the parts for others are separate contexts:

    small = Context(AnthropicMessages("claude-haiku-5-5", max_tokens=500), system="Give the text a title.")
    small.user(text)

## Detected by
- source: a model chosen at run time, or a list of fallbacks, inside the loop.
- requests: the model differs from that of the call before in the same conversation.
- guard: the same, before it is sent, with what the rewrite will cost.
- provider: `model_changed`, from Anthropic and from OpenAI.

## References
- https://github.com/NousResearch/hermes-agent/issues/58747
- https://github.com/openclaw/openclaw/issues/115272
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKP01", "model-switch-or-fallback", "A", "error", confirmed_by=("model_changed",))
