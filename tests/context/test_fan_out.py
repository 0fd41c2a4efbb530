"""Branches asked at once: the shared prefix is written once, and the others wait for the first byte of one reply, no
longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import anthropic
import openai
import pytest

from contextkit import AgentLimits, AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.context.fan_out import FanOut
from contextkit.errors import UsageError
from contextkit.server import LocalServer

HEAD = "You are a careful researcher. " * 9_000
N = 16
PROVIDERS: dict[str, Any] = {
    "anthropic": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=64),
    "chat": lambda: OpenAIChat("gpt-6.1-sol", max_tokens=64),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol", max_output_tokens=64),
}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


def client(name: str, server: LocalServer, *, is_async: bool = False) -> Any:
    if name == "anthropic":
        return (anthropic.AsyncAnthropic if is_async else anthropic.Anthropic)(
            base_url=server.url, api_key="any", max_retries=0
        )
    return (openai.AsyncOpenAI if is_async else openai.OpenAI)(
        base_url=f"{server.url}/v1", api_key="any", max_retries=0
    )


def written(context: Context) -> list[int]:
    """Tokens each call paid for in full, or more."""
    return [(one.usage.prompt or 0) - (one.usage.read or 0) for one in context.ledger if one.usage]


@pytest.mark.parametrize(("name", "is_async"), [*((name, False) for name in PROVIDERS), ("anthropic", True)])
def test_the_head_is_written_once_and_not_by_each(name: str, is_async: bool, server: LocalServer) -> None:
    context = Context(PROVIDERS[name](), system=f"{name} {is_async} {HEAD}")
    team = context.fan_out([f"Look into part {number}." for number in range(N)])
    with client(name, server) as sync:
        if is_async:

            async def run() -> list[Any]:
                async with client(name, server, is_async=True) as anew:
                    return await team.asend(anew)

            replies = asyncio.run(run())
        else:
            replies = team.send(sync)
    assert [reply.kind for reply in replies] == ["assistant"] * N
    n_head = max(written(context))
    assert n_head > 40_000 and sorted(written(context))[-2] < 100
    assert len(context.ledger) == N and len(context.log) == 1 and context.summary().calls == N


def test_what_was_said_before_the_branch_is_marked_and_read(server: LocalServer) -> None:
    with client("anthropic", server) as one:
        context = Context(PROVIDERS["anthropic"](), system="Be brief.")
        context.user("Said before the branch. " * 9_000)
        context.receive(context.request().send(one))
        replies = context.fan_out(["a", "b", "c"]).send(one)
        assert all(reply.kind == "assistant" for reply in replies)
        assert all(cost < 200 for cost in written(context)[1:])


def test_siblings_start_at_the_first_byte_of_the_leader_and_all_at_once() -> None:
    replies = [{"parts": [{"type": "text", "text": "Done."}], "wait_seconds": 0.6} for _ in range(6)]
    with LocalServer(replies) as slow, client("anthropic", slow) as one:
        context = Context(PROVIDERS["anthropic"](), system=HEAD)
        context.fan_out(["Tell me all."] * 6).send(one)
    leader, *siblings = sorted(context.ledger, key=lambda call: call.at)
    assert leader.first_byte_at and all(leader.first_byte_at <= call.at for call in siblings)
    assert max(call.at for call in siblings) < min(call.ended_at or 0 for call in siblings)
    assert sum(cost > 40_000 for cost in written(context)) == 1


def test_a_leader_that_fails_leaves_the_lead_to_the_next(server: LocalServer) -> None:
    context = Context(PROVIDERS["anthropic"](), system=f"leader {HEAD}")
    team = context.fan_out(3)
    for branch, said in zip(team, ["x", "y", "z"], strict=True):
        branch.user(said)
    team[0].provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=64, thinking={"type": "nonsense"})
    with client("anthropic", server) as one:
        first, *rest = team.send(one)
    assert isinstance(first, anthropic.BadRequestError) and [reply.kind for reply in rest] == ["assistant"] * 2
    assert sum(cost > 40_000 for cost in written(context)) == 1


def test_a_sub_agent_has_the_same_head_and_reads_it_from_cache(server: LocalServer) -> None:
    context = Context(
        PROVIDERS["anthropic"](), system=f"parent {HEAD}", tools=[{"name": "look", "input_schema": {"type": "object"}}]
    )
    context.user("Begin.")
    with client("anthropic", server) as one:
        context.receive(context.request().send(one))
        helpers = [context.spawn(f"Look into part {number}.") for number in range(3)]
        FanOut(helpers).send(one)
        title = context.summarising("Give this conversation a title.")
        title.receive(title.request().send(one))
        context.user("Go on.")
        context.receive(context.request().send(one))
    assert max(written(context)[1:]) < 200 and not context.summary().losses
    assert [row.calls for row in context.summary().lanes if row.name == "main"] == [2]
    assert helpers[0].toolbox.names == context.toolbox.names == ("look",)
    assert context.spawn("Alone.", system="Be brief.").toolbox.names == ()


# Calls that are sent together without a fan-out
# ---------------------------------------------------------------------------------------------------------


def send_together(how: str, name: str, server: LocalServer, agents: list[Context]) -> list[Any]:
    """Every agent's first call, all at once; its reply or its error."""

    def send(agent: Context, one: Any) -> Any:
        request = agent.request()
        try:
            if how == "send":
                return agent.receive(request.send(one), request)
            return list(agent.stream(request.stream(one), request))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error

    async def asend(agent: Context, one: Any) -> Any:
        request = agent.request()
        if how == "asend":
            return agent.receive(await request.asend(one), request)
        return [event async for event in agent.stream(await request.stream(one), request)]

    async def asend_all() -> list[Any]:
        async with client(name, server, is_async=True) as one:
            return await asyncio.gather(*(asend(agent, one) for agent in agents))

    if how in ("asend", "astream"):
        return asyncio.run(asend_all())
    with client(name, server) as one, ThreadPoolExecutor(len(agents)) as pool:
        return list(pool.map(lambda agent: send(agent, one), agents))


