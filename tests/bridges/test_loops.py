"""The real loop of each framework, its real SDK client, the local provider: what a bridge records, names and keeps.

A framework that is not installed skips its tests: docs/guides/bridges.md has the line that installs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contextkit.bridges import langchain, openai_agents, pydantic_ai
from contextkit.bridges.bridge import DEFAULT_REPAIRS, Bridge
from contextkit.ledger.calls import Outline
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.watcher.notify import PrefixWarning
from tests.bridges.loops import LOOPS, MODULES, WAYS, WIRES, Habits, script

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")

PUT_ON: dict[str, Callable[[Bridge], Any]] = {
    "langchain": langchain.middleware,
    "pydantic_ai": pydantic_ai.capability,
    "openai_agents": lambda bridge: partial(openai_agents.model_provider, bridge),
}
EXTRA = {"langchain": "langchain", "pydantic_ai": "pydantic-ai", "openai_agents": "openai-agents"}
CASES = [(name, wire, way) for name in LOOPS for wire in WIRES[name] for way in WAYS[name]]
pytestmark = pytest.mark.filterwarnings(
    "default", "ignore::ResourceWarning"
)  # the frameworks' own; what we warn of is looked at


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No framework sends anything anywhere but to the local provider."""
    for name, value in {"LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}.items():
        monkeypatch.setenv(name, value)


def needs(name: str) -> None:
    for module in MODULES[name]:
        pytest.importorskip(module, reason=f'the {name} loop needs pip install "contextkit-sdk[{EXTRA[name]}]"')


@contextmanager
def provider(replies: Iterator[Any]) -> Iterator[Any]:
    from contextkit.server import LocalServer

    with LocalServer(replies) as server:
        yield server


def run(name: str, wire: str, way: str, bridge: Bridge | None, n_calls: int = 6, **habits: bool) -> Ledger:
    """One agent to its end; gives what the provider saw."""
    needs(name)
    with provider(script(n_calls)) as server:
        LOOPS[name](server.url, wire, way, None if bridge is None else PUT_ON[name](bridge), Habits(**habits))
        assert len(server.ledger) == n_calls
        ledger: Ledger = server.ledger
        return ledger


@pytest.mark.parametrize(("name", "wire", "way"), CASES)
def test_every_call_is_recorded_with_its_bill_its_outline_and_its_prediction(name: str, wire: str, way: str) -> None:
    bridge = Bridge()
    served = run(name, wire, way, bridge)
    assert [call.usage for call in bridge.ledger] == [call.usage for call in served]
    for call in bridge.ledger:
        predicted, usage = call.predicted, call.usage
        assert isinstance(call.prompt, Outline) and call.error is None and predicted is not None and usage is not None
        assert (predicted.fresh, predicted.read, predicted.write_5m) == (usage.fresh, usage.read, usage.write_5m)
    assert not bridge.findings and bridge.summary().total.n_misses == 0
    assert len({call.session for call in bridge.ledger}) == 1


@pytest.mark.parametrize(("name", "wire"), [(name, wire) for name in LOOPS for wire in WIRES[name]])
def test_the_hit_rate_is_kept_where_the_loop_would_lose_it(name: str, wire: str) -> None:
    habits = {"swaps_tools": True, "tells_time": True}
    without = summarise(run(name, wire, "async", None, 12, **habits)).total.hit_rate
    bridge = Bridge(repairs=(*DEFAULT_REPAIRS, "freeze-date"), on_break="raise")
    kept = summarise(run(name, wire, "async", bridge, 12, **habits)).total.hit_rate
    assert without is not None and kept is not None
    assert kept > 0.85 > 0.8 > without
    assert not bridge.findings and {"sort-tools", "freeze-date"} <= bridge.repaired.keys()


@pytest.mark.parametrize("name", LOOPS)
def test_a_break_is_named_before_and_the_miss_after(name: str) -> None:
    bridge = Bridge(repairs=())
    with pytest.warns(PrefixWarning, match="CKT01 the same 3 tools stand in another order"):
        run(name, WIRES[name][1], "async", bridge, 12, swaps_tools=True)
    misses = [miss for miss in bridge.summary().misses if miss.cause != "first_write"]
    assert {miss.cause for miss in misses} <= {"tools_changed"} and bridge.findings[0].code == "CKT01"
    report = bridge.report()
    assert "! CKT01" in report and "of input read from cache" in report


@pytest.mark.parametrize("name", LOOPS)
def test_a_breaking_call_can_be_stopped_before_it_leaves(name: str) -> None:
    needs(name)
    bridge = Bridge(repairs=(), on_break="raise")
    with provider(script(12)) as server:
        with pytest.raises(Exception, match="CKT01"):
            LOOPS[name](server.url, "responses", "async", PUT_ON[name](bridge), Habits(swaps_tools=True))
        assert len(server.ledger) == len(bridge.ledger) == 5


def test_two_agents_of_one_model_are_told_apart() -> None:
    """LangChain shares one HTTP client between all models of an endpoint; a bridge hears only its own agent."""
    needs("langchain")
    one, other = Bridge(), Bridge()
    with provider(iter([*script(4), *script(3), *script(2)])) as server:
        LOOPS["langchain"](server.url, "anthropic", "sync", langchain.middleware(one), Habits())
        LOOPS["langchain"](server.url, "anthropic", "sync", None, Habits())
        LOOPS["langchain"](server.url, "anthropic", "sync", langchain.middleware(other), Habits())
    assert (len(one.ledger), len(other.ledger)) == (4, 2)


def test_a_model_without_an_sdk_client_is_told_and_works() -> None:
    needs("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    bridge = Bridge()
    agent = create_agent(FakeListChatModel(responses=["hi"]), [], middleware=[langchain.middleware(bridge)])
    with pytest.warns(UserWarning, match="FakeListChatModel has no client"):
        assert agent.invoke({"messages": [{"role": "user", "content": "hello"}]})["messages"][-1].content == "hi"
    assert len(bridge.ledger) == 0


def test_a_session_of_the_agents_sdk_goes_on_where_it_was() -> None:
    """The next run reads its history from the session's database: the same bytes."""
    needs("openai_agents")
    import asyncio

    from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
    from openai import AsyncOpenAI

    from tests.bridges.loops import SYSTEM, TOOLS

    bridge = Bridge()

    async def runs(url: str) -> None:
        session, agent = (
            SQLiteSession("one"),
            Agent(name="a", model="gpt-6.1-sol", instructions=SYSTEM, tools=[*map(function_tool, TOOLS)]),
        )
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            config = RunConfig(model_provider=openai_agents.model_provider(bridge, client), tracing_disabled=True)
            await Runner.run(agent, "Find one.", session=session, run_config=config)
            await Runner.run(agent, "Find another.", session=session, run_config=config)
        session.close()

    with provider(iter([*script(4), *script(4)])) as server:
        asyncio.run(runs(server.url))
    assert len(bridge.ledger) == 8 and not bridge.findings and bridge.summary().total.n_misses == 0
    assert len({call.session for call in bridge.ledger}) == 1


def test_a_recorded_run_is_a_ledger_without_text(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    with Bridge(file) as bridge:
        run("langchain", "anthropic", "sync", bridge)
    assert summarise(Ledger.read(file)).total.hit_rate == bridge.summary().total.hit_rate
    assert b"careful researcher" not in file.read_bytes() and b"catalogue" not in file.read_bytes()
