"""A research run in each framework's own loop, with and without a `ContextBridge`: twenty large pages, read one by one.

`python -m tests.bridges.research` prints the cost of each, as the local provider bills it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from contextkit import FileMemory
from contextkit.bridges.contexts import ContextBridge
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.memory import Memory, Residency
from contextkit.server import LocalServer

SYSTEM = "You are a careful researcher; you say where a number comes from. " * 100
ROWS = "\n".join(f"row {number}: {number * number}" for number in range(3_000))
CLAUDE, GPT = "claude-sonnet-4-6", "gpt-6.1-sol"


def fetch(url: str) -> str:
    """Get a page."""
    return f"{url}\n{ROWS}"


def script(n_pages: int) -> list[Any]:
    """Replies of the model: a page each, then a text."""
    calls = [
        {"parts": [{"type": "call", "name": "fetch", "arguments": {"url": f"https://example.com/{number}"}}]}
        for number in range(n_pages)
    ]
    return [*calls, {"parts": [{"type": "text", "text": "That is all."}]}]


def bridge_for(residency: Any = None) -> ContextBridge:
    """A bridge whose memory is in this process."""
    chosen = Residency(shows_whole=True, drops_reasoning=True) if residency is None else residency
    files = FileMemory("memory://research")
    return ContextBridge(memory=Memory(files, todo=None, has_file_tool=False, residency=chosen))


def langchain(url: str, wire: str, bridge: ContextBridge | None) -> None:
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

    from contextkit.bridges.langchain import middleware

    model = ChatAnthropic(model=CLAUDE, base_url=url, api_key="any", max_tokens=500)
    used: list[Any] = [AnthropicPromptCachingMiddleware()] if bridge is None else [middleware(bridge)]
    agent = create_agent(model, [fetch], system_prompt=SYSTEM, middleware=used)
    agent.invoke({"messages": [{"role": "user", "content": "Read the pages."}]}, {"recursion_limit": 200})


def openai_agents(url: str, wire: str, bridge: ContextBridge | None) -> None:
    from agents import Agent, MultiProvider, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    from contextkit.bridges.openai_agents import memory_tools, model_provider

    async def run() -> None:
        tools = [function_tool(fetch), *([] if bridge is None else memory_tools(bridge))]
        agent = Agent(name="researcher", model=GPT, instructions=SYSTEM, tools=tools)
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            provider = MultiProvider(openai_client=client) if bridge is None else model_provider(bridge, client)
            config = RunConfig(model_provider=provider, tracing_disabled=True)
            await Runner.run(agent, "Read the pages.", run_config=config, max_turns=100)

    asyncio.run(run())


def pydantic_ai(url: str, wire: str, bridge: ContextBridge | None) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    from contextkit.bridges.pydantic_ai import capability

    model = AnthropicModel(CLAUDE, provider=AnthropicProvider(base_url=url, api_key="any"))
    settings = AnthropicModelSettings(anthropic_cache=True, anthropic_cache_instructions=True, max_tokens=500)
    used = [] if bridge is None else [capability(bridge)]
    agent = Agent(model, tools=[fetch], capabilities=used, instructions=SYSTEM, model_settings=settings)
    agent.run_sync("Read the pages.")


def litellm(url: str, wire: str, bridge: ContextBridge | None) -> None:
    import json

    import litellm

    from contextkit.bridges.litellm import client, memory_tools, run_memory_tool

    page = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    tools: list[Any] = [{"type": "function", "function": {"name": "fetch", "description": "", "parameters": page}}]
    more: dict[str, Any] = {"cache_control_injection_points": [{"location": "message", "index": -1}]}
    if bridge is not None:
        more = {"client": client(bridge)}
        tools += memory_tools(bridge)
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Read the pages."}]
    more |= {"max_tokens": 500, "api_base": url, "api_key": "any", "num_retries": 0, "tools": tools}
    while True:
        reply = litellm.completion(f"anthropic/{CLAUDE}", messages=messages, **more).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return
        for call in reply.tool_calls:
            name, arguments = call.function.name, json.loads(call.function.arguments)
            own = None if bridge is None else run_memory_tool(bridge, name, arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": own or fetch(**arguments)})


LOOPS: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {
    "LangChain": (("langchain", "langchain_anthropic"), langchain),
    "OpenAI Agents SDK": (("agents",), openai_agents),
    "LiteLLM": (("litellm",), litellm),
    "pydantic-ai": (("pydantic_ai", "anthropic"), pydantic_ai),
}
"""Framework → modules it needs, and its run: of a URL, a wire, and a bridge or None for its own caching."""


def is_installed(name: str) -> bool:
    """Whether the modules of a framework are there."""
    return all(find_spec(module) for module in LOOPS[name][0])


def billed(name: str, n_pages: int, bridge: ContextBridge | None) -> Ledger:
    """The provider's ledger of one run."""
    with LocalServer(script(n_pages)) as server:
        LOOPS[name][1](server.url, "", bridge)
        return server.ledger


def main() -> None:
    warnings.simplefilter("ignore")
    print("| framework | own caching | seen whole | ratio | `auto` | ratio |\n|---|---|---|---|---|---|")
    for name in LOOPS:
        if not is_installed(name):
            print(f"| {name} | not installed | | | | |")
            continue
        own = summarise(billed(name, 20, None)).cost_usd
        whole = summarise(billed(name, 20, bridge_for())).cost_usd
        chosen = summarise(billed(name, 20, bridge_for(Residency(drops_reasoning=True)))).cost_usd
        print(f"| {name} | ${own:.2f} | ${whole:.2f} | {whole / own:.2f} | ${chosen:.2f} | {chosen / own:.2f} |")


if __name__ == "__main__":
    main()
