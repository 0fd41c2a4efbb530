"""Source rules of CKR04 cache-key-missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import has_unknown_keywords, is_model_call, keyword, text_of, uses_of
from contextkit.lint.rules.marking import in_class, module_of, resolved
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.sinks import CONVERSES
from contextkit.lint.source.syntax import walk
from contextkit.models import find_model

_ASKED = ("openai", "x-ai")
"""Those of them that are asked through OpenAI's client, and whose key is a keyword of it."""

_CLIENTS = ("openai.OpenAI", "openai.AsyncOpenAI", "openai.AzureOpenAI", "openai.AsyncAzureOpenAI")


def _keyless(node: ast.Call, view: View) -> Iterator[Hit]:
    """A call of a model that needs the key, in a loop, with a client of OpenAI and without the key."""
    if (
        has_unknown_keywords(node)
        or keyword(node, "prompt_cache_key", "user", "extra_body", "extra_headers") is not None
    ):
        return
    if not is_model_call(node, view) or not view.dotted(node).startswith(_CLIENTS):
        return
    if not view.is_history(keyword(node, "messages", "input") or node) or not (
        view.loop() or _is_called_in_a_loop(view)
    ):
        return
    model = find_model(_name_of(keyword(node, "model"), view))
    if model is not None and model.cache == "implicit" and model.provider in _ASKED:
        yield Hit(node, "no `prompt_cache_key` ties the calls of this loop to the machine that has their prefix")


def _name_of(node: ast.expr | None, view: View) -> str:
    """The name of a model that a literal, a constant, or `self.MODEL` of a class's body says."""
    return text_of(in_class(node, view) if isinstance(node, ast.Attribute) else resolved(node, view))


def _is_called_in_a_loop(view: View) -> bool:
    """Whether a loop of the file that goes through the turns of a conversation calls the function around."""
    function = view.function()
    uses = uses_of(function, view) if function else []
    spans = (
        [view.bytes_at(part) for part in walk(module_of(view)) if isinstance(part, ast.For | ast.While)] if uses else []
    )
    return any(start <= use < end and CONVERSES.search(view.source, start, end) for use in uses for start, end in spans)


SOURCE = (Pattern((ast.Call,), _keyless, (".create(", ".parse(", ".stream("), is_near=True),)
