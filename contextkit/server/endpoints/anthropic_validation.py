"""What Anthropic refuses of a `/v1/messages` body.

Shapes are those of the SDK's own types (`anthropic.types.beta`: message_create_params.py and the params they name). Written by hand
is what no type says; sources, under platform.claude.com/docs/en/: api/versioning, api/errors (prefill),
api/migration-2026-10-21, build-with-claude/prompt-caching (markers, pre-warming), build-with-claude/context-editing and
compaction, build-with-claude/mid-conversation-system-messages, agents-and-tools/tool-use/define-tools (forced choice);
`contextkit/providers/notices.py` for beta headers; `anthropic.types` 2.11, *_error_details.py, for codes of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from contextkit.canonical import Json, canonical
from contextkit.facts.load import betas_for, may_use, unknown_betas
from contextkit.providers.anthropic.blocks import thinking_in
from contextkit.providers.anthropic.body import api_path
from contextkit.providers.anthropic.messages import without
from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.providers.notices import BINDING, BLOCKS, MESSAGE_FIELDS, lacking
from contextkit.server.endpoints.notices import Notice
from contextkit.server.endpoints.sdk_types import Mismatch, Rules, SdkType
from contextkit.server.endpoints.validation import (
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    require_key,
)
from contextkit.terminal import printable


def invalid(message: str, code: str | None = None) -> Refusal:
    """A 400 in Anthropic's words."""
    return Refusal(400, "invalid_request_error", message, code=code)


class Placed(NamedTuple):
    """One block of a body; a tuple, since a long conversation has thousands in every request."""

    path: str
    """Where it stands, in the API's notation."""
    role: str
    """Role of its message, `""` in tools and system."""
    block: Mapping[str, Json]
    """The block itself."""


def placed(body: Mapping[str, Json]) -> Iterator[Placed]:
    """Every tool, block, and block inside a tool result, in render order; whatever is not an object is skipped."""
    yield from _objects(body.get("tools"), "tools", "")
    yield from _objects(body.get("system"), "system", "")
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            yield from _objects(message.get("content"), f"messages.{index}.content", str(message.get("role")))


def _objects(blocks: Json, path: str, role: str) -> Iterator[Placed]:
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict):
            yield Placed(f"{path}.{index}", role, block)
            if block.get("type") == "tool_result":
                yield from _objects(block.get("content"), f"{path}.{index}.content", "")


def blocks_of(body: Mapping[str, Json], *kinds: str) -> Iterator[Placed]:
    """Blocks of the messages that are of one of these types; the body has the right shape."""
    for index, message in enumerate(body["messages"]):
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else ()):
            if block["type"] in kinds:
                yield Placed(f"messages.{index}.content.{place}", message["role"], block)


# Headers
# -------------------------------------------------------------------------------------------------------------------

_MAX_BETAS = 20
"""Unknown beta names of one request that are named: they come from whoever sends it."""
NEW_VERSION = "2026-10-21"
VERSIONS = ("2023-06-01", NEW_VERSION)
"""Values of `anthropic-version` (https://platform.claude.com/docs/en/api/versioning)."""


authenticated = require_key(
    Refusal(401, "authentication_error", "x-api-key header is required"), "x-api-key", "authorization", "api-key"
)


def versioned(received: ReceivedRequest) -> Iterator[Refusal]:
    """A version this server knows."""
    version = received.headers.get("anthropic-version")
    if version is None:
        yield invalid("anthropic-version: header is required")
    elif version not in VERSIONS:
        yield invalid("anthropic-version: not a valid version")


def betas_of(headers: Mapping[str, str]) -> set[str]:
    """The names of the header `anthropic-beta`."""
    return {name.strip() for name in headers.get("anthropic-beta", "").split(",")} - {""}


def unknown_beta_notices(headers: Mapping[str, str]) -> tuple[Notice, ...]:
    """A notice for each beta name that `facts/betas.toml` does not have."""
    names = map(printable, unknown_betas(betas_of(headers))[:_MAX_BETAS])
    return tuple(
        Notice(
            "unknown_beta",
            "anthropic_messages",
            name,
            f"beta {name!r} is not known: accepted, and no field beside it is refused for want of a beta",
        )
        for name in names
    )


# Shapes
# -------------------------------------------------------------------------------------------------------------------


