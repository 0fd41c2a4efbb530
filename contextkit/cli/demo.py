"""Implements `contextkit demo`: bills one scripted agent four times and explains the difference.

The agent has 18 tools in three phases. The four runs send the same work through the real client to a local provider: a
`Context` that only appends; the same requests with one word of the system prompt changed half-way; tools masked per
phase; tools removed per phase. Nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import click

from contextkit.cache.usage import ZERO
from contextkit.canonical import Json, canonical, parse
from contextkit.cli.models import say_assumed
from contextkit.cli.terminal import counter, for_programs, interruptible
from contextkit.context import Context
from contextkit.errors import UsageError
from contextkit.ledger.figures import Dollars
from contextkit.ledger.summary import Summary, summarise
from contextkit.models import model_named
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.report.json import summary_json
from contextkit.terminal import echo, echo_json
from contextkit.tools.phases import Phase, Phases
from contextkit.tools.tool import Tool

WAYS = {
    "append-only": "a Context: every request is the previous one and a tail",
    "changed byte": "half-way the system prompt says Tuesday instead of Monday; nothing after a changed byte can be read",
    "masked": "every phase allows its own tools; all definitions stay in the prompt",
    "tools removed": "every phase sends its own tools only",
}
"""Run → what is special about it."""
PHASES = ("search", "write", "review")
VERBS = ("list", "open", "find", "edit", "check", "finish")
SYSTEM = "Today is Monday. You work on one task with many tools. Explain each step in one sentence. " + (
    "Say where every figure comes from. " * 400
)
TASK = "Find the three cheapest GPU hosts, write a page on them, and review it."
SECONDS = 8.0
"""How long each reply takes on the demonstration's clock."""


def tools_of(phase: str) -> list[Tool]:
    """Return the tools of one phase."""
    parameters = {
        "type": "object",
        "properties": {"target": {"type": "string", "description": f"What to work on in this {phase} step."}},
        "required": ["target"],
    }
    return [
        Tool.raw(
            {
                "name": f"{phase}_{verb}",
                "description": f"{verb.capitalize()} something during {phase}. The result is text. " * 2,
                "parameters": parameters,
            },
            run=lambda arguments: f"{arguments['target']}: " + "a paragraph with a few facts in it. " * 30,
        )
        for verb in VERBS
    ]


