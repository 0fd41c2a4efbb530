"""A recorded request body as a prompt and the layout it came from: every wire by one table.

Takes bytes and what is known of who was asked, gives segments, marks and the bytes of each, so that two bodies can be
compared. A model without a row is cut as its wire's usual one; what no adapter speaks (Gemini, Bedrock Converse) is cut
message by message, unmarked.

Prompts as differences, and back: what a ledger keeps of a prompt, and the prompt it stands for.

Takes prompts or exchanges, gives outlines or prompts; O(turn) both ways. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contextkit.cache.prompt import Prompt
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt, NotSerialisable, UnknownModel, UnreadableRequest
from contextkit.ledger.calls import Exchange, Outline
from contextkit.models import find_model
from contextkit.prompt.diff import common_segments
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers import provider as cutting
from contextkit.providers.anthropic import messages
from contextkit.providers.openai import chat, responses
from contextkit.providers.provider import Parsed, namespaces

MOST_BYTES = 64 << 20
"""Larger bodies are not read: no provider takes them."""
MEMO_BYTES = 32 << 20
"""Blocks that are kept cut: two bodies of one conversation say most things in the same words."""


@dataclass(frozen=True, slots=True)
class Read:
    """A body, understood."""

    layout: PromptLayout
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
    columns = PromptColumns(
        Grammar(
            {"tools": "tools", "system": "system", "messages": array}, False, lambda was, run, opens: True, _unmarked, 0
        )
    )
    for level, role, given in levels:
        for value in _listed(given):
            body = canonical(normal(_without_points(value)))
            columns.append(RenderedBlock(level, role, body, len(body) // 4, can_hold_breakpoint=False))
    n, params = len(columns), {name: value for name, value in fields.items() if name not in taken}
    first, second = columns.level_ends
    keys = namespaces("other", params, ())
    prompt = Prompt(keys, (first, second), columns.digests, columns.ends_tokens, columns.positions, (), n)
    return Parsed(str(fields.get("model")), params, PromptLayout(columns, n), prompt)


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


_BASE_DIGITS = 8
"""Of `Outline.base`."""


class Growing:
    """Follows the lanes of a recording and rebuilds each call's prompt as it comes."""

    __slots__ = ("_broken", "_lanes")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._broken: set[tuple[str, str]] = set()
        """Lanes that miss an exchange: what continues them by length alone may continue something else."""

    def prompt(self, exchange: Exchange) -> Prompt | None:
        """The prompt a cache saw, None where no outline was recorded, or the exchange that it continues is missing from
        the recording.

        It borrows the arrays of its lane: good until the next call of that lane. Copy what must stay. Costs what the
        exchange added.
        """
        outline, lane = exchange.prompt, (exchange.session, exchange.lane)
        if not isinstance(outline, Outline) or (lane in self._broken and outline.keep and not outline.base):
            return None
        try:
            prompt = self.whole_prompt(exchange)
        except LogCorrupt:
            self._broken.add(lane)
            return None
        self._broken.discard(lane)
        return prompt

    def whole_prompt(self, exchange: Exchange) -> Prompt | None:
        """`prompt`, but raises `LogCorrupt` where an outline keeps segments that its lane does not have."""
        if not isinstance(exchange.prompt, Outline):
            return None
        return self._lanes.setdefault((exchange.session, exchange.lane), Lane()).grow(exchange.prompt, exchange.id)


def prompts_of(exchanges: Iterable[Exchange]) -> Iterator[tuple[Exchange, Prompt | None]]:
    """Each exchange with its prompt, as `Growing.whole_prompt` gives it."""
    growing = Growing()
    return ((exchange, growing.whole_prompt(exchange)) for exchange in exchanges)


class Lane:
    """What one lane has grown to: the arrays that differences are applied to."""

    __slots__ = ("digests", "ends_tokens", "positions", "prompt")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.ends_tokens: list[int] = []
        self.positions: list[int] = []
        self.prompt: Prompt | None = None
        """The last prompt, on these arrays."""

    def grow(self, outline: Outline, exchange_id: str) -> Prompt:
        """The prompt `outline` stands for; the one before it is no longer good where fewer segments were kept.

        Raises `LogCorrupt` where it does not fit what the lane holds, which then stays as it was.
        """
        self._check(outline, exchange_id)
        try:
            digests = [bytes.fromhex(digest) for digest in outline.digests]
            tools, system, messages = map(bytes.fromhex, outline.namespaces)
        except (TypeError, ValueError) as error:
            raise LogCorrupt(
                f"exchange {exchange_id!r} has an outline that cannot be read ({type(error).__name__}: {error})"
            ) from None
        del self.digests[outline.keep :], self.ends_tokens[outline.keep :], self.positions[outline.keep :]
        self.digests.extend(digests)
        self.ends_tokens.extend(outline.ends_tokens)
        self.positions.extend(outline.positions)
        self.prompt = Prompt(
            (tools, system, messages),
            outline.level_ends,
            self.digests,
            self.ends_tokens,
            self.positions,
            outline.breakpoints,
            len(self.digests),
        )
        return self.prompt

    def _check(self, outline: Outline, exchange_id: str) -> None:
        if not isinstance(outline.keep, int) or not 0 <= outline.keep <= len(self.digests):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps {outline.keep} segments of a lane that has {len(self.digests)}: "
                "an exchange before it is missing, or lanes were mixed"
            )
        if outline.keep and not self.digests[outline.keep - 1].hex().startswith(outline.base):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps other segments than its lane has: an exchange before it is missing, or lanes were mixed"
            )
        if not len(outline.digests) == len(outline.ends_tokens) == len(outline.positions):
            raise LogCorrupt(f"exchange {exchange_id!r} has an outline whose columns differ in length")


def outline(previous: Prompt | None, prompt: Prompt, entries: Sequence[int], epoch: int) -> Outline:
    """`prompt` as a difference to `previous`, the prompt recorded before it in its lane.

    `entries` has one log sequence a segment.

    Leading segments with equal digests are kept: a changed namespace does not shorten them. O(log n + new segments).
    """
    keep = common_segments(previous.digests, previous.n, prompt.digests, prompt.n) if previous else 0
    new = range(keep, prompt.n)
    tools, system, messages = (namespace.hex() for namespace in prompt.namespaces)
    return Outline(
        keep=keep,
        namespaces=(tools, system, messages),
        level_ends=prompt.level_ends,
        digests=tuple(prompt.digests[i].hex() for i in new),
        ends_tokens=tuple(prompt.ends_tokens[i] for i in new),
        positions=tuple(prompt.positions[i] for i in new),
        entries=tuple(entries[i] for i in new),
        breakpoints=prompt.breakpoints,
        epoch=epoch,
        base=prompt.digests[keep - 1].hex()[:_BASE_DIGITS] if keep else "",
    )
