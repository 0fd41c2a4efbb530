"""What a program says once, however often it starts; calls that had begun when it ended; whether it is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from contextkit import Context, FileMemory, Phase, Phases, tool
from contextkit.canonical import parse
from contextkit.errors import InvalidCall
from tests.context.desk import Desk, asks, honest, says
from tests.crash.faults import Disk, of

CONTENT = [{"type": "text", "text": "Zwölf \U0001f642"}, {"type": "image", "url": "https://example.com/a.png"}]
ANSWERS: dict[str, Callable[[Any], Any]] = {
    "run": lambda call: call.run(),
    "arun": lambda call: asyncio.run(call.arun()),
    "tries": lambda call: call.run(tries=3),
}


def kinds(context: Context) -> list[str]:
    return [entry.kind for entry in context.log]


@pytest.mark.parametrize(("content", "has_memory"), [("Add.", False), (CONTENT, True)], ids=["text", "parts"])
def test_what_is_said_once_is_in_the_log_once_whoever_opens_it(
    claude: Desk, tmp_path: Path, content: Any, has_memory: bool
) -> None:
    options: dict[str, Any] = {"memory": FileMemory(tmp_path / "memory")} if has_memory else {}
    sequences = set()
    for _ in range(3):
        with claude.open(tmp_path / "run", **options) as context:
            sequences.add(context.user(content, once=True).sequence)
            assert context.user(content, once=True) is context.log[-1] and not context.is_new
    assert len(sequences) == 1 and kinds(context).count("user") == 1


def test_another_text_is_appended_and_so_is_one_said_without_once(claude: Desk) -> None:
    context = claude.context("one")
    assert context.user("two", once=True).sequence == 2 and context.user("one", once=True).sequence == 1
    assert context.user("two", once=True).sequence == 2, "also where it was not the first"
    assert context.user([{"type": "text", "text": "two"}, {"type": "text", "text": "!"}], once=True).sequence == 3
    assert context.user("two").sequence == 4


def test_a_second_task_is_said_once_too_behind_the_first_one_s_answer(claude: Desk, tmp_path: Path) -> None:
    claude.server.script([says("First."), says("Second.")])
    for _ in range(2):  # the program, and the program started again
        with claude.open(tmp_path / "run") as context, claude.client() as client:
            for task in ("one", "two"):
                context.user(task, once=True)
                for _step in context.run(client):
                    pass
            assert context.last_text == "Second."
            assert kinds(context) == ["opened", "user", "assistant", "user", "assistant"]
            honest(claude, context)


def test_threads_say_it_once(claude: Desk) -> None:
    context = claude.context()
    threads = [Thread(target=context.user, args=("one",), kwargs={"once": True}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds(context) == ["opened", "user"]


def test_it_is_said_again_where_the_disk_did_not_take_it(claude: Desk, tmp_path: Path) -> None:
    disk = Disk()
    with disk.installed(), claude.open(tmp_path / "run") as context:
        with disk.failing(of("log.jsonl", "write")), pytest.raises(OSError, match="No space left"):
            context.user("one", once=True)
        assert context.is_new
        context.user("one", once=True)
    assert kinds(context) == ["opened", "user"]


def test_a_context_is_new_until_somebody_speaks(claude: Desk, tmp_path: Path) -> None:
    phases = Phases({"sums": Phase(allow=["add"]), "all": Phase(by_hand=True)}, start="sums")
    for _ in range(2):  # what the program does before it speaks may be cut short at any place, and is done again
        with claude.open(tmp_path / "run", phases=phases) as context:
            context.pin("Answer in French.")
            context.notice("It is Friday.")
            context.enter("all")
            assert context.is_new
            assert context.fork(-1).is_new
    with claude.open(tmp_path / "run", phases=phases, system="Another one.", allow_new_head=True) as context:
        assert context.is_new and "epoch" in kinds(context)
        before = context.log[-1]
        context.user("one")
        assert not context.is_new and not context.fork(-1).is_new and context.fork(before).is_new
        assert not context.spawn("Look.").is_new
    with claude.open(tmp_path / "run", phases=phases, system=None) as context:
        assert not context.is_new
        context.compact("What was said.")
        assert not context.is_new


def test_an_adopted_conversation_is_not_new(claude: Desk) -> None:
    adopted = Context.from_messages(claude.wire.provider(), claude.context("one").messages())
    assert not adopted.is_new and adopted.user("one", once=True) is adopted.log[1]


@pytest.mark.parametrize("how", ANSWERS)
def test_a_call_runs_once_also_where_the_program_ended_before_its_result(
    claude: Desk, tmp_path: Path, how: str
) -> None:
    ran: list[int] = []

    @tool
    def deploy(n: int) -> str:
        """Deploy."""
        ran.append(n)
        return f"deployed {n}"

    with claude.open(tmp_path / "run", tools=[deploy]) as context:
        context.user("Deploy.")
        claude.ask(context, asks(("deploy", {"n": 1}), ("deploy", {"n": 2}), ("deploy", {"n": "x"})))
        first, _, third = context.calls
        assert ANSWERS[how](first) == "deployed 1"  # and its result is never written
        assert isinstance(ANSWERS[how](third), InvalidCall)
        assert [call.was_started for call in context.calls] == [True, False, False], "nothing of the third has run"
    with claude.open(tmp_path / "run", tools=[deploy]) as context:
        for call in context.calls:
            context.result(call, ANSWERS[how](call))
        texts = [parse(entry.body)["content"][0]["text"] for entry in context.log if entry.kind == "result"]
        assert ran == [1, 2] and kinds(context).count("begun") == 2
        assert "may or may not have happened" in texts[0] and texts[1] == "deployed 2" and "n: " in texts[2]
        claude.ask(context, says("Done."))
        honest(claude, context)


def test_run_calls_and_the_built_in_loop_do_not_run_it_again_and_ask_nobody(claude: Desk, tmp_path: Path) -> None:
    ran: list[int] = []

    @tool
    def deploy() -> str:
        """Deploy."""
        ran.append(1)
        return "deployed"

    def begun(name: str) -> Context:
        with claude.open(tmp_path / name, tools=[deploy]) as context:
            context.user("Deploy.")
            claude.ask(context, asks(("deploy", {})))
            context.calls[0].begin()
        return claude.open(tmp_path / name, tools=[deploy])

    def approve(call: Any) -> bool:
        raise AssertionError("it was approved before it began")

    async def loop(context: Context) -> None:
        async with claude.async_client() as client:
            async for _ in context.arun(client, approve=approve):
                pass

    with begun("run_calls") as context:
        asyncio.run(context.run_calls())
        assert not context.calls
    with begun("run") as context, claude.client() as client:
        claude.server.script([says("I look.")])
        assert len(list(context.run(client, approve=approve))) == 1
    with begun("arun") as context:
        claude.server.script([says("I look.")])
        asyncio.run(loop(context))
        assert context.finished
    assert not ran


@pytest.mark.parametrize("how", ANSWERS)
def test_a_call_whose_start_cannot_be_noted_does_not_run(claude: Desk, tmp_path: Path, how: str) -> None:
    ran: list[int] = []

    @tool
    def deploy() -> str:
        """Deploy."""
        ran.append(1)
        return "deployed"

    disk = Disk()
    with disk.installed(), claude.open(tmp_path / "run", tools=[deploy]) as context:
        context.user("Deploy.")
        claude.ask(context, asks(("deploy", {})))
        with disk.failing(of("log.jsonl", "write")), pytest.raises(OSError, match="No space left"):
            ANSWERS[how](context.calls[0])
        assert not ran and not context.calls[0].was_started
        context.result(context.calls[0], ANSWERS[how](context.calls[0]))
        assert ran == [1]


def test_a_call_that_is_answered_does_not_run_whether_it_ran_before_or_not(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, asks(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})))
    calls = context.calls
    context.result(calls[0], calls[0].run())
    context.interrupt("enough")
    for call in calls:
        assert isinstance(call.run(), InvalidCall) and isinstance(asyncio.run(call.arun()), InvalidCall)
    assert kinds(context).count("begun") == 1
