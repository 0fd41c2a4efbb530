"""speed-or-header-flag: a speed, a beta or another header that is part of the key differs between calls.

## What it does
Finds `speed`, `extra_headers` or a list of betas that changes within a session: fast mode switched on in mid-conversation, a beta
header on some calls only.

## Why it costs you
Claude's fast and standard speed share no cache, so switching writes the whole prompt again, at the fast price. Beta headers can change
what the server renders; the diagnosis then says that it cannot compare. Nothing is published of `inference_geo`; places of computing are
taken to keep caches of their own. OpenAI keeps service tiers apart in the same way. A retry that
falls back to standard speed pays it twice.

## Example
    headers = {"anthropic-beta": FAST_MODE} if user.is_waiting else {}
    client.messages.create(model=MODEL, max_tokens=4096, messages=history, extra_headers=headers)

## Use instead
Decide once per session and keep it to the end, also in retries:

    provider = AnthropicMessages("claude-opus-5-5", max_tokens=4096, speed="fast")

## Detected by
- source: a condition on the turn decides the speed, the service tier, the verbosity, betas, or headers that hold one.
- requests: `speed`, `inference_geo` or the betas in the body of a Claude call, service tier or verbosity of an OpenAI call differ from
  the call before; headers are not recorded.
- guard: the same, before it is sent; headers are not looked at, they hold keys.
- provider: `model_changed` for the speed, `service_tier_changed` from OpenAI, `unavailable` for betas.

## References
- https://code.claude.com/docs/en/prompt-caching#turning-on-fast-mode
"""

from __future__ import annotations

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.chosen import chosen, passed
from contextkit.lint.rules.settings import differs, had_cached, is_claude
from contextkit.lint.source.rule import Flow

_PATHS = {
    "anthropic_messages": ("speed", "betas", "anthropic_beta", "inference_geo"),
    "bedrock_converse": ("additionalModelRequestFields.speed", "additionalModelRequestFields.anthropic_beta"),
    "openai_chat": ("service_tier", "verbosity"),
    "openai_responses": ("service_tier", "text.verbosity"),
}
_UNSAID: tuple[Json, ...] = ("standard", "auto", "default", "medium", "global", [])
_WORDS = {
    "speed": "the speed",
    "service_tier": "the service tier",
    "verbosity": "the verbosity",
    "inference_geo": "where it is computed",
}


def _meaning(value: Json) -> Json:
    """Betas are a set; a default is as good as leaving it out."""
    if isinstance(value, list):
        value = sorted(map(str, value))
    return None if value in _UNSAID else value


def _changed(step: Step) -> Evidence | None:
    found = differs(step, _PATHS, _meaning)
    if found is None or not (
        had_cached(step, "system") if is_claude(step.after) else step.after.row.provider == "openai"
    ):
        return None
    what = _WORDS.get(found.path.rpartition(".")[2], "the list of betas")
    return found.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}")


HAZARD = Hazard(
    "CKP06",
    "speed-or-header-flag",
    "D",
    "warning",
    source=(
        *chosen(
            ("speed", "betas", "service_tier", "verbosity", "text.verbosity"),
            "betas or the speed are chosen per call by {source}",
        ),
        passed(("extra_headers",), "headers with a beta are chosen per call by {source}", "beta"),
        Flow(
            ("user", "choice"),
            ("headers",),
            "headers, betas or the speed are chosen per call by {source}",
            in_loop_only=True,
        ),
    ),
    requests=(RequestRule("step", _changed),),
    confirmed_by=("model_changed",),
)
