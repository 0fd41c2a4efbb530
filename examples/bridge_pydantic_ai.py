"""A pydantic-ai agent on a bridge: markers placed, tools in one order, every call recorded, what broke by name."""

import sys
from importlib.util import find_spec

from provider import SYSTEM, asks, says

from contextkit.bridges.bridge import Bridge
from contextkit.bridges.pydantic_ai import capability
from contextkit.server import LocalServer

if not find_spec("pydantic_ai"):
    print('pydantic-ai is not installed: pip install "contextkit-sdk[pydantic-ai]"')
    sys.exit()

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


with LocalServer([asks(("add", {"a": 2, "b": 3})), asks(("add", {"a": 5, "b": 8})), says("13.")]) as server:
    model = AnthropicModel("claude-sonnet-5-5", provider=AnthropicProvider(base_url=server.url, api_key="local"))
    bridge = Bridge()
    agent = Agent(model, tools=[add], instructions=SYSTEM, capabilities=[capability(bridge)])
    print(agent.run_sync("2 + 3, and 8 more?").output)
    print(bridge.report())
