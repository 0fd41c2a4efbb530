"""id-or-nonce-in-prefix: an id, a hash or a nonce is written into the front of the prompt.

## What it does
A request id, trace id, session id, a hash of the question or a billing token is put into the first system block,
often by a gateway or for the sake of logging. Some are new for each call, some for each process.

## Why it costs you
The prefix ends where the id begins. In block 0 that leaves the tools on Anthropic and nothing worth naming elsewhere;
what users report is a read counter stuck at a few hundred tokens while the prompt grows. Every call pays the write
price for all the rest. An id per session spares the session but keeps any two sessions from sharing their system
prompt.

## Example
    request_id = uuid.uuid4().hex
    system = f"[request {request_id}] {INSTRUCTIONS}"
    client.messages.create(model=MODEL, max_tokens=1024, system=system, messages=messages)

## Use instead
Ids are for machines; send them where no model reads them:

    client.messages.create(
        model=MODEL, max_tokens=1024, system=INSTRUCTIONS, messages=messages,
        metadata={"user_id": hashed_user}, extra_headers={"x-request-id": request_id},
    )

`metadata` and headers of your own do not enter Anthropic's cache key. If another hop writes the id, strip it at the
gateway. A contextkit request carries what you said and nothing else.

## Detected by
- source: `uuid4`, `secrets`, a random number, `hash()` or a trace id that reaches the system text or the first
  messages; a digest of the question only shows in requests.
- requests: a short hexadecimal or uuid span changes at a fixed offset in every call, while the tokens read stay
  small.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/68900
- https://github.com/ollama/ollama/issues/14918
- https://github.com/EasyMetaAu/helm-api/issues/208
"""

from __future__ import annotations

import re

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import ABOUT, GIT_LINE, ID, added_with, edited, front_name, is_about, varies_in
from contextkit.lint.source.rule import Flow

_SHORT = re.compile(r"\b(?=\w*\d)\w{1,64}\b")
_LINE = 120
"""Characters of a line that says one thing."""
"""What is an id only below a label that says so."""


def _id(step: Step, change: Change) -> Evidence | None:
    if not varies_in(ID, change) or is_about(change, "place"):
        return None
    return Evidence(f"{front_name(change)} differs only in an id, at character {edited(change).lead:,} of its text")


def _counter(step: Step, change: Change) -> Evidence | None:
    if not varies_in(_SHORT, change) or not (is_about(change, "id") or _names_id(edited(change).was)):
        return None
    return Evidence(f"{front_name(change)} differs only in what stands under a label that names an id")


def _names_id(line: str) -> bool:
    """Whether a short line itself names one: `<!-- build 4283fef -->`."""
    return len(line) <= _LINE and bool(ABOUT["id"].search(line))


def _id_put_in(step: Step, change: Change) -> Evidence | None:
    long, short = added_with(ID, change), added_with(_SHORT, change)
    if not short or GIT_LINE.search(edited(change).now):
        return None
    is_named = len(long) >= 24 or bool(ABOUT["id"].search(edited(change).span[1]))
    return Evidence(f"an id was put into {front_name(change)}") if is_named else None


HAZARD = Hazard(
    "CKS03",
    "id-or-nonce-in-prefix",
    "A",
    "error",
    source=(
        Flow(
            ("id",), ("system", "front"), "{source} is another one each time and reaches {sink}: the prefix ends there"
        ),
    ),
    requests=(
        RequestRule("change", _id, 12),
        RequestRule("change", _counter, 28),
        RequestRule("change", _id_put_in, 43),
    ),
    confirmed_by=("system_changed", "input_changed"),
)
