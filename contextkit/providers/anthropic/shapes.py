"""What a `/v1/messages` body must look like before anything is made of it: headers, fields, blocks.

Tables after `anthropic.types` 2.11 (message_create_params.py, *_block_param.py) and its beta twins. Error messages
follow the API's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from contextkit.canonical import Json
from contextkit.providers.anthropic.blocks import SERVER_RESULTS
from contextkit.providers.validation import (
    ANYTHING,
    ARRAY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXT_OR_ARRAY,
    TEXTS,
    WHOLE,
    Kind,
    ReceivedRequest,
    Refusal,
    kinds,
    misfits,
    missing,
    one_of,
    unknown,
)

NEW_VERSION = "2026-10-21"
VERSIONS = ("2023-06-01", NEW_VERSION)
"""Values of `anthropic-version` (https://platform.claude.com/docs/en/api/versioning)."""
COUNTED = kinds(
    texts=(TEXT, "model"),
    arrays=(ARRAY, "messages tools"),
    objects=(OBJECT, "cache_control output_config thinking tool_choice"),
    system=(TEXT_OR_ARRAY, "system"),
    speed=(one_of("standard", "fast"), "speed"),
    beta=(OBJECT, "billing_policy compaction context_management"),
    servers=(ARRAY, "mcp_servers"),
    any=(ANYTHING, "betas"),
)
CREATED = COUNTED | kinds(
    whole=(WHOLE, "max_tokens top_k"),
    numbers=(NUMBER, "temperature top_p"),
    flags=(FLAG, "stream"),
    texts=(TEXT, "inference_geo"),
    lists=(TEXTS, "stop_sequences"),
    objects=(OBJECT, "metadata diagnostics"),
    tier=(one_of("auto", "standard_only"), "service_tier"),
    any=(ANYTHING, "container fallbacks fallback_credit_token betas"),
    thread=(OBJECT, "thread"),
)
_ABROAD = kinds(texts=(TEXT, "anthropic_version"), lists=(TEXTS, "anthropic_beta"))
"""What stands in the body where a platform's client has put the version and the betas there."""
COUNTED_ABROAD, CREATED_ABROAD = COUNTED | _ABROAD, CREATED | _ABROAD
_NESTED: dict[str, dict[str, Kind]] = {
    "tool_choice": {"type": one_of("auto", "any", "tool", "none"), "name": TEXT, "disable_parallel_tool_use": FLAG},
    "thinking": {
        "type": one_of("enabled", "adaptive", "disabled", "between_tools"),
        "budget_tokens": WHOLE,
        "display": one_of("summarized", "omitted", "updates"),
        "block_binding": OBJECT,
    },
    "diagnostics": {"previous_message_id": TEXT},
    "output_config": {
        "effort": one_of("low", "medium", "high", "xhigh", "max"),
        "format": OBJECT,
        "task_budget": OBJECT,
    },
    "metadata": {"user_id": TEXT},
}
"""Fields of fields."""
_CHOSEN = ("tool_choice", "thinking")
"""Those that cannot do without their `type`."""
_BLOCKS: dict[str, dict[str, Kind]] = {
    "text": {"text": TEXT},
    "image": {"source": OBJECT},
    "document": {"source": OBJECT},
    "search_result": {"source": TEXT, "title": TEXT, "content": ARRAY},
    "thinking": {"thinking": TEXT, "signature": TEXT},
    "redacted_thinking": {"data": TEXT},
    "tool_use": {"id": TEXT, "name": TEXT, "input": OBJECT},
    "tool_result": {"tool_use_id": TEXT},
    "server_tool_use": {"id": TEXT, "name": TEXT, "input": OBJECT},
    "tool_reference": {"tool_name": TEXT},
    "container_upload": {"file_id": TEXT},
    **{name: {"tool_use_id": TEXT} for name in SERVER_RESULTS},
    **{name: {} for name in ("browser_state", "compaction", "mcp_tool_use", "mcp_tool_listing", "fallback")},
} | {name: {"tool": OBJECT} for name in ("tool_addition", "tool_removal")}
"""Type of block → fields it cannot do without."""
_OPTIONAL = kinds(flags=(FLAG, "is_error"), content=(TEXT_OR_ARRAY, "content"))
_SPEAKERS = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "tool_addition": "system",
    "tool_removal": "system",
}
"""Type of block → the only role whose messages may hold it."""
_NO_MARKER = frozenset({"thinking", "redacted_thinking"})


