"""swa-or-recurrent-no-rollback: the engine cannot cut its cache back to the shared start.

## What it does
Finds self-hosted models with sliding-window attention or recurrent layers, where any difference before the window makes the engine
compute the prompt from its first token.

## Why it costs you
A full-attention cache can be cut at any token. A window keeps only its last few thousand positions, a recurrent state only the present
one: to go back means to start again. llama.cpp then reports that it processes the full prompt, and one edit near the end of 60,000
tokens costs 60,000 tokens of prefill. An edit that would be cheap on another model is the most expensive one here.

## Example
    messages[-2]["content"] = shorten(messages[-2]["content"])
    client.chat.completions.create(model="gemma-3-27b", messages=messages)

## Use instead
Only append; checkpoints of the state, where the engine keeps them (`--ctx-checkpoints`, `--swa-full` in llama.cpp). A `Context` never
edits what was sent:

    context.notice("The last result was shortened.")

## Detected by
- source: not visible here; the edits that trigger it have rules of their own.
- requests: the engine's cached count falls to 0, or nearly, although a long start agrees.
- guard: any change of what was sent to such a model, under the code of that change.
- provider: the engine's log and `timings.cache_n` or `cached_tokens`.

## References
- https://github.com/ggml-org/llama.cpp/issues/21831
- https://github.com/ggml-org/llama.cpp/issues/14157
- https://github.com/SillyTavern/SillyTavern/issues/4611
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKE01", "swa-or-recurrent-no-rollback", "A", "warning")
