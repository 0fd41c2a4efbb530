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
- requests: a system text that an earlier call of the conversation had is back, or once one was, there is another still;
  a label that names a variant changes. The first change to another text looks like any other and is told as CKS10.
- guard: a system text differs from the call before; that it alternates shows after a few calls.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/sernote/audit-prompt-caching (rule AP-10)
"""

from __future__ import annotations

from itertools import groupby

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.edits import edited
from contextkit.lint.source.rule import Flow


def _alternates(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not change.is_first:
        return None
    found = edited(change)
    if not found.was.strip() or not found.now.strip() or found.is_growth:
        return None
    now = _system(step.after)
    seen = next((back for back, sent in enumerate(reversed(step.earlier[:-1]), 2) if _system(sent) == now), 0)
    return (
        Evidence(f"system text is again the one of {seen} calls before: variants alternate in one conversation")
        if seen
        else None
    )


def _drawn(step: Step, change: Change) -> Evidence | None:
    """Another text where one has come back before; asked last, since a text may come and go for a reason of its own."""
    if change.level != "system" or not change.is_first:
        return None
    seen = [key for key, _ in groupby(map(_system, step.earlier[-_RECENT:]))]
    n_texts = sum(text not in seen[:place] for place, text in enumerate(seen))
    if n_texts == len(seen):
        return None
    return Evidence(
        f"system text changed for another time, and {n_texts} texts have taken turns before: variants of one prompt"
    )


_RECENT = 40
"""Calls that are looked back at."""


def _labelled(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not edited(change).is_about("variant"):
        return None
    return Evidence("system text changed at a label that names a variant of the prompt")


def _system(sent: RecordedCall) -> list[bytes]:
    return [block.body for block in sent.blocks if block.level == "system"]


HAZARD = Hazard(
    "CKS12",
    "prompt-variant-fragmentation",
    "C",
    "note",
    source=(Flow(("choice",), ("system",), "{source} chooses a text for {sink} anew for each request"),),
    requests=(
        RequestRule("change", _alternates, 15),
        RequestRule("change", _labelled, 25),
        RequestRule("change", _drawn, 86),
    ),
    confirmed_by=("system_changed", "input_changed"),
)
