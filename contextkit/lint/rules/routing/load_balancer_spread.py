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
- source: a LiteLLM router without a check that keeps a conversation where it is, or a client, its region or its
  address picked per call, by chance or in turn.
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
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import (
    as_keywords,
    has_unknown_keywords,
    is_per_turn,
    keyword,
    last_name,
    takes_next,
    text_of,
)
from contextkit.lint.rules.marking import says
from contextkit.lint.rules.settings import had_cached, is_aggregated, is_other_model, moved, outlives_pin
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.lint.source.sanitizers import ONCE

_ROUTERS = ("litellm.Router", "litellm.router.Router")
_AFFINITY = ("prompt_caching", "deployment_affinity", "session_affinity", "responses_api_deployment_check")

_PLACES = ("region_name", "base_url", "azure_endpoint", "api_base", "aws_region", "aws_region_name")
_IS_CLIENT = re.compile(
    r"(?:^|\.)(?:(?:Async)?(?:Azure)?(?:OpenAI|Anthropic)|(?:Async)?Anthropic(?:Bedrock|Vertex))$|^boto3\.client$|^litellm\.a?completion$"
)
_CLIENTS = re.compile(r"(?:^|_)(?:clients|replicas|llms|deployments)$", re.IGNORECASE)
_DRAWS = ("random.randrange", "random.randint")
_ASKED = (b"completions.create(", b"messages.create(", b"responses.create(", b".converse(")


def _spread(step: Step) -> Evidence | None:
    """The same model in another region, or on another platform."""
    if is_other_model(step) or is_aggregated(step.after) or outlives_pin(step) or not had_cached(step, "tools"):
        return None
    found = moved(step)
    return (
        found.evidence(f"the next call went to another place: {found.was} before, {found.now} now") if found else None
    )


def _router(node: ast.Call, view: View) -> Iterator[Hit]:
    """`litellm.Router(model_list=…)` with nothing that ties a conversation to a deployment."""
    if not view.dotted(node).endswith(_ROUTERS) or keyword(node, "model_list") is None or has_unknown_keywords(node):
        return
    checks = keyword(node, "optional_pre_call_checks")
    known = isinstance(checks, ast.List) and not any(text_of(item).startswith(_AFFINITY) for item in checks.elts)
    if checks is None or known:
        yield Hit(node, "the router spreads the calls of a conversation over deployments that share no cache")


def _elsewhere(node: ast.Call, view: View) -> Iterator[Hit]:
    """`boto3.client("bedrock-runtime", region_name=next(REGIONS))`, `OpenAI(base_url=random.choice(REPLICAS))`."""
    value = keyword(node, *_PLACES)
    if value is None or not _IS_CLIENT.search(view.dotted(node)) or not is_per_turn(view):
        return
    is_bedrock = not view.dotted(node).startswith("boto3.") or any(
        text_of(one).startswith("bedrock") for one in node.args
    )
    if is_bedrock and (takes_next(value) or "choice" in view.kinds(value)):
        yield Hit(value, "each call goes to another place, and each place has a cache of its own")


def _drawn(node: ast.Subscript, view: View) -> Iterator[Hit]:
    """`self.clients[random.randrange(len(self.clients))]` in a file that asks a model."""
    index, function = node.slice, view.function()
    is_drawn = (
        isinstance(index, ast.Call) and view.dotted(index) in _DRAWS and bool(_CLIENTS.search(last_name(node.value)))
    )
    if is_drawn and function is not None and function.name not in ONCE and says(view, *_ASKED):
        yield Hit(node, "each call goes to a client that chance picks, and each client's cache is another one")


HAZARD = Hazard(
    "CKR01",
    "load-balancer-spread",
    "A",
    "error",
    source=(
        Flow(
            ("choice",),
            ("client",),
            "each call goes to a client that {source} picks, and each client's cache is another one",
        ),
        Pattern((ast.Call,), _elsewhere, as_keywords(*_PLACES), is_near=True, names=_PLACES),
        Pattern((ast.Subscript,), _drawn, ("randrange(", "randint("), is_near=True),
        Pattern((ast.Call,), _router, ("Router",), also=(("model_list",),)),
    ),
    requests=(RequestRule("step", _spread),),
)
