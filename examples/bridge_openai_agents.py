"""An agent of the OpenAI Agents SDK on a bridge: tools in one order, every call recorded, what broke by name."""

import asyncio
import sys
from importlib.util import find_spec

from provider import SYSTEM, asks, says

from contextkit.bridges.bridge import Bridge
from contextkit.bridges.openai_agents import model_provider
from contextkit.server import LocalServer

if not find_spec("agents"):
    print('The OpenAI Agents SDK is not installed: pip install "contextkit-sdk[openai-agents]"')
    sys.exit()

from agents import Agent, RunConfig, Runner, function_tool
from openai import AsyncOpenAI


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(url: str, bridge: Bridge) -> None:
    """One run."""
    agent = Agent(name="adder", model="gpt-6.1-sol", instructions=SYSTEM * 2, tools=[add])
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="local") as client:
        config = RunConfig(model_provider=model_provider(bridge, client), tracing_disabled=True)
        print((await Runner.run(agent, "2 + 3, and 8 more?", run_config=config)).final_output)
    print(bridge.report())


with LocalServer([asks(("add", {"a": 2, "b": 3})), asks(("add", {"a": 5, "b": 8})), says("13.")]) as server:
    asyncio.run(main(server.url, Bridge()))
