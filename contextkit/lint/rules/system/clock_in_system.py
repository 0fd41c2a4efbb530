"""clock-in-system: the time of day stands in the system prompt.

## What it does
The system prompt is rendered for every request and holds the current time, to the minute, second or microsecond. It
may come through a template variable called `now` or `current_datetime`, so that nothing in the prompt's own file
shows it.

## Why it costs you
No two requests have the same system text. On Anthropic the tools in front of it can still be read; everything from
the system level on is written again by every call, at 1.25 times the input price with the five-minute lifetime, and
never read. On OpenAI the reusable prefix ends at the first digit that differs. The clock usually stands near the
front, so hardly anything survives, and hosts with automatic caches (Gemini, DeepSeek, xAI, vLLM) lose it alike.

## Example
    def system_prompt():
        return f"You are a support agent. The time is {datetime.now():%H:%M:%S}. Follow the handbook: {HANDBOOK}"

    client.messages.create(model=MODEL, max_tokens=1024, system=system_prompt(), messages=messages)

## Use instead
Leave the time out of the prefix. If the day matters, freeze it when the session begins; the exact time belongs into
the newest message or behind a tool:

    SYSTEM = f"You are a support agent. Follow the handbook: {HANDBOOK}"
    messages.append({"role": "user", "content": f"[{datetime.now():%H:%M}] {question}"})

With contextkit the system prompt is said once, when the `Context` is made, and stays as stored; `context.notice("It
is 14:05.")` adds the time at the tail.

## Detected by
- source: a clock value that reaches `system`, `instructions`, a system or developer message, or a template rendered
  into one, as LangChain's `("system", "It is {time}.")` filled in by `partial` or `invoke`.
- requests: the system text differs only within a date or time.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/Mintplex-Labs/anything-llm/issues/6398
- https://github.com/dimagi/open-chat-studio/issues/3625
- https://github.com/aaif-goose/goose/issues/2434
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import CLOCK, DATE, added_with, front_name, varies_in
from contextkit.lint.source.rule import Flow


def _clock(step: Step, change: Change) -> Evidence | None:
    if not varies_in(CLOCK, change) or varies_in(DATE, change):
        return None
    return Evidence(f"{front_name(change)} differs only in a time of day")


def _clock_put_in(step: Step, change: Change) -> Evidence | None:
    found = added_with(CLOCK, change)
    return Evidence(f"a time of day ({found.strip()}) was put into {front_name(change)}") if found else None


HAZARD = Hazard(
    "CKS01",
    "clock-in-system",
    "A",
    "error",
    source=(
        Flow(
            ("clock",),
            ("system", "front"),
            "{source} is a time of day and reaches {sink}, so that no two requests begin alike",
        ),
    ),
    requests=(RequestRule("change", _clock, 10), RequestRule("change", _clock_put_in, 40)),
    confirmed_by=("system_changed", "input_changed"),
)
