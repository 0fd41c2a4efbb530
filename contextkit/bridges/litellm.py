"""LiteLLM: a callback for `acompletion`, and an HTTP client for `completion`.

    litellm.callbacks.append(callback(bridge))
    await litellm.acompletion("anthropic/claude-sonnet-5-5", messages=messages, tools=[*tools, *memory_tools(bridge)])

Both take a `Bridge` or a `ContextBridge`. A callback of LiteLLM sees messages before they are rendered for the endpoint, so
the place of a bridge is below it, in the HTTP client. `acompletion` runs a hook that can give a call its client
(`async_pre_call_deployment_hook`); `completion` runs none that can, and takes `client=client(bridge)`. Tried with litellm
1.110.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from contextkit.bridges.hook import ClientHook, framework, tool_text
from contextkit.canonical import Json
from contextkit.ledger.transport import attach
from contextkit.terminal import sanitize
from contextkit.tools.tool import Tool

_WHAT, _EXTRA = "the bridge to LiteLLM", "litellm"
_SYNC = "a call of litellm.completion is on the bridge only with client=client(bridge): it runs no callback that could put it there"


def client(bridge: ClientHook, *, is_async: bool = False) -> Any:
    """LiteLLM's own `HTTPHandler` whose requests are on the bridge, for models that LiteLLM asks over it, as Anthropic's.

    `is_async` gives an `AsyncHTTPHandler`, for `acompletion`. For `openai/…` models LiteLLM takes a client of openai's SDK:
    `client=bridge.client(OpenAI())`. Raises `MissingExtra` where litellm is not installed.
    """
    handlers = framework("litellm.llms.custom_httpx.http_handler", _WHAT, _EXTRA)
    handler = handlers.AsyncHTTPHandler() if is_async else handlers.HTTPHandler()
    attach(handler.client, bridge.watcher)
    return handler


def callback(bridge: ClientHook) -> Any:
    """A `CustomLogger` for `litellm.callbacks` that puts each `acompletion` of an Anthropic or OpenAI model on the bridge.

    A call that names a `client` keeps it. Calls of other providers, and those of `completion`, are warned of once and go as
    they were. Raises `MissingExtra` where litellm is not installed.
    """
    loggers = framework("litellm.integrations.custom_logger", _WHAT, _EXTRA)
    litellm = framework("litellm", _WHAT, _EXTRA)
    clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str | None, ...], Any]] = WeakKeyDictionary()
    warned: set[str] = set()

    def warn(message: str) -> None:
        if message not in warned:
            warned.add(message)
            warnings.warn(sanitize(message), stacklevel=3)

    def made(provider: str, fields: Mapping[str, Any]) -> Any:
        if provider == "anthropic":
            return client(bridge, is_async=True)
        return bridge.client(framework("openai", _WHAT, _EXTRA).AsyncOpenAI(**fields))

    class Callback(loggers.CustomLogger):  # type: ignore[name-defined, misc]
        async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
            if getattr(call_type, "value", "") != "acompletion" or kwargs.get("client") is not None:
                return None
            base, key = kwargs.get("base_url") or kwargs.get("api_base"), kwargs.get("api_key")
            model = kwargs.get("model") or kwargs["litellm_logging_obj"].model  # the latter where it came by position
            _, provider, found_key, found_base = litellm.get_llm_provider(
                model, kwargs.get("custom_llm_provider"), base, key
            )
            if provider not in ("anthropic", "openai"):
                warn(f"calls of {provider} models through LiteLLM are not on the bridge")
                return None
            # what LiteLLM itself would give openai's client; what is None, that reads from the environment
            fields = {
                "base_url": found_base or litellm.api_base,
                "api_key": key or found_key or litellm.api_key or litellm.openai_key,
                "organization": kwargs.get("organization") or litellm.organization,
            }
            # connections belong to their event loop
            of_loop = clients.setdefault(asyncio.get_running_loop(), {})
            which = (provider, *(fields.values() if provider == "openai" else ()))
            if which not in of_loop:
                of_loop[which] = made(provider, fields)
            return {**kwargs, "client": of_loop[which]}

        def log_pre_api_call(self, model: str, messages: Any, kwargs: Mapping[str, Any]) -> None:
            if kwargs.get("call_type") == "completion":
                warn(_SYNC)

    return Callback()


def memory_tools(bridge: ClientHook) -> list[Json]:
    """The tools of a bridge's memory, for `tools=`; empty without a memory."""
    return [{"type": "function", "function": tool.definition} for tool in bridge.tools]


def run_memory_tool(bridge: ClientHook, name: str, arguments: Mapping[str, Json]) -> str | None:
    """What a tool of the memory gives, for the loop that got the call; None where it has no such tool."""
    tools: dict[str, Tool] = {tool.name: tool for tool in bridge.tools}
    return tool_text(tools[name], arguments) if name in tools else None