def _create_type() -> Any:
    from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming

    # SDKs from 2.13 on leave the sampling fields out; the API takes them with every version before NEW_VERSION.
    class CreateParams(MessageCreateParamsNonStreaming, total=False):
        temperature: float
        top_k: int
        top_p: float

    return CreateParams


def _count_type() -> Any:
    from anthropic.types.beta.message_count_tokens_params import MessageCountTokensParams

    return MessageCountTokensParams


def _on_platform(load: Callable[[], Any]) -> Any:
    """The same where a platform's client has put the version and the betas into the body (anthropic/lib/vertex)."""
    declared: Any = load()

    class PlatformParams(declared, total=False):  # type: ignore[misc, call-arg]
        anthropic_version: str
        anthropic_beta: list[str]

    return PlatformParams


_RULES = Rules(
    closed=frozenset({"type", "role", "ttl", "speed", "service_tier", "effort", "display", "keep"}),
    open_unions=frozenset({"tools", "definition"}),
)
CREATE_TYPE = SdkType(_create_type, _RULES)
"""The body of `POST /v1/messages`."""
COUNT_TYPE = SdkType(_count_type, _RULES)
"""The body of `POST /v1/messages/count_tokens`."""
PLATFORM_CREATE_TYPE = SdkType(partial(_on_platform, _create_type), _RULES)
"""The body of a message on Amazon Bedrock and Google Cloud."""
PLATFORM_COUNT_TYPE = SdkType(partial(_on_platform, _count_type), _RULES)
"""The body of a count on Google Cloud."""
_CHOSEN_BY_TYPE = ("tool_choice", "thinking")
"""Fields whose `type` is a choice among words, and no tag of a block."""
_WORDS = {"a valid object": "an object", "a valid list": "a valid array", " or a valid ": " or "}
"""Terms of a mismatch → Anthropic's."""


def shape(declared: SdkType) -> RequestCheck:
    """Every field, message, block and tool has the shape that the SDK declares."""

    def check(received: ReceivedRequest) -> Iterator[Refusal]:
        body = received.body
        for mismatch in declared.mismatches(body):
            yield _refusal(mismatch, body)
        for name in body:
            if received.is_strict and name not in declared:
                yield invalid(f"{name}: Extra inputs are not permitted")
        if body["messages"] == []:
            yield invalid("messages: at least one message is required")

    return check


def _refusal(mismatch: Mismatch, body: Mapping[str, Json]) -> Refusal:
    """A mismatch in Anthropic's words."""
    path = api_path(mismatch.path)
    union, _, name = path.rpartition(".")
    if mismatch.kind == "value" and name == "type" and union not in _CHOSEN_BY_TYPE:
        return invalid(f"{union}: Input tag found using 'type' does not match any of the expected tags")
    if mismatch.kind == "missing" or _value_at(body, path) is None:
        return invalid(f"{path}: Field required")
    expected = mismatch.expected
    for term, word in _WORDS.items():
        expected = expected.replace(term, word)
    return invalid(f"{path}: Input should be {expected}")


def _value_at(value: Json, path: str) -> Json:
    for step in path.split("."):
        if isinstance(value, list):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value.get(step)
    return value


# Blocks
# -------------------------------------------------------------------------------------------------------------------

_ROLES = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "tool_addition": "system",
    "tool_removal": "system",
}
"""Type of block → the only role whose messages may hold it."""
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_SYSTEM_BLOCKS = frozenset({"text", *_CHANGES})
"""Types of blocks a system message between turns may hold."""
_THINKING = ("thinking", "redacted_thinking")  # a tuple: a type may be anything, also what has no hash


def blocks(received: ReceivedRequest) -> Iterator[Refusal]:
    """Rules of each block that do not depend on its other fields: its marker, role and version."""
    is_new = received.headers.get("anthropic-version") == NEW_VERSION
    betas = betas_of(received.headers)
    for at in placed(received.body):
        kind = at.block.get("type")
        if at.block.get("cache_control") is not None:
            yield from _marker(at, betas)
        if not isinstance(kind, str):
            continue
        if at.role and at.role != _ROLES.get(kind, at.role):
            yield invalid(f"{at.path}: `{kind}` blocks can only be in `{_ROLES[kind]}` messages")
        elif at.role == "system" and kind not in _SYSTEM_BLOCKS:
            yield invalid(f"{at.path}: `{kind}` blocks are not permitted in `system` messages")
        if is_new:
            yield from _outdated(at)
    if received.body.get("cache_control") is not None:
        yield from _marker(Placed("", "", received.body), betas)


