"""What Anthropic refuses of tools withdrawn, given back and defined between turns.

Sources: `anthropic.types.beta` 2.11 (beta_request_tool_addition_block_param.py,
beta_request_tool_removal_block_param.py, beta_tool_change_*_param.py), `anthropic.types`
(tool_name_conflict_error_details.py, tool_reference_unresolved_error_details.py,
available_tools_limit_exceeded_error_details.py), mid-conversation system messages docs. Allowed, since the docs say
nothing against it or say so: to withdraw a tool twice, to give back one that is there, to define one again in the same
words, or in others.

What Anthropic refuses of features in beta, and what other platforms refuse of all of them.

Sources: `contextkit/providers/notices.py` for headers, `anthropic.types` 2.11 (compaction_*_error_details.py,
thread_unsupported_request_error_details.py, beta/message_create_params.py), context editing, compaction and platform
docs.

What Anthropic refuses in a `/v1/messages` body of the right shape.

Sources: platform.claude.com/docs/en/ build-with-claude/prompt-caching (markers, pre-warming), api/errors (prefill),
agents-and-tools/ tool-use/define-tools (forced choice), api/migration-2026-10-21 (version),
build-with-claude/mid-conversation-system-messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from contextkit.canonical import Json, canonical
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.anthropic import shapes as anthropic
from contextkit.providers.anthropic.blocks import thinking_in
from contextkit.providers.anthropic.messages import without
from contextkit.providers.anthropic.shapes import (
    NEW_VERSION,
    VERSIONS,
    authenticated,
    blocks,
    counted,
    counted_abroad,
    created,
    invalid,
    options,
    placed,
    posted,
    tool_names,
    versioned,
)
from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.providers.notices import BINDING, BLOCKS, MESSAGE_FIELDS, lacking
from contextkit.providers.tool_choice import named
from contextkit.providers.validation import (
    ARRAY,
    OBJECT,
    WHOLE,
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
)

MCP_CLIENT = "mcp-client-2026-09-15"
"""Beta header that a toolset defined in a message needs besides."""
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_SPOKEN = frozenset({"text", *_CHANGES})
"""Types of blocks a system message between turns may hold."""
_BLOCK = frozenset({"type", "tool", "cache_control"})
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tool_reference": ("name",),
    "mcp_tool_reference": ("server_name", "name"),
    "mcp_toolset_reference": ("server_name",),
}
"""Type of a reference → its fields, every one required."""
_MOST_TOOLS, _MOST_BYTES = 10_000, 4_194_304
"""Most that may be defined behind the first user message."""


@dataclass(slots=True)
class _Known:
    """What is defined up to one place of a conversation."""

    kinds: dict[str, str]
    """Name of a tool → its type without a date; "custom" for functions."""
    servers: set[str]
    """MCP servers whose toolset is there."""
    defined: dict[str, int] = field(default_factory=dict)
    """Name of a tool defined in a message → bytes of its definition."""


def tool_changes(received: ReceivedRequest) -> Iterator[Refusal]:
    """A system message holds text and changes; a change needs its beta header, and stands for a tool there is."""
    betas = {name.strip() for name in str(received.headers.get("anthropic-beta", "")).split(",")}
    known = _declared(received.body)
    for at in anthropic.placed(received.body):
        kind = at.block.get("type")
        if at.role == "system" and kind not in _SPOKEN:
            yield anthropic.invalid(f"{at.path}: `{kind}` blocks are not permitted in `system` messages")
        elif kind in _CHANGES:
            yield from _changed(at, known, betas)


def tool_changes_in_turns(received: ReceivedRequest) -> Iterator[Refusal]:
    """No change stands in a message that is cleared, nor behind a paused turn."""
    before: Mapping[str, Json] = {}
    for index, message in enumerate(received.body["messages"]):
        if not isinstance(message, dict):
            return  # the parser says what it should be
        if message.get("role") == "system" and _has_changes(message):
            if message.get("clear_at") == "next_user_message":
                said = "a turn-scoped system message supports text blocks only (clear_at: 'next_user_message')"
                yield anthropic.invalid(f"messages.{index}: {said}")
            elif _is_paused(before):
                yield anthropic.invalid(
                    f"messages.{index}: tool changes are not permitted immediately after a paused `assistant` turn"
                )
        elif message.get("role") != "system":
            before = message


def _is_paused(message: Mapping[str, Json]) -> bool:
    content = message.get("content")
    last = content[-1] if message.get("role") == "assistant" and isinstance(content, list) and content else {}
    return str(last.get("type")).endswith("_tool_result")


def _has_changes(message: Mapping[str, Json]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _CHANGES for block in content
    )


def _declared(body: Mapping[str, Json]) -> _Known:
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    kinds = {str(tool["name"]): _kind(tool) for tool in tools if isinstance(tool.get("name"), str)}
    return _Known(kinds, {str(tool["mcp_server_name"]) for tool in tools if tool.get("mcp_server_name")})


def _kind(tool: Mapping[str, Json]) -> str:
    """Type of a tool without its date: a newer version is no other type."""
    return str(tool.get("type") or "custom").rsplit("_20", 1)[0]


def _changed(at: anthropic.Placed, known: _Known, betas: set[str]) -> Iterator[Refusal]:
    tool = at.block["tool"]
    kind = str(tool.get("type"))
    if not betas & {TOOL_CHANGES, INLINE_TOOLS}:
        yield anthropic.invalid(f"{at.path}: `{at.block['type']}` blocks require the beta header {TOOL_CHANGES}")
    elif unknown := sorted(set(at.block) - _BLOCK):
        yield anthropic.invalid(f"{at.path}.{unknown[0]}: Extra inputs are not permitted")
    elif kind in _FIELDS:
        yield from _referred(at, _FIELDS[kind], known)
    elif kind == "tool_definition" and at.block["type"] == "tool_addition":
        yield from _inline(at, known, betas)
    else:
        yield anthropic.invalid(f"{at.path}.tool: Input tag found using 'type' does not match any of the expected tags")


def _referred(at: anthropic.Placed, fields: tuple[str, ...], known: _Known) -> Iterator[Refusal]:
    tool = at.block["tool"]
    if missing := [name for name in fields if not isinstance(tool.get(name), str)]:
        yield anthropic.invalid(f"{at.path}.tool.{missing[0]}: Field required")
    elif unknown := sorted(set(tool) - {"type", *fields}):
        yield anthropic.invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif tool["type"] == "tool_reference" and tool["name"] not in known.kinds:
        said = f"{at.path}.tool: tool_reference_unresolved: no tool named '{tool['name']}' is defined here"
        yield _coded(said, "tool_reference_unresolved")
    elif "server_name" in tool and tool["server_name"] not in known.servers:
        said = f"{at.path}.tool: tool_reference_unresolved: no MCP toolset of a server named '{tool['server_name']}' is defined here"
        yield _coded(said, "tool_reference_unresolved")


def _inline(at: anthropic.Placed, known: _Known, betas: set[str]) -> Iterator[Refusal]:
    """A definition of the shape a `tools` entry has."""
    tool, definition = at.block["tool"], at.block["tool"].get("definition")
    if INLINE_TOOLS not in betas:
        yield anthropic.invalid(f"{at.path}.tool: a `tool_definition` requires the beta header {INLINE_TOOLS}")
    elif unknown := sorted(set(tool) - {"type", "definition"}):
        yield anthropic.invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif definition is None:
        yield anthropic.invalid(f"{at.path}.tool.definition: Field required")
    elif not isinstance(definition, dict):
        yield anthropic.invalid(f"{at.path}.tool.definition: Input should be an object")
    else:
        yield from anthropic.shape_of_tool(anthropic.Placed(f"{at.path}.tool.definition", "", definition))
        yield from _marked(at, definition)
        yield from _defined(at, definition, known, betas)


def _marked(at: anthropic.Placed, definition: Mapping[str, Json]) -> Iterator[Refusal]:
    is_marked = definition.get("cache_control") is not None
    if is_marked and at.block.get("cache_control") is not None:
        yield anthropic.invalid(f"{at.path}: cache_control goes on the block or in the definition, not both")
    elif is_marked and definition.get("defer_loading"):
        yield anthropic.invalid(f"{at.path}.tool.definition.cache_control: a deferred tool cannot have cache_control")


def _defined(at: anthropic.Placed, definition: Mapping[str, Json], known: _Known, betas: set[str]) -> Iterator[Refusal]:
    """From here on the tool is there, unless its name is that of a tool of another type."""
    kind, name = _kind(definition), definition.get("name")
    if kind == "mcp_toolset":
        if MCP_CLIENT not in betas:
            yield anthropic.invalid(
                f"{at.path}.tool.definition: an `mcp_toolset` requires the beta header {MCP_CLIENT}"
            )
        known.servers.add(str(definition.get("mcp_server_name")))
    elif kind.endswith("_toolset") and name is None:
        known.kinds.setdefault(kind, kind)  # beta_browser_toolset_20260801_param.py: a toolset has no name of its own
    elif not isinstance(name, str):
        yield anthropic.invalid(f"{at.path}.tool.definition.name: Field required")
    elif known.kinds.setdefault(name, kind) != kind:
        said = f"{at.path}.tool: tool_name_conflict: '{name}' is the name of a tool of another type"
        yield _coded(said, "tool_name_conflict")
    else:
        known.defined[name] = len(canonical(definition))
        if len(known.defined) > _MOST_TOOLS or sum(known.defined.values()) > _MOST_BYTES:
            said = f"{at.path}.tool: available_tools_limit_exceeded: more than {_MOST_TOOLS:,} tools or {_MOST_BYTES:,} bytes"
            yield _coded(said, "available_tools_limit_exceeded")


def _coded(message: str, code: str) -> Refusal:
    return replace(anthropic.invalid(message), code=code)


_CLAUDE_API = ("diagnostics", "inference_geo", "mcp_servers", "container", "thread", "fallbacks", "speed")
_NOT_THERE: Mapping[str, tuple[str, ...]] = {
    "Amazon Bedrock": ("cache_control", "compaction", *_CLAUDE_API),
    "Google Cloud": _CLAUDE_API,
}
"""Platform → fields it does not take. The marker is what the prompt-caching docs say of InvokeModel, compaction what
its own page says, diagnostics are the Claude API's alone; the rest is read from the feature pages' lists of platforms
and not certain."""
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "Amazon Bedrock": ("bedrock-2023-05-31", *VERSIONS),
    "Google Cloud": ("vertex-2023-10-16", *VERSIONS),
}
_EARLIER = ("-opus-4-6", "-opus-4-5", "-sonnet-4-6", "-sonnet-4-5", "-haiku-4-5")
"""Models from before Claude 4.7, to which Bedrock refuses the newest version (versioning docs)."""
_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112")
_LEAST_COMPACTED = 50_000


def opted_in(received: ReceivedRequest) -> Iterator[Refusal]:
    """What is in beta comes with its header."""
    given = _betas(received)
    for row in lacking(received.body, given):
        yield _unopened(row.field, row.headers)
    for at in placed(received.body):
        headers = BLOCKS.get(str(at.block.get("type")), ())
        if headers and not given & set(headers):
            yield _unopened(at.path, headers)
    for index, message in enumerate(received.body["messages"]):
        for name, header in MESSAGE_FIELDS.items() if isinstance(message, dict) else ():
            if message.get(name) is not None and header not in given:
                yield _unopened(f"messages.{index}.{name}", (header,))


def _unopened(place: str, headers: tuple[str, ...]) -> Refusal:
    return invalid(f"{place}: Extra inputs are not permitted without the beta header {headers[0]}")


def _betas(received: ReceivedRequest) -> set[str]:
    return {name.strip() for name in str(received.headers.get("anthropic-beta", "")).split(",")}


def edits(received: ReceivedRequest) -> Iterator[Refusal]:
    """Edits that are known, thinking first, each with a trigger that is one."""
    listed = (received.body.get("context_management") or {}).get("edits") or []
    if not ARRAY.holds(listed) or not all(map(OBJECT.holds, listed)):
        yield invalid("context_management.edits: Input should be a valid array of objects")
    kinds = [edit.get("type") for edit in listed]
    for index, (kind, edit) in enumerate(zip(kinds, listed, strict=True)):
        place = f"context_management.edits.{index}"
        if kind not in _EDITS:
            yield invalid(f"{place}: Input tag found using 'type' does not match any of the expected tags")
        for name in ("trigger", "keep", "clear_at_least"):
            yield from _measured(f"{place}.{name}", edit.get(name))
        trigger = edit.get("trigger") or {}
        if kind == "clear_thinking_20251015" and index:
            yield invalid(f"{place}: `clear_thinking_20251015` must be the first edit")
        if kind == "compact_20260112" and trigger.get("value", _LEAST_COMPACTED) < _LEAST_COMPACTED:
            yield invalid(f"{place}.trigger.value: Input should be greater than or equal to {_LEAST_COMPACTED}")
    if len(set(kinds)) < len(kinds):
        yield invalid("context_management.edits: each type of edit may be given once")


def _measured(place: str, value: Json) -> Iterator[Refusal]:
    if value is not None and value != "all" and not OBJECT.holds(value):
        yield invalid(f"{place}: Input should be an object")
    elif OBJECT.holds(value) and value.get("type") != "all" and not WHOLE.holds(value.get("value")):
        yield invalid(f"{place}.value: Input should be a valid integer")


def compactions(received: ReceivedRequest) -> Iterator[Refusal]:
    """A signed compaction stands first, and alone; a request for one edits nothing."""
    if received.body.get("compaction") is not None and received.body.get("context_management") is not None:
        yield invalid("compaction: cannot be combined with context_management")
    signed = [
        at.path
        for at in placed(received.body)
        if at.block.get("type") == "compaction" and at.block.get("signature") is not None
    ]
    if len(signed) > 1:
        yield _anthropic_betas_coded(
            f"{signed[1]}: more than one signed `compaction` block", "compaction_block_ambiguous"
        )
    if signed and signed[0] != "messages.0.content.0":
        yield _anthropic_betas_coded(
            f"{signed[0]}: a signed `compaction` block must come first in `messages`", "compaction_block_misplaced"
        )


def threadless(received: ReceivedRequest) -> Iterator[Refusal]:
    """Threads are held by Anthropic, not by this server."""
    if received.body.get("thread") is not None:
        yield _anthropic_betas_coded(
            "thread: this server holds no threads. Send the full conversation without `thread`",
            "thread_unsupported_request",
        )


def _anthropic_betas_coded(message: str, code: str) -> Refusal:
    return replace(invalid(message), code=code)


def platform(name: str) -> RequestCheck:
    """What one platform refuses of what the Claude API takes."""

    def check(received: ReceivedRequest) -> Iterator[Refusal]:
        version = received.body.get("anthropic_version", received.headers.get("anthropic-version"))
        if version not in _VERSIONS[name]:
            yield invalid(
                "anthropic_version: Field required" if version is None else "anthropic_version: not a valid version"
            )
        if name == "Amazon Bedrock" and version == NEW_VERSION and str(received.body.get("model")).endswith(_EARLIER):
            yield invalid(f"anthropic_version: {NEW_VERSION} needs Claude 4.7 or later on {name}")
        yield from (
            invalid(f"{field}: not supported on {name}")
            for field in _NOT_THERE[name]
            if received.body.get(field) is not None
        )

    return check


def dropped(request: ParsedRequest, ordinals: tuple[int, ...]) -> ParsedRequest | None:
    """The request without thinking that no longer holds, where it asks for that; None where it does not."""
    binding = (request.received.body.get("thinking") or {}).get("block_binding") or {}
    if binding.get("prefix_mismatch_behavior") != "drop_block":
        return None
    layout = request.parsed.layout
    places = thinking_in(layout.columns, layout.n)
    return replace(request, parsed=without(request.parsed, [places[ordinal] for ordinal in ordinals]), dropped=ordinals)


def transformations(request: ParsedRequest) -> dict[str, Json]:
    """`input_transformations`, for whoever has opted in."""
    if BINDING not in _betas(request.received):
        return {}
    paths = [
        at.path
        for at in placed(request.received.body)
        if at.role == "assistant" and str(at.block["type"]).endswith("thinking")
    ]
    rows = (
        {"type": "thinking_dropped", "path": paths[each], "reason": "prefix_binding_mismatch"}
        for each in request.dropped
    )
    return {"input_transformations": list(rows)}


MOST_MARKS = 4
_TTLS = {300: "5m", 3600: "1h"}
_FORCING = frozenset({"any", "tool"})


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Neighbouring messages of one role, which the API merges."""

    index: int
    """The first of them."""
    role: str
    """Who speaks."""
    blocks: list[Mapping[str, Json]]
    """What is said."""

    def ids(self, kind: str, field: str) -> list[str]:
        """Ids of its blocks of one type."""
        return [block[field] for block in self.blocks if block["type"] == kind]


