"""Tools that join a conversation after it began: how they are announced, and what the log says of them.

Announcements are one table, the cheapest safe row first. Safe means that the static prefix never moves: a definition
that is put into `tools` re-bills everything behind it. What was announced stays as it was announced: another definition
under the same name is refused, since the model has read the first one. Whether a tool can join is checked before the log
says that it did.

On Responses a model may search for tools, and the program answers; a search that ran at the API has its output beside it,
and nobody answers it (responses/response_tool_search_call.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.providers.masking import BEDROCK, CLAUDE, GEMINI, INLINE_TOOLS, OPENAI, Endpoint
from contextkit.tools.late import SEARCH as NAME
from contextkit.tools.late import call_tool, is_bridge


@dataclass(frozen=True, slots=True)
class Announcing:
    """One way to announce a late tool."""

    name: str
    """As `provider.announcing` says it."""
    wires: tuple[str, ...]
    """Endpoints that know it."""
    holds: Callable[[Endpoint], bool]
    """Whether the model takes it and the caller has opted in."""
    needs: str
    """The same in words."""
    cost: str
    """What it costs, once."""
    calls: str
    """How the model calls the tool: `by name`, or `through call_tool`."""
    source: str
    """Where it is documented."""


ANNOUNCINGS: tuple[Announcing, ...] = (
    Announcing(
        "tool_addition",
        CLAUDE,
        lambda endpoint: endpoint.model.accepts_mid_system and INLINE_TOOLS in endpoint.betas,
        f'mid-conversation system messages, `betas=["{INLINE_TOOLS}"]`, one tool in the head',
        "its definition, appended",
        "by name",
        "anthropic/types/beta/beta_tool_change_tool_definition_param.py; mid-conversation system messages docs",
    ),
    Announcing(
        "additional_tools",
        ("openai_responses",),
        lambda endpoint: endpoint.model.provider == "openai" and endpoint.model.cache == "breakpoints",
        "Responses, gpt-5.6 or later",
        "its definition, appended",
        "by name",
        "openai/types/responses/response_input_item_param.py:222-231; which models take it is inferred",
    ),
    Announcing(
        "bridge_system",
        (*CLAUDE, *BEDROCK),
        lambda endpoint: endpoint.model.accepts_mid_system,
        "`call_tool` in the head, mid-conversation system messages",
        "its definition, appended; 55 to 114 tokens of the head",
        "through call_tool",
        "anthropic/types/system_message_param.py",
    ),
    Announcing(
        "bridge",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda endpoint: True,
        "`call_tool` in the head",
        "its definition, appended; 55 to 114 tokens of the head; where a model strips thinking, what stands behind the last of it",
        "through call_tool",
        "a text block of the user's turn, which every model takes",
    ),
)
"""How a tool is announced, the first row that holds. Where none can be used, `late_tools(…, allow_epoch=True)` puts it
into a new head, and the next request pays for the whole prompt: `rewrites_tokens` of the entry says how much."""
SEARCHES: tuple[Announcing, ...] = (
    Announcing(
        "tool_search",
        ("openai_responses",),
        lambda endpoint: endpoint.model.accepts_tool_search,
        "Responses, gpt-5.4 or later",
        "the definitions found, appended; the search itself in the head",
        "by name",
        "openai/types/responses/tool_search_tool_param.py, response_tool_search_output_item_param_param.py; tool search guide",
    ),
    Announcing(
        "function",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda endpoint: True,
        "`call_tool` beside it in the head",
        "the definitions found, in the result; the search and `call_tool` in the head",
        "through call_tool",
        "a function, which every model takes",
    ),
)
"""How a search that the program runs (`tool_search([…])`) is declared, and how what it finds is called; the first row
that holds."""
BY_NAME = "by name"


def announcing(endpoint: Endpoint) -> Announcing:
    """Return how a late tool is announced at this endpoint.

    >>> from contextkit.models import model_named
    >>> announcing(Endpoint("openai_responses", model_named("gpt-6.1-sol"))).name
    'additional_tools'
    >>> opus = model_named("claude-opus-5-5")
    >>> [announcing(Endpoint("anthropic_messages", opus, betas)).name for betas in ((INLINE_TOOLS,), ())]
    ['tool_addition', 'bridge_system']
    """
    return next(row for row in ANNOUNCINGS if endpoint.wire in row.wires and row.holds(endpoint))


def is_direct(endpoint: Endpoint) -> bool:
    """Return whether the model calls a late tool by its own name here."""
    return announcing(endpoint).calls == BY_NAME


def searching(endpoint: Endpoint) -> Announcing:
    """Return how a search that the program runs is declared at this endpoint.

    >>> from contextkit.models import model_named
    >>> [searching(Endpoint("openai_responses", model_named(name))).name for name in ("gpt-5.4", "gpt-5.2")]
    ['tool_search', 'function']
    """
    return next(row for row in SEARCHES if endpoint.wire in row.wires and row.holds(endpoint))


def is_possible(endpoint: Endpoint, head: Sequence[Json]) -> bool:
    """Return whether a late tool can be announced behind a head with these definitions.

    By name: with any tool in the head (on Claude the first definition behind a head without tools costs one full miss).
    """
    return bool(head) if is_direct(endpoint) else any(map(is_bridge, head))


def check_possible(endpoint: Endpoint, head: Sequence[Json]) -> None:
    """Raises `UsageError`, saying what can be done, where it is not."""
    if not is_possible(endpoint, head):
        may_opt_in = endpoint.wire in CLAUDE and endpoint.model.accepts_mid_system
        beta = f", opt in with betas=[{INLINE_TOOLS!r}]" if may_opt_in else ""
        raise UsageError(
            f"a tool cannot join this conversation: {endpoint.model.name} takes none in band here, and {call_tool.name} is not in the "
            f"head. Begin with tools=[…, call_tool] (contextkit.tools.late){beta}, or pass allow_epoch=True to pay for the whole prompt "
            "once"
        )


SEARCHES_SEARCH = "tool_search_call-"
"""Stands before the neutral id of a search that we are to run, whose answer is an item of its own kind."""
TOOL = NAME
"""The tool its call is one of."""


def is_ours(item: Mapping[str, Json]) -> bool:
    """Return whether an item that calls is ours to answer: a search where it says so, and every other call."""
    return item.get("type") != "tool_search_call" or (
        item.get("execution") == "client" and item.get("call_id") is not None
    )


def answers_search(item: Mapping[str, Json]) -> bool:
    """Return whether an item is what we found.

    >>> answers_search({"type": "tool_search_output", "execution": "client", "call_id": "c", "tools": []})
    True
    """
    return (item.get("type"), item.get("execution")) == ("tool_search_output", "client") and item.get(
        "call_id"
    ) is not None


def search_result(body: Mapping[str, Json], blocks: Iterable[Mapping[str, Json]]) -> Json:
    """Render the result of a search.

    Words beside the definitions have no place (responses/response_tool_search_output_item_param_param.py).
    """
    tools = [block for block in blocks if not str(block.get("type")).startswith("input_")]
    status = "incomplete" if body["is_error"] else "completed"
    call = body["call_id"].removeprefix(SEARCHES_SEARCH)
    return {"type": "tool_search_output", "call_id": call, "execution": "client", "status": status, "tools": tools}
