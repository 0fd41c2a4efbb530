"""upstream-host-switch: an aggregator serves the next call from another host.

## What it does
Finds sessions through an aggregator (OpenRouter, a reseller, a model hub) in which the upstream host changes between calls.

## Why it costs you
An aggregator chooses by price, load and errors. The hosts of one open model are separate companies: what one has cached the next has
never seen, and minimum, price and even the template may differ. `cached_tokens` drops to 0 for the whole prompt and comes back only if
the route does. A session of 80,000 tokens that changes host every third call reads hardly anything.

## Example
    client.chat.completions.create(model="deepseek/deepseek-v4-pro", messages=history)

## Use instead
Send a session id, and after the first success name the host that has the prefix:

    client.chat.completions.create(
        model="deepseek/deepseek-v4-pro", messages=history,
        extra_body={"session_id": session, "provider": {"order": [first_host], "allow_fallbacks": True}},
    )

## Detected by
- source: a client with the base URL of an aggregator and calls that carry neither a session id nor an order of hosts.
- requests: the host named in the responses changes within a session and the cached tokens fall with it, where the recording holds it.
- guard: not before sending; the body shows only that nothing pins the route.
- provider: silent: the new host sees a first request.

## References
- https://github.com/damianvtran/local-operator/issues/995
- https://github.com/Temikus/denkeeper/issues/194
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR03", "upstream-host-switch", "A", "error")
