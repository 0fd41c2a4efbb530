"""LangChain and LangGraph: a middleware for `create_agent`.

    bridge = Bridge()
    agent = create_agent("anthropic:claude-sonnet-5-5", tools, middleware=[middleware(bridge)])
    agent.invoke({"messages": [...]})
    print(bridge.report())

Takes a `Bridge` or a `ContextBridge`, gives an `AgentMiddleware` whose `wrap_model_call` puts the model's own SDK client
on it, for that call only; the tools of a `ContextBridge`'s memory become tools of the agent. Tried with langchain 1.5,
langchain-anthropic 1.7 and langchain-openai 1.7. ChatOpenAI's clients are public fields (`root_client`,
`root_async_client`); ChatAnthropic has no public one, so `_client` and `_async_client` are read, never written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from contextkit.bridges.hook import ClientHook, framework, tool_text
from contextkit.tools.tool import Tool

SYNC = ("_client", "root_client")
ASYNC = ("_async_client", "root_async_client")
"""Attributes of ChatAnthropic, ChatOpenAI and what is derived from them that hold a client of an SDK."""
INNER = ("bound", "model")
"""Attributes under which what wraps a model (`bind_tools`, `with_retry`) keeps it."""


def middleware(bridge: ClientHook) -> Any:
    """The middleware; put it last in the list, so that what other middleware changes is seen.

    Raises `MissingExtra` where langchain is not installed.
    """
    types = framework("langchain.agents.middleware", "the bridge to LangChain", "langchain")

    def wrap_model_call(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
        with bridge.listening(_clients(request.model, SYNC), type(request.model).__name__):
            return handler(request)

    async def awrap_model_call(self: Any, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        with bridge.listening(_clients(request.model, ASYNC), type(request.model).__name__):
            return await handler(request)

    methods = {
        "wrap_model_call": wrap_model_call,
        "awrap_model_call": awrap_model_call,
        "tools": [_structured(tool) for tool in bridge.tools],
        "__doc__": "Puts an agent's calls on a bridge.",
    }
    return type("ContextKitMiddleware", (types.AgentMiddleware,), methods)()


def _clients(model: Any, names: tuple[str, ...]) -> Iterator[Any]:
    """The SDK clients of a model, or of the one it wraps; one that was switched off is None."""
    yield from (client for name in names if (client := getattr(model, name, None)) is not None)
    for inner in (vars(model).get(name) for name in INNER):
        if hasattr(inner, "invoke"):
            yield from _clients(inner, names)


def _structured(tool: Tool) -> Any:
    """A tool of a memory as LangChain has it."""
    tools = framework("langchain_core.tools", "the bridge to LangChain", "langchain")

    def run(**arguments: Any) -> str:
        return tool_text(tool, arguments)

    return tools.StructuredTool.from_function(
        run, name=tool.name, description=tool.description, args_schema=tool.parameters
    )
