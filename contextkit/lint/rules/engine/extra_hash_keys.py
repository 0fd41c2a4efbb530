"""extra-hash-keys: a salt, an adapter or another extra key enters the hash of the blocks.

## What it does
Finds `cache_salt`, LoRA names, `extra_key` or prompt embeddings that vary from request to request.

## Why it costs you
vLLM hashes the salt into the first block, and every later block into the next: another salt is another cache from the first token on.
Adapter names, hashes of images and embeddings count in each block. A random salt switches caching off while it seems to be on; an
adapter per user gives each of them a cache of their own for the very same system prompt.

## Example
    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"cache_salt": secrets.token_hex(16)})

## Use instead
A salt for each domain of trust, not for each call: one per tenant is enough to keep tenants from measuring each other's prompts:

    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"cache_salt": tenant.salt})

## Detected by
- source: a random value, an id or the clock flows into the salt.
- requests: salt or adapter differ within a conversation.
- guard: the same, before it is sent.
- provider: `cached_tokens` is 0; engines give no reason.

## References
- https://github.com/vllm-project/vllm/issues/44701
- https://github.com/vllm-project/vllm/issues/23301
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKE03", "extra-hash-keys", "A", "error")
