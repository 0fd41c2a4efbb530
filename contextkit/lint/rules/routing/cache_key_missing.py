"""cache-key-missing: calls carry nothing that routes them to the machine that has the prefix.

## What it does
Finds loops that call a provider with an automatic cache per machine and send no `prompt_cache_key`, `session_id` or affinity header.

## Why it costs you
On OpenAI up to gpt-5.5, on xAI, Fireworks, Mistral and Cloudflare the cache lives where the last call was served, and the key decides
where the next one goes. Without it equal prefixes hit or miss by chance: reports show `cached_tokens` jumping between 0 and everything
for byte-identical requests. Mistral caches nothing at all without the key. From gpt-5.6 on the key no longer routes; it only keeps
conversations apart.

## Example
    for step in range(MAX_STEPS):
        reply = client.responses.create(model="gpt-5.5", input=history, tools=TOOLS)

## Use instead
A key per conversation, or per group of conversations that share their head, constant for as long as it lives:

    context = Context(OpenAIResponses("gpt-5.5", prompt_cache_key=f"support:{conversation_id}"), system=SYSTEM, tools=TOOLS)

Or one that is derived from the head, and from what outlives the process:

    context = Context.open(folder, OpenAIResponses("gpt-5.5", prompt_cache_key=CacheKey(requests_per_minute=60)), system=SYSTEM)

## Detected by
- source: a call in a loop, or in a function that such a loop calls, with a client of OpenAI, the running history, a model that needs the
  key, and without it.
- requests: no key in a whole conversation, and calls that go on from one another within minutes read everything here
  and nothing there.
- guard: not before sending: it shows in what comes back.
- provider: silent: OpenAI's diagnosis speaks of keys that changed, not of missing ones.

## References
- https://github.com/Dicklesworthstone/pi_agent_rust/issues/188
- https://github.com/exoharness/exo/issues/24
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.callsites import has_unknown_keywords, is_model_call, keyword, text_of, uses_of
from contextkit.lint.rules.marking import in_class, module_of, resolved
from contextkit.lint.rules.openings import Calls
from contextkit.lint.rules.settings import goes_on, route_key
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.sinks import CONVERSES
from contextkit.lint.source.syntax import walk
from contextkit.models import find_model

_ROUTED = ("openai", "x-ai", "fireworks", "mistral", "azure")
"""Providers whose cache is one machine's, and whose key says which."""
_ASKED = ("openai", "x-ai")
"""Those of them that are asked through OpenAI's client, and whose key is a keyword of it."""
_CLIENTS = ("openai.OpenAI", "openai.AsyncOpenAI", "openai.AzureOpenAI", "openai.AsyncAzureOpenAI")
_FRESH_SECONDS = 300


def _erratic(calls: Calls) -> Iterator[Evidence]:
    """Without a key, calls that go on from one another read everything here and nothing there."""
    for mine in calls.conversations.values():
        if mine[0].row.cache != "implicit" or mine[0].row.provider not in _ROUTED or any(map(route_key, mine)):
            continue
        lost = _lost(mine)
        if lost and len(lost) < _n_steps(mine):
            text = f"{len(lost)} of {_n_steps(mine)} calls read nothing of the call before them, and no key says where it was served"
            yield Evidence(text, path="prompt_cache_key", sent=lost[0])


def _steps(mine: Sequence[RecordedCall]) -> list[tuple[RecordedCall, RecordedCall]]:
    """Neighbours of which the later has all of the earlier and should have read it."""
    return [
        (a, b)
        for a, b in pairwise(mine)
        if a.usage and b.usage and b.usage.read is not None and _was_there(a, b) and goes_on(a, b)
    ]


def _was_there(before: RecordedCall, after: RecordedCall) -> bool:
    usage = before.usage
    size = (usage.fresh or 0) + (usage.read or 0) if usage else 0
    return size >= 2 * before.row.min_tokens and 0 <= after.exchange.at - before.exchange.at <= _FRESH_SECONDS


def _n_steps(mine: Sequence[RecordedCall]) -> int:
    return len(_steps(mine))


def _lost(mine: Sequence[RecordedCall]) -> list[RecordedCall]:
    return [after for _, after in _steps(mine) if after.usage and after.usage.read == 0]


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


HAZARD = Hazard(
    "CKR04",
    "cache-key-missing",
    "A",
    "warning",
    source=(Pattern((ast.Call,), _keyless, (".create(", ".parse(", ".stream("), is_near=True),),
    requests=(RequestRule("session", _erratic),),
)
