"""Common part of Chat Completions and Responses: conversions, cache rules, and the adapter of both.

The adapter renders log entries as blocks, prompts and parameters, and parses request bodies; `MessageFormat` is the
table of an endpoint's own rendering. The messages before the first user, assistant or tool message are the system level.

Cache rules: breakpoints stand at message endings and at explicit marks. Source: the prompt-caching guide
(developers.openai.com/api/docs/guides/prompt-caching) and `openai.types` 3.52 (chat/completion_create_params.py,
responses/response_create_params.py). Where the two disagree on how many breakpoints a lookup considers, the smallest set
is taken: first 2 and latest 50 explicit, 20 message endings, the initial developer group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ClassVar

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical, parse
from contextkit.canonical import parse as read_json
from contextkit.errors import NotSerialisable, UnreadableRequest, UsageError
from contextkit.facts.rules import WRITTEN_HEAD, rule_holds
from contextkit.log.content import is_deeper
from contextkit.log.entry import Entry
from contextkit.models import Model, model_named
from contextkit.prompt.block import Block
from contextkit.prompt.breakpoints import AUTO_TTL, Plan
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Adapter
from contextkit.providers.body import BodyReader
from contextkit.providers.body_items import BodyItem, RenderedItems, render_items
from contextkit.providers.cache_keys import keyed
from contextkit.providers.masking import Endpoint
from contextkit.providers.neutral import Tools, announcement, definition_for, reminder, user_content
from contextkit.providers.provider import Parsed, Turn
from contextkit.providers.rendered_blocks import Trait, expect, render_block
from contextkit.providers.rendering import strips
from contextkit.providers.reply_json import MAX_ARGUMENT_DEPTH
from contextkit.providers.routing_key import split
from contextkit.tools.definition import INVALID_ARGUMENTS

_PDF = "application/pdf"
_ERROR = "Error: "


def url_of(part: Mapping[str, Json]) -> str:
    """An image or document as one URL.

    >>> url_of({"type": "image", "media_type": "image/png", "data": "aGk="})
    'data:image/png;base64,aGk='
    """
    return str(part["url"]) if "url" in part else f"data:{part['media_type']};base64,{part['data']}"


def media_of(url: Json) -> dict[str, Json]:
    """The media fields of a neutral part, from a URL.

    >>> media_of("data:image/png;base64,aGk=")
    {'media_type': 'image/png', 'data': 'aGk='}
    """
    head, comma, data = str(url).partition(";base64,")
    is_data = bool(comma) and head.startswith("data:")
    return {"media_type": head[len("data:") :], "data": data} if is_data else {"url": str(url)}


def filename(part: Mapping[str, Json]) -> str:
    """The file name of a document; OpenAI requires a name beside its data."""
    return str(part.get("title", "document.pdf" if part.get("media_type") == _PDF else "document"))


def titled(media: Mapping[str, Json], name: Json) -> list[Json]:
    """Neutral documents that render to this file: without a title, and with one."""
    return [{"type": "document", **media}, {"type": "document", **media, "title": name}]


def is_text(part: Mapping[str, Json]) -> bool:
    """Return whether a document is plain text, which OpenAI takes as text and not as a file."""
    return bool(part.get("media_type") == "text/plain" and "data" in part)


def text_of(part: Mapping[str, Json]) -> str:
    """A plain-text document as one text, its title above it."""
    return f"{part['title']}\n\n{part['data']}" if "title" in part else str(part["data"])


def at(block: Json, *keys: str) -> str:
    """The text behind a path of keys, "" where there is none."""
    for key in keys:
        block = block.get(key) if isinstance(block, dict) else None
    return block if isinstance(block, str) else ""


def read_arguments(written: str) -> Json:
    """Parse the arguments a model wrote; the text itself where it is not JSON, or JSON text, so that writing it again
    gives the same.

    An empty text is no arguments: some models write nothing for a tool without parameters.

    >>> read_arguments('{"b":1,"a":2}'), read_arguments("{torn"), read_arguments("")
    ({'b': 1, 'a': 2}, '{torn', {})
    """
    if not written.strip():
        return {}
    try:
        value = parse(written)
        canonical(value)
    except NotSerialisable:
        return written
    return written if isinstance(value, str) or is_deeper(value, MAX_ARGUMENT_DEPTH) else value


def object_arguments(written: str) -> str:
    """Arguments for servers that parse the history: unchanged where they are an object, else an object that holds them.

    Source: vLLM before pull request 48922, llama.cpp (25510), SGLang (28035) and Alibaba's Qwen answer anything else
    with a 400.

    >>> object_arguments('{"a": 1}'), object_arguments(""), object_arguments("{torn")
    ('{"a": 1}', '{}', '{"INVALID_JSON":"{torn"}')
    """
    value = read_arguments(written)
    if isinstance(value, dict):
        return written if written.strip() else "{}"
    return canonical({INVALID_ARGUMENTS: written}).decode()


def written_arguments(arguments: Json) -> str:
    """Arguments as the string that goes on the wire."""
    return arguments if isinstance(arguments, str) else canonical(arguments).decode()


def as_error(texts: list[Json], kind: str) -> list[Json]:
    """The parts of a failed tool's output: OpenAI has no field for it, so the text begins with
    `Error: `, once.
    """
    if texts and texts[0].get("type") == kind:
        first = texts[0]["text"]
        return [{**texts[0], "text": first if first.startswith(_ERROR) else _ERROR + first}, *texts[1:]]
    return [{"type": kind, "text": _ERROR.strip()}, *texts]


TTLS = {"30m": 1800, "12h": 43200}
"""`ttl` → seconds; the Chat body takes 30m only."""
_MARKERS = {
    1800: b',"prompt_cache_breakpoint":{"mode":"explicit"}',
    43200: b',"prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}',
}
_WRITTEN = {"implicit": 3, "explicit": 4}
"""Mode → number of the latest explicit breakpoints that are written."""
_FIRST, _LATEST, _ENDINGS = 2, 50, 21
"""Explicit breakpoints looked up from the front and from the back; endings the implicit breakpoint looks up, its own
included."""
_ENDED: Mapping[str, Callable[[str, bool], bool]] = {
    "user": lambda run, opens: opens,
    "tool": lambda run, opens: run != "tool",
    "head": lambda run, opens: run != "head",
}
"""Run of a segment → whether an eligible ending lies between it and the next one: a user message, the last of
consecutive tool outputs, the last of the initial developer group."""

ENGINES = frozenset({"vllm", "sglang", "llamacpp"})
"""Providers that run an engine of their own, whose cache key is what its template renders."""
_UNKEYED_REASONING = frozenset({"summary", "generate_summary"})


def grammar(array: str) -> Grammar:
    """The grammar of an endpoint that keeps its messages in `array`."""
    arrays: dict[Level, str] = {"tools": "tools", "system": array, "messages": array}
    return Grammar(arrays, merges_roles=False, advances=advances, marker=lambda ttl: _MARKERS[ttl], message_tokens=3)


def advances(before: str, run: str, opens: bool) -> bool:
    """Return whether an eligible ending lies between two neighbouring segments.

    >>> advances("user", "user", False), advances("tool", "tool", True), advances("tool", "other", True)
    (False, False, True)
    """
    return before in _ENDED and _ENDED[before](run, opens)


def plan_of(model: Model, ttl: str, params: Mapping[str, Json]) -> Plan:
    """The breakpoints to place: the static prefix, since the implicit breakpoint moves with the conversation, and the tail
    where there is no implicit breakpoint.

    `auto` lets 12 hours be chosen for each breakpoint, where the model offers them and `prompt_cache_options` does not
    ask for them everywhere. Raises `UsageError` for a lifetime that the model does not offer.
    """
    if ttl != AUTO_TTL and TTLS.get(ttl) not in (*model.ttls_seconds, TTLS["30m"]):
        raise UsageError(f"ttl={ttl!r}: {model.name} has no such lifetime, leave ttl out")
    options = _options(params)
    seconds = TTLS.get(options.get("ttl", ttl), TTLS["30m"])
    longest = TTLS["12h"]
    has_choice = ttl == AUTO_TTL and seconds < longest and longest in model.ttls_seconds
    has_marks, mode = model.cache == "breakpoints", options.get("mode", "implicit")
    return Plan(
        has_marks,
        has_marks and mode == "explicit",
        seconds,
        seconds,
        0,
        1,
        most=_WRITTEN[mode],
        long_ttl_seconds=longest if has_marks and has_choice else 0,
        implicit_lookback=_ENDINGS if has_marks and mode == "implicit" else 0,
    )


def marks_of(markers: Mapping[int, Json], params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The explicit breakpoints of a prompt, whose blocks came with `markers`; a breakpoint's own lifetime wins over the
    request's.
    """
    default = _seconds(_options(params))
    return tuple(
        Breakpoint(index, TTLS.get(str(marker.get("ttl")), default), 1)
        for index, marker in markers.items()
        if isinstance(marker, dict) and marker.get("mode") == "explicit"
    )


