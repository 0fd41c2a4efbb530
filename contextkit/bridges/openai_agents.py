"""The OpenAI Agents SDK: a `ModelProvider` for a `RunConfig`.

    bridge = Bridge()
    result = await Runner.run(agent, "...", run_config=RunConfig(model_provider=model_provider(bridge)))
    print(bridge.report())

Takes a `Bridge`, gives the SDK's own `MultiProvider` over a client that is on it; every model the run resolves by name
is then followed, handoffs and agents used as tools included, streamed or not. Tried with openai-agents 0.24. A `Model`
object an agent was given brings its own client: make it with `bridge.client(AsyncOpenAI())`. Responses over web sockets
pass no HTTP client and are not seen.
"""

from __future__ import annotations

from typing import Any

from contextkit.bridges.bridge import Bridge, framework


def model_provider(bridge: Bridge, client: Any = None, **options: Any) -> Any:
    """The provider over `client`, a new `AsyncOpenAI()` where it is None.

    `options` are those of `agents.MultiProvider`.

    Raises `MissingExtra` where openai-agents is not installed, `UsageError` for what is no client of openai's SDK.
    """
    agents = framework("agents", "the bridge to the OpenAI Agents SDK", "openai-agents")
    settings = (
        framework("openai", "the bridge to the OpenAI Agents SDK", "openai-agents").AsyncOpenAI()
        if client is None
        else client
    )
    return agents.MultiProvider(openai_client=bridge.client(settings), **options)
