"""prompt-variant-fragmentation: a variant of the prompt is drawn for each request.

## What it does
An experiment picks one of several wordings, by chance or by hashing something that differs per request. One session
sees A, then B, then A again. A rollout of a new prompt version that is drawn per request does the same.

## Why it costs you
Each variant is a prefix of its own. With two variants about half the calls miss what the call before has written, and
every variant's entry is refreshed half as often, so more of them expire within five minutes. On Anthropic a miss in
the system costs all messages behind it. The result of the experiment is spoiled, too: cost and latency of both arms
are those of the mixture.

## Example
    def system_prompt():
        return random.choice([PROMPT_A, PROMPT_B])

    client.messages.create(model=MODEL, max_tokens=1024, system=system_prompt(), messages=messages)

## Use instead
Draw once per session, by something that lasts as long as the session, and report the figures of each family apart:

    arm = hashlib.sha256(session_id.encode()).digest()[0] % 2
    system = (PROMPT_A, PROMPT_B)[arm]                 # the same for all calls of the session

In contextkit the variant is chosen where the `Context` is made, since its system prompt stays from then on.

## Detected by
- source: one of several texts drawn at random (`random.choice`, `secrets.choice`), outside of what runs once, that reaches the system
  text.
- requests: two or more system texts alternate within one conversation.
- guard: a system text differs from the call before; that it alternates shows after a few calls.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/sernote/audit-prompt-caching (rule AP-10)
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.wording import edited
from contextkit.lint.source.rule import Flow
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Sent, Step


def _alternates(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not change.is_first:
        return None
    found = edited(change)
    if not found.was.strip() or not found.now.strip() or found.is_growth:
        return None
    now = _system(step.after)
    seen = next((back for back, sent in enumerate(reversed(step.earlier[:-1]), 2) if _system(sent) == now), 0)
    return Evidence(f"system text is again the one of {seen} calls before: variants alternate in one conversation") if seen else None


def _labelled(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not edited(change).is_about("variant"):
        return None
    return Evidence("system text changed at a label that names a variant of the prompt")


def _system(sent: Sent) -> list[bytes]:
    return [block.body for block in sent.blocks if block.level == "system"]


HAZARD = Hazard(
    "CKS12", "prompt-variant-fragmentation", "C", "note",
    source=(Flow(("choice",), ("system",), "{source} chooses a text for {sink} anew for each request"),),
    requests=(RequestRule("change", _alternates, 15), RequestRule("change", _labelled, 25)),
    confirmed_by=("system_changed", "input_changed"),
)  # fmt: skip
