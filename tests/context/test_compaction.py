"""Compaction as a policy: when it is due, what the summary costs, what is kept, and replies that are no summary."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, Usage, tool
from contextkit.canonical import parse
from contextkit.errors import UnusableSummary, UsageError
from contextkit.memory import Compaction, FileMemory, Memory, Offload
from contextkit.models import model_named, register, unregister
from contextkit.server import LocalServer
from tests.context.desk import WIRES, Desk, asks, goes_on, refuses, says
from tests.context.head import SYSTEM
from tests.laws.wires import answer

_numbers = count()


@pytest.fixture
def tiny() -> Iterator[AnthropicMessages]:
    """A model with a small window and no price."""
    register(replace(model_named("claude-sonnet-4-5"), name="tiny", window_tokens=8_000, provider="nobody"))
    yield AnthropicMessages("tiny", max_tokens=1_000)
    unregister("tiny")


def kept(context: Context, text: str, n: object = "") -> None:
    """The model says `text`."""
    request = context.request()
    context.receive(answer(request.wire, f"r{n}", [("text", text)], Usage(9, 0, 0, 0, 5)), request)


def files() -> FileMemory:
    return FileMemory(f"memory://compaction-{next(_numbers)}")


@tool
def page(number: int) -> str:
    """Get a page."""
    return f"row of {number} " * 500


def turn(desk: Desk, context: Context, number: int, n_words: int = 500) -> None:
    context.user(f"Turn {number}: " + f"word{number} " * n_words)
    desk.ask(context, says(f"Reply {number}. " + "yes " * 50))


def worked(desk: Desk, context: Context, number: int) -> None:
    """A turn of two calls."""
    context.user(f"Work {number}: " + f"word{number} " * 300)
    desk.ask(context, asks(("add", {"a": number, "b": 1}), ("shout", {"text": "hey " * 200})))
    for call in context.calls:
        context.result(call, call.run())
    desk.ask(context, says(f"Worked {number}."))


def compacted(desk: Desk, context: Context, *scripts: Any) -> Any:
    if context.compacting() is None:
        return None
    desk.server.script(scripts or [says("In short: turns.")])
    with desk.client() as client:
        return context.compact_if_due(client)


def test_nothing_is_due_below_the_threshold_or_without_a_policy(claude: Desk) -> None:
    for policy in None, Compaction(at_tokens=100_000):
        context = claude.context(compact=policy)
        assert context.compacting() is None
        turn(claude, context, 1)
        assert context.compacting() is None and compacted(claude, context) is None


def test_a_summary_reads_the_cached_prefix_and_the_newest_turns_stay(desk: Desk) -> None:
    context = desk.context(compact=Compaction(at_tokens=8_000, keep_tokens=1_500))
    n = 0
    while (side := context.compacting()) is None:
        n += 1
        turn(desk, context, n)
        assert n < 30
    assert (context.request().predicted.prompt or 0) > 8_000
    request = desk.ask(side, says("In short: turns went by."))
    usage = context.ledger[-1].usage
    assert usage is not None and usage.prompt is not None and usage.read is not None
    assert usage.read >= 0.95 * usage.prompt
    epoch = context.compact(side)
    body = parse(epoch.body)
    opening = [part["text"] for part in body["summary"]]
    assert (
        opening[0].startswith("The user asked, at the beginning:\nTurn 1") and opening[-1] == "In short: turns went by."
    )
    assert context.log[body["keep_from"]].kind == "user"
    sent = context.request().body.decode()
    assert f"Reply {n}." in sent and "Reply 1." not in sent
    assert (context.request().predicted.prompt or 0) < 0.75 * (request.predicted.prompt or 0)
    assert context.compacting() is None
    goes_on(desk, context)


@pytest.mark.parametrize("n_kept", [300, 2_000, 3_500])
def test_calls_and_results_stay_together_wherever_it_cuts(claude: Desk, n_kept: int) -> None:
    context = claude.context(compact=Compaction(at_tokens=7_000, keep_tokens=n_kept))
    number = 0
    while compacted(claude, context) is None:
        number += 1
        worked(claude, context, number)
    goes_on(claude, context)


def test_what_the_model_has_not_answered_is_kept_with_the_calls_it_answers(claude: Desk) -> None:
    context = claude.context("Start. " * 2_000, compact=Compaction(at_tokens=3_500, keep_tokens=100, on_lost="ignore"))
    claude.ask(context, asks(("add", {"a": 20, "b": 22})))
    [call] = context.calls
    assert context.compacting() is None, "a call is open"
    context.result(call, call.run())
    assert compacted(claude, context) is not None
    sent = context.request().body.decode()
    assert "42" in sent and sent.count("Start. ") < 1_200 and context.log[-1].kind == "epoch"
    goes_on(claude, context, says_something=False)


def test_what_is_said_while_the_summary_is_written_stays(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=20))
    n = 0
    while (side := context.compacting()) is None:
        n += 1
        turn(claude, context, n)
    assert side._summary_task is not None and side._summary_task.keep_from is None
    context.user("One more thing.")
    claude.ask(side, says("In short."))
    context.compact(side)
    assert "One more thing." in context.request().body.decode()
    goes_on(claude, context, says_something=False)


def test_a_branch_made_before_another_epoch_is_refused(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=500))
    for number in range(6):
        turn(claude, context, number)
    side = context.compacting()
    assert side is not None
    claude.ask(side, says("In short."))
    context.compact("Mine.")
    with pytest.raises(UsageError, match="before another epoch began"):
        context.compact(side)


def test_an_async_client_compacts_as_well(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=500))
    for number in range(6):
        turn(claude, context, number)
    claude.server.script([asks(("add", {"a": 1, "b": 2})), says("In short.")])

    async def run() -> Any:
        async with claude.async_client() as client:
            return await context.acompact_if_due(client)

    epoch = asyncio.run(run())
    assert epoch is not None and b"In short." in epoch.body
    goes_on(claude, context)


BAD: dict[str, Any] = {
    "calls": asks(("add", {"a": 1, "b": 2})),
    "truncated": says("In sho", stop="truncated"),
    "refused": says("I will not.", stop="refused"),
    "empty": says(" "),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_reply_that_is_no_summary_is_asked_for_again(claude: Desk, problem: str) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=500))
    for number in range(6):
        turn(claude, context, number)
    before = context.request().body
    side = context.compacting()
    assert side is not None
    claude.ask(side, BAD[problem])
    with pytest.raises(UnusableSummary, match="summarise_again"):
        context.compact(side)
    assert context.request().body == before
    claude.ask(context.summarise_again(side), says("In short."))
    assert b"In short." in context.compact(side).body
    goes_on(claude, context)


def test_a_summary_that_cannot_be_had_is_given_up_and_not_asked_for_at_once(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=500))
    for number in range(6):
        turn(claude, context, number)
    before, n_calls = context.request().body, len(context.ledger)
    with pytest.raises(UnusableSummary, match="calls tools"):
        compacted(claude, context, *[asks(("add", {"a": 1, "b": 2}))] * 3)
    assert context.request().body == before and len(context.ledger) == n_calls + 3
    assert context.compacting() is None
    turn(claude, context, 6)
    assert compacted(claude, context) is not None
    goes_on(claude, context)


def test_a_request_for_a_summary_that_fails_leaves_the_conversation_as_it_was(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=4_000, keep_tokens=500))
    for number in range(6):
        turn(claude, context, number)
    before = context.request().body
    with pytest.raises(Exception, match=r"529|503|500"):
        compacted(claude, context, refuses(503))
    assert context.request().body == before
    assert compacted(claude, context) is not None
    goes_on(claude, context)


def test_a_threshold_is_not_met_again_at_every_call(claude: Desk) -> None:
    """70 epochs in 121 calls were opened by hand; the policy opens one each time the prompt has filled up again."""
    context = claude.context(compact=Compaction(at_tokens=6_000, keep_tokens=1_500))
    epochs = list[int]()
    for number in range(40):
        turn(claude, context, number, 150)
        if compacted(claude, context) is not None:
            epochs.append(number)
    gaps = [after - before for before, after in pairwise(epochs)]
    assert len(epochs) >= 3 and min(gaps) >= 3


def test_a_head_near_the_threshold_does_not_make_it_compact_at_every_call(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=2_000, keep_tokens=300))
    epochs = 0
    for number in range(20):
        turn(claude, context, number, 80)
        epochs += compacted(claude, context) is not None
    assert 1 <= epochs <= 4


def test_without_a_threshold_it_compacts_when_it_pays(claude: Desk) -> None:
    context = claude.context(compact=Compaction(keep_tokens=2_000))
    at = list[int]()
    for number in range(30):
        turn(claude, context, number, 3_000 if number else 300)
        size = context.request().predicted.prompt or 0
        if compacted(claude, context) is not None:
            at.append(size)
    assert at and 15_000 < at[0] < 90_000, "far below the window of a million"
    assert len(at) <= 30 * 3_000 // 15_000


def test_a_full_window_comes_before_any_price(tiny: AnthropicMessages) -> None:
    """A compaction is due where a reply has no room."""
    context = Context(tiny, system="Be brief.", compact=Compaction(keep_tokens=500))
    for number, n_words in enumerate((3_000, 1_000)):
        context.user("word " * n_words)
        assert (context.compacting() is None) == (number == 0)
        kept(context, "ok", number)
    side = context.compacting()
    assert side is not None and side._summary_task is not None and side._summary_task.keep_from is not None


def test_a_turn_that_no_longer_fits_the_window_is_kept_and_the_summary_is_made_of_what_did_fit(
    tiny: AnthropicMessages,
) -> None:
    context = Context(tiny, compact=Compaction(keep_tokens=500, on_lost="ignore"))
    for number in range(3):
        context.user(f"first{number} " * 600)
        kept(context, "ok", number)
    context.user("late " * 3_000)
    assert context.request().overflow is not None
    side = context.compacting()
    assert side is not None and side.request().overflow is None
    kept(side, "In short.")
    context.compact(side)
    request = context.request()
    assert request.overflow is None and request.body.count(b"late ") == 3_000


def test_another_model_writes_the_summary_and_is_billed_in_the_same_ledger(running: LocalServer) -> None:
    running.reset()
    desk, other = Desk(WIRES["anthropic"], running), Desk(WIRES["chat"], running)
    with desk.client() as client, other.client() as chat_client:
        policy = Compaction(at_tokens=4_000, keep_tokens=500, model=OpenAIChat("gpt-6-luna"), client=chat_client)
        context = desk.context(compact=policy)
        for number in range(6):
            turn(desk, context, number)
        running.script([says("In short, by another.")])
        epoch = context.compact_if_due(client)
    assert epoch is not None and b"by another" in epoch.body
    assert context.ledger[-1].model == "gpt-6-luna" and context.provider.model.name != "gpt-6-luna"
    assert context.summary().cost_usd is not None
    goes_on(desk, context)


def test_a_resumed_conversation_is_due_where_the_live_one_is(claude: Desk, tmp_path: Path) -> None:
    policy = Compaction(at_tokens=5_000, keep_tokens=500)
    with claude.open(tmp_path, compact=policy) as context:
        for number in range(12):
            turn(claude, context, number)
            compacted(claude, context)
        body = context.request().body
        epochs = sum(entry.kind == "epoch" for entry in context.log)
    assert epochs >= 1
    with claude.open(tmp_path, compact=policy) as context:
        assert context.request().body == body and context.compacting() is None
        for number in range(12, 20):
            turn(claude, context, number)
            compacted(claude, context)
        assert sum(entry.kind == "epoch" for entry in context.log) > epochs


# Results as references
# ----------------------------------------------------------------------------------------------------------------------


def test_compact_results_that_comes_before_the_last_has_paid_warns(claude: Desk) -> None:
    context = claude.context(memory=Memory(files(), offload=Offload(50_000, 200), todo=None, recitation=None))
    context.user("Go.")
    n_warned = n_epochs = 0
    for _ in range(20):
        claude.ask(context, asks(("shout", {"text": "row " * 1_500})))
        [call] = context.calls
        entry = context.result(call, call.run())
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            n_epochs += context.compact_results(before=entry) is not None
        n_warned += sum("pays for itself after" in str(warning.message) for warning in raised)
    assert n_epochs == 19 and n_warned >= 17
    assert "removes_tokens" in parse(next(entry.body for entry in context.log if entry.kind == "epoch"))


def test_compact_results_that_comes_late_enough_does_not_warn(claude: Desk) -> None:
    memory = Memory(files(), offload=Offload(50_000, 200), todo=None, recitation=None)
    context = claude.context(tools=[page], memory=memory)
    context.user("Go.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            for _ in range(30):
                claude.ask(context, asks(("page", {"number": 1})))
                [call] = context.calls
                entry = context.result(call, call.run())
            assert context.compact_results(before=entry) is not None


# Arguments
# ----------------------------------------------------------------------------------------------------------------------


def test_a_policy_that_does_not_fit_the_window_or_is_none_is_refused() -> None:
    model = AnthropicMessages("claude-haiku-4-5", max_tokens=8_000)
    with pytest.raises(UsageError, match="keep at most half"):
        Compaction(at_tokens=100, keep_tokens=80)
    with pytest.raises(UsageError, match="has a window of 200,000 tokens"):
        Context(model, compact=Compaction(at_tokens=195_000))
    with pytest.raises(UsageError, match=r"compact is a contextkit\.Compaction, not int"):
        Context(model, compact=9)  # type: ignore[arg-type]


def test_a_summary_of_a_system_prompt_alone_is_not_asked_for(claude: Desk) -> None:
    context = claude.context(compact=Compaction(at_tokens=10, keep_tokens=5))
    assert len(SYSTEM) > 1_000 and context.compacting() is None
    context.user("Hi.")
    assert context.compacting() is None
