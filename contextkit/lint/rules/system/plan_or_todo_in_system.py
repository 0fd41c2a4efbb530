"""plan-or-todo-in-system: a plan, a task list or the agent's state is rendered into the system prompt.

## What it does
The current list of tasks stands in the instructions, so that the model never loses sight of it; or the number of the
turn, the steps or tokens that are left. Each time the model ticks something off, each time something is counted, the
next request has another system text.

## Why it costs you
The better the agent keeps its list, the more it pays: every update throws away system and messages on Anthropic, and
on OpenAI everything from the first changed character. A run of forty steps with a list touched in half of them writes
its history twenty times, at 1.25 times the input price where a tenth was possible.

## Example
    while not plan.done:
        system = INSTRUCTIONS + " Tasks: " + "; ".join(f"{task.state} {task.title}" for task in plan.tasks)
        reply = client.messages.create(model=MODEL, max_tokens=2048, system=system, tools=TOOLS, messages=messages)

## Use instead
Recite the list at the tail, where the model attends to it best, and leave earlier recitations in place:

    reply = client.messages.create(model=MODEL, max_tokens=2048, system=INSTRUCTIONS, tools=TOOLS, messages=messages)
    ...
    results.append({"type": "text", "text": "Tasks: " + render(plan)})       # behind the tool results of this turn

The tool that edits the list can return the whole of it, which is the same thing for free. With contextkit: that
tool's result, or `context.notice(render(plan))`.

## Detected by
- source: a list of tasks or a state of the plan, known by its name (`todos`, `current_plan`, `scratchpad`), or a plan that the
  condition of a loop around the call looks at, rendered into the system text or put before the history; how many turns
  there were or are left, counted by a loop or method that adds to the messages and asks the model.
- requests: the system text changes in a list of tasks or below such a heading, in nothing but the numbers of a line that
  counts turns or tokens, or in the call behind one of the tool that writes the plan.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/exoharness/exo/issues/24
"""

from __future__ import annotations

import re

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import BOX, edited, front_name, is_front
from contextkit.lint.rules.history import tail
from contextkit.lint.source.rule import Flow

_PLANNER = re.compile(rb'"name":\s*"[^"]*(?:todo|plan|task|checklist)[^"]*"', re.IGNORECASE)

_NUMBER = re.compile(r"\d[\d,.]*")
_UNITS = r"(?:tokens?|steps?|turns?|iterations?|rounds?|attempts?|tool calls?|messages?|requests?)"
_COUNTS = re.compile(
    rf"\b{_UNITS}\b\W{{0,12}}\d|\d[\d,.]*\s*(?:more )?{_UNITS}\b|\b(?:remaining|left|used|budget)\b\D{{0,20}}\d",
    re.IGNORECASE,
)
"""A line that counts: `Turn 3 of 20`, `9,120 tokens left`, `remaining: 4`."""


def _plan(step: Step, change: Change) -> Evidence | None:
    if not is_front(change):
        return None
    found = edited(change)
    is_list = bool(BOX.search(found.was) or BOX.search(found.now))
    return (
        Evidence(f"a plan or list of tasks changed in {front_name(change)}")
        if is_list or found.is_about("plan")
        else None
    )


def _counted(step: Step, change: Change) -> Evidence | None:
    """Nothing but numbers differ, and they count turns, steps or tokens."""
    found = edited(change) if is_front(change) else None
    if found is None or _NUMBER.sub("#", found.was) != _NUMBER.sub("#", found.now):
        return None
    pairs = zip(_NUMBER.findall(found.was), _NUMBER.finditer(found.now), strict=True)
    others = [now for was, now in pairs if was != now[0]]
    counted = [
        one for one in _COUNTS.finditer(found.now) if any(one.start() <= now.start() < one.end() for now in others)
    ]
    if not counted or not all(any(one.start() <= now.start() < one.end() for one in counted) for now in others):
        return None
    return Evidence(f"{front_name(change)} counts: {counted[0][0].strip()!r}")


def _after_planning(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not any(
        block.type == "call" and _PLANNER.search(block.body) for block in tail(step)
    ):
        return None
    return Evidence("system text changed right after a call of the tool that writes the plan")


HAZARD = Hazard(
    "CKS06",
    "plan-or-todo-in-system",
    "A",
    "error",
    source=(
        Flow(
            ("plan",),
            ("system", "front"),
            "{source} changes while the agent works and reaches {sink}, in front of the history",
        ),
        Flow(
            ("counter",),
            ("system", "front"),
            "{source} is counted on in each turn and reaches {sink}, in front of the history",
        ),
    ),
    requests=(
        RequestRule("change", _plan, 24),
        RequestRule("change", _counted, 26),
        RequestRule("change", _after_planning, 45),
    ),
    confirmed_by=("system_changed", "input_changed"),
)
