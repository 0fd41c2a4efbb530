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
- source: two branches, the second also behind an `if` that returns, ask the model, one streams, and one of them leaves out the key, the
  markers or other fields of the prefix.
- requests: of the calls that go on from one another, only those that stream read, or only those that do not.
- guard: not before sending; the reads of both kinds are compared afterwards.
- provider: silent.

## References
- https://github.com/Dicklesworthstone/pi_agent_rust/issues/188
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.callsites import (
    as_keywords,
    calls_in,
    has_unknown_keywords,
    is_model_call,
    keyword,
    last_name,
)
from contextkit.lint.rules.openings import Calls
from contextkit.lint.rules.settings import goes_on
from contextkit.lint.source.rule import Hit, Pattern, View

_CARRIES = frozenset(
    {
        "prompt_cache_key",
        "cache_control",
        "extra_headers",
        "extra_body",
        "prompt_cache_retention",
        "tools",
        "system",
        "thinking",
    }
)
_STREAMS = frozenset({"stream", "converse_stream", "generate_content_stream"})
_LEAST = 2
_SOON_SECONDS = 300


def _one_lane(calls: Calls) -> Iterator[Evidence]:
    """Of calls that go on from one another, only those that stream read, or only those that do not."""
    for mine in calls.conversations.values():
        lanes = {is_stream: _readers(mine, is_stream) for is_stream in (True, False)}
        reads = {is_stream: [sent for sent in lane if _read(sent)] for is_stream, lane in lanes.items()}
        for is_stream, lane in lanes.items():
            if len(lane) >= _LEAST and not reads[is_stream] and len(reads[not is_stream]) >= _LEAST:
                kind = "that stream" if is_stream else "that do not stream"
                yield Evidence(
                    f"none of the {len(lane)} calls {kind} read anything, while the others did",
                    path="stream",
                    sent=lane[-1],
                )


def _readers(mine: Sequence[RecordedCall], is_stream: bool) -> list[RecordedCall]:
    """Calls of one kind that go on from the call before, soon after it, and whose bill is known."""
    soon = [(a, b) for a, b in pairwise(mine) if b.usage is not None and b.exchange.at - a.exchange.at <= _SOON_SECONDS]
    return [b for a, b in soon if bool(b.params.get("stream")) is is_stream and goes_on(a, b)]


def _read(sent: RecordedCall) -> int:
    return (sent.usage.read or 0) if sent.usage else 0


def _branches(node: ast.If, view: View) -> Iterator[Hit]:
    """Two branches ask the model, one streams, and one of them leaves out what the cache needs."""
    other_way = node.orelse or (_behind(node, view) if isinstance(node.body[-1], ast.Return) else [])
    pairs = [(a, b) for a in _asked(node.body, view) for b in _asked(other_way, view) if _streams(a) != _streams(b)]
    for one, other in pairs[:1]:
        left_out = (_given(one) ^ _given(other)) & _CARRIES
        if left_out and not has_unknown_keywords(one) and not has_unknown_keywords(other):
            poorer = one if left_out & _given(other) else other
            yield Hit(
                poorer, f"the streaming and the plain call differ in `{min(left_out)}`, so they share no cached prefix"
            )


def _behind(node: ast.If, view: View) -> list[ast.stmt]:
    """What stands behind an `if` in its block: the other way, where the `if` returns."""
    blocks = (getattr(part, name, []) for part in view.parents()[-1:] for name in ("body", "orelse", "finalbody"))
    return next((block[block.index(node) + 1 :] for block in blocks if isinstance(block, list) and node in block), [])


def _asked(body: list[ast.stmt], view: View) -> list[ast.Call]:
    return [call for call in calls_in(body) if is_model_call(call, view)]


def _streams(call: ast.Call) -> bool:
    value = keyword(call, "stream")
    return last_name(call.func) in _STREAMS or (isinstance(value, ast.Constant) and value.value is True)


def _given(call: ast.Call) -> frozenset[str]:
    return frozenset(given.arg for given in call.keywords if given.arg)


HAZARD = Hazard(
    "CKR09",
    "stream-vs-nonstream-lane",
    "B",
    "warning",
    source=(
        Pattern(
            (ast.If,), _branches, ("stream",), is_near=True, also=((*as_keywords("stream"), ".stream", "stream("),)
        ),
    ),
    requests=(RequestRule("session", _one_lane),),
)
