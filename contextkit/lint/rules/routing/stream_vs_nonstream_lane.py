"""stream-vs-nonstream-lane: only one of streaming and non-streaming calls takes part in the cache.

## What it does
Finds sessions that stream some calls and not others, on a stack that caches one of the two paths, or sends the cache key on one only.

## Why it costs you
The provider's key does not contain the flag, so this should cost nothing. In adapters the two are separate code: one copies the key,
the markers or the usage fields, and the other forgets. Half of the calls then miss, or appear to miss because their cached tokens are
not passed on.

## Example
    if on_terminal:
        reply = client.stream(messages, cache_key=key)
    else:
        reply = client.complete(messages)

## Use instead
One builder for both, and a measurement of both. A contextkit request is the same bytes apart from the flag:

    request = context.request()
    request.stream(client) if on_terminal else request.send(client)

## Detected by
- source: the flag is chosen at run time and the two branches pass different arguments.
- requests: within a session reads happen for one value of `stream` only.
- guard: not before sending; the reads of both kinds are compared afterwards.
- provider: silent.

## References
- https://github.com/Dicklesworthstone/pi_agent_rust/issues/188
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR09", "stream-vs-nonstream-lane", "B", "warning")
