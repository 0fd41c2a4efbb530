"""A LangChain agent and one of the OpenAI Agents SDK that read large pages, with residency and lifetimes below their loops."""

import asyncio
import sys
from importlib.util import find_spec

from provider import SYSTEM, asks, says

from contextkit import FileMemory
from contextkit.bridges.contexts import ContextBridge
from contextkit.memory import Memory, Residency
from contextkit.server import LocalServer

PAGE = "\n".join(f"row {number}: {number * number}" for number in range(3_000))


def fetch(url: str) -> str:
    """Get a page."""
    return f"{url}\n{PAGE}"


def new_bridge() -> ContextBridge:
    """Shows each page whole once, where that is cheapest; later requests hold a preview with a reference."""
    residency = Residency(shows_whole=True, drops_reasoning=True)
    return ContextBridge(memory=Memory(FileMemory("memory"), todo=None, has_file_tool=False, residency=residency))


def langchain_agent(url: str) -> None:
    """One run of a LangChain agent."""
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic

    from contextkit.bridges.langchain import middleware

    bridge = new_bridge()
    model = ChatAnthropic(model="claude-sonnet-4-6", base_url=url, api_key="local", max_tokens=200)
    agent = create_agent(model, [fetch], system_prompt=SYSTEM, middleware=[middleware(bridge)])
    print(agent.invoke({"messages": [{"role": "user", "content": "Read the pages."}]})["messages"][-1].text)
    print(bridge.report())


async def openai_agent(url: str) -> None:
    """One run of an agent of the OpenAI Agents SDK, over the configured default client."""
    from agents import Agent, RunConfig, Runner, function_tool, set_default_openai_client
    from openai import AsyncOpenAI

    from contextkit.bridges.openai_agents import memory_tools, model_provider

    bridge = new_bridge()
    set_default_openai_client(AsyncOpenAI(base_url=f"{url}/v1", api_key="local"), use_for_tracing=False)
    tools = [function_tool(fetch), *memory_tools(bridge)]
    agent = Agent(name="reader", model="gpt-6.1-sol", instructions=SYSTEM * 2, tools=tools)
    config = RunConfig(model_provider=model_provider(bridge), tracing_disabled=True)
    print((await Runner.run(agent, "Read the pages.", run_config=config)).final_output)
    print(bridge.report())


if not (find_spec("langchain") and find_spec("langchain_anthropic")) and not find_spec("agents"):
    print('LangChain is not installed: pip install "contextkit-sdk[langchain,openai-agents]"')
    sys.exit()

REPLIES = [*(asks(("fetch", {"url": f"https://example.com/{number}"})) for number in range(3)), says("Read.")]
if find_spec("langchain") and find_spec("langchain_anthropic"):
    with LocalServer(REPLIES) as server:
        langchain_agent(server.url)
if find_spec("agents"):
    with LocalServer(REPLIES) as server:
        asyncio.run(openai_agent(server.url))
