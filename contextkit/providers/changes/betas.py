"""Which features of `/v1/messages` are in beta, and the header that opts in to each: one table, for what is sent and
for who checks it.

Takes the fields of a request and the betas opted in to, gives what is lacking. Knows no bytes and no models. The names
are those of `anthropic/types/anthropic_beta_param.py` (2.11); that a field needs one is said by its absence from the
stable request type and its presence in `anthropic/types/beta/message_create_params.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.providers.changes.mechanisms import CLEAR_AT, MESSAGE_EFFORT

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
