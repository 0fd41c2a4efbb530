"""How a notice is rendered, which settings of a conversation change in band, and which fields of `/v1/messages` need a
beta. Which beta name opts in to what is in `facts/betas.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.facts.load import betas_for, built_in_table, may_use
from contextkit.providers.masking import BEDROCK, CLAUDE, GEMINI, OPENAI, Endpoint
from contextkit.providers.reply_form import format_of


@dataclass(frozen=True, slots=True)
class Noticing:
    """One way to tell an event."""

    name: str
    """As `provider.noticing` says it."""
    wires: tuple[str, ...]
    """Endpoints that know it."""
    holds: Callable[[Endpoint], bool]
    """Whether the model takes it."""
    needs: str
    """The same in words."""
    source: str
    """Where it is documented."""


NOTICINGS: tuple[Noticing, ...] = (
    Noticing(
        "system_notice",
        (*CLAUDE, *BEDROCK),
        lambda endpoint: endpoint.model.accepts_mid_system,
        "mid-conversation system messages",
        "anthropic/types/system_message_param.py; mid-conversation system messages docs",
    ),
    Noticing(
        "configuration_update",
        ("openai_responses",),
        lambda endpoint: endpoint.model.provider == "openai" and endpoint.model.cache == "breakpoints",
        "Responses, gpt-5.6 or later: an effort or a reply's form is an item of its own, everything else a developer message",
        "openai/types/responses/response_configuration_update_item_param_param.py; which models take it is inferred",
    ),
    Noticing(
        "developer",
        OPENAI,
        lambda endpoint: endpoint.model.provider == "openai",
        "a model of OpenAI",
        "openai/types/chat/chat_completion_developer_message_param.py; no cache boundary (prompt caching guide)",
    ),
    Noticing(
        "reminder",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda endpoint: True,
        "nothing",
        "a text block of the user's turn, which every model takes",
    ),
)
"""How an event is told, the first row that holds."""


MESSAGE_FIELDS: Mapping[str, tuple[str, ...]] = {
    name: betas_for(f"messages.{name}") for name in ("clear_at", "output_config")
}
"""Field of a system message between turns (what it says holds for one user turn; an effort from this message on) →
betas that opt in to it.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Something a system message between turns can set besides what it says."""

    holds: Callable[[Endpoint], bool]
    """Whether the model takes it and the caller has opted in."""
    fields: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Body of a notice → the fields it sets, none where it is not about this."""
    source: str
    """Where it is documented."""


def _is_named(endpoint: Endpoint, field: str) -> bool:
    return not set(MESSAGE_FIELDS[field]).isdisjoint(endpoint.betas)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        lambda endpoint: endpoint.model.accepts_mid_system and _is_named(endpoint, "clear_at"),
        lambda body: {"clear_at": "next_user_message"} if body.get("until") == "user" else {},
        "anthropic/types/beta/beta_system_message_param.py: in front of the model for the user turn it follows, in the array for good",
    ),
    Setting(
        lambda endpoint: endpoint.model.accepts_message_effort and _is_named(endpoint, "output_config"),
        lambda body: (
            {"output_config": {"effort": body["event"]["effort"]}}
            if body.get("event", {}).get("type") == "effort"
            else {}
        ),
        "anthropic/types/beta/beta_system_message_output_config_param.py; mid-conversation system messages docs",
    ),
)
"""Settings of Claude's system messages; where none holds, what is told is told in words."""


def settings_for(endpoint: Endpoint) -> tuple[Setting, ...]:
    """Those an endpoint takes."""
    return tuple(row for row in SETTINGS if endpoint.wire in CLAUDE and row.holds(endpoint))


def set_by(body: Mapping[str, Json], rows: tuple[Setting, ...]) -> dict[str, Json]:
    """Return the fields that a notice sets."""
    return {key: value for row in rows for key, value in row.fields(body).items()}


def noticing(endpoint: Endpoint) -> Noticing:
    """Return how an event is reported at this endpoint.

    >>> from contextkit.models import model_named
    >>> noticing(Endpoint("anthropic_messages", model_named("claude-sonnet-4-5"))).name
    'reminder'
    """
    return next(row for row in NOTICINGS if endpoint.wire in row.wires and row.holds(endpoint))


@dataclass(frozen=True, slots=True)
class Beta:
    """One field in beta."""

    field: str
    """Where it stands in the body."""
    holds: Callable[[Mapping[str, Json]], bool]
    """Whether the fields of a request use it."""

    @property
    def headers(self) -> tuple[str, ...]:
        """Betas that opt in to it, any one of them; the first is the one to recommend."""
        return betas_for(self.field)


def _has(*path: str) -> Callable[[Mapping[str, Json]], bool]:
    return lambda fields: _at(fields, path) is not None


def _at(fields: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        fields = fields.get(name) if isinstance(fields, Mapping) else None
    return fields


def _edits(prefix: str) -> Callable[[Mapping[str, Json]], bool]:
    def holds(fields: Mapping[str, Json]) -> bool:
        listed = _at(fields, ("context_management", "edits"))
        return isinstance(listed, list) and any(str(_at(edit, ("type",))).startswith(prefix) for edit in listed)

    return holds


FIELDS: tuple[Beta, ...] = (
    Beta("context_management.edits.compact_20260112", _edits("compact_")),
    Beta("context_management.edits.clear_*", _edits("clear_")),
    Beta("context_management", _has("context_management")),
    Beta("compaction", _has("compaction")),
    Beta("mcp_servers", _has("mcp_servers")),
    Beta("fallbacks", _has("fallbacks")),
    Beta("fallback_credit_token", _has("fallback_credit_token")),
    Beta("billing_policy", _has("billing_policy")),
    Beta("thread", _has("thread")),
    Beta("thinking.block_binding", _has("thinking", "block_binding")),
    Beta("thinking.display: updates", lambda fields: bool(_at(fields, ("thinking", "display")) == "updates")),
    Beta("output_config.task_budget", _has("output_config", "task_budget")),
)
"""Fields of a request."""
BINDING = betas_for("thinking.block_binding")[0]
BLOCKS: Mapping[str, tuple[str, ...]] = {
    feature.removeprefix("type "): betas_for(feature)
    for row in built_in_table("betas.toml")["betas"]
    for feature in row.get("opens", ())
    if feature.startswith("type ")
}
"""Types of blocks and of tools. What `tool_addition` and `tool_removal` need stands in `masking.py`."""


def lacking(fields: Mapping[str, Json], betas: Collection[str]) -> Iterator[Beta]:
    """Fields in use that none of `betas` opts in to; none where one of `betas` is unknown, as it may be that opt-in.

    >>> [row.headers[0] for row in lacking({"compaction": {"type": "summarize"}}, ())]
    ['compact-2026-09-04']
    """
    return (row for row in FIELDS if row.holds(fields) and not may_use(betas, row.headers))


_SETS: Mapping[str, Callable[[Mapping[str, Json]], dict[str, Json]]] = {
    "effort": lambda event: {"reasoning": {"effort": event["effort"]}},
    "output": lambda event: {"text": {"format": format_of(event)}},
}
"""Type of an event → what it sets."""


def updates(event: Mapping[str, Json]) -> list[Json]:
    """The item that an event is, none where it is told in words.

    >>> updates({"type": "effort", "effort": "low"}), updates({"type": "date", "date": "2026-11-22"})
    ([{'type': 'configuration_update', 'reasoning': {'effort': 'low'}}], [])
    """
    setting = _SETS.get(event["type"])
    return [] if setting is None else [{"type": "configuration_update", **setting(event)}]
