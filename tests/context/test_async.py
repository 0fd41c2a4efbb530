"""The same loop from async code: sends, streams, cuts, and a task that is cancelled at any moment."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit import Context, tool
from contextkit.errors import LogLocked, UnreadableReply, UsageError
from tests.context.desk import CUT_BEFORE, Desk, asks, bill, goes_on, honest, refuses, says
from tests.context.head import SYSTEM, add, shout

LONG = "A sentence that takes several events to stream, so that there is a middle. " * 6


def run(desk: Desk, story: Callable[[Any], Awaitable[None]]) -> None:
    """Tell `story` with an async client."""

    async def told() -> None:
        async with desk.async_client() as client:
            await story(client)

    asyncio.run(told())


def test_the_loop_ends_by_replies_and_by_streams(desk: Desk) -> None:
    context = desk.context("What is 1 + 2 + 3?")
    desk.server.script(
        [
            asks(("add", {"a": 1, "b": 2}), ("shout", {"text": "x"})),
            asks(("add", {"b": 3, "a": 3}), text=LONG),
            says(LONG),
        ]
    )
    counts: list[int] = []

    async def story(client: Any) -> None:
        context.receive(await context.request().asend(client))
        await context.run_calls()
        while not context.finished:
            events = [event async for event in context.stream(await context.request().stream(client))]
            counts.append(len(events))
            await context.run_calls()

    run(desk, story)
    assert len(counts) == 2 and min(counts) > 3
    assert [bill(call.usage) for call in context.ledger] == [bill(call.predicted) for call in context.ledger]
    goes_on(desk, context)
    honest(desk, context)


def test_an_error_is_raised_and_noted(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([refuses(529), refuses(529), CUT_BEFORE, CUT_BEFORE])

    async def story(client: Any) -> None:
        for send in (context.request().asend, context.request().stream) * 2:
            with pytest.raises((anthropic.APIError, openai.APIError)):
                await send(client)

    run(desk, story)
    assert [(call.usage, call.first_byte_at, bool(call.error)) for call in context.ledger] == [(None, None, True)] * 4
    goes_on(desk, context)
    honest(desk, context)


def test_a_cut_stream_is_in_the_ledger_and_not_in_the_log(desk: Desk) -> None:
    context = desk.context("one")
    desk.server.script([asks(("add", {"a": 1, "b": 2}), text=LONG, fault={"kind": "cut", "after_parts": 1})])

    async def story(client: Any) -> None:
        with pytest.raises(Exception, match=r".") as caught:
            async for _ in context.stream(await context.request().stream(client)):
                pass
        assert not isinstance(caught.value, KeyError | TypeError | AttributeError)

    run(desk, story)
    [failed] = context.ledger
    assert failed.error and failed.first_byte_at is not None
    assert failed.usage is None or failed.usage.quality("output") in ("partial", "unknown")
    assert len(context.log) == 2
    goes_on(desk, context)
    honest(desk, context)


def test_the_reader_leaves_the_stream(claude: Desk) -> None:
    with warnings.catch_warnings():  # sockets that earlier tests left: the collection below is about this stream
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    context = claude.context("one")
    claude.server.script([says(LONG)])

    async def story(client: Any) -> None:
        async for _ in context.stream(await context.request().stream(client)):
            break
        gc.collect()
        await asyncio.sleep(0.01)

    run(claude, story)
    assert [call.error for call in context.ledger] == ["aborted"] and len(context.log) == 2
    goes_on(claude, context)


def test_a_task_cancelled_while_it_waits_for_the_reply(claude: Desk) -> None:
    context = claude.context("one")

    async def story(client: Any) -> None:
        waiting = asyncio.Event()

        async def hang(*args: Any, **options: Any) -> Any:
            waiting.set()
            await asyncio.sleep(60)

        client.post = hang
        task = asyncio.create_task(context.request().asend(client))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(claude, story)
    [failed] = context.ledger
    assert (failed.error, failed.usage, failed.first_byte_at) == ("aborted", None, None)
    goes_on(claude, context)
    honest(claude, context)


def test_a_task_cancelled_inside_a_stream(claude: Desk) -> None:
    context = claude.context("one")
    claude.server.script([says(LONG)])

    async def story(client: Any) -> None:
        reading = asyncio.Event()

        async def slow(events: Any) -> Any:
            async for event in events:
                yield event
                reading.set()
                await asyncio.sleep(60)

        async def read() -> None:
            async for _ in context.stream(slow(await context.request().stream(client))):
                pass

        task = asyncio.create_task(read())
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(claude, story)
    assert [call.error for call in context.ledger] == ["aborted"] and len(context.log) == 2
    goes_on(claude, context)


def test_tools_cancelled_in_the_middle_leave_their_calls_open(claude: Desk) -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    added = threading.Event()

    @tool
    def quick() -> None:
        """Be done."""
        added.set()

    context = claude.context("one", tools=[hang, quick])
    claude.ask(context, asks(("hang", {}), ("quick", {})))

    async def story(client: Any) -> None:
        task = asyncio.create_task(context.run_calls())
        await started.wait()
        await asyncio.to_thread(added.wait)
        while len(context.calls) == 2:  # noqa: ASYNC110 - its result is written behind it, by a thread that tells nobody
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(claude, story)
    assert [call.name for call in context.calls] == ["hang"]
    context.interrupt("took too long")
    goes_on(claude, context)
    honest(claude, context)


def test_the_wrong_kind_of_client_is_refused_before_anything_is_sent(desk: Desk) -> None:
    context = desk.context("one")

    async def story(client: Any) -> None:
        with desk.client() as sync:
            for send, wrong in ((context.request().asend, sync), (context.request().asend, None)):
                with pytest.raises(UsageError):
                    await send(wrong)
        with pytest.raises(UsageError, match="asend"):
            context.request().send(client)
        coroutine = context.request().stream(client)
        with pytest.raises(UsageError, match="awaited"):
            context.stream(coroutine)
        coroutine.close()

    run(desk, story)
    assert len(context.ledger) == 0
    goes_on(desk, context)


def test_an_async_stream_of_nothing_is_a_cut_one(claude: Desk) -> None:
    context = claude.context("one")

    async def nothing() -> Any:
        return
        yield

    async def story(client: Any) -> None:
        with pytest.raises(UnreadableReply):
            async for _ in context.stream(nothing()):
                pass

    run(claude, story)
    assert [(call.error, call.usage) for call in context.ledger] == [("cut", None)]
    goes_on(claude, context)


def test_a_folder_is_opened_off_the_event_loop(claude: Desk, tmp_path: Path) -> None:
    async def story(client: Any) -> None:
        options: dict[str, Any] = {"system": SYSTEM, "tools": [add, shout], "clock": claude.server.clock.now}
        context = await Context.aopen(tmp_path / "run", claude.wire.provider(), **options)
        with pytest.raises(LogLocked):
            await Context.aopen(tmp_path / "run", claude.wire.provider(), **options)
        context.user("one")
        claude.server.script([says("first")])
        context.receive(await context.request().asend(client))
        context.close()

    run(claude, story)
    again = claude.open(tmp_path / "run")
    assert again.finished
    goes_on(claude, again)
    honest(claude, again)
    again.close()