def _turns(body: Mapping[str, Json]) -> list[_Spoken]:
    turns: list[_Spoken] = []
    for index, message in enumerate(body["messages"]):
        content = message["content"]
        said = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if turns and turns[-1].role == message["role"]:
            turns[-1].blocks.extend(said)
        else:
            turns.append(_Spoken(index, message["role"], list(said)))
    return turns


def _option(body: Mapping[str, Json], *path: str) -> Json:
    value: Json = body
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_thinking(body: Mapping[str, Json]) -> bool:
    return bool(_option(body, "thinking", "type") == "enabled")


def new_version(received: ReceivedRequest) -> Iterator[Refusal]:
    """Sampling parameters the newest version no longer takes."""
    for name in ("temperature", "top_p", "top_k") if received.headers.get("anthropic-version") == NEW_VERSION else ():
        if received.body.get(name) is not None:
            yield invalid(f"{name}: not supported with anthropic-version {NEW_VERSION}")


def prewarming(received: ReceivedRequest) -> Iterator[Refusal]:
    """`max_tokens: 0` fills the cache; what only a generation needs conflicts with it."""
    tokens = received.body.get("max_tokens", 1)
    if tokens < 0:
        yield invalid("max_tokens: Input should be greater than or equal to 0")
    conflicts = (
        ("stream", received.body.get("stream") is True),
        ("thinking", _is_thinking(received.body)),
        ("output_config.format", _option(received.body, "output_config", "format") is not None),
        ("tool_choice", _option(received.body, "tool_choice", "type") in _FORCING),
    )
    yield from (
        invalid(f"max_tokens: 0 cannot be combined with {name}") for name, holds in conflicts if tokens == 0 and holds
    )


