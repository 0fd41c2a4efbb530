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
- source: a LiteLLM router without a check that keeps a conversation where it is, or a client picked at random per
  call.
- requests: the region in the model's name, or the recorded provider, differs from the call before.
- guard: the region in the model's name; who served a call shows only in the reply.
- provider: silent: each deployment sees a first request. vLLM and SGLang report `cached_tokens` 0.

## References
- https://github.com/BerriAI/litellm/issues/6784
- https://github.com/BerriAI/litellm/issues/38078
- https://github.com/vectorize-io/hindsight/issues/3271
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.callsites import has_unknown_keywords, keyword, text_of
from contextkit.lint.rules.settings import had_cached, is_aggregated, is_other_model, moved, outlives_pin
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.lint.trace.rule import Evidence, RequestRule, Step

_ROUTERS = ("litellm.Router", "litellm.router.Router")
_AFFINITY = ("prompt_caching", "deployment_affinity", "session_affinity", "responses_api_deployment_check")


def _spread(step: Step) -> Evidence | None:
    """The same model in another region, or on another platform."""
    if is_other_model(step) or is_aggregated(step.after) or outlives_pin(step) or not had_cached(step, "tools"):
        return None
    found = moved(step)
    return found.evidence(f"the next call went to another place: {found.was} before, {found.now} now") if found else None


def _router(node: ast.Call, view: View) -> Iterator[Hit]:
    """`litellm.Router(model_list=…)` with nothing that ties a conversation to a deployment."""
    if not view.dotted(node).endswith(_ROUTERS) or keyword(node, "model_list") is None or has_unknown_keywords(node):
        return
    checks = keyword(node, "optional_pre_call_checks")
    known = isinstance(checks, ast.List) and not any(text_of(item).startswith(_AFFINITY) for item in checks.elts)
    if checks is None or known:
        yield Hit(node, "the router spreads the calls of a conversation over deployments that share no cache")


HAZARD = Hazard(
    "CKR01", "load-balancer-spread", "A", "error",
    source=(
        Flow(("choice",), ("client",), "each call goes to a client that {source} picks, and each client's cache is another one"),
        Pattern((ast.Call,), _router, ("Router",), also=(("model_list",),)),
    ),
    requests=(RequestRule("step", _spread),),
)  # fmt: skip
