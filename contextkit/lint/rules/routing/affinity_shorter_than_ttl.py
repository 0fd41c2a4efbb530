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
- source: lifetimes of pins and markers written as constants, the pin's the shorter.
- requests: after a gap longer than the pin and shorter than the marker's lifetime another provider or deployment answers.
- guard: not before sending.
- provider: silent.

## References
- https://github.com/BerriAI/litellm/issues/28427
- https://github.com/OpenRouterTeam/ai-sdk-provider/issues/499
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR02", "affinity-shorter-than-ttl", "A", "warning")
