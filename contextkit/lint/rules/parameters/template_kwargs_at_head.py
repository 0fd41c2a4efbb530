"""template-kwargs-at-head: an open-weights template prints its arguments near the first token.

## What it does
Finds `chat_template_kwargs` (thinking on or off, reasoning level, a date, a flag for tools) that vary from call to call on a
self-hosted model.

## Why it costs you
Templates print such arguments at the head, often within the first ten tokens. vLLM chains the hash of each block to the one before it,
SGLang follows a radix tree from the root, llama.cpp keeps the longest common start: a difference at token 8 leaves nothing of the
conversation, and a 100,000-token prompt is prefilled from the beginning. Dates that a template fills in by itself do the same once a
day.

## Example
    client.chat.completions.create(
        model=MODEL, messages=history,
        extra_body={"chat_template_kwargs": {"enable_thinking": is_hard(step), "date_string": str(date.today())}},
    )

## Use instead
The same arguments for the whole session, the date of its start included; or a template that prints them behind the history:

    KWARGS = {"enable_thinking": True, "preserve_thinking": True, "date_string": started.isoformat()}
    client.chat.completions.create(model=MODEL, messages=history, extra_body={"chat_template_kwargs": KWARGS})

## Detected by
- source: a condition on the turn, a date or the user's text decides the template's arguments, in `extra_body` as well.
- requests: the arguments differ from the call before.
- guard: the same, before it is sent.
- provider: engines say nothing; `cached_tokens` (or `timings.cache_n`) falls to the length of the part before.

## References
- https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/111
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.settings import differs, had_cached
from contextkit.lint.source.rule import Flow

_NAMES = ("chat_template_kwargs", "chat_template", "enable_thinking", "template_kwargs")
_PATHS = dict.fromkeys(("openai_chat", "openai_responses", "anthropic_messages"), _NAMES)


def _changed(step: Step) -> Evidence | None:
    found = differs(step, _PATHS, lambda value: value or None)
    if found is None or not had_cached(step, "tools"):
        return None
    return found.evidence(
        f"what the template prints at the head of the prompt changed between calls {step.turn - 1} and {step.turn}"
    )


HAZARD = Hazard(
    "CKP07",
    "template-kwargs-at-head",
    "A",
    "error",
    source=(
        *chosen(
            ("chat_template_kwargs", "extra_body.chat_template_kwargs"),
            "the template prints what {source} decides at the head of the prompt",
        ),
        Flow(
            ("user", "clock", "date", "id", "choice"),
            ("template",),
            "the template prints {source} at the head of the prompt",
            in_loop_only=True,
        ),
    ),
    requests=(RequestRule("step", _changed),),
)
