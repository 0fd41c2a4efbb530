"""One conversation in several threads: a screen that asks what comes next, tools that answer, sub-agents beside each
other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from threading import Thread
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context
from tests.context.desk import Desk
from tests.context.head import SYSTEM
from tests.prompt.test_cost import counted


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that what can go wrong does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], Any]) -> list[Any]:
    """What each gave, run at the same time; the first fault, where there was one."""
    ended: list[Any] = []
    faults: list[BaseException] = []

    def run(work: Callable[[], Any]) -> None:
        try:
            ended.append(work())
        except BaseException as fault:  # noqa: BLE001 - it is raised below, in the thread of the test
            faults.append(fault)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fault in faults:
        raise fault
    return ended


def test_two_who_ask_at_once_get_the_same_bytes(claude: Desk) -> None:
    for _ in range(5):
        context = claude.context(*(f"part {number}" for number in range(40)))
        bodies = together(*[lambda context=context: context.request().body] * 4)  # type: ignore[misc]
        assert set(bodies) == {claude.context(*(f"part {number}" for number in range(40))).request().body}


def test_a_request_knows_what_it_includes_while_somebody_speaks() -> None:
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system=SYSTEM)
    context.user("begin")
    spoken = count()

    def speak() -> None:
        for _ in range(100):
            context.user(f"<{next(spoken)}>")

    def ask() -> list[tuple[int, int]]:
        requests = [context.request() for _ in range(50)]
        return [(request.after, request.layout.columns.entries[request.layout.n - 1]) for request in requests]

    included = next(rows for rows in together(speak, ask) if rows)
    assert all(after == last for after, last in included)


def test_sub_agents_side_by_side_are_billed_once_each(claude: Desk) -> None:
    context = claude.context("one")

    def work(number: int) -> None:
        helper = context.spawn(f"part {number}", system=SYSTEM)
        for turn in range(8):
            helper.receive(_reply(f"{number}-{turn}"), helper.request())
            helper.user(f"and then? {number}-{turn}")

    together(*[lambda number=number: work(number) for number in range(6)])  # type: ignore[misc]
    assert len({call.id for call in context.ledger}) == len(context.ledger) == 48
    assert len(context.summary().lanes) == 6


def test_a_sub_agent_does_not_read_the_ledger_again() -> None:
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system=SYSTEM)

    def spawned(name: str) -> int:
        with counted("call") as calls:
            helper = context.spawn(f"task {name}")
        helper.receive(_reply(name), helper.request())
        return sum(
            n for (module, _), n in calls.items() if module.startswith(("contextkit.ledger", "contextkit.cache"))
        )

    costs = [spawned(str(number)) for number in range(30)]
    assert costs[-1] <= costs[1]


def _reply(name: str) -> dict[str, Any]:
    said = [{"type": "text", "text": f"Reply {name}."}]
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "stop_reason": "end_turn",
        "content": said,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