def thinking(received: ReceivedRequest) -> Iterator[Refusal]:
    """A budget that fits, and no forced tool beside manual thinking."""
    budget = _option(received.body, "thinking", "budget_tokens")
    if _is_thinking(received.body):
        if not isinstance(budget, int) or budget < 1024:
            yield invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        elif received.body.get("max_tokens", budget + 1) <= budget:
            yield invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if _option(received.body, "tool_choice", "type") in _FORCING:
            yield invalid("Thinking may not be enabled when tool_choice forces tool use.")


def forced(request: ParsedRequest) -> Iterator[Refusal]:
    """`tool_choice` any or tool, where the model takes it and there is a tool."""
    choice = _option(request.received.body, "tool_choice", "type")
    if choice in _FORCING and not request.model.accepts_forced_choice:
        yield invalid(f'tool_choice: "{choice}" is not supported by this model; use "auto" or "none"')
    if choice in _FORCING and not request.received.body.get("tools"):
        yield invalid("tool_choice: may only be specified while providing tools.")


def conversation(request: ParsedRequest) -> Iterator[Refusal]:
    """Who speaks when, and who answers whom."""
    turns = _turns(request.received.body)
    for check in (_order, _answered, _unique_calls, _prefill):
        yield from check(request, turns)


def _order(request: ParsedRequest, turns: list[_Spoken]) -> Iterator[Refusal]:
    """Who may speak when."""
    if turns[0].role != "user" and [block["type"] for block in turns[0].blocks[:1]] != ["compaction"]:
        yield invalid('messages: first message must use the "user" role')
    for at, turn in enumerate(turns):
        if turn.role == "system" and at:
            yield from _mid_system(request, turns[at - 1], turn, turns[at + 1 :])


