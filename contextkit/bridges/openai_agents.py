"""The OpenAI Agents SDK: a `ModelProvider` for a `RunConfig`.

    bridge = Bridge()
    result = await Runner.run(agent, "...", run_config=RunConfig(model_provider=model_provider(bridge)))
    print(bridge.report())

Takes a `Bridge` or a `ContextBridge`, gives the SDK's own `MultiProvider` over a client that is on it; every model the
run resolves by name is then followed, handoffs and agents used as tools included, streamed or not. A provider adds no
tools: an agent on a `ContextBridge` with a memory needs `tools=[*own, *memory_tools(bridge)]`. Tried with openai-agents
0.24. A `Model` object an agent was given brings its own client: make it with `bridge.client(AsyncOpenAI())`. Responses
over web sockets pass no HTTP client and are not seen.
"""

from __future__ import annotations

import json
from typing import Any

from contextkit.bridges.hook import ClientHook, framework, tool_text
from contextkit.tools.tool import Tool

_WHAT, _EXTRA = "the bridge to the OpenAI Agents SDK", "openai-agents"


def model_provider(bridge: ClientHook, client: Any = None, **options: Any) -> Any:
    """The provider over `client`.

    Where it is None, over the client that the SDK would take when the first model is asked for: that of
    `set_default_openai_client`, else a new one with the key of `set_default_openai_key`. `options` are those of
    `agents.MultiProvider`.

    Raises `MissingExtra` where openai-agents is not installed, `UsageError` for what is no client of openai's SDK.
    """
    agents = framework("agents", _WHAT, _EXTRA)
    if client is not None:
        return agents.MultiProvider(openai_client=bridge.client(client), **options)
    made: list[Any] = []

    def provider() -> Any:
        if not made:
            # the SDK has no public name for the client it would take
            default = agents.OpenAIProvider()._get_client()
            made.append(agents.MultiProvider(openai_client=bridge.client(default), **options))
        return made[0]

    methods = {
        "get_model": lambda self, model_name: provider().get_model(model_name),
        "__doc__": "Resolves models over the configured default client, on a bridge.",
    }
    return type("BridgedModelProvider", (agents.ModelProvider,), methods)()


def memory_tools(bridge: ClientHook) -> list[Any]:
    """The tools of a bridge's memory, for an agent's `tools`; empty without a memory."""
    agents = framework("agents", _WHAT, _EXTRA)
    return [_function_tool(agents, tool) for tool in bridge.tools]


def _function_tool(agents: Any, tool: Tool) -> Any:
    async def invoke(context: Any, arguments: str) -> str:
        return tool_text(tool, json.loads(arguments or "{}"))

    return agents.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
