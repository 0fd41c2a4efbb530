"""cache-key-overshared: one cache key for everybody overflows the machine it points to.

## What it does
Finds a key that is constant for all users, or a session's key used by many parallel agents at once.

## Why it costs you
A key is an address. OpenAI advises to stay below about 15 requests a minute for one prefix and key; what exceeds that spills to other
machines, where the prefix is cold and is computed or written again. So a key that helps a single user makes the service slower and
dearer as it grows, and worst at its peak. Reports show misses rising with the number of calls in flight under a key.

## Example
    client.responses.create(model="gpt-5.5", prompt_cache_key="my-app", input=history)

## Use instead
Shard by what is shared: one key per conversation, or per tenant and lane, and a fixed number of shards for a head that everybody uses:

    shard = zlib.crc32(user_id.encode()) % 16
    client.responses.create(model="gpt-5.5", prompt_cache_key=f"my-app:{shard}", input=history)
    context = Context(OpenAIResponses("gpt-5.5", prompt_cache_key=CacheKey(requests_per_minute=240)), system=SYSTEM, tools=TOOLS)

## Detected by
- source: a literal, a constant of the module or of the class, or a text made of such, as cache key of a call.
- requests: one key over several conversations with more than 15 calls in a minute, on models whose key is an address.
- guard: not for a single conversation.
- provider: silent.

## References
- https://github.com/bman654/clodex/issues/209
- https://github.com/cline/cline/issues/11261
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.callsites import as_keys, field, is_nothing, text_of
from contextkit.lint.rules.marking import in_class, resolved
from contextkit.lint.rules.openings import Calls
from contextkit.lint.source.rule import Hit, Pattern, View

_A_MINUTE = 15
_TAKEN_IN = ("extra_args", "extra_body", "model_kwargs")
"""How a framework is told what else to send."""
_MESSAGE = "one cache key for every conversation sends all of them to one machine"
_KEY, _DERIVED = "prompt_cache_key", "auto"
"""The parameter, and the value that has contextkit derive it."""


def _crowded(calls: Calls) -> Iterator[Evidence]:
    """One key over several conversations with more calls in a minute than a machine takes."""
    by_key: dict[str, list[tuple[str, RecordedCall]]] = {}
    for name, mine in calls.conversations.items():
        for sent in mine:
            key = sent.params.get(_KEY)
            if isinstance(key, str) and sent.row.cache == "implicit":
                by_key.setdefault(key, []).append((name, sent))
    for key, used in by_key.items():
        first = _overflow(sorted(used, key=lambda pair: pair[1].exchange.at))
        if first is not None:
            text = f"more than {_A_MINUTE} calls of {len({name for name, _ in used})} conversations in one minute have the same key"
            yield Evidence(text, path=_KEY, now=key, sent=first)


def _overflow(used: Sequence[tuple[str, RecordedCall]]) -> RecordedCall | None:
    """The first call that is one too many within a minute, where it is not all one conversation."""
    for place in range(_A_MINUTE, len(used)):
        window = used[place - _A_MINUTE : place + 1]
        if window[-1][1].exchange.at - window[0][1].exchange.at < 60 and len({name for name, _ in window}) > 1:
            return window[-1][1]
    return None


def _constant(node: ast.keyword, view: View) -> Iterator[Hit]:
    """`prompt_cache_key="my-app"`, also by way of a constant of the module."""
    if node.arg != _KEY:
        return
    if text_of(node.value) == _DERIVED and any(
        view.dotted(parent).startswith("contextkit.") for parent in view.parents()
    ):
        return
    if _is_for_all(node.value, view):
        yield Hit(node.value, _MESSAGE)


def _nested(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`ModelSettings(extra_args={"prompt_cache_key": "my-app"})`, `ChatOpenAI(model_kwargs={"prompt_cache_key":
    "my-app"})`.
    """
    value, above = field(node, _KEY), view.parents()[-1:]
    is_sent = any(isinstance(part, ast.keyword) and part.arg in _TAKEN_IN for part in above)
    if value is not None and is_sent and _is_for_all(value, view):
        yield Hit(value, _MESSAGE)


def _is_for_all(node: ast.expr, view: View) -> bool:
    """Whether a key is a text, a constant of the module, or a text in which such constants are filled in."""
    if isinstance(node, ast.Attribute):
        node = in_class(node, view) or node
    found = resolved(node, view) if isinstance(node, ast.Name) and not node.id.isupper() else node
    if isinstance(found, ast.JoinedStr):
        filled = [part.value for part in found.values if isinstance(part, ast.FormattedValue)]
        return all(isinstance(resolved(part, view), ast.Constant) for part in filled)
    is_named = isinstance(node, ast.Name) and node.id.isupper() and not is_nothing(node) and view.is_constant(node)
    return bool(text_of(found)) or is_named


HAZARD = Hazard(
    "CKR05",
    "cache-key-overshared",
    "A",
    "warning",
    source=(
        Pattern((ast.keyword,), _constant, (_KEY,), is_near=True, names=(_KEY,)),
        Pattern((ast.Dict,), _nested, as_keys(_KEY), is_near=True, names=(_KEY,)),
    ),
    requests=(RequestRule("session", _crowded),),
)
