"""LiteLLM: an HTTP client for `completion` and `acompletion`.

    bridge = ContextBridge(memory=...)
    http = client(bridge)
    litellm.completion("anthropic/claude-sonnet-5-5", messages=messages, tools=[*tools, *memory_tools(bridge)], client=http)

Takes a `Bridge` or a `ContextBridge`, gives LiteLLM's own `HTTPHandler` (or `AsyncHTTPHandler`) whose requests are on it,
for models that LiteLLM asks over it, such as Anthropic's. For `openai/…` models LiteLLM takes a client of openai's SDK:
`client=bridge.client(OpenAI())`. A callback of LiteLLM sees messages before they are rendered for the endpoint and cannot
change what is sent, so the place is below it. Tried with litellm 1.110.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextkit.bridges.bridge import Bridge, framework
from contextkit.bridges.contexts import ContextBridge, tool_text
from contextkit.canonical import Json
from contextkit.tools.tool import Tool
from contextkit.watcher.transport import attach

_WHAT, _EXTRA = "the bridge to LiteLLM", "litellm"


def client(bridge: Bridge | ContextBridge, *, is_async: bool = False) -> Any:
    """The client; `is_async` for `acompletion`. Raises `MissingExtra` where litellm is not installed."""
    handlers = framework("litellm.llms.custom_httpx.http_handler", _WHAT, _EXTRA)
    handler = handlers.AsyncHTTPHandler() if is_async else handlers.HTTPHandler()
    attach(handler.client, bridge.watcher)
    return handler


def memory_tools(bridge: ContextBridge) -> list[Json]:
    """The tools of a bridge's memory, for `tools=`; empty without a memory."""
    return [{"type": "function", "function": tool.definition} for tool in bridge.tools]


def run_memory_tool(bridge: ContextBridge, name: str, arguments: Mapping[str, Json]) -> str | None:
    """What a tool of the memory gives, for the loop that got the call; None where it has no such tool."""
    tools: dict[str, Tool] = {tool.name: tool for tool in bridge.tools}
    return tool_text(tools[name], arguments) if name in tools else None