SLOW = {"parts": [{"type": "text", "text": "Done."}], "wait_seconds": 0.3}


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("send", "anthropic"),
        ("asend", "anthropic"),
        ("stream", "chat"),
        ("astream", "anthropic"),
        ("astream", "responses"),
    ],
)
def test_agents_that_send_at_once_write_the_head_once(how: str, name: str) -> None:
    with LocalServer([SLOW] * 6) as server:
        context = Context(PROVIDERS[name](), system=f"{how} {HEAD}")
        send_together(how, name, server, [context.spawn(f"Part {number}.") for number in range(6)])
    assert max(written(context)) > 40_000 and sorted(written(context))[-2] < 100 and len(context.ledger) == 6


def test_a_first_call_that_fails_leaves_its_turn_to_the_next() -> None:
    with LocalServer([{"fault": {"kind": "status", "status": 529}}, *[SLOW] * 4]) as server:
        context = Context(PROVIDERS["anthropic"](), system=f"fails {HEAD}")
        replies = send_together("send", "anthropic", server, [context.spawn(f"Part {n}.") for n in range(5)])
    assert sum(isinstance(reply, Exception) for reply in replies) == 1
    assert sum(cost > 40_000 for cost in written(context)) == 1


@pytest.mark.parametrize("why", ["switched off", "short head", "other heads", "other models", "cached"])
def test_calls_do_not_wait_where_that_saves_nothing(why: str) -> None:
    n = 3
    with LocalServer() as server, client("anthropic", server) as one:
        limits = AgentLimits(wait_seconds=0) if why == "switched off" else None
        context = Context(PROVIDERS["anthropic"](), system="Short." if why == "short head" else HEAD, agents=limits)
        if why == "cached":
            context.user("Go.")
            context.receive(context.request().send(one))
        options: list[dict[str, Any]] = [{} for _ in range(n)]
        if why == "other heads":
            options = [{"system": f"{number} {HEAD}"} for number in range(n)]
        elif why == "other models":
            options = [{"model": model} for model in ("claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-4-5")]
        agents = [context.spawn("Go.", **more) for more in options]
        barrier = Barrier(n)

        class Together:
            """A client whose calls answer only when all of them are under way."""

            timeout = one.timeout

            def post(self, *arguments: Any, **keywords: Any) -> Any:
                barrier.wait(timeout=8)
                return one.post(*arguments, **keywords)

        def send(agent: Context) -> Any:
            request = agent.request()
            return agent.receive(request.send(Together()), request)

        with ThreadPoolExecutor(n) as pool:
            assert all(reply.kind == "assistant" for reply in pool.map(send, agents))


def test_a_cancelled_call_that_waits_stops_no_other() -> None:
    async def run() -> list[Any]:
        async with client("anthropic", server, is_async=True) as one:

            async def send(agent: Context) -> Any:
                request = agent.request()
                return agent.receive(await request.asend(one), request)

            tasks = [asyncio.ensure_future(send(agent)) for agent in agents]
            await asyncio.sleep(0.1)
            tasks[1].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    with LocalServer([SLOW] * 4) as server:
        context = Context(PROVIDERS["anthropic"](), system=f"cancelled {HEAD}")
        agents = [context.spawn(f"Part {number}.") for number in range(4)]
        first, cancelled, *rest = asyncio.run(run())
    assert isinstance(cancelled, asyncio.CancelledError) and all(one.kind == "assistant" for one in (first, *rest))
    assert len(context.ledger) == 3 and sum(cost > 40_000 for cost in written(context)) == 1


def test_spawn_all_makes_agents_that_share_a_head(server: LocalServer) -> None:
    context = Context(PROVIDERS["anthropic"](), system=f"all {HEAD}", tools=[{"name": "look"}, {"name": "do"}])
    team = context.spawn_all([f"Part {number}." for number in range(6)], tools=[{"name": "look"}])
    with client("anthropic", server) as one:
        replies = team.send(one)
    assert [reply.kind for reply in replies] == ["assistant"] * 6
    assert sum(cost > 40_000 for cost in written(context)) == 1 and sorted(written(context))[-2] < 200
    assert all(agent.finished and agent.request(max_tokens=9).mask.allowed == ("look",) for agent in team)
    for wrong in ("abc", 3):
        with pytest.raises(UsageError, match="a list of tasks"):
            context.spawn_all(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no branches"):
        context.spawn_all([])
