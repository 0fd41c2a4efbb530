"""load-balancer-spread: calls of one conversation are spread over deployments, keys or regions that share no cache.

## What it does
Finds a router that picks at random, or the least busy, among several deployments, accounts or regions, with nothing that ties a
conversation to one of them.

## Why it costs you
A cache belongs to a machine, a region, an organisation; two deployments of the same model share nothing. With four deployments and
random choice a conversation finds its prefix on one call in four at best, and each deployment is paid a write of its own. Self-hosted
replicas behave alike: vLLM, SGLang and llama.cpp keep their caches in their own memory. LiteLLM and others have several reports of hit
rates that fell as soon as a second deployment was added.

## Example
    router = litellm.Router(model_list=DEPLOYMENTS, routing_strategy="simple-shuffle")
    router.completion(model="main", messages=history)

## Use instead
Tie the conversation to one deployment: by session id, or by a hash of the prefix for what conversations share. Move it only when the
deployment fails:

    deployment = DEPLOYMENTS[int.from_bytes(sha256(session.encode()).digest()[:4]) % len(DEPLOYMENTS)]
    litellm.completion(**deployment, messages=history)

## Detected by
- source: a router built with a spreading strategy and no affinity.
- requests: the deployment, region or upstream of a response varies within a session, and reads fall to 0 as it does, where the
  recording holds it.
- guard: not before sending; the reply shows who served it.
- provider: silent: each deployment sees a first request. vLLM and SGLang report `cached_tokens` 0.

## References
- https://github.com/BerriAI/litellm/issues/6784
- https://github.com/BerriAI/litellm/issues/38078
- https://github.com/vectorize-io/hindsight/issues/3271
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR01", "load-balancer-spread", "A", "error")
