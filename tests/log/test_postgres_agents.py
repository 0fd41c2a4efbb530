"""Sub-agents of a conversation whose log is in Postgres: sessions of their own, opened again by their lane."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import psycopg
import pytest

from contextkit import AnthropicMessages, Context
from contextkit.errors import UsageError
from contextkit.log.postgres import PostgresStorage
from tests.log.postgres_server import Postgres


def test_a_sub_agent_is_a_session_of_its_own(postgres: Postgres, fresh: Callable[[], str]) -> None:
    session = fresh()

    def opened(name: str) -> Context:
        joint = "&" if "?" in postgres.dsn else "?"
        return Context.open(
            f"{postgres.dsn}{joint}session={quote(name, safe='')}",
            AnthropicMessages("claude-sonnet-5-5", max_tokens=64),
        )

    with opened(session) as context:
        agent, other = context.spawn("Go."), context.spawn("Go.")
        body, lane = agent.request().body, agent.lane
        assert lane != other.lane
    with opened(session) as again:
        with again.agent(lane) as agent:
            assert agent.request().body == body and agent.lane == lane
        assert again.spawn("Go.").lane not in (lane, other.lane)
        with pytest.raises(UsageError, match="there is no sub-agent"):
            again.agent("agent-99-abc")
    with opened(f"{session}/agents/{lane}") as alone:
        assert alone.lane == lane and alone.request().body == body


def test_the_agents_of_a_session_are_listed_and_go_on(postgres: Postgres, fresh: Callable[[], str]) -> None:
    session = fresh()

    def opened(name: str) -> Context:
        joint = "&" if "?" in postgres.dsn else "?"
        provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
        return Context.open(f"{postgres.dsn}{joint}session={quote(name, safe='')}", provider)

    with opened(session) as context, opened(f"{session}%_") as other:
        assert context.agents == [] and context.agent_states == []
        lanes = [context.spawn(f"Task {number}.").lane for number in range(12)]
        nested = context.agent(lanes[0]).spawn("Below.").lane
        strange = other.spawn("Of another session.").lane
        assert context.agents == lanes and other.agents == [strange]
    with opened(session) as again:
        assert again.agents == lanes
        assert [state.status for state in again.agent_states] == ["waiting"] * 12
        agents = again.resume_agents()
        assert [agent.lane for agent in agents] == lanes
        assert agents[11].request()["messages"][0]["content"][0]["text"] == "Task 11."
        assert agents[0].agents == [nested]


def test_a_damaged_agent_does_not_stop_the_others(postgres: Postgres, fresh: Callable[[], str]) -> None:
    session = fresh()
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
    place = f"{postgres.dsn}&session={quote(session, safe='')}"
    with Context.open(place, provider) as context:
        lanes = [context.spawn("Go.").lane for _ in range(2)]
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute(
            "update entry set body = '{}' where session = %s and sequence = 1", [f"{session}/agents/{lanes[0]}"]
        )
    with Context.open(place, provider) as again:
        assert [state.status for state in again.agent_states] == ["damaged", "waiting"]
        with pytest.warns(UserWarning, match=f"{lanes[0]} was left out"):
            assert [agent.lane for agent in again.resume_agents()] == [lanes[1]]


def test_a_session_is_read_while_another_writes_it(postgres: Postgres, fresh: Callable[[], str]) -> None:
    name = fresh()
    with Context.open(
        f"{postgres.dsn}&session={quote(name, safe='')}", AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
    ) as context:
        context.user("Hello.")
        reader = PostgresStorage(postgres.dsn, fresh())
        assert reader.read_beside(name) == list(context.log)
        assert reader.read_beside(f"{name} not there") == []
        assert reader.sessions_below(name) == [name]
        reader.close()
