"""A LangChain agent on a bridge: markers placed, tools in one order, every call recorded, what broke by name."""

import sys
from importlib.util import find_spec

from provider import SYSTEM, asks, says

from contextkit.bridges.bridge import Bridge
from contextkit.bridges.langchain import middleware
from contextkit.server import LocalServer

if not (find_spec("langchain") and find_spec("langchain_anthropic")):
    print('LangChain is not installed: pip install "contextkit-sdk[langchain]"')
    sys.exit()

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


with LocalServer([asks(("add", {"a": 2, "b": 3})), asks(("add", {"a": 5, "b": 8})), says("13.")]) as server:
    model = ChatAnthropic(model="claude-sonnet-5-5", base_url=server.url, api_key="local", max_tokens=200)
    bridge = Bridge()
    agent = create_agent(model, [add], system_prompt=SYSTEM, middleware=[middleware(bridge)])
    print(agent.invoke({"messages": [{"role": "user", "content": "2 + 3, and 8 more?"}]})["messages"][-1].text)
    print(bridge.report())
