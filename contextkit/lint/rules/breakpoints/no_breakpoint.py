"""no-breakpoint: a prompt goes to a provider that caches only what is marked, and nothing is marked.

## What it does
Finds calls to an explicit cache (Claude on its own API, Bedrock `Converse`, Qwen's explicit mode) whose body holds no `cache_control`,
no `cachePoint` and no automatic marker, while the prompt is longer than the model's minimum.

## Why it costs you
Such a provider writes an entry at a marker and nowhere else, so every turn is billed as fresh input. On `claude-sonnet-5-5` that is 2
USD per million tokens where a read costs 0.10: twenty times the price for the whole prefix, on every call of the loop. Nothing fails
and nothing warns; both cache counters simply stay at 0. Adapters that rebuild bodies for another endpoint are where it usually happens.

## Example
    client.messages.create(
        model="claude-sonnet-5-5", max_tokens=4096,
        system=INSTRUCTIONS, tools=TOOLS, messages=messages,
    )

## Use instead
One marker at the top level lets the server mark the last block it can; `Context` marks the head and the tail by itself:

    client.messages.create(
        model="claude-sonnet-5-5", max_tokens=4096, cache_control={"type": "ephemeral"},
        system=INSTRUCTIONS, tools=TOOLS, messages=messages,
    )
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096), system=INSTRUCTIONS, tools=TOOLS)
    client.messages.create(**context.request())

## Detected by
- source: a call on an Anthropic or Bedrock path that is given no marker, in a loop or in a function called per turn.
- requests: a body without markers, above the model's minimum, billed with neither reads nor writes.
- guard: the same, before it is sent.
- provider: silent; Anthropic's diagnosis compares the text of requests, not their markers.

## References
- https://github.com/brightwave-inc/tidebreak/issues/1087
- https://github.com/NousResearch/hermes-agent/issues/70216
- https://github.com/langchain-ai/langchain/issues/33635
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB01", "no-breakpoint", "A", "error")
