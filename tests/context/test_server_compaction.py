"""Compaction by OpenAI's server: a call of its own, an item that asks for it, a threshold.

Each becomes a declared epoch.
"""

from __future__ import annotations

from typing import Any

import pytest

from contextkit import Context, OpenAIResponses
from contextkit.canonical import parse
from contextkit.server import LocalServer
from tests.context.desk import WIRES, Desk, asks, bill, goes_on, says
from tests.context.head import SYSTEM, add, shout

MODEL = "gpt-6.1-sol"
TRIGGER = {"type": "native", "wire": "openai_responses", "block": {"type": "compaction_trigger"}}
MANAGED = [{"type": "compaction", "compact_threshold": 1_000}]


@pytest.fixture
def desk(running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES["responses"], running)


def begun(desk: Desk, **given: Any) -> Context:
    """A conversation of two turns, so long that leaving them out shows."""
    provider = OpenAIResponses(MODEL, max_output_tokens=1024, **given)
    context = Context(provider, system=SYSTEM, tools=[add, shout], clock=desk.server.clock.now)
    for text in ("one", "two"):
        context.user(text * 400)
        desk.ask(context, says(f"{text}! " * 400))
    return context


def types(context: Context) -> list[str]:
    """What the next request says, item by item."""
    return [item.get("type") or item["role"] for item in parse(context.request().layout.body(b"{}"))["input"]]


@pytest.mark.parametrize("continues", [False, True])
def test_what_the_endpoint_gave_opens_an_epoch(desk: Desk, continues: bool) -> None:
    context = begun(desk, continues=continues)
    size = context.request().predicted.prompt or 0
    desk.server.script([says("In short: one, two.")])
    with desk.client() as client:
        request = context.request()
        fields = {name: request[name] for name in ("model", "input", "previous_response_id") if name in request}
        entry = context.receive(client.responses.compact(**fields), request)
    assert entry is not None and entry.kind == "epoch" and types(context) == ["developer", "user", "user", "compaction"]
    request = goes_on(desk, context)
    assert (request.predicted.prompt or 0) < size and "previous_response_id" not in request
    assert ("previous_response_id" in goes_on(desk, context)) == continues


@pytest.mark.parametrize("continues", [False, True])
def test_an_item_that_asks_for_it_opens_an_epoch_and_is_gone(desk: Desk, continues: bool) -> None:
    context = begun(desk, continues=continues)
    context.user(TRIGGER)
    request = desk.ask(context, says("In short."))
    assert request["input"][-1] == {"type": "compaction_trigger"} and context.log[-1].kind == "epoch"
    assert bill(context.ledger[-1].usage) == bill(request.predicted)
    assert types(context) == ["developer", "compaction"]
    goes_on(desk, context)


@pytest.mark.parametrize("continues", [False, True])
def test_a_threshold_puts_an_epoch_before_what_the_model_said(desk: Desk, continues: bool) -> None:
    context = begun(desk, continues=continues)
    context.user("What is 1 + 2?")
    desk.server.script([asks(("add", {"a": 1, "b": 2}), text="I add.")])
    with desk.client() as client:
        request = context.request(context_management=MANAGED)
        reply = request.send(client)
        context.user("And hurry.")
        entry = context.receive(reply, request)
    assert [item.type for item in reply.output] == ["compaction", "message", "function_call"]
    assert (
        entry is not None
        and [one.kind for one in context.log[-2:]] == ["epoch", "assistant"]
        and context.stop == "calls"
    )
    [call] = context.calls
    context.result(call, call.run())
    assert types(context) == ["developer", "compaction", "message", "function_call", "function_call_output", "user"], (
        "late words stay"
    )
    request = goes_on(desk, context, says_something=False)
    assert "previous_response_id" not in request
    goes_on(desk, context)


def test_below_the_threshold_nothing_happens(desk: Desk) -> None:
    context = begun(desk, context_management=[{"type": "compaction", "compact_threshold": 100_000}])
    goes_on(desk, context)
    assert all(entry.kind != "epoch" for entry in context.log)


def test_a_streamed_compaction_is_kept_too(desk: Desk) -> None:
    context = begun(desk)
    context.user("On.")
    desk.server.script([says("Going.")])
    with desk.client() as client:
        request = context.request(context_management=MANAGED)
        for _ in context.stream(request.stream(client), request):
            pass
    assert types(context) == ["developer", "compaction", "message"] and context.last_text == "Going."
    goes_on(desk, context)
