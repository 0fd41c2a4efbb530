"""cache-key-overshared: one cache key for everybody overflows the machine it points to.

## What it does
Finds a key that is constant for all users, or a session's key used by many parallel agents at once.

## Why it costs you
A key is an address. OpenAI advises to stay below about 15 requests a minute for one prefix and key; what exceeds that spills to other
machines, where the prefix is cold and is computed or written again. So a key that helps a single user makes the service slower and
dearer as it grows, and worst at its peak. Reports show misses rising with the number of calls in flight under a key.

## Example
    client.responses.create(model="gpt-5.5", prompt_cache_key="my-app", input=history)

## Use instead
Shard by what is shared: one key per conversation, or per tenant and lane, and a fixed number of shards for a head that everybody uses:

    shard = zlib.crc32(user_id.encode()) % 16
    client.responses.create(model="gpt-5.5", prompt_cache_key=f"my-app:{shard}", input=history)

## Detected by
- source: a literal, or a module constant, flows into the cache key of a call.
- requests: one key over many conversations, more than about 15 calls a minute, and misses that rise with them.
- guard: not for a single conversation.
- provider: silent.

## References
- https://github.com/bman654/clodex/issues/209
- https://github.com/cline/cline/issues/11261
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR05", "cache-key-overshared", "A", "warning")
