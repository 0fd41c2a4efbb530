"""Source rules of CKR03 upstream-host-switch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keywords, field, has_unknown_keywords, keyword, last_name, text_of
from contextkit.lint.rules.marking import is_single_shot, resolved, says
from contextkit.lint.source.rule import Hit, Pattern, View

_CLIENTS = ("openai.OpenAI", "openai.AsyncOpenAI")

_CHATS = ("langchain_openai.ChatOpenAI",)

_AGGREGATORS = ("openrouter.ai",)

_ADDRESSED = ("base_url", "openai_api_base")

_PREFIXED = ("litellm.completion", "litellm.acompletion")

_POSTED = re.compile(r"openrouter\.ai/.*(?:/chat/completions|/messages|/responses)$")

_PINS = (b"session_id", b"x-session-id", b"prompt_cache_key", b"allow_fallbacks", b'"order"', b"'order'")

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


SOURCE = (
    Pattern((ast.Call,), _unpinned, ("openrouter.ai",), also=(_ADDRESSED,)),
    Pattern((ast.Call,), _named, ("openrouter/",), also=(as_keywords("model"),), names=("model",)),
    Pattern((ast.Call,), _posted, ("openrouter.ai",), also=((".post(",),), names=("json",)),
)