def _marker(at: Placed, betas: set[str]) -> Iterator[Refusal]:
    path, marker = f"{at.path}.cache_control".lstrip("."), at.block["cache_control"]
    if at.block.get("type") in _THINKING:
        yield invalid(f"{path}: Extra inputs are not permitted")
    elif not isinstance(marker, dict) or marker.get("type") != "ephemeral":
        yield invalid(f"{path}.type: Input should be 'ephemeral'")
    elif marker.get("ttl", "5m") not in ("5m", "1h"):
        yield invalid(f"{path}.ttl: Input should be '5m' or '1h'")
    elif marker.keys() - {"type", "ttl", "scope"}:
        yield invalid(f"{path}: Extra inputs are not permitted")
    elif "scope" in marker and not may_use(betas, betas_for("cache_control.scope")):
        yield _needs_header(f"{path}.scope", betas_for("cache_control.scope"))
    elif at.block.get("text") == "":
        yield invalid(f"{at.path}.text: cache_control cannot be set for empty text blocks")


def _outdated(at: Placed) -> Iterator[Refusal]:
    """Blocks that the newest version no longer takes: documents of the assistant, citations of the user."""
    kind, inside = at.block.get("type"), at.block.get("content")
    if at.role == "assistant" and kind == "document":
        yield invalid(
            f"{at.path}: `document` blocks are not supported in assistant messages with anthropic-version {NEW_VERSION}"
        )
    blocks = [(at.path, at.block)] if at.role == "user" else []
    if blocks and kind == "search_result" and isinstance(inside, list):
        blocks += [(f"{at.path}.content", block) for block in inside]
    for path, block in blocks:
        if isinstance(block, dict) and block.get("citations") and block.get("type") == "text":
            yield invalid(f"{path}.citations: not supported in user messages with anthropic-version {NEW_VERSION}")


def new_version(received: ReceivedRequest) -> Iterator[Refusal]:
    """Sampling parameters that the newest version no longer takes."""
    for name in ("temperature", "top_p", "top_k") if received.headers.get("anthropic-version") == NEW_VERSION else ():
        if received.body.get(name) is not None:
            yield invalid(f"{name}: not supported with anthropic-version {NEW_VERSION}")


# Tools
# -------------------------------------------------------------------------------------------------------------------


def tool_names(received: ReceivedRequest) -> Iterator[Refusal]:
    """No two tools of one name."""
    names = [tool.get("name") for tool in received.body.get("tools") or []]
    names = [name for name in names if isinstance(name, str)]
    if len(set(names)) < len(names):
        yield invalid("tools: Tool names must be unique.")


_CHOICE_FIELDS = frozenset({"type", "disable_parallel_tool_use"})
_CHOICE_FIELDS_BY_TYPE = {"tool": _CHOICE_FIELDS | {"name"}, "none": frozenset({"type"})}
"""Type of `tool_choice` → its fields; `_CHOICE_FIELDS` for the others."""


