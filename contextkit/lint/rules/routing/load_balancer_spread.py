"""Source rules of CKR01 load-balancer-spread."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

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


SOURCE = (
    Flow(
        ("choice",),
        ("client",),
        "each call goes to a client that {source} picks, and each client's cache is another one",
    ),
    Pattern((ast.Call,), _elsewhere, as_keywords(*_PLACES), is_near=True, names=_PLACES),
    Pattern((ast.Subscript,), _drawn, ("randrange(", "randint("), is_near=True),
    Pattern((ast.Call,), _router, ("Router",), also=(("model_list",),)),
)
