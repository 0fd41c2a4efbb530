"""How an event is told to the model: one table, the row closest to the provider's own way first.

Takes an endpoint, its model's row and what the caller has opted in to; gives the row. Knows no bytes: the adapters
spell each row. Every row appends; none touches what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.providers.late.mechanisms import BEDROCK, CLAUDE, GEMINI, OPENAI, Asked


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
        "system_notice",
        (*CLAUDE, *BEDROCK),
        lambda asked: asked.model.accepts_mid_system,
        "mid-conversation system messages",
        "anthropic/types/system_message_param.py; mid-conversation system messages docs",
    ),
    Noticing(
        "configuration_update",
        ("openai_responses",),
        lambda asked: asked.model.provider == "openai" and asked.model.cache == "breakpoints",
        "Responses, gpt-5.6 or later: an effort or a reply's form is an item of its own, everything else a developer message",
        "openai/types/responses/response_configuration_update_item_param_param.py; which models take it is inferred",
    ),
    Noticing(
        "developer",
        OPENAI,
        lambda asked: asked.model.provider == "openai",
        "a model of OpenAI",
        "openai/types/chat/chat_completion_developer_message_param.py; no cache boundary (prompt caching guide)",
    ),
    Noticing(
        "reminder",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda asked: True,
        "nothing",
        "a text block of the user's turn, which every model takes",
    ),
)
"""How an event is told, the first row that holds."""


CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
"""Beta header that opts in to system messages for one user turn (mid-conversation system messages docs)."""
MESSAGE_EFFORT = "mid-conversation-output-config-2026-07-01"
"""Beta header that opts in to an effort from one message on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Something a system message between turns can set besides what it says."""

    holds: Callable[[Asked], bool]
    """Whether the model takes it and the caller has opted in."""
    fields: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Body of a notice → the fields it sets, none where it is not about this."""
    source: str
    """Where it is documented."""


SETTINGS: tuple[Setting, ...] = (
    Setting(
        lambda asked: asked.model.accepts_mid_system and CLEAR_AT in asked.betas,
        lambda body: {"clear_at": "next_user_message"} if body.get("until") == "user" else {},
        "anthropic/types/beta/beta_system_message_param.py: in front of the model for the user turn it follows, in the array for good",
    ),
    Setting(
        lambda asked: asked.model.accepts_message_effort and MESSAGE_EFFORT in asked.betas,
        lambda body: (
            {"output_config": {"effort": body["event"]["effort"]}}
            if body.get("event", {}).get("type") == "effort"
            else {}
        ),
        "anthropic/types/beta/beta_system_message_output_config_param.py; mid-conversation system messages docs",
    ),
)
"""Settings of Claude's system messages; where none holds, what is told is told in words."""


def settings_for(asked: Asked) -> tuple[Setting, ...]:
    """Those an endpoint takes."""
    return tuple(row for row in SETTINGS if asked.wire in CLAUDE and row.holds(asked))


def set_by(body: Mapping[str, Json], rows: tuple[Setting, ...]) -> dict[str, Json]:
    """What a notice sets."""
    return {key: value for row in rows for key, value in row.fields(body).items()}


def noticing(asked: Asked) -> Noticing:
    """How an event is told at this endpoint.

    >>> from contextkit.models import model_named
    >>> noticing(Asked("anthropic_messages", model_named("claude-sonnet-4-5"))).name
    'reminder'
    """
    return next(row for row in NOTICINGS if asked.wire in row.wires and row.holds(asked))
