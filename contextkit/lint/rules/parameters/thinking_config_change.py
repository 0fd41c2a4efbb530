"""thinking-config-change: the thinking mode or its budget differs between two calls of one conversation.

## What it does
Finds a `thinking` object (or Gemini's thinking config) that is built per turn: on for planning and off for tool steps, a budget that
shrinks, a task budget that is counted down by the client.

## Why it costs you
On Claude the mode and the budget are rendered into the prompt. A change computes the messages again, and on some models tools and
system as well; only sending the default explicitly is free. An agent that toggles thinking pays its history at the price of a write on
every toggle. A task budget (`output_config.task_budget`) is rendered as well: the server counts it down by itself, so a client that
counts too pays its history each turn. Some models refuse it besides: thinking cannot be switched off on the newest ones.

## Example
    budget = max(1024, remaining // 4)
    client.messages.create(model=MODEL, max_tokens=8192, thinking={"type": "enabled", "budget_tokens": budget}, messages=history)

## Use instead
One setting for a session; adaptive thinking lets the model decide how much a step needs:

    provider = AnthropicMessages("claude-opus-5-5", max_tokens=8192, thinking={"type": "adaptive"})

## Detected by
- source: a condition on the turn, or the user's text, decides `thinking` of a call.
- requests: mode, budget or task budget differ from the call before on a Claude model that had its messages cached; how thinking is
  shown does not count.
- guard: the same, before it is sent.
- provider: Anthropic has no word of its own for it (`unavailable` or `messages_changed`).

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-invalidates-the-cache
- https://platform.claude.com/docs/en/build-with-claude/task-budgets
"""

from __future__ import annotations

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.settings import differs, had_cached, is_claude
from contextkit.lint.source.rule import Flow

_PATHS = {
    "anthropic_messages": ("thinking",),
    "bedrock_converse": ("additionalModelRequestFields.thinking", "additionalModelRequestFields.reasoning_config"),
}
_BUDGETS = {
    "anthropic_messages": ("output_config.task_budget",),
    "bedrock_converse": ("additionalModelRequestFields.output_config.task_budget",),
}
_RENDERED = ("type", "budget_tokens")
_OFF: Json = {"type": "disabled"}


def _mode(value: Json) -> Json:
    """What is rendered of it: mode and budget. How thinking is shown in the reply is not."""
    if not isinstance(value, dict):
        return _OFF if value is None else value
    return {name: value[name] for name in _RENDERED if value.get(name) is not None}


def _changed(step: Step) -> Evidence | None:
    if not is_claude(step.after) or not had_cached(step, "messages"):
        return None
    mode, budget = differs(step, _PATHS, _mode), differs(step, _BUDGETS)
    found, what = (mode, "the thinking mode or its budget") if mode else (budget, "the task budget")
    return found.evidence(f"{what} changed between calls {step.turn - 1} and {step.turn}") if found else None


HAZARD = Hazard(
    "CKP03",
    "thinking-config-change",
    "D",
    "warning",
    source=(
        *chosen(
            ("thinking", "thinking_config", "reasoning_config", "output_config.task_budget"),
            "thinking is set per call by {source}",
        ),
        Flow(("user", "clock", "choice"), ("thinking",), "thinking is set per call by {source}", in_loop_only=True),
    ),
    requests=(RequestRule("step", _changed),),
)