class Placed(NamedTuple):
    """One block of a body; a tuple, since a long conversation has thousands in every request."""

    path: str
    """Where it stands, in the API's notation."""
    role: str
    """Who speaks, `""` in tools and system."""
    block: Mapping[str, Json]
    """The block itself."""


def placed(body: Mapping[str, Json]) -> Iterator[Placed]:
    """Every tool, block, and block inside a tool result, in render order; what is not an object is left to the parser."""
    yield from _listed(body.get("tools"), "tools", "")
    yield from _listed(body.get("system"), "system", "")
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            yield from _listed(message.get("content"), f"messages.{index}.content", str(message.get("role")))


def _listed(blocks: Json, path: str, role: str) -> Iterator[Placed]:
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict):
            yield Placed(f"{path}.{index}", role, block)
            if block.get("type") == "tool_result":
                yield from _listed(block.get("content"), f"{path}.{index}.content", "")


def invalid(message: str) -> Refusal:
    """A 400 in Anthropic's words."""
    return Refusal(400, "invalid_request_error", message)


def authenticated(received: ReceivedRequest) -> Iterator[Refusal]:
    """Any key will do, and none is looked at."""
    if not any(received.headers.get(name) for name in ("x-api-key", "authorization", "api-key")):
        yield Refusal(401, "authentication_error", "x-api-key header is required")


def versioned(received: ReceivedRequest) -> Iterator[Refusal]:
    """A version this server speaks."""
    version = received.headers.get("anthropic-version")
    if version is None:
        yield invalid("anthropic-version: header is required")
    elif version not in VERSIONS:
        yield invalid("anthropic-version: not a valid version")


