"""cache-key-missing: calls carry nothing that routes them to the machine that has the prefix.

## What it does
Finds loops that call a provider with an automatic cache per machine and send no `prompt_cache_key`, `session_id` or affinity header.

## Why it costs you
On OpenAI up to gpt-5.5, on xAI, Fireworks, Mistral and Cloudflare the cache lives where the last call was served, and the key decides
where the next one goes. Without it equal prefixes hit or miss by chance: reports show `cached_tokens` jumping between 0 and everything
for byte-identical requests. Mistral caches nothing at all without the key. From gpt-5.6 on the key no longer routes; it only keeps
conversations apart.

## Example
    for step in range(MAX_STEPS):
        reply = client.responses.create(model="gpt-5.5", input=history, tools=TOOLS)

## Use instead
A key per conversation, or per group of conversations that share their head, constant for as long as it lives:

    context = Context(OpenAIResponses("gpt-5.5", prompt_cache_key=f"support:{conversation_id}"), system=SYSTEM, tools=TOOLS)

## Detected by
- source: a Chat or Responses call in a loop without a key, unless the model needs none.
- requests: equal prefixes, no key, and cached tokens that come and go.
- guard: the body without a key, before it is sent.
- provider: silent: OpenAI's diagnosis speaks of keys that changed, not of missing ones.

## References
- https://github.com/Dicklesworthstone/pi_agent_rust/issues/188
- https://github.com/exoharness/exo/issues/24
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR04", "cache-key-missing", "A", "warning")
