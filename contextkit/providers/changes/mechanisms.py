"""How an event is told to the model: one table, the row closest to the provider's own way first.

Takes an endpoint, its model's row and what the caller has opted in to; gives the row. Knows no bytes: the adapters spell each row. Every
row appends; none touches what was said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contextkit.providers.late.mechanisms import CLAUDE, OPENAI, Asked


@dataclass(frozen=True, slots=True)
class Noticing:
    """One way to tell an event."""

    name: str
    """As `provider.noticing` says it."""
    wires: tuple[str, ...]
    """Endpoints that know it."""
    holds: Callable[[Asked], bool]
    """Whether the model takes it."""
    needs: str
    """The same in words."""
    source: str
    """Where it is documented."""


NOTICINGS: tuple[Noticing, ...] = (
    Noticing(
        "system_notice", CLAUDE, lambda asked: asked.model.accepts_mid_system, "mid-conversation system messages",
        "anthropic/types/system_message_param.py; mid-conversation system messages docs",
    ),
    Noticing(
        "configuration_update", ("openai_responses",),
        lambda asked: asked.model.provider == "openai" and asked.model.cache == "breakpoints",
        "Responses, gpt-5.6 or later: an effort is an item of its own, everything else a developer message",
        "openai/types/responses/response_configuration_update_item_param_param.py; which models take it is inferred",
    ),
    Noticing(
        "developer", OPENAI, lambda asked: asked.model.provider == "openai", "a model of OpenAI",
        "openai/types/chat/chat_completion_developer_message_param.py; no cache boundary (prompt caching guide)",
    ),
    Noticing("reminder", (*CLAUDE, *OPENAI), lambda asked: True, "nothing", "a text block of the user's turn, which every model takes"),
)  # fmt: skip
"""How an event is told, the first row that holds."""


def noticing(asked: Asked) -> Noticing:
    """How an event is told at this endpoint.

    >>> from contextkit.models import model_named
    >>> noticing(Asked("anthropic_messages", model_named("claude-sonnet-4-5"))).name
    'reminder'
    """
    return next(row for row in NOTICINGS if asked.wire in row.wires and row.holds(asked))
