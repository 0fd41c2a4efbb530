"""Find, fix and prevent prompt-cache misses in LLM agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.cache.usage import Usage as Usage
    from contextkit.context import Context as Context
    from contextkit.context.agents import AgentLimits as AgentLimits
    from contextkit.errors import ContextKitError as ContextKitError
    from contextkit.ledger.budget import Budget as Budget
    from contextkit.ledger.ledger import Ledger as Ledger
    from contextkit.log.entry import Entry as Entry
    from contextkit.log.log import Log as Log
    from contextkit.log.variation import Variation as Variation
    from contextkit.memory.compaction import Compaction as Compaction
    from contextkit.memory.filestore import FileMemory as FileMemory
    from contextkit.memory.reference import Reference as Reference
    from contextkit.memory.todo import Todo as Todo
    from contextkit.models import AssumedModelWarning as AssumedModelWarning
    from contextkit.prices import register_models as register_models
    from contextkit.prices import register_price as register_price
    from contextkit.providers.anthropic.messages import AnthropicMessages as AnthropicMessages
    from contextkit.providers.openai.chat import OpenAIChat as OpenAIChat
    from contextkit.providers.openai.responses import OpenAIResponses as OpenAIResponses
    from contextkit.providers.openai_compatible import OpenAICompatible as OpenAICompatible
    from contextkit.providers.request import Request as Request
    from contextkit.providers.routing_key import CacheKey as CacheKey
    from contextkit.tools.phases import Phase as Phase
    from contextkit.tools.phases import Phases as Phases
    from contextkit.tools.signature import Grammar as Grammar
    from contextkit.tools.tool import Tool as Tool
    from contextkit.tools.tool import Toolbox as Toolbox
    from contextkit.tools.tool import tool as tool
    from contextkit.watcher.client import watch as watch

__version__ = "0.1.0"

_PLACES = {
    "AgentLimits": "contextkit.context.agents",
    "AssumedModelWarning": "contextkit.models",
    "AnthropicMessages": "contextkit.providers.anthropic.messages",
    "Budget": "contextkit.ledger.budget",
    "CacheKey": "contextkit.providers.routing_key",
    "Compaction": "contextkit.memory.compaction",
    "Context": "contextkit.context",
    "ContextKitError": "contextkit.errors",
    "Entry": "contextkit.log.entry",
    "FileMemory": "contextkit.memory.filestore",
    "Grammar": "contextkit.tools.signature",
    "Ledger": "contextkit.ledger.ledger",
    "Log": "contextkit.log.log",
    "OpenAIChat": "contextkit.providers.openai.chat",
    "OpenAICompatible": "contextkit.providers.openai_compatible",
    "OpenAIResponses": "contextkit.providers.openai.responses",
    "Phase": "contextkit.tools.phases",
    "Phases": "contextkit.tools.phases",
    "Reference": "contextkit.memory.reference",
    "Request": "contextkit.providers.request",
    "Todo": "contextkit.memory.todo",
    "Tool": "contextkit.tools.tool",
    "Toolbox": "contextkit.tools.tool",
    "Usage": "contextkit.cache.usage",
    "Variation": "contextkit.log.variation",
    "register_models": "contextkit.prices",
    "register_price": "contextkit.prices",
    "simulate": "contextkit.engines.simulate",
    "tool": "contextkit.tools.tool",
    "watch": "contextkit.watcher.client",
}
"""Public name → where it lives; imported on first use, so that `import contextkit` costs nothing."""

__all__ = sorted(_PLACES)  # noqa: PLE0605 - one table, not two lists


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'contextkit' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
