"""Sub-agents of a conversation whose log is in Postgres: sessions of their own, opened again by their lane."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.errors import UsageError
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
