"""A recorded request body as a prompt and the layout it came from: every wire by one table.

Takes bytes and what is known of who was asked, gives segments, marks and the bytes of each, so that two bodies can be
compared. A model without a row is cut as its wire's usual one; what no adapter speaks (Gemini, Bedrock Converse) is cut
message by message, unmarked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contextkit.cache.prompt import Prompt
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable, UnknownModel, UnreadableRequest
from contextkit.layout.layout import Layout
from contextkit.layout.normal_form import normal
from contextkit.layout.segment import Level, Piece
from contextkit.layout.track import Grammar, Track
from contextkit.models import find_model
from contextkit.providers import cutting
from contextkit.providers.anthropic import messages
from contextkit.providers.namespaces import MESSAGES, TOOLS, Keying, namespaces
from contextkit.providers.openai import chat, responses
from contextkit.providers.provider import Parsed

MOST_BYTES = 64 << 20
"""Larger bodies are not read: no provider takes them."""
MEMO_BYTES = 32 << 20
"""Blocks that are kept cut: two bodies of one conversation say most things in the same words."""


@dataclass(frozen=True, slots=True)
class Read:
    """A body, understood."""

    layout: Layout
    """Its segments, with their bytes."""
    prompt: Prompt
    """What the cache sees."""


def read_body(raw: bytes, provider: str, model: str) -> Read | None:
    """The prompt of a request body, None where it is none, or of no wire that is known."""
    if len(raw) > MOST_BYTES:
        return None
    cutting.remember(MEMO_BYTES)
    try:
        fields = parse(raw)
        wire = wire_of(fields, f"{provider} {model}".lower()) if isinstance(fields, dict) else None
        found = _READERS[wire](_with_row(fields, wire, model)) if wire else None
    except (UnreadableRequest, UnknownModel, NotSerialisable, *_MISFITS):
        return None  # a body that nobody can read proves nothing
    return Read(found.layout, found.prompt) if found else None


_MISFITS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What reading JSON of another form runs into."""


def _with_row(fields: dict[str, Json], wire: str, model: str) -> dict[str, Json]:
    """`fields` with the name of a model whose row the adapter has."""
    asked = fields.get("model")
    name = asked if isinstance(asked, str) and asked else model
    return {**fields, "model": row_near(name) or name or _USUAL[wire]}


_USUAL = {
    "anthropic_messages": "claude-sonnet-4-6",
    "bedrock_converse": "claude-sonnet-4-6",
    "openai_chat": "gpt-5.1",
    "openai_responses": "gpt-5.1",
    "gemini": "gemini-2.5-pro",
}


def row_near(model: str) -> str | None:
    """Name of the row a model goes by, its vendor's prefix and its date left out; None where the table has none.

    >>> row_near("anthropic/claude-opus-4.5"), row_near("us.anthropic.claude-haiku-4-5-20251001-v1:0"), row_near("gpt-4o-2024-08-06")
    ('claude-opus-4-5', 'claude-haiku-4-5', 'gpt-4o')
    """
    row = find_model(model)
    return row.name if row else None


# Which wire
# ---------------------------------------------------------------------------------------------------------------

_BEDROCK_ONLY = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig")
_ANTHROPIC_ONLY = ("system", "anthropic_version", "stop_sequences", "mcp_servers", "anthropic_beta", "thinking")
_CHAT_ROLES = ("system", "developer", "tool", "function")


def wire_of(fields: Mapping[str, Json], hint: str = "") -> str | None:
    """The wire a request body speaks, None where it is no model call.

    `hint` (who was asked) decides where its keys do not.
    """
    return next((wire for wire, is_it in _WIRES if is_it(fields, hint)), None)


def _first_role(fields: Mapping[str, Json]) -> Json:
    given = fields.get("messages")
    first = given[0] if isinstance(given, list) and given else None
    return first.get("role") if isinstance(first, dict) else None


def _is_bedrock(fields: Mapping[str, Json], hint: str) -> bool:
    if any(name in fields for name in _BEDROCK_ONLY):
        return "messages" in fields
    given = fields.get("messages")
    said = (
        one["content"]
        for one in (given if isinstance(given, list) else [])
        if isinstance(one, dict) and "content" in one
    )
    first = next(
        (part for content in said if isinstance(content, list) for part in content if isinstance(part, dict)),
        {"type": ""},
    )
    return "type" not in first


