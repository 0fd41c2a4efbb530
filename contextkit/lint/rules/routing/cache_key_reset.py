"""cache-key-reset: the cache key is made anew at each start of the program.

## What it does
Finds a cache key or session id that is drawn from `uuid4()` or the clock when an object is built, and so differs after a restart, a
deploy or a resume.

## Why it costs you
Different keys share nothing, even for the same bytes: the first call after each restart computes or writes the whole prefix again. One
project counted the calls without any hit and found exactly one for each restart, plus the first. A pool of short-lived workers is a
restart per call.

## Example
    class Agent:
        def __init__(self, conversation):
            self.cache_key = str(uuid.uuid4())

## Use instead
Derive it from something that outlives the process:

    class Agent:
        def __init__(self, conversation):
            self.cache_key = f"agent:{conversation.id}"
    context = Context.open(folder, OpenAIResponses("gpt-5.5", prompt_cache_key=f"agent:{conversation.id}"), system=SYSTEM)

## Detected by
- source: a random or clock value flows into the cache key; it is made of the whole history.
- requests: the key, or the session id, differs between two calls of one conversation.
- guard: the same, before it is sent.
- provider: `prompt_cache_key_changed` from OpenAI.

## References
- https://github.com/sernote/audit-prompt-caching/issues/14
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import as_keywords, last_name
from contextkit.lint.rules.marking import resolved
from contextkit.lint.rules.settings import CLAUDE_WIRES, differs
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_key", "session_id"))


def _another(step: Step) -> Evidence | None:
    found = None if step.after.wire in CLAUDE_WIRES else differs(step, _PATHS)
    if found is None or found.was is None or found.now is None:
        return None
    return found.evidence(f"the key that says where the prefix lies is another one at call {step.turn}")


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

HAZARD = Hazard(
    "CKR06",
    "cache-key-reset",
    "A",
    "warning",
    source=(
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
    ),
    requests=(RequestRule("step", _another),),
    confirmed_by=("prompt_cache_key_changed",),
)
