"""pydantic-ai: a capability for an `Agent`.

    bridge = Bridge()
    agent = Agent("anthropic:claude-sonnet-5-5", tools=tools, capabilities=[capability(bridge)])
    agent.run_sync("...")
    print(bridge.report())

Takes a `Bridge` or a `ContextBridge`, gives a capability whose `get_wrapper_model` puts the client of the model that
serves an attempt on it, for that attempt only; streams and fallbacks included. The tools of a `ContextBridge`'s memory
become tools of the agent. Tried with pydantic-ai 2.68. Only public attributes are read: `Model.client`,
`WrapperModel.wrapped`, `FallbackModel.models`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from contextkit.bridges.hook import ClientHook, framework, tool_text
from contextkit.tools.tool import Tool

_WHAT, _EXTRA = "the bridge to pydantic-ai", "pydantic-ai"


def capability(bridge: ClientHook) -> Any:
    """The capability.

    Put it last in the list, so that what others change is seen. Raises `MissingExtra` without pydantic-ai.
    """
    capabilities = framework("pydantic_ai.capabilities", _WHAT, _EXTRA)
    wrapper = framework("pydantic_ai.models.wrapper", _WHAT, _EXTRA).WrapperModel
    model = type("BridgedModel", (wrapper,), _sending(bridge))
    methods = {
        "get_wrapper_model": lambda self, wrapped: model(wrapped),
        "get_toolset": lambda self: _toolset(bridge),
        "__doc__": "Puts an agent's calls on a bridge.",
    }
    return type("ContextKitCapability", (capabilities.AbstractCapability,), methods)()


def _sending(bridge: ClientHook) -> dict[str, Any]:
    """The two ways a model sends."""

    async def request(self: Any, *values: Any, **named: Any) -> Any:
        with bridge.listening(_clients(self.wrapped), type(self.wrapped).__name__):
            return await self.wrapped.request(*values, **named)

    @asynccontextmanager
    async def request_stream(self: Any, *values: Any, **named: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as opened:
            with bridge.listening(
                _clients(self.wrapped), type(self.wrapped).__name__
            ):  # no longer: another task may close it
                stream = await opened.enter_async_context(self.wrapped.request_stream(*values, **named))
            yield stream

    return {"request": request, "request_stream": request_stream}


def _clients(model: Any) -> Iterator[Any]:
    """The SDK clients of a model, of the one it wraps, or of those it falls back to."""
    inner = [model.wrapped] if hasattr(model, "wrapped") else list(getattr(model, "models", ()))
    if not inner and getattr(model, "client", None) is not None:
        yield model.client
    for one in inner:
        yield from _clients(one)


def _toolset(bridge: ClientHook) -> Any:
    """The tools of a bridge's memory as pydantic-ai has them; None without."""
    if not bridge.tools:
        return None
    toolsets = framework("pydantic_ai.toolsets", _WHAT, _EXTRA)
    return toolsets.FunctionToolset([_tool(tool) for tool in bridge.tools])


def _tool(tool: Tool) -> Any:
    def run(**arguments: Any) -> str:
        return tool_text(tool, arguments)

    kind = framework("pydantic_ai", _WHAT, _EXTRA).Tool
    return kind.from_schema(run, name=tool.name, description=tool.description, json_schema=tool.parameters)