def tool_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of type tool names a tool there is; the others name none."""
    choice = received.body.get("tool_choice") or {}
    kind, name = choice.get("type"), choice.get("name")
    names = [tool.get("name") for tool in received.body.get("tools") or ()]
    if kind == "tool" and names and name not in names:
        yield invalid(f"tool_choice.tool.name: Tool '{name}' not found in provided tools")
    unknown = sorted(set(choice) - _CHOICE_FIELDS_BY_TYPE.get(str(kind), _CHOICE_FIELDS))
    if kind is not None and unknown:
        yield invalid(f"tool_choice.{kind}.{unknown[0]}: Extra inputs are not permitted")


MCP_CLIENT = betas_for("inline mcp_toolset")[0]
"""Beta header that a toolset defined in a message needs besides."""
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
class _Declared:
    """What is defined up to one place of a conversation."""

    kinds: dict[str, str]
    """Name of a tool → its type without a date; "custom" for functions."""
    servers: set[str]
    """MCP servers whose toolset is there."""
    defined: dict[str, int] = field(default_factory=dict)
    """Name of a tool defined in a message → bytes of its definition."""


def tool_changes(received: ReceivedRequest) -> Iterator[Refusal]:
    """A tool change needs its beta header, and refers to a tool that is declared before it."""
    betas = betas_of(received.headers)
    tools = [tool for tool in received.body.get("tools") or () if isinstance(tool, dict)]
    declared = _Declared(
        {str(tool["name"]): _kind(tool) for tool in tools if isinstance(tool.get("name"), str)},
        {str(tool["mcp_server_name"]) for tool in tools if tool.get("mcp_server_name")},
    )
    for at in blocks_of(received.body, *_CHANGES):
        tool = at.block["tool"]
        kind = str(tool.get("type"))
        if not may_use(betas, betas_for("tool changes")):
            yield invalid(f"{at.path}: `{at.block['type']}` blocks require the beta header {TOOL_CHANGES}")
        elif unknown := sorted(set(at.block) - _BLOCK):
            yield invalid(f"{at.path}.{unknown[0]}: Extra inputs are not permitted")
        elif kind in _FIELDS:
            yield from _referred(at, _FIELDS[kind], declared)
        elif kind == "tool_definition" and at.block["type"] == "tool_addition":
            yield from _inline(at, declared, betas)
        else:
            yield invalid(f"{at.path}.tool: Input tag found using 'type' does not match any of the expected tags")


def tool_changes_in_turns(received: ReceivedRequest) -> Iterator[Refusal]:
    """No change stands in a message that is cleared, nor behind a paused turn."""
    is_paused = False
    for index, message in enumerate(received.body["messages"]):
        content = message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        if message.get("role") != "system":
            ends_in_result = bool(blocks) and str(blocks[-1].get("type")).endswith("_tool_result")
            is_paused = message.get("role") == "assistant" and ends_in_result
        elif not any(block.get("type") in _CHANGES for block in blocks):
            continue
        elif message.get("clear_at") == "next_user_message":
            yield invalid(
                f"messages.{index}: a turn-scoped system message supports text blocks only (clear_at: 'next_user_message')"
            )
        elif is_paused:
            yield invalid(
                f"messages.{index}: tool changes are not permitted immediately after a paused `assistant` turn"
            )


def _kind(tool: Mapping[str, Json]) -> str:
    """Type of a tool without its date: a newer version is no other type."""
    return str(tool.get("type") or "custom").rsplit("_20", 1)[0]


def _referred(at: Placed, fields: tuple[str, ...], declared: _Declared) -> Iterator[Refusal]:
    tool = at.block["tool"]
    if unknown := sorted(set(tool) - {"type", *fields}):
        yield invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif tool["type"] == "tool_reference" and tool["name"] not in declared.kinds:
        message = f"{at.path}.tool: tool_reference_unresolved: no tool named '{tool['name']}' is defined here"
        yield invalid(message, "tool_reference_unresolved")
    elif "server_name" in tool and tool["server_name"] not in declared.servers:
        message = f"{at.path}.tool: tool_reference_unresolved: no MCP toolset of a server named '{tool['server_name']}' is defined here"
        yield invalid(message, "tool_reference_unresolved")


def _inline(at: Placed, declared: _Declared, betas: set[str]) -> Iterator[Refusal]:
    """A definition of the shape a `tools` entry has."""
    tool, definition = at.block["tool"], at.block["tool"].get("definition")
    if not may_use(betas, (INLINE_TOOLS,)):
        yield invalid(f"{at.path}.tool: a `tool_definition` requires the beta header {INLINE_TOOLS}")
        return
    if unknown := sorted(set(tool) - {"type", "definition"}):
        yield invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
        return
    is_marked = definition.get("cache_control") is not None
    if is_marked and at.block.get("cache_control") is not None:
        yield invalid(f"{at.path}: cache_control goes on the block or in the definition, not both")
    elif is_marked and definition.get("defer_loading"):
        yield invalid(f"{at.path}.tool.definition.cache_control: a deferred tool cannot have cache_control")
    yield from _defined(at, definition, declared, betas)


def _defined(at: Placed, definition: Mapping[str, Json], declared: _Declared, betas: set[str]) -> Iterator[Refusal]:
    """From here on the tool is there, unless its name is that of a tool of another type."""
    kind, name = _kind(definition), definition.get("name")
    if kind == "mcp_toolset":
        if not may_use(betas, (MCP_CLIENT,)):
            yield invalid(f"{at.path}.tool.definition: an `mcp_toolset` requires the beta header {MCP_CLIENT}")
        declared.servers.add(str(definition.get("mcp_server_name")))
    elif kind.endswith("_toolset") and name is None:
        declared.kinds.setdefault(
            kind, kind
        )  # beta_browser_toolset_20260801_param.py: a toolset has no name of its own
    elif not isinstance(name, str):
        yield invalid(f"{at.path}.tool.definition.name: Field required")
    elif declared.kinds.setdefault(name, kind) != kind:
        message = f"{at.path}.tool: tool_name_conflict: '{name}' is the name of a tool of another type"
        yield invalid(message, "tool_name_conflict")
    else:
        declared.defined[name] = len(canonical(definition))
        if len(declared.defined) > _MOST_TOOLS or sum(declared.defined.values()) > _MOST_BYTES:
            message = f"{at.path}.tool: available_tools_limit_exceeded: more than {_MOST_TOOLS:,} tools or {_MOST_BYTES:,} bytes"
            yield invalid(message, "available_tools_limit_exceeded")


# Betas
# -------------------------------------------------------------------------------------------------------------------


def betas(received: ReceivedRequest) -> Iterator[Refusal]:
    """Fields, tools and blocks in beta come with their header."""
    opted_in = betas_of(received.headers)
    for row in lacking(received.body, opted_in):
        yield _needs_header(row.field, row.headers)
    tools = (Placed(f"tools.{index}", "", tool) for index, tool in enumerate(received.body.get("tools") or ()))
    for at in (*tools, *blocks_of(received.body, *BLOCKS)):
        headers = BLOCKS.get(str(at.block.get("type")), ())
        if headers and not may_use(opted_in, headers):
            yield _needs_header(at.path, headers)
    for index, message in enumerate(received.body["messages"]):
        for name in MESSAGE_FIELDS.keys() & message.keys():
            if message[name] is not None and not may_use(opted_in, MESSAGE_FIELDS[name]):
                yield _needs_header(f"messages.{index}.{name}", MESSAGE_FIELDS[name])


def _needs_header(place: str, headers: tuple[str, ...]) -> Refusal:
    return invalid(f"{place}: Extra inputs are not permitted without the beta header {headers[0]}")


def edits(received: ReceivedRequest) -> Iterator[Refusal]:
    """Edits that are known, thinking first, each with a trigger that is one."""
    listed = (received.body.get("context_management") or {}).get("edits") or []
    kinds = [edit.get("type") for edit in listed]
    for index, (kind, edit) in enumerate(zip(kinds, listed, strict=True)):
        place = f"context_management.edits.{index}"
        trigger = edit.get("trigger") or {}
        if kind == "clear_thinking_20251015" and index:
            yield invalid(f"{place}: `clear_thinking_20251015` must be the first edit")
        if kind == "compact_20260112" and trigger.get("value", _LEAST_COMPACTED) < _LEAST_COMPACTED:
            yield invalid(f"{place}.trigger.value: Input should be greater than or equal to {_LEAST_COMPACTED}")
    if len(set(kinds)) < len(kinds):
        yield invalid("context_management.edits: each type of edit may be given once")


def compactions(received: ReceivedRequest) -> Iterator[Refusal]:
    """A signed compaction stands first, and alone; a request for one edits nothing."""
    if received.body.get("compaction") is not None and received.body.get("context_management") is not None:
        yield invalid("compaction: cannot be combined with context_management")
    signed = [at.path for at in blocks_of(received.body, "compaction") if at.block.get("signature") is not None]
    if len(signed) > 1:
        yield invalid(f"{signed[1]}: more than one signed `compaction` block", "compaction_block_ambiguous")
    if signed and signed[0] != "messages.0.content.0":
        yield invalid(
            f"{signed[0]}: a signed `compaction` block must come first in `messages`", "compaction_block_misplaced"
        )


def threadless(received: ReceivedRequest) -> Iterator[Refusal]:
    """Threads are held by Anthropic, not by this server."""
    if received.body.get("thread") is not None:
        yield invalid(
            "thread: this server holds no threads. Send the full conversation without `thread`",
            "thread_unsupported_request",
        )


# Platforms
# -------------------------------------------------------------------------------------------------------------------

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


def platform(name: str) -> RequestCheck:
    """Make the check of what one platform refuses and the Claude API takes."""

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


# Thinking whose past has changed
# -------------------------------------------------------------------------------------------------------------------


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
    if BINDING not in betas_of(request.received.headers):
        return {}
    paths = [at.path for at in blocks_of(request.received.body, *_THINKING)]
    rows = (
        {"type": "thinking_dropped", "path": paths[each], "reason": "prefix_binding_mismatch"}
        for each in request.dropped
    )
    return {"input_transformations": list(rows)}


# Options and conversation
# -------------------------------------------------------------------------------------------------------------------

MOST_BREAKPOINTS = 4
_TTLS = {300: "5m", 3600: "1h"}
_FORCING = frozenset({"any", "tool"})


@dataclass(frozen=True, slots=True)
class _Turn:
    """Neighbouring messages of one role, which the API merges."""

    index: int
    """The first of them."""
    role: str
    """Their common role."""
    blocks: list[Mapping[str, Json]]
    """Their blocks."""

    def ids(self, kind: str, field: str) -> list[str]:
        """Ids of its blocks of one type."""
        return [block[field] for block in self.blocks if block["type"] == kind]


def _turns(body: Mapping[str, Json]) -> list[_Turn]:
    turns: list[_Turn] = []
    for index, message in enumerate(body["messages"]):
        content = message.get("content") or []  # a system message may have none
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if turns and turns[-1].role == message["role"]:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(_Turn(index, message["role"], list(blocks)))
    return turns


def _is_thinking(body: Mapping[str, Json]) -> bool:
    return bool(_value_at(body, "thinking.type") == "enabled")


def prewarming(received: ReceivedRequest) -> Iterator[Refusal]:
    """`max_tokens: 0` fills the cache; what only a generation needs conflicts with it."""
    tokens = received.body.get("max_tokens", 1)
    if tokens < 0:
        yield invalid("max_tokens: Input should be greater than or equal to 0")
    conflicts = (
        ("stream", received.body.get("stream") is True),
        ("thinking", _is_thinking(received.body)),
        ("output_config.format", _value_at(received.body, "output_config.format") is not None),
        ("tool_choice", _value_at(received.body, "tool_choice.type") in _FORCING),
    )
    yield from (
        invalid(f"max_tokens: 0 cannot be combined with {name}") for name, holds in conflicts if tokens == 0 and holds
    )


def thinking(received: ReceivedRequest) -> Iterator[Refusal]:
    """A budget that fits, and no forced tool beside manual thinking."""
    if _is_thinking(received.body):
        budget = received.body["thinking"].get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            yield invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        elif received.body.get("max_tokens", budget + 1) <= budget:
            yield invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if _value_at(received.body, "tool_choice.type") in _FORCING:
            yield invalid("Thinking may not be enabled when tool_choice forces tool use.")


def forced(request: ParsedRequest) -> Iterator[Refusal]:
    """`tool_choice` any or tool, where the model takes it and there is a tool."""
    choice = _value_at(request.received.body, "tool_choice.type")
    if choice in _FORCING and not request.model.accepts_forced_choice:
        yield invalid(f'tool_choice: "{choice}" is not supported by this model; use "auto" or "none"')
    if choice in _FORCING and not request.received.body.get("tools"):
        yield invalid("tool_choice: may only be specified while providing tools.")


def conversation(request: ParsedRequest) -> Iterator[Refusal]:
    """The order of roles, and a result for each call."""
    turns = _turns(request.received.body)
    for check in (_order, _calls_have_results, _unique_calls, _prefill):
        yield from check(request, turns)


def _order(request: ParsedRequest, turns: list[_Turn]) -> Iterator[Refusal]:
    """The first role, and where system messages may stand."""
    if turns[0].role != "user" and [block["type"] for block in turns[0].blocks[:1]] != ["compaction"]:
        yield invalid('messages: first message must use the "user" role')
    for before, turn, after in zip(turns, turns[1:], [*turns[2:], None], strict=False):
        if turn.role != "system":
            continue
        if not request.model.accepts_mid_system:
            yield invalid(f"messages.{turn.index}.role: `system` messages are not supported by this model")
        ends_in_result = before.blocks and str(before.blocks[-1]["type"]).endswith("_tool_result")
        if before.role != "user" and not (before.role == "assistant" and ends_in_result):
            yield invalid(f"messages.{turn.index}: a `system` message must follow a `user` message")
        if after and after.role != "assistant":
            yield invalid(
                f"messages.{turn.index}: a `system` message must be last or be followed by an `assistant` message"
            )


def _calls_have_results(request: ParsedRequest, turns: list[_Turn]) -> Iterator[Refusal]:
    """Each call has its result in the next turn, and each result its call in the turn before."""
    turns = [turn for turn in turns if turn.role != "system"]
    edges = _Turn(0, "", []), _Turn(len(request.received.body["messages"]), "user", [])
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


def _unique_calls(request: ParsedRequest, turns: list[_Turn]) -> Iterator[Refusal]:
    """No id twice in a turn."""
    for turn in turns:
        for kind, name in (("tool_use", "id"), ("tool_result", "tool_use_id")):
            ids = turn.ids(kind, name)
            if len(set(ids)) < len(ids):
                yield invalid(f"messages.{turn.index}: `{kind}` ids must be unique")


def _prefill(request: ParsedRequest, turns: list[_Turn]) -> Iterator[Refusal]:
    """A last assistant message with text; a paused turn may go on, and a request for a compaction gets no reply."""
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


def breakpoints(request: ParsedRequest) -> Iterator[Refusal]:
    """At most four, longer lifetimes first."""
    explicit = request.parsed.layout.breakpoints
    if len(explicit) > MOST_BREAKPOINTS:
        yield invalid(
            f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {len(explicit)}."
        )
    if any(later.ttl_seconds > earlier.ttl_seconds for earlier, later in pairwise(request.parsed.prompt.breakpoints)):
        yield invalid(
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def automatic(request: ParsedRequest) -> Iterator[Refusal]:
    """A top-level marker that would be a fifth, or contradict the one that is there."""
    marker, layout = request.received.body.get("cache_control"), request.parsed.layout
    offsets = layout.columns.breakpoint_offsets
    place = next((index for index in range(layout.n - 1, -1, -1) if offsets[index] >= 0), None)
    if marker is None or place is None:
        return
    own = next((mark for mark in layout.breakpoints if mark.segment == place), None)
    if own and _TTLS[own.ttl_seconds] != marker.get("ttl", "5m"):
        yield invalid("cache_control: the last block already has a cache_control with another ttl")
    if not own and len(layout.breakpoints) >= MOST_BREAKPOINTS:
        yield invalid(
            f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {MOST_BREAKPOINTS + 1}."
        )


def window(request: ParsedRequest) -> Iterator[Refusal]:
    """A prompt that fits."""
    if request.parsed.prompt.n_tokens > request.model.window_tokens:
        yield invalid(
            f"prompt is too long: {request.parsed.prompt.n_tokens} tokens > {request.model.window_tokens} maximum"
        )


def moved(body: Mapping[str, Json], ordinal: int) -> Refusal:
    """Thinking block number `ordinal` no longer stands behind the conversation it was made from."""
    paths = [at.path for at in blocks_of(body, *_THINKING)]
    return invalid(
        f"{paths[ordinal]}: `thinking` blocks are bound to the conversation before them, and what stands before this one (system, tools, "
        "messages) has changed since it was generated. Send the earlier conversation unchanged, or remove thinking blocks oldest first."
    )


def _checks(
    declared: SdkType, *more: RequestCheck, platform_check: RequestCheck = versioned
) -> tuple[RequestCheck, ...]:
    """Checks of a body as `declared`; rules whose messages are clearer than a mismatch come before the shape."""
    return (
        authenticated,
        platform_check,
        threadless,
        blocks,
        new_version,
        shape(declared),
        tool_names,
        tool_changes,
        tool_changes_in_turns,
        betas,
        tool_choice,
        edits,
        compactions,
        *more,
    )


REQUEST_CHECKS = _checks(CREATE_TYPE, prewarming, thinking)
PLATFORM_CHECKS: Mapping[str, tuple[RequestCheck, ...]] = {
    name: _checks(PLATFORM_CREATE_TYPE, prewarming, thinking, platform_check=platform(name))
    for name in ("Amazon Bedrock", "Google Cloud")
}
"""On platforms where the version stands in the body, and the model in the path."""
PROMPT_CHECKS: tuple[PromptCheck, ...] = (conversation, forced, breakpoints, automatic, window)
COUNT_CHECKS = _checks(COUNT_TYPE, thinking)
"""For `/v1/messages/count_tokens`; its prompt checks are the same."""
PLATFORM_COUNT_CHECKS = _checks(PLATFORM_COUNT_TYPE, thinking, platform_check=platform("Google Cloud"))