def _mid_system(request: ParsedRequest, before: _Spoken, system: _Spoken, after: list[_Spoken]) -> Iterator[Refusal]:
    if not request.model.accepts_mid_system:
        yield invalid(f"messages.{system.index}.role: `system` messages are not supported by this model")
    ends_in_result = (
        before.role == "assistant" and before.blocks and str(before.blocks[-1]["type"]).endswith("_tool_result")
    )
    if before.role != "user" and not ends_in_result:
        yield invalid(f"messages.{system.index}: a `system` message must follow a `user` message")
    if after and after[0].role != "assistant":
        yield invalid(
            f"messages.{system.index}: a `system` message must be last or be followed by an `assistant` message"
        )


def _answered(request: ParsedRequest, spoken: list[_Spoken]) -> Iterator[Refusal]:
    """Each call has its result in the next turn, and each result its call in the turn before."""
    turns = [turn for turn in spoken if turn.role != "system"]
    edges = _Spoken(0, "", []), _Spoken(len(request.received.body["messages"]), "user", [])
    for before, turn in pairwise([edges[0], *turns, edges[1]]):
        uses, results = before.ids("tool_use", "id"), turn.ids("tool_result", "tool_use_id")
        open_ids = [use for use in uses if use not in results]
        orphans = [result for result in results if result not in uses]
        if open_ids:
            yield invalid(
                f"messages.{before.index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(open_ids)}. "
                "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            )
        if orphans:
            yield invalid(
                f"messages.{turn.index}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(orphans)}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )


def _unique_calls(request: ParsedRequest, turns: list[_Spoken]) -> Iterator[Refusal]:
    """No id twice in a turn."""
    for turn in turns:
        for kind, name in (("tool_use", "id"), ("tool_result", "tool_use_id")):
            ids = turn.ids(kind, name)
            if len(set(ids)) < len(ids):
                yield invalid(f"messages.{turn.index}: `{kind}` ids must be unique")


def _prefill(request: ParsedRequest, turns: list[_Spoken]) -> Iterator[Refusal]:
    """Words put into the model's mouth; a paused turn goes on, and one that is only compacted says nothing more."""
    if request.received.body.get("compaction") is not None:
        return
    last = turns[-1]
    ends_in_text = (
        last.role == "assistant" and (not last.blocks or last.blocks[-1]["type"] == "text") and not request.continues
    )
    if ends_in_text and not request.model.accepts_prefill:
        yield invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    if ends_in_text and _is_thinking(request.received.body):
        yield invalid("When thinking is enabled, the conversation must end with a user message.")


def marks(request: ParsedRequest) -> Iterator[Refusal]:
    """At most four, longer lifetimes first."""
    explicit = request.parsed.layout.breakpoints
    if len(explicit) > MOST_MARKS:
        yield invalid(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {len(explicit)}.")
    rising = [
        later
        for earlier, later in pairwise(request.parsed.prompt.breakpoints)
        if later.ttl_seconds > earlier.ttl_seconds
    ]
    if rising:
        yield invalid(
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def automatic(request: ParsedRequest) -> Iterator[Refusal]:
    """A top-level marker that would be a fifth, or contradict the one that is there."""
    marker, layout = request.received.body.get("cache_control"), request.parsed.layout
    place = _last_markable(layout)
    if marker is None or place is None:
        return
    own = next((mark for mark in layout.breakpoints if mark.segment == place), None)
    if own and _TTLS[own.ttl_seconds] != marker.get("ttl", "5m"):
        yield invalid("cache_control: the last block already has a cache_control with another ttl")
    if not own and len(layout.breakpoints) >= MOST_MARKS:
        yield invalid(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {MOST_MARKS + 1}.")


def _last_markable(layout: PromptLayout) -> int | None:
    return next((index for index in range(layout.n - 1, -1, -1) if layout.columns.breakpoint_offsets[index] >= 0), None)


def window(request: ParsedRequest) -> Iterator[Refusal]:
    """A prompt that fits."""
    if request.parsed.prompt.n_tokens > request.model.window_tokens:
        yield invalid(
            f"prompt is too long: {request.parsed.prompt.n_tokens} tokens > {request.model.window_tokens} maximum"
        )


def moved(body: Mapping[str, Json], ordinal: int) -> Refusal:
    """Thinking block number `ordinal` no longer stands behind the conversation it was made from."""
    paths = [
        at.path
        for at in placed(body)
        if at.role == "assistant" and at.block.get("type") in ("thinking", "redacted_thinking")
    ]
    return invalid(
        f"{paths[ordinal]}: `thinking` blocks are bound to the conversation before them, and what stands before this one (system, tools, "
        "messages) has changed since it was generated. Send the earlier conversation unchanged, or remove thinking blocks oldest first."
    )


_SAID: tuple[RequestCheck, ...] = (
    options,
    blocks,
    tool_names,
    tool_changes,
    tool_changes_in_turns,
    opted_in,
    named,
    edits,
    compactions,
    new_version,
)
REQUEST_CHECKS: tuple[RequestCheck, ...] = (authenticated, versioned, created, threadless, *_SAID, prewarming, thinking)
ABROAD: Mapping[str, tuple[RequestCheck, ...]] = {
    name: (authenticated, platform(name), posted, threadless, *_SAID, prewarming, thinking)
    for name in ("Amazon Bedrock", "Google Cloud")
}
"""On platforms where the version stands in the body, and the model in the path."""
PROMPT_CHECKS: tuple[PromptCheck, ...] = (conversation, forced, marks, automatic, window)
COUNT_CHECKS: tuple[RequestCheck, ...] = (authenticated, versioned, counted, *_SAID, thinking)
COUNT_CHECKS_ABROAD: tuple[RequestCheck, ...] = (
    authenticated,
    platform("Google Cloud"),
    counted_abroad,
    *_SAID,
    thinking,
)
"""For `/v1/messages/count_tokens`; its late checks are the same."""
