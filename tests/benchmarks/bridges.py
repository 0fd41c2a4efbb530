"""The same scripted 20-turn agent in each framework's loop, without a bridge and with one: `python -m
tests.benchmarks.bridges`.

Needs the frameworks (docs/guides/bridges.md has the line). Prints the table of that page, as the local provider billed it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from contextkit.bridges import langchain, openai_agents, pydantic_ai
from contextkit.bridges.bridge import DEFAULT_REPAIRS, Bridge
from contextkit.ledger.summary import summarise
from contextkit.server import LocalServer
from tests.bridges.loops import LOOPS, WIRES, Habits, script


def _langchains_own() -> Any:
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

    return AnthropicPromptCachingMiddleware()


def _pydantics_own() -> Any:
    from pydantic_ai.capabilities import Caching

    return Caching()


PUT_ON: Mapping[str, Callable[[Bridge], Any]] = {
    "langchain": langchain.middleware,
    "pydantic_ai": pydantic_ai.capability,
    "openai_agents": lambda bridge: partial(openai_agents.model_provider, bridge),
}
OWN: Mapping[str, Callable[[], Any]] = {"langchain": _langchains_own, "pydantic_ai": _pydantics_own}
"""Framework → its own way to place markers."""
HABITS: Mapping[str, dict[str, bool]] = {
    "steady": {},
    "tools reordered": {"swaps_tools": True},
    "and a clock": {"swaps_tools": True, "tells_time": True},
}
REPAIRS = (None, (), DEFAULT_REPAIRS, (*DEFAULT_REPAIRS, "freeze-date"))
"""No bridge; one that only watches; as it is; with dates frozen."""


def measured(name: str, wire: str, way: Callable[[], Any], habits: dict[str, bool]) -> str:
    """Hit rate and cost of one run, as the provider billed it."""
    with LocalServer(script()) as server:
        LOOPS[name](server.url, wire, "async", way(), Habits(**habits))
        total = summarise(server.ledger.records).total
    return f"{total.hit_rate or 0.0:.1%} ${total.cost_usd or 0.0:.3f}"


def ways(name: str) -> Mapping[str, Callable[[], Any]]:
    """How the agent is run, by the column it stands in."""
    over = [(lambda: None) if repairs is None else partial(_bridged, name, repairs) for repairs in REPAIRS]
    return dict(zip(("without", "watched", "bridge", "bridge, dates frozen"), over, strict=True))


def _bridged(name: str, repairs: tuple[str, ...]) -> Any:
    return PUT_ON[name](Bridge(repairs=repairs, on_break=lambda finding: None))


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print(
        "| loop | wire | habits |",
        " | ".join(ways("langchain")),
        "| its own caching |\n|---|---|---|---|---|---|---|---|",
    )
    for name in LOOPS:
        for wire in WIRES[name]:
            for habit, habits in HABITS.items():
                cells = [measured(name, wire, way, habits) for way in ways(name).values()]
                cells.append(measured(name, wire, OWN[name], habits) if wire == "anthropic" else "")
                print("|", " | ".join([name, wire, habit, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
