"""One scripted agent in each framework's own loop: the same tools, the same words, the same model, through the real SDK
clients.

A framework is imported by the function that runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

SYSTEM = (
    "You are a careful researcher. Look things up with the tools you have, one at a time, and say what you found. " * 60
)
FOUND = "The catalogue lists a card of that name with its price, its memory and its maker. " * 8


@dataclass
class Habits:
    """What the agent does between two calls, in every framework."""

    swaps_tools: bool = False
    """Whether every fifth call has its tools in another order, as after an MCP reconnect."""
    tells_time: bool = False
    """Whether the system text holds a clock that moves every fifth call."""
    n_calls: int = field(default=0, init=False)

    def next_call(self) -> None:
        self.n_calls += 1

    def tools(self, tools: list[Any]) -> list[Any]:
        return tools[::-1] if self.swaps_tools and self.n_calls // 5 % 2 else tools

    @property
    def system(self) -> str:
        return f"{SYSTEM}It is 2026-11-21 10:{self.n_calls // 5:02}." if self.tells_time else SYSTEM


def script(n_calls: int = 20, tool: str = "search") -> Iterator[Any]:
    """Replies of the model: a tool call each, then a text."""
    for number in range(n_calls - 1):
        yield {"parts": [{"type": "call", "name": tool, "arguments": {"query": f"card {number}"}}]}
    yield {"parts": [{"type": "text", "text": "That is all."}]}


def search(query: str) -> str:
    """Search the catalogue."""
    return f"{query}: {FOUND}"


def buy(name: str, price: float) -> str:
    """Buy a card."""
    return f"bought {name} for {price}"


def note(text: str) -> str:
    """Write a note."""
    return text


TOOLS: list[Callable[..., str]] = [note, search, buy]
Run = Callable[[str, str, str, Any, Habits], None]
"""Takes the server's URL, a wire, how (`sync`, `async`, `stream`), what is on the bridge, habits; runs the agent to its
end."""


def langchain(url: str, wire: str, how: str, middleware: Any, habits: Habits) -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import SystemMessage
    from langchain_openai import ChatOpenAI

    class Changing(AgentMiddleware[Any, Any, Any]):
        def changed(self, request: Any) -> Any:
            changed = request.override(tools=habits.tools(request.tools), system_message=SystemMessage(habits.system))
            habits.next_call()
            return changed

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(self.changed(request))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(self.changed(request))

    models: dict[str, Callable[[], Any]] = {
        "anthropic": lambda: ChatAnthropic(model="claude-sonnet-5-5", base_url=url, api_key="any", max_tokens=500),
        "chat": lambda: ChatOpenAI(model="gpt-6.1-sol", base_url=f"{url}/v1", api_key="any", stream_usage=True),
        "responses": lambda: ChatOpenAI(
            model="gpt-6.1-sol", base_url=f"{url}/v1", api_key="any", use_responses_api=True
        ),
    }
    given = [Changing(), *([] if middleware is None else [middleware])]
    agent = create_agent(models[wire](), TOOLS, system_prompt=SYSTEM, middleware=given)
    asked = {"messages": [{"role": "user", "content": "Find the cheapest cards."}]}
    limit = {"recursion_limit": 100}
    ways: dict[str, Callable[[], Any]] = {
        "sync": lambda: agent.invoke(asked, limit),
        "async": lambda: asyncio.run(agent.ainvoke(asked, limit)),
        "stream": lambda: list(agent.stream(asked, limit, stream_mode="messages")),
    }
    ways[how]()


def pydantic_ai(url: str, wire: str, how: str, capability: Any, habits: Habits) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Hooks
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    async def prepare_tools(ctx: Any, tools: list[Any]) -> list[Any]:
        changed = habits.tools(tools)
        habits.next_call()
        return changed

    models: dict[str, Callable[[], Any]] = {
        "anthropic": lambda: AnthropicModel(
            "claude-sonnet-5-5", provider=AnthropicProvider(base_url=url, api_key="any")
        ),
        "chat": lambda: OpenAIChatModel("gpt-6.1-sol", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any")),
        "responses": lambda: OpenAIResponsesModel(
            "gpt-6.1-sol", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any")
        ),
    }
    given = [Hooks(prepare_tools=prepare_tools), *([] if capability is None else [capability])]
    agent = Agent(models[wire](), tools=TOOLS, capabilities=given, instructions=lambda: habits.system)

    async def stream() -> None:
        async with agent.run_stream("Find the cheapest cards.") as result:
            async for _ in result.stream_text():
                pass

    ways: dict[str, Callable[[], Any]] = {
        "sync": lambda: agent.run_sync("Find the cheapest cards."),
        "async": lambda: asyncio.run(agent.run("Find the cheapest cards.")),
        "stream": lambda: asyncio.run(stream()),
    }
    ways[how]()


def openai_agents(url: str, wire: str, how: str, provider: Any, habits: Habits) -> None:
    """`provider` takes a client."""
    from agents import Agent, ModelSettings, MultiProvider, RunConfig, Runner, function_tool

    class Changing(Agent[Any]):
        async def get_all_tools(self, run_context: Any) -> list[Any]:
            changed = habits.tools(await super().get_all_tools(run_context))
            habits.next_call()
            return changed

    agent = Changing(
        name="researcher",
        model="gpt-6.1-sol",
        tools=[function_tool(one) for one in TOOLS],
        instructions=lambda ctx, agent: habits.system,
        model_settings=ModelSettings(include_usage=True),
    )

    @asynccontextmanager
    async def configured() -> Any:
        from openai import AsyncOpenAI

        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            over = (
                (lambda client, **more: MultiProvider(openai_client=client, **more)) if provider is None else provider
            )
            yield RunConfig(
                model_provider=over(client, openai_use_responses=wire == "responses"), tracing_disabled=True
            )

    async def run() -> None:
        async with configured() as config:
            await Runner.run(agent, "Find the cheapest cards.", run_config=config, max_turns=50)

    async def stream() -> None:
        async with configured() as config:
            async for _ in Runner.run_streamed(
                agent, "Find the cheapest cards.", run_config=config, max_turns=50
            ).stream_events():
                pass

    ways: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"async": run, "stream": stream}
    asyncio.run(ways[how]())


LOOPS: dict[str, Run] = {"langchain": langchain, "pydantic_ai": pydantic_ai, "openai_agents": openai_agents}
MODULES = {
    "langchain": ("langchain", "langchain_anthropic", "langchain_openai"),
    "pydantic_ai": ("pydantic_ai",),
    "openai_agents": ("agents",),
}
"""Framework → what has to be installed for its loop."""
WIRES = {
    "langchain": ("anthropic", "chat", "responses"),
    "pydantic_ai": ("anthropic", "chat", "responses"),
    "openai_agents": ("responses", "chat"),
}
WAYS = {
    "langchain": ("sync", "async", "stream"),
    "pydantic_ai": ("sync", "async", "stream"),
    "openai_agents": ("async", "stream"),
}
