"""How an event is told to the model: one table, the row closest to the provider's own way first.

Takes an endpoint, its model's row and what the caller has opted in to; gives the row. Knows no bytes: the adapters
spell each row. Every row appends; none touches what was said.

Which features of `/v1/messages` are in beta, and the header that opts in to each: one table, for what is sent and
for who checks it.

Takes the fields of a request and the betas opted in to, gives what is lacking. Knows no bytes and no models. The names
are those of `anthropic/types/anthropic_beta_param.py` (2.11); that a field needs one is said by its absence from the
stable request type and its presence in `anthropic/types/beta/message_create_params.py`.

What changes the configuration of a conversation from one item on: an effort, the form of a reply.

Takes the event of a notice, gives the item of Responses that says it
(responses/response_configuration_update_item_param_param.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.providers.late_tools import BEDROCK, CLAUDE, GEMINI, OPENAI
from contextkit.providers.masking import Endpoint
from contextkit.providers.settings import format_of


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


CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
"""Beta header that opts in to system messages for one user turn (mid-conversation system messages docs)."""
MESSAGE_EFFORT = "mid-conversation-output-config-2026-07-01"
"""Beta header that opts in to an effort from one message on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Something a system message between turns can set besides what it says."""

    holds: Callable[[Endpoint], bool]
    """Whether the model takes it and the caller has opted in."""
    fields: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Body of a notice → the fields it sets, none where it is not about this."""
    source: str
    """Where it is documented."""


SETTINGS: tuple[Setting, ...] = (
    Setting(
        lambda endpoint: endpoint.model.accepts_mid_system and CLEAR_AT in endpoint.betas,
        lambda body: {"clear_at": "next_user_message"} if body.get("until") == "user" else {},
        "anthropic/types/beta/beta_system_message_param.py: in front of the model for the user turn it follows, in the array for good",
    ),
    Setting(
        lambda endpoint: endpoint.model.accepts_message_effort and MESSAGE_EFFORT in endpoint.betas,
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
    """What a notice sets."""
    return {key: value for row in rows for key, value in row.fields(body).items()}


def noticing(endpoint: Endpoint) -> Noticing:
    """How an event is told at this endpoint.

    >>> from contextkit.models import model_named
    >>> noticing(Endpoint("anthropic_messages", model_named("claude-sonnet-4-5"))).name
    'reminder'
    """
    return next(row for row in NOTICINGS if endpoint.wire in row.wires and row.holds(endpoint))


CONTEXT_MANAGEMENT, COMPACT, SUMMARIZE = "context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"
BINDING = "thinking-binding-controls-2026-08-01"
_MCP = ("mcp-client-2026-09-15", "mcp-client-2025-11-20", "mcp-client-2025-04-04")
_FALLBACK = ("server-side-fallback-2026-07-01", "server-side-fallback-2026-06-01")
_ADVISOR = ("advisor-tool-2026-03-01",)


@dataclass(frozen=True, slots=True)
class Beta:
    """One field in beta."""

    field: str
    """Where it stands in the body."""
    headers: tuple[str, ...]
    """Betas that opt in to it, any one of them; the first is the newest."""
    holds: Callable[[Mapping[str, Json]], bool]
    """Whether the fields of a request use it."""


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
    Beta("context_management.edits.compact_20260112", (COMPACT,), _edits("compact_")),
    Beta("context_management.edits.clear_*", (CONTEXT_MANAGEMENT,), _edits("clear_")),
    Beta("context_management", (CONTEXT_MANAGEMENT, COMPACT), _has("context_management")),
    Beta("compaction", (SUMMARIZE,), _has("compaction")),
    Beta("mcp_servers", _MCP, _has("mcp_servers")),
    Beta("fallbacks", _FALLBACK, _has("fallbacks")),
    Beta(
        "fallback_credit_token",
        ("fallback-credit-2026-07-01", "fallback-credit-2026-06-01"),
        _has("fallback_credit_token"),
    ),
    Beta("billing_policy", ("user-profiles-billing-2026-10-01",), _has("billing_policy")),
    Beta("thread", ("message-threads-2026-08-12",), _has("thread")),
    Beta("thinking.block_binding", (BINDING,), _has("thinking", "block_binding")),
    Beta(
        "thinking.display: updates",
        ("thinking-display-updates-2026-08-18",),
        lambda fields: bool(_at(fields, ("thinking", "display")) == "updates"),
    ),
    Beta("output_config.task_budget", ("task-budgets-2026-03-13",), _has("output_config", "task_budget")),
)
"""Fields of a request."""
MESSAGE_FIELDS: Mapping[str, str] = {"clear_at": CLEAR_AT, "output_config": MESSAGE_EFFORT}
"""Fields of a system message between turns."""
BLOCKS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "mcp_toolset"), _MCP),
    **dict.fromkeys(("advisor_tool_result", "advisor_20260301"), _ADVISOR),
    "compaction": (SUMMARIZE, COMPACT),
    "fallback": _FALLBACK,
    "computer_20251124": ("computer-use-2025-11-24",),
    "computer_20250124": ("computer-use-2025-01-24",),
}
"""Types of blocks and of tools. What `tool_addition` and `tool_removal` need stands in `masking/mechanisms.py`."""


def lacking(fields: Mapping[str, Json], betas: Collection[str]) -> Iterator[Beta]:
    """Fields in use whose header is not among `betas`.

    >>> [row.headers[0] for row in lacking({"compaction": {"type": "summarize"}}, ())]
    ['compact-2026-09-04']
    """
    return (row for row in FIELDS if row.holds(fields) and not set(row.headers) & set(betas))


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
