"""The interface of an adapter (`Provider`), and what all adapters share.

- Values they call: `Reply`, `ReplyCall`, `Turn`, `Parsed`.
- `plain` and `sendable`: an SDK's typed object as the JSON it came from, without what the SDK added.
- `namespaces` and `keyed`: what besides the blocks must be equal for a prefix to be reused, per level. A parameter that
  invalidates a level stands in the key of that level and of those behind it. Only parameters that a table of
  `facts/parameters.toml` names are in a key; any other field is neutral.
- `render_block`: a block of any endpoint → a `RenderedBlock`.
- `Parts` and `Tools`: neutral parts and tool definitions ↔ blocks of one endpoint; what has no neutral form is stored
  verbatim. `block_text`, `announcement` and `custom_tool` project what another endpoint or model cannot express.

Knows no field names of an endpoint besides those in `Parts` and `Tools` tables, which come with the call; opens no
sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidTool, NotSerialisable, UnreadableReply, UnreadableRequest
from contextkit.facts.parameters import MESSAGES, SYSTEM, TOOLS, keying
from contextkit.log.content import is_deeper
from contextkit.log.entry import Entry, Kind, Native
from contextkit.models import Model, model_named
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.normal_form import VERBATIM, marker_of, normal
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.prompt.tokens import counter_for
from contextkit.sequence_view import SequenceView
from contextkit.tools.definition import INVALID_ARGUMENTS


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """A tool call a model made."""

    id: str
    """The provider's id, which the result names."""
    name: str
    """The tool."""
    arguments: Json
    """As the model wrote them, keys in its order; a string where they were not JSON."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One response, in neutral form and as received."""

    id: str
    """The provider's id of the response."""
    native: Native
    """As received: order, thinking, signatures, key order of arguments."""
    text: str
    """Its text, without thinking."""
    calls: tuple[ReplyCall, ...]
    """Calls to answer, in order."""
    stop: str
    """done, calls, truncated, paused, refused or overflow."""
    usage: Usage
    """The usage that the provider billed."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Id of earlier reasoning that the provider left out of the prompt, or its place in the request → the reason."""
    is_renamed: bool = False
    """Whether calls have other ids than they came with, since several came with one."""


