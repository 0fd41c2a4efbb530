"""`contextkit demo --masking`: what masks cost beside what removing tools costs, at every endpoint, as a table and as
figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.cache.usage import ZERO
from contextkit.cli.demo_masks import FAMILIES, STAY, SYSTEM, VERBS, WAYS, phases, tools
from contextkit.providers.provider import Provider
from tests.cli.conftest import Run
from tests.laws.wires import answer

TURNS, SECONDS = 200, 8.0
BETA = "mid-conversation-tool-changes-2026-07-01"
PROVIDERS: dict[str, Callable[[], Provider]] = {
    "system_notice": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024),
    "system_notice, opted in": lambda: AnthropicMessages("claude-opus-5", max_tokens=1024, betas=[BETA]),
    "reminder": lambda: AnthropicMessages("claude-sonnet-5", max_tokens=1024),
    "reminder, strips": lambda: AnthropicMessages("claude-haiku-4-5", max_tokens=1024),
    "allowed_tools": lambda: OpenAIChat("gpt-6.1-sol", max_tokens=1024),
    "allowed_tools, responses": lambda: OpenAIResponses("gpt-6.1-sol"),
    "allowed_tools, implicit": lambda: OpenAIChat("gpt-5.4"),
}


def test_the_figures(run: Run) -> None:
    ended = run("demo", "--masking", "--json", "--turns", 2 * STAY * len(FAMILIES) // 4)
    assert ended.code == 0
    found = json.loads(ended.out)
    assert list(found) == ["Messages", "Chat", "Responses"]
    for endpoint, ways in found.items():
        plain, masked, removed = (ways[way] for way in WAYS)
        assert (
            masked["changes"] == 2
            and masked["segments_moved"] == plain["segments_moved"] == 0 < removed["segments_moved"]
        )
        assert masked["most_tokens_a_change"] <= (60 if endpoint == "Messages" else 0)
        assert abs(masked["hit_rate"] - plain["hit_rate"]) < 0.005 and removed["hit_rate"] < masked["hit_rate"]
        assert masked["summary"]["total"]["n_misses"] == 0 < removed["summary"]["total"]["n_misses"]


def test_the_table_says_what_came_of_it(run: Run) -> None:
    out = " ".join(run("demo", "--masking", "--turns", STAY + 1).out.split())
    told = "1 changes of phase through allowed_tools, 0 tokens"
    for words in ("60 tools, 6 phases, 9 turns", "no masks", "masked", "tools removed", told):
        assert words in out


@pytest.mark.parametrize("name", PROVIDERS)
def test_200_turns_through_6_phases_keep_every_segment_and_the_hit_rate(name: str) -> None:
    """The figures the masks are held to, with the usage the reference cache expects.

    The laws prove that it is what a server bills.
    """
    rates: dict[bool, float] = {}
    for has_masks in (True, False):
        clock = [1000.0]
        context = Context(
            PROVIDERS[name](),
            system=SYSTEM,
            tools=tools(),
            phases=phases() if has_masks else None,
            clock=lambda clock=clock: clock[0],
        )
        context.user("Do the whole task.")
        total, sent, costs = ZERO, b"", dict[int, int]()
        for number in range(TURNS):
            request = context.request()
            wire = bytes(request.layout.columns.wire[: request.layout.n_bytes])
            assert wire.startswith(sent)
            sent, total = wire, total + request.predicted
            costs[request.mask.entry] = request.mask.cost_tokens
            assert not has_masks or request.mask.mechanism == name.partition(",")[0]
            context.receive(answer(request.wire, f"r{number}", [reply(number)], request.predicted), request)
            clock[0] += SECONDS
            [call] = context.calls
            context.result(call, call.run())
        assert not has_masks or len(costs) == 1 + TURNS // STAY - (TURNS % STAY == 0)
        assert max(costs.values()) <= (0 if name.startswith("allowed") else 60)
        rates[has_masks] = total.hit_rate or 0.0
    assert abs(rates[True] - rates[False]) < 0.005 and rates[True] > 0.95


def reply(number: int) -> Any:
    family, step = FAMILIES[number // STAY % len(FAMILIES)], number % STAY
    verb = VERBS[-1] if step == STAY - 1 else VERBS[step]
    return ("call", f"call_{number}", f"{family}_{verb}", {"target": f"item {number}"})
