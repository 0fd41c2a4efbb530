"""effort-change: the effort differs between two calls of one conversation.

## What it does
Finds a reasoning effort (`output_config.effort`, `reasoning.effort`, `reasoning_effort`) that is chosen per turn.

## Why it costs you
Effort is printed into the prompt or is part of the key, depending on the model: on Claude the messages are computed again, on some
models what precedes them too; on OpenAI it belongs to the key. Turning it down for an easy step saves output tokens and pays the whole
history for it. Sending a model's default explicitly counts as leaving it out.

## Example
    effort = "low" if is_simple(step) else "high"
    client.messages.create(model=MODEL, max_tokens=4096, output_config={"effort": effort}, messages=history)

## Use instead
One effort for a session. Where the provider offers a change in band, send that: OpenAI's `configuration_update` item, Claude's system
message with an effort of its own (beta). In contextkit it is a parameter of the provider, set once:

    provider = AnthropicMessages("claude-opus-5-5", max_tokens=4096, output_config={"effort": "high"})

## Detected by
- source: a condition on the turn, or the user's text, decides the effort of a call.
- requests: the effort differs from the call before, where the model keys it or prints it, and something it stands in
  front of was cached. A default that is said does not count.
- guard: the same, before it is sent.
- provider: `reasoning_effort_changed` from OpenAI; Anthropic has no word of its own for it (`unavailable` or `messages_changed`).

## References
- https://github.com/openai/codex/issues/35416
- https://github.com/anthropics/claude-code/issues/92444
- https://github.com/anomalyco/opencode/issues/48513
"""

from __future__ import annotations

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.settings import differs, had_cached, is_claude
from contextkit.lint.source.rule import Flow

_PATHS = {
    "anthropic_messages": ("output_config.effort",),
    "bedrock_converse": ("additionalModelRequestFields.output_config.effort",),
    "openai_chat": ("reasoning_effort", "reasoning.effort"),
    "openai_responses": ("reasoning.effort",),
}
_KEYED = ("openai", "azure", "")
"""Providers that make it a part of the key, and self-hosted models, whose templates print it; others have published
nothing."""
_UNSAID = {"anthropic_messages": "high", "bedrock_converse": "high"}
"""What leaving it out means. OpenAI's default depends on the model."""
_DEFAULTS = ("medium", "none")


def _changed(step: Step) -> Evidence | None:
    unsaid = _UNSAID.get(step.after.wire)
    found = differs(step, _PATHS, lambda value: unsaid if value is None else value)
    if found is None or not _costs(step, found.was, found.now):
        return None
    return found.evidence(f"the effort changed between calls {step.turn - 1} and {step.turn}")


def _costs(step: Step, was: Json, now: Json) -> bool:
    if is_claude(step.after):
        return had_cached(step, "messages")
    is_default = (was is None and now in _DEFAULTS) or (now is None and was in _DEFAULTS)
    return step.after.row.provider in _KEYED and not is_default and had_cached(step, "tools")


HAZARD = Hazard(
    "CKP02",
    "effort-change",
    "A",
    "warning",
    source=(
        *chosen(
            ("reasoning_effort", "effort", "output_config.effort", "reasoning.effort"),
            "the effort is chosen per call by {source}",
        ),
        Flow(("user", "clock", "choice"), ("effort",), "the effort is chosen per call by {source}", in_loop_only=True),
    ),
    requests=(RequestRule("step", _changed),),
    confirmed_by=("reasoning_effort_changed",),
)