def assistant_body(
    wire: str, model: str, native_body: Json, text: str, calls: Iterable[ReplyCall], stop: str = ""
) -> dict[str, Json]:
    """Make the body of an `assistant` entry; without `stop` the reply ended by itself, or with its calls."""
    listed = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    native = {"wire": wire, "model": model, "body": native_body}
    return {"native": native, "text": text, "calls": listed, "stop": stop or ("calls" if listed else "done")}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a request body, as the kind and body of a log entry."""

    kind: Kind
    """user, assistant or result."""
    body: Json
    """As in `log/entry.py`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed request body."""

    model: str
    """The model it names."""
    params: Mapping[str, Json]
    """Top-level fields that hold no blocks."""
    layout: PromptLayout
    """Its blocks and explicit breakpoints."""
    prompt: Prompt
    """The prompt that the cache sees."""


class Provider(Protocol):
    """One endpoint and model, with its parameters."""

    wire: str
    """The endpoint: `anthropic_messages`, `openai_chat`, `openai_responses`."""
    name: str
    """Who bills: `anthropic`, `openai`."""
    path: str
    """Where requests go, below the client's base URL."""
    template: int
    """Version of the templates; stored in the log, so that an upgrade cannot move a prefix."""
    grammar: Grammar
    """How the wire is written and counted."""

    @property
    def model(self) -> Model:
        """The row of its model."""
        ...

    @property
    def params(self) -> Mapping[str, Json]:
        """Top-level fields of every request."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Extra headers of every request."""
        ...

    @property
    def betas(self) -> tuple[str, ...]:
        """Beta features that the caller opted in to."""
        ...

    @property
    def telling(self) -> str:
        """The way the prompt announces a phase: a row of `providers/masking.py`."""
        ...

    @property
    def noticing(self) -> str:
        """The way the prompt reports an event: a row of `providers/notices.py`."""
        ...

    @property
    def announcing(self) -> str:
        """The way the prompt announces a late tool: a row of `providers/late_tools.py`."""
        ...

    @property
    def plan(self) -> Plan:
        """The breakpoints to place."""
        ...

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Render the tools and system levels, from neutral parts and definitions."""
        ...

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Render one log entry; without thinking where the prefix before it has changed."""
        ...

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """The prompt that the cache sees for a request."""
        ...

    def parse(self, body: Json) -> Parsed:
        """Parse a request body of this endpoint; raises `UnreadableRequest` with the place where it is none."""
        ...

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body, for `Context.from_messages`."""
        ...

    def reply(self, response: Any) -> Reply:
        """Parse a response: the SDK's typed object or its dict. Raises `UnreadableReply` for anything else."""
        ...

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Return whether a joined stream reached its end."""
        ...

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """The usage of a response, also of a partial one."""
        ...

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """Join the events of a stream into a response, as a dict."""
        ...


HELPERS = frozenset({"parsed", "parsed_output", "parsed_arguments", "_request_id"})
"""Fields the SDKs add for their callers (`parse()` helpers); no request type accepts them."""


def plain(value: Any) -> dict[str, Json]:
    """The dict of a response, event or item, nulls and helper fields left out; key order kept.

    Raises `UnreadableReply` for anything else.
    """
    dump = getattr(value, "model_dump", None)
    raw = value if dump is None else dump(mode="json", exclude_unset=True, by_alias=True, warnings=False)
    if dump is not None and _has_null_argument(raw):
        raw = _with_numbers(raw, dump(exclude_unset=True, by_alias=True, warnings=False))
    if not isinstance(raw, Mapping):
        raise UnreadableReply(f"a reply is the SDK's object or its dict, not {type(value).__name__}")
    cleaned: dict[str, Json] = _without_nulls(raw)
    return cleaned


def _has_null_argument(value: Json, *, is_inside: bool = False) -> bool:
    """Return whether arguments hold a null: pydantic writes NaN and the infinities so."""
    if isinstance(value, Mapping):
        return any(_has_null_argument(item, is_inside=is_inside or key in _ARGUMENTS) for key, item in value.items())
    if isinstance(value, list):
        return any(_has_null_argument(item, is_inside=is_inside) for item in value)
    return value is None and is_inside


def _with_numbers(written: Json, typed: Any) -> Json:
    """`written` with the numbers of `typed` that JSON has no form for, where `written` has null."""
    if isinstance(written, Mapping) and isinstance(typed, Mapping):
        return {key: _with_numbers(item, typed.get(key)) for key, item in written.items()}
    if isinstance(written, list) and isinstance(typed, list | tuple) and len(written) == len(typed):
        return [_with_numbers(item, one) for item, one in zip(written, typed, strict=True)]
    return typed if written is None and isinstance(typed, float) else written


def sendable(value: Any) -> Json:
    """A response's JSON as JSON can carry it: surrogate pairs joined, lone surrogates escaped, NaN and the like as
    text.

    Python's JSON reader lets all of these through. Objects that a model wrote as arguments stay as they are: each wire
    decides about them.

    >>> sendable({"text": "\\ud83d\\ude00 \\ud83d", "n": float("nan"), "input": {"n": float("nan")}})
    {'text': '😀 \\\\ud83d', 'n': 'nan', 'input': {'n': nan}}
    """
    if isinstance(value, str):
        return _joined_pairs(value)
    if isinstance(value, Mapping):
        return {
            _joined_pairs(str(key)): item if key in _ARGUMENTS and isinstance(item, Mapping) else sendable(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    if isinstance(value, bytes):
        return value  # the wire packs them
    try:
        canonical(value)
    except NotSerialisable:
        return repr(value) if isinstance(value, float) else hex(value) if isinstance(value, int) else str(value)
    return value


_ARGUMENTS = frozenset({"input", "arguments", "args"})
"""Fields that hold what a model wrote as arguments, where they hold an object."""
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _joined_pairs(text: str) -> str:
    """Text with surrogate pairs (halves that came in two events of a stream) as characters and lone surrogates as JSON
    escapes.
    """
    whole = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
    return whole.encode("utf-8", "backslashreplace").decode()


def _without_nulls(value: Any) -> Json:
    if isinstance(value, Mapping):
        fields = {key: item for key, item in value.items() if item is not None and key not in HELPERS}
        return {key: item if key in VERBATIM else _without_nulls(item) for key, item in fields.items()}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def namespaces(endpoint: str, params: Mapping[str, Json], flags: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """Keys of the three levels, each covering the one before; `endpoint` as in `facts/parameters.toml`."""
    table = keying(endpoint)
    facts = [
        (table.levels[name], name, value)
        for name, value in sorted(params.items())
        if name in table.levels and value is not None and table.defaults.get(name) != value
    ]
    facts += [(table.flags.get(flag, MESSAGES), "flag", flag) for flag in flags]
    return _keys(canonical(facts))


def keyed(
    endpoint: str,
    params: Mapping[str, Json],
    flags: tuple[str, ...],
    columns: PromptColumns,
    n: int,
    marks: tuple[Breakpoint, ...],
) -> Prompt:
    """The prompt that a cache sees of the first `n` blocks of `columns`, with these breakpoints."""
    ends = (min(columns.level_ends[0], n), min(columns.level_ends[1], n))
    views = SequenceView(columns.digests), SequenceView(columns.ends_tokens), SequenceView(columns.positions)
    return Prompt(namespaces(endpoint, params, flags), ends, *views, marks, n)


@lru_cache(maxsize=4096)
def _keys(facts: bytes) -> tuple[bytes, bytes, bytes]:
    import orjson

    rows = orjson.loads(facts)
    tools, system, messages = (_key([row for row in rows if row[0] <= level]) for level in (TOOLS, SYSTEM, MESSAGES))
    return tools, system, messages


def _key(facts: list[Json]) -> bytes:
    return blake2b(canonical(facts, sort=True), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class Trait:
    """What the cache makes of one type of block, by the table of an endpoint."""

    run: str = ""
    """Lookback run it belongs to."""
    can_hold_breakpoint: bool = True
    """Whether the endpoint accepts a marker on it."""
    is_thinking: bool = False
    """Whether it is reasoning that some models strip."""
    is_silent: bool = False
    """Whether it enters no digest of its own level."""
    is_passing: bool = False
    """Whether it leaves the prompt when a user message follows."""
    flags: Callable[[Mapping[str, Json]], tuple[str, ...]] = field(default=lambda block: ())
    """Flags it raises, from the block."""


_Key = tuple[bytes, Level, str, Trait, str, tuple[bytes, bytes], bool, int]
"""Everything a rendered block depends on."""


def render_block(
    block: Json,
    level: Level,
    role: str,
    trait: Trait,
    model: str,
    frame: tuple[bytes, bytes] = (b"", b""),
    *,
    is_turn: bool = False,
    entry: int = -1,
    is_parsed: bool = False,
) -> RenderedBlock:
    """Render `block` on `level`, counted for `model`, in the message that `frame` opens and closes.

    `entry` is the sequence of the log entry that it comes from; `is_parsed` says that it was read from JSON, as what a
    log holds is, so that it need not be written and read to be what JSON can carry.

    The only code that makes a `RenderedBlock`: adapters call it for what they render, `parse` for what was received, so
    both count and key the same bytes. Raises `NotSerialisable` for what JSON cannot carry.
    """
    global _memo_bytes  # noqa: PLW0603 - the one counter of a process-wide memo
    if not _budget_bytes:
        value = block if is_parsed else parse(canonical(block))
        return _render(value, level, role, trait, model, frame, is_turn, entry)
    key = (canonical(block), level, role, trait, model, frame, is_turn, entry)
    rendered = _MEMO.get(key)
    if rendered is None:
        rendered = _render(parse(key[0]), *key[1:])
        size = len(key[0]) + len(rendered.body)
        if _memo_bytes + size > _budget_bytes:  # a full memo starts anew: what is still in use is rendered once more
            _MEMO.clear()
            _memo_bytes = 0
        _MEMO[key] = rendered
        _memo_bytes += size
    return rendered


def memoize_blocks(n_bytes: int) -> None:
    """Memoize rendered blocks from now on, up to `n_bytes`: for programs that receive the same conversations again.

    A client renders each block once, so it has no memo.
    """
    global _budget_bytes  # noqa: PLW0603 - the one memo of a process
    _budget_bytes = max(_budget_bytes, n_bytes)


def expect(value: Json, kind: type | tuple[type, ...], path: str, what: str) -> Json:
    """`value` if it is of `kind`, else `UnreadableRequest` at `path`."""
    if not isinstance(value, kind):
        raise UnreadableRequest(path, f"Input should be {what}")
    return value


_MEMO: dict[_Key, RenderedBlock] = {}
_memo_bytes = 0
_budget_bytes = 0


def _render(
    block: Json,
    level: Level,
    role: str,
    trait: Trait,
    model: str,
    frame: tuple[bytes, bytes],
    is_turn: bool,
    entry: int,
) -> RenderedBlock:
    is_empty_text = isinstance(block, dict) and block.get("text") == ""
    return RenderedBlock(
        level,
        role,
        canonical(normal(block)),
        counter_for(model_named(model)).count(block),
        trait.run,
        frame[0],
        frame[1],
        can_hold_breakpoint=trait.can_hold_breakpoint and not is_empty_text,
        is_thinking=trait.is_thinking,
        is_turn=is_turn,
        is_silent=trait.is_silent,
        is_passing=trait.is_passing,
        flags=trait.flags(block) if isinstance(block, dict) else (),
        entry=entry,
        marker=marker_of(block),
    )


MAX_ARGUMENT_DEPTH = 200
"""Levels of nesting in what a model wrote as arguments; deeper values cannot be counted and spelled on every Python's
stack."""


def block_text(block: Mapping[str, Json]) -> str:
    """The text of a block of another wire, or its type in brackets where it has none; a tool's definition as JSON.

    >>> block_text({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    'Be brief.'
    >>> block_text({"type": "thinking", "thinking": "…"}), block_text({"video": {"format": "mp4"}})
    ('[thinking]', '[video]')
    """
    if isinstance(block.get("parameters"), Mapping) and "name" in block:
        return _row(block)
    inside = next((block[key] for key in ("text", "content", "output") if block.get(key)), None)
    if isinstance(inside, list):
        inside = "".join(block_text(part) for part in inside if isinstance(part, dict))
    return inside if isinstance(inside, str) else _held(block)


def _held(block: Mapping[str, Json]) -> str:
    """The same of a block that is named by the key of what it holds, as Bedrock and Gemini name theirs."""
    name, held = next(((key, value) for key, value in block.items() if isinstance(value, Mapping)), ("item", {}))
    words = block_text(held) if "type" not in block and held else "["
    return f"[{block.get('type', name)}]" if words.startswith("[") else words


def reminder(text: str) -> str:
    """Text of the program in the user's turn, in a tag that separates it from the user's own.

    >>> reminder("Phase report: call no tool."), reminder("")
    ('<system>Phase report: call no tool.</system>', '')
    """
    return f"<system>{text}</system>" if text else ""


def object_of(arguments: Json) -> Json:
    """Arguments as an object; any other value that another endpoint's model wrote stands under one key.

    >>> object_of("{torn")
    {'arguments': '{torn'}
    """
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def written_object(written: str) -> Json:
    """Arguments as a stream wrote them, where only objects are taken back: what is cut off or none stands under a key
    that says so.

    Source: platform.claude.com "Fine-grained tool streaming", Handling invalid JSON in tool responses.

    >>> written_object("{torn")
    {'INVALID_JSON': '{torn'}
    """
    try:
        value = parse(written)
        canonical(value)
    except NotSerialisable:
        value = written
    is_object = isinstance(value, dict) and not is_deeper(value, MAX_ARGUMENT_DEPTH)
    return value if is_object else {INVALID_ARGUMENTS: written}


def read_object(value: Json) -> Json:
    """The arguments of a call, where only objects are taken back: another value, or one that JSON cannot carry, as
    `written_object` has it.

    The SDKs let NaN, lone surrogates and nesting without end through.

    >>> read_object({"n": 1}), read_object({"n": float("nan")}), read_object([1])
    ({'n': 1}, {'INVALID_JSON': '{"n": NaN}'}, {'INVALID_JSON': '[1]'})
    """
    if isinstance(value, dict) and not is_deeper(value, MAX_ARGUMENT_DEPTH):
        try:
            canonical(value)
        except NotSerialisable:
            pass
        else:
            return value
    return {INVALID_ARGUMENTS: json_text(value)}


def json_text(value: Json) -> str:
    """The JSON text of a value with what only Python's JSON reads (NaN, lone surrogates as escapes).

    A remark where there is none.
    """
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except (RecursionError, TypeError, ValueError):
        return "(nested too deep, or no JSON at all)"


def user_content(body: Mapping[str, Json]) -> Json:
    """The content of a user message; of a system message between turns, its texts as reminders.

    >>> user_content({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    [{'type': 'text', 'text': '<system>Be brief.</system>'}]
    """
    if body.get("role") != "system":
        return body["content"]
    return [{"type": "text", "text": reminder(block_text(part.get("block", part)))} for part in body["content"]]


UNNAMED = "call#"
"""Begins the id of a call that its provider gave none (Gemini): no other wire takes a `#` in one."""


def call_id(name: str) -> str:
    """The id of a call as any endpoint accepts it.

    >>> call_id("call#0"), call_id("toolu_1")
    ('call-0', 'toolu_1')
    """
    return name.replace("#", "-") if name.startswith(UNNAMED) else name


def announcement(body: Mapping[str, Json]) -> str:
    """Late tools as text: a line for each, its definition as JSON.

    >>> print(announcement({"text": "New tools:", "definitions": [{"name": "ping", "description": "", "parameters": {}}]}))
    New tools:
    {"name":"ping","description":"","parameters":{}}
    """
    return "\n".join([body["text"], *map(_row, body["definitions"])])


def definition_for(definition: Mapping[str, Json], model: Model) -> Mapping[str, Json]:
    """The definition as `model` takes it: a function where it knows no custom tools, or cannot ask its caller for
    tools.

    >>> from contextkit.models import model_named
    >>> sql = {"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}
    >>> [list(definition_for(sql, model_named(name))) for name in ("gpt-5.2", "gpt-4o")]
    [['name', 'description', 'parameters', 'format'], ['name', 'description', 'parameters']]
    """
    is_custom, is_search = "format" in definition, is_tool_search(definition) and "instead" in definition
    if (is_custom and not model.accepts_custom_tools) or (is_search and not model.accepts_tool_search):
        return dict(zip(_FUNCTION, function_of(definition), strict=True))
    return definition


def is_tool_search(definition: Mapping[str, Json]) -> bool:
    """Return whether a definition is that of a search which the model asks its caller to run."""
    block = (definition.get("native") or {}).get("block") or {}
    return (block.get("type"), block.get("execution")) == ("tool_search", "client")


_FUNCTION = ("name", "description", "parameters")


def _row(definition: Mapping[str, Json]) -> str:
    return canonical(dict(zip(_FUNCTION, function_of(definition), strict=True))).decode()


def function_of(definition: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    """Name, description and parameters of a definition, another wire's included.

    Raises `InvalidTool` for a tool only its own provider runs.
    """
    block = definition.get("instead") or (definition["native"]["block"] if "native" in definition else definition)
    fields = block["function"] if isinstance(block.get("function"), dict) else block
    parameters = fields.get("parameters", fields.get("input_schema"))
    if parameters is None or "name" not in fields:
        raise InvalidTool(
            f"tool of type {block.get('type')!r} runs at its own provider only: leave it out or give a function"
        )
    return fields["name"], fields.get("description", ""), parameters


def _chat_custom_tool(names: Mapping[str, Json], input_format: Mapping[str, Json]) -> Json:
    """A grammar stands one level deeper than on Responses."""
    grammar = {key: value for key, value in input_format.items() if key != "type"}
    format_fields = {"type": input_format["type"], **({"grammar": grammar} if grammar else {})}
    return {"type": "custom", "custom": {**names, "format": format_fields}}


_CUSTOM_TOOLS: Mapping[str, Callable[[Mapping[str, Json], Mapping[str, Json]], Json]] = {
    "openai_chat": _chat_custom_tool,
    "openai_responses": lambda names, input_format: {"type": "custom", **names, "format": input_format},
}
"""Endpoint → (name and description, format of the input) → tool (chat/chat_completion_custom_tool_param.py,
responses/custom_tool_param.py)."""


def custom_tool(definition: Mapping[str, Json], wire: str) -> Json:
    """A definition as a custom tool; None for one that is called with named arguments, and where an endpoint has no
    custom tools.

    >>> custom_tool({"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}, "openai_responses")
    {'type': 'custom', 'name': 'sql', 'description': '', 'format': {'type': 'text'}}
    """
    if "format" not in definition or wire not in _CUSTOM_TOOLS:
        return None
    return _CUSTOM_TOOLS[wire]({key: definition[key] for key in ("name", "description")}, definition["format"])


JsonObject = Mapping[str, Json]
"""A block, message, tool or entry body as parsed."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Neutral parts of a message ↔ blocks of one endpoint."""

    wire: str
    """The endpoint."""
    text: Callable[[str], Json]
    """A text → its block."""
    media: Mapping[str, Callable[[Any], Json]]
    """Type of an image or document → renderer of its block."""
    candidates: Callable[[JsonObject], list[Json]]
    """Block → neutral images and documents that may render to it."""

    def blocks(self, parts: Json) -> list[Json]:
        """Neutral parts as blocks: native ones of this endpoint unchanged, those of others as text."""
        return [self.block(part) for part in parts]

    def block(self, part: JsonObject) -> Json:
        """One of them."""
        if part["type"] == "native":
            return part["block"] if part["wire"] == self.wire else self.text(block_text(part["block"]))
        return self.text(part["text"]) if part["type"] == "text" else self.media[part["type"]](part)

    def neutral(self, blocks: Json) -> list[Json]:
        """Blocks as neutral parts."""
        return [self.part(block) for block in blocks]

    def part(self, block: JsonObject) -> Json:
        """The neutral part that renders back to `block`, or the block verbatim."""
        likely = (
            [{"type": "text", "text": block["text"]}] if isinstance(block.get("text"), str) else self.candidates(block)
        )
        for part in likely:
            if normal(self.block(part)) == normal(block):
                return part
        return verbatim(self.wire, block)


@dataclass(frozen=True, slots=True)
class Tools:
    """Neutral tool definitions ↔ tools of one endpoint."""

    wire: str
    """The endpoint."""
    tool: Callable[[Any, Any, Any], Json]
    """(name, description, schema) → tool."""
    function: Callable[[JsonObject], tuple[Json, Json, Json]]
    """Tool → the same three, of whatever type they are."""

    def sent(self, definition: JsonObject) -> Json:
        """A neutral definition as it is sent: one of this endpoint's own unchanged."""
        own = definition.get("native")
        if own and own["wire"] == self.wire:
            return own["block"]
        return custom_tool(definition, self.wire) or self.tool(*function_of(definition))

    def definition(self, tool: JsonObject) -> Json:
        """The neutral definition that renders back to `tool`, or the tool verbatim."""
        name, description, schema = self.function(tool)
        if normal(self.tool(name, description, schema)) != normal(tool):
            return {"native": _native_part(self.wire, tool)}
        return {"name": name, "description": description, "parameters": schema}


def verbatim(wire: str, block: JsonObject) -> Json:
    """A block of `wire` as a native part, stored verbatim."""
    return {"type": "native", **_native_part(wire, block)}


def _native_part(wire: str, block: JsonObject) -> dict[str, Json]:
    return {"wire": wire, "block": dict(block)}