def _is_responses(fields: Mapping[str, Json], hint: str) -> bool:
    is_text = isinstance(fields.get("input"), str) and "embed" not in str(fields.get("model"))
    given = fields.get("input")
    return is_text or (isinstance(given, list) and all(isinstance(item, dict) for item in given))


def _is_anthropic(fields: Mapping[str, Json], hint: str) -> bool:
    if "messages" not in fields or _first_role(fields) in _CHAT_ROLES:
        return False
    tools = fields.get("tools")
    has_schemas = isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools)
    is_hinted = "claude" in hint and not hint.startswith(("openai", "openrouter", "litellm")) and "max_tokens" in fields
    return has_schemas or is_hinted or any(name in fields for name in _ANTHROPIC_ONLY)


_WIRES: tuple[tuple[str, Callable[[Mapping[str, Json], str], bool]], ...] = (
    ("gemini", lambda fields, hint: isinstance(fields.get("contents"), str | list | dict)),
    ("bedrock_converse", _is_bedrock),
    ("anthropic_messages", _is_anthropic),
    ("openai_chat", lambda fields, hint: isinstance(fields.get("messages"), list)),
    ("openai_responses", _is_responses),
)
"""Asked from the top: Chat is what any other body with messages is."""

# What no adapter speaks
# ---------------------------------------------------------------------------------------------------

_KEYED = Keying(
    {
        "model": TOOLS,
        "modelId": TOOLS,
        "performanceConfig": TOOLS,
        "promptVariables": TOOLS,
        **dict.fromkeys(
            (
                "toolConfig",
                "tool_config",
                "additionalModelRequestFields",
                "outputConfig",
                "cachedContent",
                "cached_content",
            ),
            MESSAGES,
        ),
    },
    frozenset({"generationConfig", "generation_config", "inferenceConfig", "safetySettings", "requestMetadata"}),
)


def _gemini(fields: Mapping[str, Json]) -> Parsed:
    system = fields.get("systemInstruction") or fields.get("system_instruction") or []
    taken = ("tools", "systemInstruction", "system_instruction", "contents")
    return _plain(fields, taken, "contents", fields.get("tools"), system, fields.get("contents"))


def _bedrock(fields: Mapping[str, Json]) -> Parsed:
    tools = (fields.get("toolConfig") or {}).get("tools")
    return _plain(
        fields, ("toolConfig", "system", "messages"), "messages", tools, fields.get("system"), fields.get("messages")
    )


def _plain(
    fields: Mapping[str, Json], taken: tuple[str, ...], array: str, tools: Json, system: Json, said: Json
) -> Parsed:
    """A body cut into its tools, system parts and messages, each a piece; marks are left out of it."""
    levels: tuple[tuple[Level, str, Json], ...] = (
        ("tools", "", tools),
        ("system", "", system),
        ("messages", "one", said),
    )
    track = Track(
        Grammar(
            {"tools": "tools", "system": "system", "messages": array}, False, lambda was, run, opens: True, _unmarked, 0
        )
    )
    for level, role, given in levels:
        for value in _listed(given):
            body = canonical(normal(_without_points(value)))
            track.append(Piece(level, role, body, len(body) // 4, is_markable=False))
    n, params = len(track), {name: value for name, value in fields.items() if name not in taken}
    first, second = track.level_ends
    keys = namespaces(_KEYED, params, ())
    prompt = Prompt(keys, (first, second), track.digests, track.ends_tokens, track.positions, (), n)
    return Parsed(str(fields.get("model")), params, Layout(track, n), prompt)


def _unmarked(ttl: int) -> bytes:
    return b""


def _listed(given: Json) -> Iterator[Json]:
    yield from (given if isinstance(given, list) else [] if given is None else [given])


def _without_points(value: Json) -> Json:
    """Bedrock's markers are blocks of their own: where they stand changes nothing that is said."""
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        return value
    return {**value, "content": [part for part in content if not (isinstance(part, dict) and "cachePoint" in part)]}


_READERS: Mapping[str, Callable[[dict[str, Json]], Parsed]] = {
    "gemini": _gemini,
    "bedrock_converse": _bedrock,
    "anthropic_messages": messages.parse,
    "openai_chat": chat.parse,
    "openai_responses": responses.parse,
}