def phase_at(turn: int, turns: int) -> str:
    """Return the phase that call `turn` belongs to."""
    return PHASES[turn * len(PHASES) // turns]


def replies(turns: int) -> list[Json]:
    """Return the scripted model: one call in each reply; the last reply of a phase finishes it."""
    script: list[Json] = []
    for turn in range(turns - 1):
        phase = phase_at(turn, turns)
        verb = "finish" if phase != phase_at(turn + 1, turns) else VERBS[turn % (len(VERBS) - 1)]
        call = {"type": "call", "name": f"{phase}_{verb}", "arguments": {"target": f"item {turn}"}}
        script.append({"parts": [{"type": "text", "text": f"Step {turn}."}, call], "seconds": SECONDS})
    return [*script, {"parts": [{"type": "text", "text": "The page is reviewed."}], "seconds": SECONDS}]


def run(way: str, model: str, turns: int, show_progress: Callable[[str], None]) -> Summary:
    """Bill one run with a local provider of its own; `show_progress` takes a line for each call."""
    import anthropic

    from contextkit.server.in_process import http_client
    from contextkit.server.state import Clock, State

    state = State(Clock(is_frozen=True), replies(turns))
    context = _context(way, model, state.clock.now)
    context.user(TASK)
    with anthropic.Anthropic(api_key="local", max_retries=0, http_client=http_client(state)) as client:
        for turn in range(turns):
            request = context.request()
            is_changed = way == "changed byte" and turn >= turns // 2
            body = request.body.replace(b"Today is Monday", b"Today is Tuesday") if is_changed else request.body
            try:
                reply = client.messages.create(**parse(body))
            except anthropic.BadRequestError as error:  # the prompt no longer fits the window
                message = error.body["error"]["message"]  # type: ignore[index]
                raise UsageError(f"call {turn + 1} was refused ({message}): ask for fewer --turns") from None
            context.receive(reply, request)
            usage = state.ledger[-1].usage or ZERO
            show_progress(f"{way} {turn + 1}/{turns}: read {usage.read or 0:,}, written {usage.written or 0:,}")
            for call in context.calls:
                context.result(call, call.run())
            following = phase_at(min(turn + 1, turns - 1), turns)
            if way == "tools removed" and following != phase_at(turn, turns):
                context.retool(tools_of(following))
    return summarise(state.ledger)


def _context(way: str, model: str, clock: Any) -> Context:
    following = {phase: {f"{phase}_finish": after} for phase, after in pairwise(PHASES)}
    phases = Phases(
        {phase: Phase(allow=[f"{phase}_*"], then=following.get(phase, {})) for phase in PHASES}, start=PHASES[0]
    )
    tools = [tool for phase in PHASES for tool in tools_of(phase)]
    return Context(
        AnthropicMessages(model, max_tokens=1024),
        system=SYSTEM,
        tools=tools_of(PHASES[0]) if way == "tools removed" else tools,
        phases=phases if way == "masked" else None,
        clock=clock,
    )


def report(summaries: Mapping[str, Summary], model: str) -> list[str]:
    """Return the lines that people read: a table, and what each run shows."""
    calls = next(iter(summaries.values())).calls
    lines = [f"One agent, 18 tools, {calls} calls to {model}, four runs (local provider, list prices):", ""]
    lines += [f"{'':<14}{'input tokens':>14}{'from cache':>12}{'misses':>8}{'cost':>9}"]
    for way, summary in summaries.items():
        cost = str(Dollars(summary.cost_usd))
        tokens, rate = summary.usage.prompt or 0, summary.hit_rate or 0.0
        lines.append(f"{way:<14}{tokens:>14,}{rate:>12.1%}{len(summary.losses):>8}{cost:>9}")
    for way, summary in summaries.items():
        lines += ["", f"{way}: {WAYS[way]}."]
        for miss in summary.losses:
            lines.append(
                f"  call {miss.index + 1} read {miss.read_tokens:,} of {miss.expected_tokens:,} cached tokens: {miss.cause}"
                f" ({miss.where})"
            )
        if not summary.losses:
            lines.append("  every call read what the call before had left in the cache")
    return [*lines, "", "Next: `contextkit report` on your own sessions, then build requests with `Context` (README)."]


@click.command("demo")
@click.option(
    "--model",
    default="claude-sonnet-5-5",
    show_default=True,
    help="Whose cache rules and prices apply; a Claude model.",
)
@click.option("--turns", default=18, show_default=True, type=click.IntRange(6, 500), help="Model calls in each run.")
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object.")
def command(model: str, turns: int, as_json: bool) -> None:
    """Run an agent four times against a local provider that bills like the real one: append-only, with one changed
    word, with masked tools, with removed tools.

    Nothing leaves this machine.

    \b
    contextkit demo
    contextkit demo --turns 60 --model claude-opus-4-5
    """
    row = model_named(model)
    if row.provider != "anthropic":
        what = f"{model} is a model of {row.provider}" if row.provider else f"{model!r} is no model of Anthropic's"
        raise UsageError(f"the demo uses Anthropic's Messages API and {what}: name a Claude model, or none")
    say_assumed(row)
    if as_json:
        for_programs()
    with interruptible("the runs are compared when all are done; no figures"), counter() as show_progress:
        summaries = {way: run(way, model, turns, show_progress) for way in WAYS}
    if as_json:
        echo_json(canonical({way: summary_json(summary) for way, summary in summaries.items()}))
        return
    for line in report(summaries, model):
        echo(line)
