"""Source rules of CKR06 cache-key-reset."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keywords, last_name
from contextkit.lint.rules.marking import resolved
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_WRITES = frozenset({"dumps", "str", "repr", "sha256", "sha1", "md5", "blake2b", "hash"})
"""Functions that make a key of the whole of what they are given."""


def _of_history(call: ast.Call, view: View) -> Iterator[Hit]:
    """`prompt_cache_key=sha256(json.dumps(messages))`: each turn has a key of its own."""
    for given in call.keywords:
        key = resolved(given.value, view) if given.arg in ("prompt_cache_key", "session_id") else None
        if key is not None and any(_is_of_all(part) for part in walk(key)):
            yield Hit(given.value, _MESSAGE)


def _made_of_history(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A function that makes the key does so."""
    is_used = re.search(rb"prompt_cache_key[\"']?\s*[=:]\s*[\w.]*\b%s\(" % function.name.encode(), view.source)
    calls = (part for part in view.nodes(function, ast.Call) if _is_of_all(part)) if is_used else iter(())
    yield from (Hit(call, _MESSAGE) for call in calls)


def _is_of_all(part: ast.AST) -> bool:
    """`json.dumps(messages)`, and not of its first ones."""
    whole = part.args[:1] if isinstance(part, ast.Call) and last_name(part.func) in _WRITES else []
    return any(isinstance(one, ast.Name | ast.Attribute) and sinks.HISTORY.match(last_name(one)) for one in whole)


_MESSAGE = "the cache key is made of the whole history: the next call has another one, and is sent where nothing of this one is"

SOURCE = (
    Flow(
        ("id", "clock"),
        ("cache_key",),
        "the cache key is made of {source}, so nothing is found again after a restart",
    ),
    Pattern((ast.Call,), _of_history, as_keywords("prompt_cache_key"), is_near=True, names=("prompt_cache_key",)),
    Pattern(
        FUNCTIONS,
        _made_of_history,
        ("prompt_cache_key",),
        also=(tuple(f"{name}(" for name in sorted(_WRITES)), IN_HISTORY),
    ),
)
