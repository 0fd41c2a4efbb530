"""speed-or-header-flag: a speed, a beta or another header that is part of the key differs between calls.

## What it does
Finds `speed`, `extra_headers` or a list of betas that changes within a session: fast mode switched on in mid-conversation, a beta
header on some calls only.

## Why it costs you
Claude's fast and standard speed share no cache, so switching writes the whole prompt again, at the fast price. Beta headers can change
what the server renders; the diagnosis then says that it cannot compare. OpenAI keeps service tiers apart in the same way. A retry that
falls back to standard speed pays it twice.

## Example
    headers = {"anthropic-beta": FAST_MODE} if user.is_waiting else {}
    client.messages.create(model=MODEL, max_tokens=4096, messages=history, extra_headers=headers)

## Use instead
Decide once per session and keep it to the end, also in retries:

    provider = AnthropicMessages("claude-opus-5-5", max_tokens=4096, speed="fast")

## Detected by
- source: a value that is not constant flows into headers, betas or the speed of a call in a loop.
- requests: `speed`, the service tier or the betas in the body differ from the call before; headers are not recorded.
- guard: the same, before it is sent; headers are not looked at, they hold keys.
- provider: `model_changed` for the speed, `service_tier_changed` from OpenAI, `unavailable` for betas.

## References
- https://code.claude.com/docs/en/prompt-caching#turning-on-fast-mode
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKP06", "speed-or-header-flag", "D", "warning", confirmed_by=("model_changed",))
