"""affinity-shorter-than-ttl: the gateway forgets its pin before the provider forgets the prefix.

## What it does
Finds a sticky route that ends after five or ten idle minutes while the markers ask for an hour.

## Why it costs you
A one-hour write on Claude costs twice the input price, bought so that a pause of twenty minutes is harmless. OpenRouter's sticky route
lasts ten idle minutes, LiteLLM's deployment check five by default: after the pause the call goes elsewhere, and the paid hour lies
unused where nobody asks. The whole prefix is written again, at twice the price again.

## Example
    check = PromptCachingDeploymentCheck(cache=DualCache(default_in_memory_ttl=300))
    marker = {"type": "ephemeral", "ttl": "1h"}

## Use instead
A pin at least as long as the longest lifetime that is asked for, or a route chosen by the session alone, which needs no memory:

    PIN_SECONDS = 3600
    extra_body = {"session_id": session, "provider": {"order": ["anthropic"], "allow_fallbacks": False}}

## Detected by
- source: a pin's lifetime written as a constant below an hour, in a file whose markers ask for one.
- requests: after more than five minutes and less than the hour that was paid for, another region or provider answers.
- guard: the region in the model's name; who served a call shows only in the reply.
- provider: silent.

## References
- https://github.com/BerriAI/litellm/issues/28427
- https://github.com/OpenRouterTeam/ai-sdk-provider/issues/499
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import in_any_case, last_name
from contextkit.lint.rules.settings import is_other_model, moved, outlives_pin
from contextkit.lint.source.rule import Hit, Pattern, View

_PIN = re.compile(
    r"(?:sticky|affinity|pin|pinned)_(?:\w+_)?(?:ttl|seconds|secs|timeout|expiry|lifetime)(?:_\w+)?$|^default_in_memory_ttl$",
    re.IGNORECASE,
)
_PIN_WORDS = in_any_case("sticky", "affinity", "pin", "in_memory_ttl")
"""One of these stands in every name that `_PIN` matches."""
_LONG = (b'"ttl": "1h"', b"'ttl': '1h'", b'ttl="1h"', b"ttl='1h'", b'"ttl":"1h"')
_HOUR = 3600


def _forgotten(step: Step) -> Evidence | None:
    """Another place answers behind a pause that the paid hour would have covered."""
    if is_other_model(step) or not outlives_pin(step):
        return None
    found = moved(step)
    text = f"another place answers after {step.gap_seconds:.0f} seconds, though the entry was paid for an hour"
    return found.evidence(text) if found else None


def _short_pin(node: ast.Assign | ast.keyword, view: View) -> Iterator[Hit]:
    """`STICKY_SECONDS = 300` beside markers of an hour."""
    names = [node.arg or ""] if isinstance(node, ast.keyword) else [last_name(target) for target in node.targets]
    value = node.value.value if isinstance(node.value, ast.Constant) else None
    seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if 0 < seconds < _HOUR and any(map(_PIN.search, names)) and any(words in view.source for words in _LONG):
        yield Hit(node.value, f"the pin ends after {seconds} seconds, while the markers of this file pay for an hour")


HAZARD = Hazard(
    "CKR02",
    "affinity-shorter-than-ttl",
    "A",
    "warning",
    source=(Pattern((ast.Assign, ast.keyword), _short_pin, ("1h",), also=(_PIN_WORDS,)),),
    requests=(RequestRule("step", _forgotten),),
)
