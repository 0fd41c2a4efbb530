"""read-after-write-lag: the call right behind the first still misses.

## What it does
Finds two calls with equal bytes, a few seconds apart, that both write.

## Why it costs you
The entry should be readable once the first response begins; in practice some requests come too early, or land on a machine that has not
heard of it. Reported for Claude, undocumented for OpenAI's time from write to read. It is the provider's side, so nothing in the
program is to be mended; only short sessions feel it, because it costs one more write of the head.

## Example
    first = client.messages.create(**body)
    second = client.messages.create(**body)

## Use instead
Nothing, or a short wait after a warm-up; do not go looking for a change that is not there:

    context.receive(context.request(max_tokens=0).send(client))
    time.sleep(2)

## Detected by
- source: not visible.
- requests: equal bytes, a gap below a few seconds after the first response began, and both calls write.
- guard: not before sending; noticed when the bill comes back.
- provider: silent: the text is the same.

## References
- https://github.com/anthropics/anthropic-sdk-python/issues/1451
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL04", "read-after-write-lag", "B", "note")
