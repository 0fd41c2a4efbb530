"""date-rollover: today's date is computed for each request, so midnight rewrites every open session.

## What it does
The system prompt names the day and nothing finer. That is stable until the date changes; then every conversation that
is still open sends another system text, once, all at the same moment. A server on UTC does it in the middle of an
American working day.

## Why it costs you
Each open session is billed for its whole history in one call: on Anthropic system and messages are written at 1.25
times (five minutes) or twice (one hour) the input price instead of being read at a tenth or less. Jobs that run
through the night and sessions resumed the next morning pay it without exception. The shared system prefix of all
users has to be written anew as well.

## Example
    class Agent:
        def ask(self, messages):
            system = f"{INSTRUCTIONS} Today is {date.today().isoformat()}."
            return self.client.messages.create(model=MODEL, max_tokens=1024, system=system, messages=messages)

## Use instead
Take the date when the session begins and keep it; say once, at the tail, that a day has passed:

    class Agent:
        def __init__(self):
            self.system = f"{INSTRUCTIONS} The session began on {date.today().isoformat()}."

        def day_changed(self, messages):
            messages.append({"role": "user", "content": f"It is now {date.today().isoformat()}."})

In contextkit the system prompt given to `Context.open` is stored; reopened without one it goes on as stored, and
`context.notice(...)` tells of the new day.

## Detected by
- source: a date taken in a function that runs per request, not in the session's state, that reaches the system text.
- requests: the system text differs only in a date; the finding says how long after the call before.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/32622
- https://github.com/zeroclaw-labs/zeroclaw/issues/10858
- https://github.com/OpenBMB/PilotDeck/issues/571
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import DATE, added_with, front_name, varies_in
from contextkit.lint.source.rule import Flow


def _date(step: Step, change: Change) -> Evidence | None:
    if not varies_in(DATE, change):
        return None
    return Evidence(
        f"{front_name(change)} differs only in a date, {step.gap_seconds / 3600:.1f} h after the call before"
    )


def _date_put_in(step: Step, change: Change) -> Evidence | None:
    found = added_with(DATE, change)
    return Evidence(f"a date ({found.strip()}) was put into {front_name(change)}") if found else None


HAZARD = Hazard(
    "CKS02",
    "date-rollover",
    "A",
    "warning",
    source=(
        Flow(
            ("date",),
            ("system", "front"),
            "{source} is taken anew for each request and reaches {sink}: midnight rewrites it",
            in_loop_only=True,
        ),
    ),
    requests=(RequestRule("change", _date, 9), RequestRule("change", _date_put_in, 42)),
    confirmed_by=("system_changed", "input_changed"),
)
