"""thinking-excluded-from-cache: the engine leaves thinking out of its tree, and the template sends it back.

## What it does
Finds a SGLang server that strips thinking tokens from its radix tree while the chat template renders earlier thinking into the prompt.

## Why it costs you
The tree holds the answer without its thinking; the next prompt contains it. Both agree up to the first thinking token and no further,
so each turn prefills everything from there on: in an agent that thinks in its first step, that is nearly the whole conversation, every
time. It also goes the other way round: a template that drops thinking needs exactly such an engine.

## Example
    # server: thinking is kept out of the radix tree; template: preserve_thinking is on
    client.chat.completions.create(
        model=MODEL, messages=messages, extra_body={"chat_template_kwargs": {"preserve_thinking": True}},
    )

## Use instead
Bring template and engine into line: both keep thinking, or neither does:

    kwargs = {"preserve_thinking": False}
    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"chat_template_kwargs": kwargs})

## Detected by
- source: not visible; it stands in the server's start-up options.
- requests: cached tokens stop at the first thinking of the conversation in two calls, while the bodies agree.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `cached_tokens`, with the server's cache report switched on.

## References
- https://github.com/sgl-project/sglang/issues/23315
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import is_kept, is_self_hosted, read
from contextkit.lint.rules.marks import n_shared, n_tokens

_LEAST_TOKENS = 1000
_ABOUT, _SLACK_TOKENS = 0.15, 64
"""How far a count may be off: templates add words of their own, and engines count in blocks."""


def _stops_at_thinking(step: Step) -> Evidence | None:
    got = read(step.after)
    if not got or not is_self_hosted(step.after) or not is_kept(step):
        return None
    first = next((i for i, block in enumerate(step.before.blocks) if block.type == "thinking"), None)
    if first is None:
        return None
    upto, shared = n_tokens(step.after, 0, first), n_tokens(step.after, 0, n_shared(step))
    slack = _ABOUT * upto + _SLACK_TOKENS
    if abs(got - upto) > slack or shared - got < max(_LEAST_TOKENS, slack) or not _stopped_before(step, upto, slack):
        return None
    return Evidence(
        f"{got:,} of {shared:,} tokens that agree were read, again no more than what stands before the first thinking",
        path=step.after.blocks[first].path,
    )


def _stopped_before(step: Step, upto: int, slack: float) -> bool:
    """Whether the call before stopped at the same place."""
    got = read(step.before)
    return got is not None and abs(got - upto) <= slack


HAZARD = Hazard(
    "CKE05", "thinking-excluded-from-cache", "B", "warning", requests=(RequestRule("step", _stops_at_thinking),)
)