def created(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of `POST /v1/messages`."""
    return _fields(received, CREATED, ("max_tokens", "messages", "model"))


def counted_abroad(received: ReceivedRequest) -> Iterator[Refusal]:
    """The same where the version stands in the body (anthropic/lib/vertex/_client.py)."""
    return _fields(received, COUNTED_ABROAD, ("messages", "model"))


def posted(received: ReceivedRequest) -> Iterator[Refusal]:
    """The same where a platform's client has put the version and the betas into the body."""
    return _fields(received, CREATED_ABROAD, ("max_tokens", "messages", "model"))


def counted(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of `POST /v1/messages/count_tokens`."""
    return _fields(received, COUNTED, ("messages", "model"))


def _fields(received: ReceivedRequest, fields: Mapping[str, Kind], required: tuple[str, ...]) -> Iterator[Refusal]:
    body = received.body
    yield from (invalid(f"{name}: Field required") for name in missing(body, required))
    yield from (invalid(f"{name}: Input should be {kind.words}") for name, kind in misfits(body, fields))
    yield from (invalid(f"{name}: Extra inputs are not permitted") for name in unknown(received, fields))
    if body["messages"] == []:
        yield invalid("messages: at least one message is required")


def blocks(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each block has the fields of its type, its speaker and a marker that is one."""
    is_new = received.headers.get("anthropic-version") == NEW_VERSION
    for at in placed(received.body):
        yield from shape_of_tool(at) if at.path.startswith("tools.") else _block(at)
        if at.block.get("cache_control") is not None:
            yield from _marker(at)
        if is_new:
            yield from _outdated(at)
    yield from _marker(Placed("", "", received.body)) if received.body.get("cache_control") is not None else ()


def options(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of fields."""
    for name, fields in _NESTED.items():
        option = received.body.get(name) or {}
        yield from (invalid(f"{name}.{inner}: Input should be {kind.words}") for inner, kind in misfits(option, fields))
        if name in _CHOSEN and received.body.get(name) is not None and option.get("type") is None:
            yield invalid(f"{name}.type: Field required")


def tool_names(received: ReceivedRequest) -> Iterator[Refusal]:
    """No two tools of one name."""
    names = [tool.get("name") for tool in received.body.get("tools") or [] if isinstance(tool, dict)]
    if len({name for name in names if isinstance(name, str)}) < sum(isinstance(name, str) for name in names):
        yield invalid("tools: Tool names must be unique.")


def shape_of_tool(at: Placed) -> Iterator[Refusal]:
    """A tool as `tools` holds it: a function has a name and a schema, every other a type."""
    kind = at.block.get("type")
    if kind in (None, "custom"):
        yield from _shaped(at, {"name": TEXT, "input_schema": OBJECT})
    elif not isinstance(kind, str):
        yield invalid(f"{at.path}.type: Input should be a valid string")


def _block(at: Placed) -> Iterator[Refusal]:
    kind = at.block.get("type")
    fields = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if kind is None:
        yield invalid(f"{at.path}.type: Field required")
    elif fields is None:
        yield invalid(f"{at.path}: Input tag found using 'type' does not match any of the expected tags")
    else:
        yield from _shaped(at, fields)
        speaker = _SPEAKERS.get(str(kind), at.role)
        if at.role and at.role != speaker:
            yield invalid(f"{at.path}: `{kind}` blocks can only be in `{speaker}` messages")


def _shaped(at: Placed, fields: Mapping[str, Kind]) -> Iterator[Refusal]:
    for name, kind in fields.items():
        value = at.block.get(name)
        if value is None:
            yield invalid(f"{at.path}.{name}: Field required")
        elif not kind.holds(value):
            yield invalid(f"{at.path}.{name}: Input should be {kind.words}")
    for name, kind in () if at.block.get("type") in SERVER_RESULTS else _OPTIONAL.items():
        if name not in fields and at.block.get(name) is not None and not kind.holds(at.block[name]):
            yield invalid(f"{at.path}.{name}: Input should be {kind.words}")


def _outdated(at: Placed) -> Iterator[Refusal]:
    """Blocks the newest version no longer takes."""
    if at.role == "assistant" and at.block.get("type") == "document":
        yield invalid(
            f"{at.path}: `document` blocks are not supported in assistant messages with anthropic-version {NEW_VERSION}"
        )
    inside = at.block.get("content") if at.block.get("type") == "search_result" else None
    for block, path in ((at.block, at.path), *((each, f"{at.path}.content") for each in inside or ())):
        if at.role == "user" and isinstance(block, dict) and block.get("citations") and block.get("type") == "text":
            yield invalid(f"{path}.citations: not supported in user messages with anthropic-version {NEW_VERSION}")


def _marker(at: Placed) -> Iterator[Refusal]:
    path, marker = f"{at.path}.cache_control".lstrip("."), at.block["cache_control"]
    if at.block.get("type") in _NO_MARKER:
        yield invalid(f"{path}: Extra inputs are not permitted")
    elif not isinstance(marker, dict) or marker.get("type") != "ephemeral":
        yield invalid(f"{path}.type: Input should be 'ephemeral'")
    elif marker.get("ttl", "5m") not in ("5m", "1h"):
        yield invalid(f"{path}.ttl: Input should be '5m' or '1h'")
    elif marker.keys() - {"type", "ttl"}:
        yield invalid(f"{path}: Extra inputs are not permitted")
    elif at.block.get("text") == "":
        yield invalid(f"{at.path}.text: cache_control cannot be set for empty text blocks")
