"""Changes planted into conversations with the local provider: what a replay says that their removal saves is the difference
of its two bills.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import anthropic
import pytest

from contextkit.ledger.ledger import Ledger
from contextkit.prices import price_of
from contextkit.server import LocalServer
from contextkit.whatif.what_if import WhatIf, what_if

MODEL, START = "claude-sonnet-4-5", 1_795_000_000.0
N_CALLS = 9
CACHED = {"type": "ephemeral"}
RULES = "You are careful and brief. " * 500
READ, WRITE = 0.3 / 1e6, 3.75 / 1e6
Plant = Callable[[int, dict[str, Any]], None]
"""Takes the number of a call and its request, and changes the request."""


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where it is. " * 30}}}
    return {"name": name, "description": f"Does something with {name}. " * 20, "input_schema": schema}


def request(number: int) -> dict[str, Any]:
    """The request of a well-behaved agent: everything stays as it began, the system text and the end are marked."""
    messages: list[dict[str, Any]] = []
    for turn in range(number + 1):
        text = f"Question {turn}: " + f"what of part {turn:03} is right and what is wrong? " * 60
        messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        if turn < number:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "It is right. " * 40}]})
    messages[-1]["content"][-1]["cache_control"] = CACHED
    system = [{"type": "text", "text": f"{RULES}It is 10:30.", "cache_control": CACHED}]
    tools = [tool(name) for name in ("read", "write", "list")]
    return {"model": MODEL, "max_tokens": 6_000, "system": system, "tools": tools, "messages": messages}


def recorded(plant: Plant, n_calls: int = N_CALLS) -> Ledger:
    """The recording of a conversation whose requests were changed."""
    replies = ({"parts": [{"type": "text", "text": "It is right. " * 40}]} for _ in range(n_calls))
    with LocalServer(replies, now=START) as server:
        with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client:
            for number in range(n_calls):
                asked = request(number)
                plant(number, asked)
                server.clock.advance(20)
                client.messages.create(**asked)
        return server.ledger


def bill(ledger: Ledger) -> float:
    """Return what a recording cost at list prices."""
    return sum(price_of("anthropic", MODEL, call.at)(call.usage) or 0.0 for call in ledger if call.usage)


def nothing(number: int, asked: dict[str, Any]) -> None:
    """Plant nothing."""


def clock(number: int, asked: dict[str, Any]) -> None:
    asked["system"][0]["text"] = f"{RULES}It is 10:{30 + number // 3}."


def tools_in_another_order(number: int, asked: dict[str, Any]) -> None:
    if number > 3:
        asked["tools"].reverse()


def thinking(number: int, asked: dict[str, Any]) -> None:
    asked["thinking"] = {"type": "enabled", "budget_tokens": 2_000 if number < 5 else 3_000}


def same_thinking(number: int, asked: dict[str, Any]) -> None:
    asked["thinking"] = {"type": "enabled", "budget_tokens": 2_000}


def edited_history(number: int, asked: dict[str, Any]) -> None:
    if number > 4:
        asked["messages"][2]["content"][0]["text"] = asked["messages"][2]["content"][0]["text"].replace(
            "right", "fair."
        )


def unmarked(number: int, asked: dict[str, Any]) -> None:
    asked["system"][0].pop("cache_control")
    asked["messages"][-1]["content"][-1].pop("cache_control")


def saved(found: WhatIf, change: str) -> float:
    return sum(one.usd for one in found.savings if one.change == change)


@pytest.mark.parametrize(
    ("plant", "clean", "change"),
    [
        (clock, nothing, "fixed-system"),
        (tools_in_another_order, nothing, "fixed-tools"),
        (thinking, same_thinking, "fixed-settings"),
        (edited_history, nothing, "append-only"),
        (unmarked, nothing, "breakpoints"),
    ],
    ids=["clock", "tools", "thinking", "history", "unmarked"],
)
def test_a_planted_change_saves_the_difference_of_the_bills(plant: Plant, clean: Plant, change: str) -> None:
    ledger = recorded(plant)
    found, difference = what_if(ledger.records), bill(ledger) - bill(recorded(clean))
    assert difference > 0.005
    assert found.recorded_usd == pytest.approx(bill(ledger))
    assert saved(found, change) == pytest.approx(difference, abs=1e-6), found.savings
    assert found.together_usd == pytest.approx(difference, abs=1e-6)


def test_a_tool_that_leaves_saves_the_difference_but_for_reading_it() -> None:
    """The replay keeps prompts as long as they were, without the tool."""

    def leaves(number: int, asked: dict[str, Any]) -> None:
        if number > 3:
            asked["tools"].pop()

    ledger, clean = recorded(leaves), recorded(nothing)
    (n_tokens,) = {(b.usage.prompt or 0) - (a.usage.prompt or 0) for a, b in list(zip(ledger, clean, strict=True))[4:]}
    found, difference = what_if(ledger.records), bill(ledger) - bill(clean)
    assert n_tokens > 100
    assert saved(found, "fixed-tools") - difference == pytest.approx(n_tokens * READ * (N_CALLS - 4), rel=0.02)


def test_a_change_that_is_taken_back_saves_no_more_than_the_difference() -> None:
    """The call that takes it back reads what was left before, so that it lost nothing that its verdict could name."""

    def there_and_back(number: int, asked: dict[str, Any]) -> None:
        if number in (4, 5):
            asked["tools"].reverse()

    ledger = recorded(there_and_back)
    found, difference = what_if(ledger.records), bill(ledger) - bill(recorded(nothing))
    assert 0.8 * difference < saved(found, "fixed-tools") <= difference


def test_a_cold_fan_out_saves_what_a_leader_would_have_written_for_all() -> None:
    n_rest = 3

    def ask(client: anthropic.Anthropic, number: int) -> None:
        asked = request(0)
        asked["messages"][0]["content"][0]["text"] = f"Question {number}: what is in part {number:03}?"
        client.messages.create(**asked)

    def fanned_out(*, is_led: bool) -> Ledger:
        replies = ({"parts": [{"type": "text", "text": "It is."}], "wait_seconds": 0.6} for _ in range(n_rest + 1))
        with LocalServer(replies) as server, anthropic.Anthropic(base_url=server.url, api_key="any") as client:
            threads = [Thread(target=ask, args=(client, number)) for number in range(n_rest + 1)]
            for number, thread in enumerate(threads):
                thread.start()
                if is_led and not number:
                    thread.join()
            for thread in threads:
                thread.join()
            return server.ledger

    ledger, clean = fanned_out(is_led=False), fanned_out(is_led=True)
    found, difference = what_if(ledger.records), bill(ledger) - bill(clean)
    assert difference > n_rest * 2_000 * (WRITE - READ)
    assert saved(found, "leader-first") == pytest.approx(difference, abs=1e-6), found.savings
