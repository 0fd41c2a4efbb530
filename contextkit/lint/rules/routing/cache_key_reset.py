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
- source: a random or clock value flows into the cache key.
- requests: the key, or the session id, differs between two calls of one conversation.
- guard: the same, before it is sent.
- provider: `prompt_cache_key_changed` from OpenAI.

## References
- https://github.com/sernote/audit-prompt-caching/issues/14
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.settings import CLAUDE_WIRES, differs
from contextkit.lint.source.rule import Flow
from contextkit.lint.trace.rule import Evidence, RequestRule, Step

_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_key", "session_id"))


def _another(step: Step) -> Evidence | None:
    found = None if step.after.wire in CLAUDE_WIRES else differs(step, _PATHS)
    if found is None or found.was is None or found.now is None:
        return None
    return found.evidence(f"the key that says where the prefix lies is another one at call {step.turn}")


HAZARD = Hazard(
    "CKR06", "cache-key-reset", "A", "warning",
    source=(Flow(("id", "clock"), ("cache_key",), "the cache key is made of {source}, so nothing is found again after a restart"),),
    requests=(RequestRule("step", _another),), confirmed_by=("prompt_cache_key_changed",),
)  # fmt: skip
