"""too-many-markers: a fifth marker is refused, or silently taken away on the way.

## What it does
Finds builders that put more than four markers into one request, the automatic one counted.

## Why it costs you
Anthropic answers a fifth marker with a 400; Bedrock and Qwen have the same limit of four. A gateway in between may drop one instead of
failing, often the earliest, which is the one that held the stable head: then the call succeeds and costs the full price. OpenAI from
gpt-5.6 on takes more but writes only the latest four explicit ones (three beside the automatic one).

## Example
    for block in [*system, *memory, *attachments]:
        block["cache_control"] = {"type": "ephemeral"}

## Use instead
Mark ends, not parts: a marker covers everything before it. In contextkit a plan never holds more than the endpoint takes:

    system[-1]["cache_control"] = {"type": "ephemeral"}
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Detected by
- source: more than four literal markers in one request, or a marker set inside a loop over blocks.
- requests: more than four markers in a body, or an error of the provider that names their number.
- guard: the same, before it is sent.
- provider: an HTTP 400 that names the limit.

## References
- https://github.com/envoyproxy/ai-gateway/issues/1712
- https://github.com/maximhq/bifrost/issues/6692
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB08", "too-many-markers", "A", "error")