def layout_of(columns: PromptColumns, marks: tuple[Breakpoint, ...], model: Model) -> PromptLayout:
    """The layout that renders `marks`, without those inside a whole message or item and those of a model that accepts
    none.
    """
    has_marks = model.cache == "breakpoints"
    return PromptLayout(
        columns,
        len(columns),
        tuple(mark for mark in marks if has_marks and columns.breakpoint_offsets[mark.segment] >= 0),
    )


def prompt_of(layout: PromptLayout, marks: tuple[Breakpoint, ...], params: Mapping[str, Json], model: Model) -> Prompt:
    """The prompt that the cache sees for a request with these explicit breakpoints."""
    columns, n = layout.columns, layout.n
    endpoint = "engines" if model.provider in ENGINES else "openai"
    if endpoint == "openai" and model.cache != "breakpoints":
        endpoint = "openai-implicit"
    places: tuple[Breakpoint, ...] = ()
    if model.cache == "breakpoints":
        is_head_written = rule_holds(WRITTEN_HEAD, model.provider)
        places = _effective(layout, marks, _options(params), is_head_written=is_head_written)
    return keyed(endpoint, _keyed(params), columns.raised(n), columns, n, places)


def inherited(layout: PromptLayout, params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The breakpoints of a layout as sent: one without a lifetime takes the request's."""
    default = _seconds(_options(params))
    return tuple(replace(mark, ttl_seconds=max(mark.ttl_seconds, default)) for mark in layout.breakpoints)


def _effective(
    layout: PromptLayout, marks: tuple[Breakpoint, ...], options: Mapping[str, Json], *, is_head_written: bool
) -> tuple[Breakpoint, ...]:
    mode = options.get("mode", "implicit")
    breakpoints = {
        mark.segment: replace(mark, lookback=1, is_written=False) for mark in (*marks[:_FIRST], *marks[-_LATEST:])
    }
    breakpoints.update({mark.segment: replace(mark, lookback=1) for mark in marks[-_WRITTEN[mode] :]})
    if mode == "implicit":
        columns, ttl = layout.columns, _seconds(options)
        tools, head = (min(end, layout.n) for end in columns.level_ends)
        if head > tools:  # the initial developer group is looked up
            breakpoints.setdefault(head - 1, Breakpoint(head - 1, ttl, 1, is_written=is_head_written))
        tail = next((index for index in range(layout.n - 1, -1, -1) if columns.runs[index] in _ENDED), None)
        if tail is not None:  # the end of the latest eligible message is written and looks back
            own = breakpoints.get(tail)
            breakpoints[tail] = Breakpoint(tail, own.ttl_seconds if own else ttl, _ENDINGS)
    return tuple(breakpoints[place] for place in sorted(breakpoints))


def _keyed(params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters with those that key by one of their fields reduced to it."""
    options = expect(params.get("reasoning") or {}, dict, "reasoning", "an object")
    reasoning = {name: value for name, value in options.items() if name not in _UNKEYED_REASONING and value is not None}
    return {**params, "reasoning": reasoning, "prompt_cache_mode": _options(params).get("mode")}


def _options(params: Mapping[str, Json]) -> Mapping[str, Json]:
    options = params.get("prompt_cache_options") or {}
    if not isinstance(options, dict) or options.get("mode", "implicit") not in tuple(_WRITTEN):
        raise UnreadableRequest("prompt_cache_options.mode", "Input should be 'implicit' or 'explicit'")
    if not isinstance(options.get("ttl", "30m"), str):
        raise UnreadableRequest("prompt_cache_options.ttl", "Input should be a string")
    return options


def _seconds(options: Mapping[str, Json]) -> int:
    return TTLS.get(options.get("ttl", "30m"), TTLS["30m"])


SYSTEM = frozenset({"system", "developer"})
_PARTS: Mapping[tuple[Level, str], Trait] = {
    ("system", "developer"): Trait(run="head"),
    ("system", "system"): Trait(run="head"),
    ("messages", "developer"): Trait(run="other"),
    ("messages", "system"): Trait(run="other"),
    ("messages", "user"): Trait(run="user"),
}
"""Messages rendered part by part, since each part can hold a breakpoint."""
RenderEntry = Callable[[Mapping[str, Json]], list[Json]]
"""Renders the body of a log entry as messages or items."""


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """Rendering and parsing of one endpoint's messages."""

    wire: str
    """The endpoint."""
    grammar: Grammar
    """Grammar of its body."""
    body: BodyReader
    """Where a request body keeps its messages or items."""
    text: str
    """Type of a text part."""
    render_message: Callable[[str, Json], list[Json]]
    """(role, neutral parts) → the messages that hold them."""
    render_reply: RenderEntry
    """Renders a reply of the model."""
    render_result: RenderEntry
    """Renders the result of a tool."""
    neutral_parts: Callable[[Mapping[str, Json], str], Iterator[Json]]
    """(message, role it should have) → neutral parts."""
    tools: Tools
    """Its tool definitions."""
    check: Callable[[Mapping[str, Json]], None]
    """Raises `UnreadableRequest` for a body whose messages are not of this endpoint."""
    role: Callable[[Mapping[str, Json]], str]
    """The role of a message; "" for an item without one."""
    other_fields: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Fields of a message besides role and content, sorted."""
    tool: Callable[[Mapping[str, Json]], Trait]
    """A tool → its trait for the cache."""
    render_whole: Callable[[Mapping[str, Json], str, str], RenderedBlock]
    """(message, path, model) → the message as a single block."""
    turns: Callable[[list[Json], str], Iterable[Turn]]
    """(messages after the system level, model) → turns."""
    renderers: Mapping[str, RenderEntry] = field(default_factory=dict)
    """Option of `telling`, `announcing` or `noticing` that only this endpoint has → its renderer."""


class OpenAIAdapter(Adapter):
    """An adapter of one of OpenAI's endpoints; `format` renders and parses its messages."""

    format: ClassVar[MessageFormat]
    path: str
    name = "openai"
    system_role = "developer"

    def __init__(self, endpoint: Endpoint, ttl: str, params: Mapping[str, Json]) -> None:
        self.affinity, params, self.headers = split(params, self.headers)
        super().__init__(endpoint, params)
        self._kinds = _kinds(self.format, self.telling, self.announcing, self.noticing)
        self.plan = plan_of(self.model, ttl, self.params)

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Render the tools, and the one message that opens the conversation."""
        blocks = [
            _tool(self.format, self.format.tools.sent(definition_for(tool, self.model)), self.model.name)
            for tool in tools
        ]
        for message in self.format.render_message(self.system_role, system):
            blocks += _message(self.format, message, -1, "system", self.model.name)
        yield from (replace(block, entry=entry) for block in blocks)

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Render one entry.

        `keeps_thinking=False` where its prefix has changed and the API would drop its reasoning.
        """
        for message in self._kinds[entry.kind](read_json(entry.body)):
            for block in _message(self.format, message, -1, "messages", self.model.name):
                if keeps_thinking or not block.is_thinking:
                    yield replace(block, entry=entry.sequence)

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """The prompt that the cache sees: explicit breakpoints, and the implicit one where the request leaves it on."""
        return prompt_of(layout, inherited(layout, params), params, self.model)

    def parse(self, body: Json) -> Parsed:
        """Parse a request body of this endpoint."""
        return parse_body(self.format, body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        self.format.check(body)
        parts = list(self.format.body.head_parts(body))
        messages = self.format.body.messages(body)
        n_system = _n_system(self.format, messages)
        system_messages = [*_instructions(parts), *messages[:n_system]]
        role = self.system_role if len(system_messages) == 1 else ""
        system = [part for message in system_messages for part in self.format.neutral_parts(message, role)]
        definitions = [self.format.tools.definition(part.value) for part in parts if part.level == "tools"]
        return system, definitions, list(self.format.turns(messages[n_system:], self.model.name))


def _kinds(format: MessageFormat, telling: str, announcing: str, noticing: str) -> dict[str, RenderEntry]:
    """Entry kind → its renderer, for these options for phases, late tools and events."""

    def say(role: str, text: str) -> list[Json]:
        return format.render_message(role, [{"type": "text", "text": text}])

    renderers: dict[str, RenderEntry] = {
        **dict.fromkeys(("allowed_tools", "decoding"), lambda body: []),
        "developer": lambda body: say("developer", body["text"]),
        "reminder": lambda body: say("user", reminder(body["text"])) if body.get("text") else [],
        "bridge": lambda body: say("user", reminder(announcement(body))),
        **format.renderers,
    }
    return {
        "user": lambda body: format.render_message("user", user_content(body)),
        "assistant": format.render_reply,
        "result": format.render_result,
        "epoch": lambda body: format.render_message("user", body["summary"]),
        "phase": renderers[telling],
        "tools": renderers[announcing],
        "notice": lambda body: renderers[noticing](body) if "event" in body else say("user", body["text"]),
    }


def parse_body(format: MessageFormat, body: Json, near: Iterable[RenderedItems] = ()) -> Parsed:
    """Parse a request body into its segments, breakpoints and parameters; `near` as in `render_items`.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a string"), "openai")
    params = format.body.params(fields)
    columns = PromptColumns(format.grammar, strips_thinking=strips(format.wire, model, params))
    format.check(fields)
    messages = format.body.messages(fields)
    n_system = _n_system(format, messages)
    items = render_items(
        list(_head(format, fields, messages[:n_system])),
        messages[n_system:],
        lambda item: _rendered(format, item, model.name),
        columns,
        (model,),
        near=near,
        n_before=n_system,
    )
    marks = marks_of(items.markers, params)
    layout = layout_of(items.columns, marks, model)
    return Parsed(model.name, params, layout, prompt_of(layout, marks, params, model), items)


def _head(format: MessageFormat, fields: Mapping[str, Json], system: list[Json]) -> Iterator[BodyItem]:
    parts = list(format.body.head_parts(fields))
    for part in parts:
        if part.level == "tools":
            yield BodyItem("tools", part.value)
    for message in _instructions(parts):
        yield BodyItem("system", message)
    for number, message in enumerate(system):
        yield BodyItem("system", message, number=number)


def _rendered(format: MessageFormat, item: BodyItem, model: str) -> Iterable[RenderedBlock]:
    if item.level == "tools":
        return [_tool(format, item.value, model)]
    return _message(format, item.value, item.number, item.level, model)


def _n_system(format: MessageFormat, messages: list[Json]) -> int:
    """Count the messages that open the conversation as its system level; an item that is no message ends it, whatever
    its role.
    """
    return sum(1 for _ in takewhile(lambda message: format.role(message) in SYSTEM, messages))


def _instructions(parts: Iterable[Block]) -> list[Json]:
    """System text in a field of its own, as the developer message that it stands for."""
    return [{"role": "developer", "content": part.value} for part in parts if part.level == "system" and part.value]


def _tool(format: MessageFormat, tool: Mapping[str, Json], model: str) -> RenderedBlock:
    return render_block(tool, "tools", "", format.tool(tool), model)


def _message(
    format: MessageFormat, message: Mapping[str, Json], index: int, level: Level, model: str
) -> Iterator[RenderedBlock]:
    """One message, as a whole or part by part; its fields besides role and content (a name) stand in its opening.

    `index` is its place in a request body, for errors; -1 for a message that stands in none.
    """
    path = f"{format.body.message_field}[{index}]"
    role = format.role(message)
    trait = _PARTS.get((level, role))
    if trait is None:
        yield format.render_whole(message, path, model)
        return
    content = message.get("content")
    if not isinstance(content, str):
        expect(content or None, list, f"{path}.content", "a string or a non-empty array")
    other_fields = format.other_fields(message)
    opening = canonical({"role": role, **other_fields})
    opener = opening[:-1] + b',"content":['
    name = opening.decode() if other_fields else role
    is_first = True
    for part in format.body.message_parts(message, index, level):
        if part.field == "content":
            block = {"type": format.text, "text": content} if isinstance(content, str) else _checked(format, part)
            is_turn = is_first and trait.run == "user"
            yield render_block(block, level, name if is_first else "", trait, model, (opener, b"]}"), is_turn=is_turn)
            is_first = False


def _checked(format: MessageFormat, part: Block) -> Json:
    """A part of content; raises `UnreadableRequest` for one without a type, or without its text."""
    kind = expect(expect(part.value, dict, part.path, "an object").get("type"), str, f"{part.path}.type", "a string")
    if kind == format.text:
        expect(part.value.get("text"), str, f"{part.path}.text", "a string")
    return part.value
