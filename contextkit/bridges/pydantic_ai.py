"""pydantic-ai: a capability for an `Agent`.

    bridge = Bridge()
    agent = Agent("anthropic:claude-sonnet-5-5", tools=tools, capabilities=[capability(bridge)])
    agent.run_sync("...")
    print(bridge.report())

Takes a `Bridge`, gives a capability whose `get_wrapper_model` puts the client of the model that serves an attempt on
it, for that attempt only; streams and fallbacks included. Tried with pydantic-ai 2.68. Only public attributes are read:
`Model.client`, `WrapperModel.wrapped`, `FallbackModel.models`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from contextkit.bridges.bridge import Bridge, framework

_WHAT, _EXTRA = "the bridge to pydantic-ai", "pydantic-ai"


def capability(bridge: Bridge) -> Any:
    """The capability.

    Put it last in the list, so that what others change is seen. Raises `MissingExtra` without pydantic-ai.
    """
    capabilities = framework("pydantic_ai.capabilities", _WHAT, _EXTRA)
    wrapper = framework("pydantic_ai.models.wrapper", _WHAT, _EXTRA).WrapperModel
    model = type("BridgedModel", (wrapper,), _sending(bridge))
    methods = {
        "get_wrapper_model": lambda self, wrapped: model(wrapped),
        "__doc__": "Puts an agent's calls on a bridge.",
    }
    return type("ContextKitCapability", (capabilities.AbstractCapability,), methods)()


def _sending(bridge: Bridge) -> dict[str, Any]:
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
