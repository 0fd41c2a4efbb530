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
- source: a client of OpenAI or LangChain with the address of an aggregator, a call posted there, or a LiteLLM model `openrouter/…`, in a
  file that names neither a session id nor an order of hosts.
- requests: the recorded provider differs, or the request asks another host first.
- guard: the same, where the request itself says it.
- provider: silent: the new host sees a first request.

## References
- https://github.com/damianvtran/local-operator/issues/995
- https://github.com/Temikus/denkeeper/issues/194
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.callsites import as_keywords, field, has_unknown_keywords, keyword, last_name, text_of
from contextkit.lint.rules.marking import is_single_shot, resolved, says
from contextkit.lint.rules.settings import (
    Differs,
    dig,
    has_new_opening,
    is_aggregated,
    is_other_model,
    moved,
    outlives_pin,
    route_key,
)
from contextkit.lint.source.rule import Hit, Pattern, View

_CLIENTS = ("openai.OpenAI", "openai.AsyncOpenAI")
_CHATS = ("langchain_openai.ChatOpenAI",)
_AGGREGATORS = ("openrouter.ai",)
_ADDRESSED = ("base_url", "openai_api_base")
_PREFIXED = ("litellm.completion", "litellm.acompletion")
_POSTED = re.compile(r"openrouter\.ai/.*(?:/chat/completions|/messages|/responses)$")
_PINS = (b"session_id", b"x-session-id", b"prompt_cache_key", b"allow_fallbacks", b'"order"', b"'order'")


def _switched(step: Step) -> Evidence | None:
    """The recorded host differs, or the request itself asks for another first host."""
    if is_other_model(step) or not is_aggregated(step.after) or outlives_pin(step):
        return None
    if has_new_opening(step) and not route_key(step.after):
        return None  # the key that the aggregator derives is another one: that is the cause
    found = moved(step) or _asked(step)
    return found.evidence(f"{found.now} serves this call, {found.was} the one before") if found else None


def _asked(step: Step) -> Differs | None:
    was, now = _first(step.before), _first(step.after)
    return Differs("provider.order", was, now) if was is not None and now is not None and was != now else None


def _first(sent: RecordedCall) -> Json:
    """The host a request asks for first."""
    for name in ("order", "only"):
        hosts = dig(sent.params, f"provider.{name}")
        if isinstance(hosts, list) and hosts:
            return hosts[0]
    return None


_GOES_ON = re.compile(rb"(?:messages|input|history)\s*=(?!=)(?!\s*\[\s*[{\n])|\*\*\w")
"""A request whose messages are not written out on the spot: one question and its answer need no host again."""
_INVOKED = re.compile(rb"\.a?(?:invoke|stream)\(\s*(?:[\w.]+\[[\"'])?(?:\w+\.)?(?:messages|history)\b")
"""The same of LangChain: `llm.invoke(state["messages"])`."""
_MESSAGE = (
    "calls through an aggregator carry neither a session id nor an order of hosts, so any host may serve the next one"
)


def _unpinned(node: ast.Call, view: View) -> Iterator[Hit]:
    """A client of an aggregator in a file that pins no route."""
    name = view.dotted(node)
    goes_on = (
        _GOES_ON.search(view.source) and b".create(" in view.source
        if name.endswith(_CLIENTS)
        else _INVOKED.search(view.source)
    )
    if not goes_on or not name.endswith((*_CLIENTS, *_CHATS)) or says(view, *_PINS):
        return
    if name.endswith(_CHATS) and has_unknown_keywords(node):
        return  # who calls may give it a pin
    base = text_of(resolved(keyword(node, *_ADDRESSED), view))
    if any(host in base for host in _AGGREGATORS):
        yield Hit(node, _MESSAGE)


def _named(node: ast.Call, view: View) -> Iterator[Hit]:
    """`litellm.completion(model="openrouter/…", messages=history)`."""
    is_routed = view.dotted(node) in _PREFIXED and text_of(resolved(keyword(node, "model"), view)).startswith(
        "openrouter/"
    )
    if is_routed and _holds_history(keyword(node, "messages"), view) and not says(view, *_PINS):
        yield Hit(node, _MESSAGE)


def _posted(node: ast.Call, view: View) -> Iterator[Hit]:
    """`requests.post("https://openrouter.ai/api/v1/chat/completions", json={"messages": history})`."""
    is_post = last_name(node.func) == "post" and bool(node.args)
    body = resolved(keyword(node, "json"), view) if is_post else None
    if not isinstance(body, ast.Dict) or not _POSTED.search(text_of(resolved(node.args[0], view))):
        return
    if _holds_history(field(body, "messages"), view) and not says(view, *_PINS):
        yield Hit(node, _MESSAGE)


def _holds_history(said: ast.expr | None, view: View) -> bool:
    """Whether messages are a running conversation, and not written out on the spot."""
    return said is not None and view.is_history(said) and not is_single_shot(said, view)


HAZARD = Hazard(
    "CKR03",
    "upstream-host-switch",
    "A",
    "error",
    source=(
        Pattern((ast.Call,), _unpinned, ("openrouter.ai",), also=(_ADDRESSED,)),
        Pattern((ast.Call,), _named, ("openrouter/",), also=(as_keywords("model"),), names=("model",)),
        Pattern((ast.Call,), _posted, ("openrouter.ai",), also=((".post(",),), names=("json",)),
    ),
    requests=(RequestRule("step", _switched),),
)
