"""How both of OpenAI's endpoints spell what is neutral elsewhere: data URLs, argument strings, error texts, token
counters.

Takes and gives JSON values. Knows nothing of messages or items.

Where OpenAI's cache may break: at message endings and explicit marks; and what besides the text must be equal.

Takes layouts and parameters, gives prompts. Source: the prompt-caching guide
(developers.openai.com/api/docs/guides/prompt-caching) and `openai.types` 3.52 (chat/completion_create_params.py,
responses/response_create_params.py). Where the two disagree on how many marks a lookup considers, the smallest set is
taken: first 2 and latest 50 explicit, 20 message endings, the initial developer group.

What Chat Completions and Responses share: one adapter, told by a table how an endpoint words things.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body. The messages before the first
user, assistant or tool message are the system level. Knows no field that only one of the two endpoints has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical, parse
from contextkit.canonical import parse as read_json
from contextkit.errors import NotSerialisable, UnreadableRequest, UsageError
from contextkit.log.content import is_deeper
from contextkit.log.entry import Entry
from contextkit.models import Model, model_named
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Adapter
from contextkit.providers.masking import Endpoint
from contextkit.providers.provider import (
    MAX_ARGUMENT_DEPTH,
    Cut,
    Parsed,
    Tools,
    Trait,
    Turn,
    announcement,
    cut,
    expect,
    heard,
    keyed,
    reminder,
    taken,
)
from contextkit.providers.rendering import strips
from contextkit.providers.settings import split
from contextkit.tools.tool import INVALID_ARGUMENTS

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
    """What a document is called; OpenAI wants a name beside its data."""
    return str(part.get("title", "document.pdf" if part.get("media_type") == _PDF else "document"))


def titled(media: Mapping[str, Json], name: Json) -> list[Json]:
    """Neutral documents that might be spelled so: without a title, and with one."""
    return [{"type": "document", **media}, {"type": "document", **media, "title": name}]


def is_text(part: Mapping[str, Json]) -> bool:
    """Whether a document is plain text, which OpenAI takes as text and not as a file."""
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
    """What a model wrote as arguments.

    Its text where that is not JSON, or JSON text, so that writing it again gives the same.

    No text at all is no arguments: some models write nothing for a tool without parameters.

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
    """Arguments as servers take them that parse what was said before: as they came where they are an object, else as
    one that holds them.

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
    """The parts of a failed tool's output: OpenAI has no field for it, so the text says it, once."""
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
"""Mode → how many of the latest explicit marks are written."""
_FIRST, _LATEST, _ENDINGS = 2, 50, 21
"""Explicit marks looked up from the front and from the back; endings the implicit mark looks up, its own included."""
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
    """Whether an eligible ending lies between two neighbouring segments.

    >>> advances("user", "user", False), advances("tool", "tool", True), advances("tool", "other", True)
    (False, False, True)
    """
    return before in _ENDED and _ENDED[before](run, opens)


def plan_of(model: Model, ttl: str, params: Mapping[str, Json]) -> Plan:
    """What to mark: the head, since the implicit mark moves with the conversation.

    The tail too where there is no implicit mark.

    `auto` lets the long lifetime be chosen place by place, where the model has one. Raises `UsageError` for a lifetime
    it does not offer.
    """
    if ttl != "auto" and TTLS.get(ttl) not in (*model.ttls_seconds, TTLS["30m"]):
        raise UsageError(f"ttl={ttl!r}: {model.name} has no such lifetime, leave ttl out")
    options = _options(params)
    seconds = TTLS.get(options.get("ttl", ttl), TTLS["30m"])
    has_marks, mode = model.cache == "breakpoints", options.get("mode", "implicit")
    return Plan(
        has_marks,
        has_marks and mode == "explicit",
        seconds,
        seconds,
        0,
        1,
        most=_WRITTEN[mode],
        long_ttl_seconds=TTLS["12h"] if has_marks and ttl == "auto" else 0,
        implicit_lookback=_ENDINGS if has_marks and mode == "implicit" else 0,
    )


def marks_of(columns: PromptColumns, cuts: list[Cut], params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The explicit marks found while cutting.

    `cuts[i]` became segment `i`. A mark's own lifetime wins over the request's.
    """
    default = _seconds(_options(params))
    return tuple(
        Breakpoint(index, TTLS.get(str(found.marker.get("ttl")), default), 1)
        for index, found in enumerate(cuts)
        if isinstance(found.marker, dict) and found.marker.get("mode") == "explicit"
    )


def layout_of(columns: PromptColumns, marks: tuple[Breakpoint, ...], model: Model) -> PromptLayout:
    """The layout that renders `marks`: those inside a whole message or item, and those of a model that takes none, are
    not of it.
    """
    has_marks = model.cache == "breakpoints"
    return PromptLayout(
        columns,
        len(columns),
        tuple(mark for mark in marks if has_marks and columns.breakpoint_offsets[mark.segment] >= 0),
    )


def prompt_of(layout: PromptLayout, marks: tuple[Breakpoint, ...], params: Mapping[str, Json], model: Model) -> Prompt:
    """What the cache sees of a request with these explicit marks."""
    columns, n = layout.columns, layout.n
    endpoint = "engines" if model.provider in ENGINES else "openai"
    if endpoint == "openai" and model.cache != "breakpoints":
        endpoint = "openai-implicit"
    places = _effective(layout, marks, _options(params)) if model.cache == "breakpoints" else ()
    return keyed(endpoint, _keyed(params), columns.raised(n), columns, n, places)


def inherited(layout: PromptLayout, params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The marks of a layout as the wire says them: one without a lifetime takes the request's."""
    default = _seconds(_options(params))
    return tuple(replace(mark, ttl_seconds=max(mark.ttl_seconds, default)) for mark in layout.breakpoints)


def _effective(
    layout: PromptLayout, marks: tuple[Breakpoint, ...], options: Mapping[str, Json]
) -> tuple[Breakpoint, ...]:
    mode = options.get("mode", "implicit")
    found = {mark.segment: replace(mark, lookback=1, is_written=False) for mark in (*marks[:_FIRST], *marks[-_LATEST:])}
    found.update({mark.segment: replace(mark, lookback=1) for mark in marks[-_WRITTEN[mode] :]})
    if mode == "implicit":
        _add_implicit(layout, found, _seconds(options))
    return tuple(found[place] for place in sorted(found))


def _add_implicit(layout: PromptLayout, found: dict[int, Breakpoint], ttl: int) -> None:
    """The end of the latest eligible message is written and looks back; the initial developer group is looked up."""
    columns = layout.columns
    tools, head = (min(end, layout.n) for end in columns.level_ends)
    if head > tools:
        found.setdefault(head - 1, Breakpoint(head - 1, ttl, 1, is_written=False))
    tail = next((index for index in range(layout.n - 1, -1, -1) if columns.runs[index] in _ENDED), None)
    if tail is not None:
        own = found.get(tail)
        found[tail] = Breakpoint(tail, own.ttl_seconds if own else ttl, _ENDINGS)


def _keyed(params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters with those that key by one of their fields reduced to it."""
    given = params.get("reasoning") or {}
    reasoning = {name: value for name, value in given.items() if name not in _UNKEYED_REASONING and value is not None}
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
"""Messages written part by part, since each part can carry a mark."""
Said = Callable[[Mapping[str, Json]], list[Json]]
"""Body of an entry → messages or items."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How one endpoint words a conversation."""

    wire: str
    """The endpoint."""
    grammar: Grammar
    """How it is written and counted."""
    array: str
    """Field that holds messages or items."""
    segments: frozenset[str]
    """Fields that are segments, not parameters."""
    text: str
    """Type of a text part."""
    opened: Callable[[str, Json], list[Json]]
    """(role, neutral parts) → the message that says them."""
    replied: Said
    """What the model said."""
    answered: Said
    """What a tool gave."""
    said_by: Callable[[Mapping[str, Json], str], Iterator[Json]]
    """(message, role it should have) → neutral parts."""
    tools: Tools
    """How it spells tools."""
    listed: Callable[[Mapping[str, Json]], tuple[list[Json], int]]
    """Body → its messages or items, checked, and how many stand before the first of `array`."""
    role: Callable[[Mapping[str, Json]], str]
    """Who says a message; "" for an item nobody says."""
    besides: Callable[[Mapping[str, Json]], dict[str, Json]]
    """What a message says besides role and content, in order."""
    tool: Callable[[Mapping[str, Json]], Trait]
    """A tool → what the cache makes of it."""
    one: Callable[[Mapping[str, Json], str, str], Cut]
    """(message, path, model) → one that is a single piece."""
    turns: Callable[[list[Json], str], Iterable[Turn]]
    """(messages behind the head, model) → turns."""
    ways: Mapping[str, Said] = field(default_factory=dict)
    """How a phase, a late tool or an event is told, where only this endpoint knows the way."""


class Speaker(Adapter):
    """An adapter of one of OpenAI's endpoints; its words come from `words`."""

    words: ClassVar[Wording]
    path: str
    name = "openai"
    system_role = "developer"

    def __init__(self, endpoint: Endpoint, ttl: str, params: Mapping[str, Json]) -> None:
        self.affinity, params, self.headers = split(params, self.headers)
        super().__init__(endpoint, params)
        self._kinds = _kinds(self.words, self.telling, self.announcing, self.noticing)
        self.plan = plan_of(self.model, ttl, self.params)

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Pieces of the tools, and of the one message that opens the conversation."""
        cuts = [_tool(self.words, self.words.tools.sent(taken(one, self.model)), self.model.name) for one in tools]
        for message in self.words.opened(self.system_role, system):
            cuts += _message(self.words, message, "system", "system", self.model.name)
        yield from (replace(found.block, entry=entry) for found in cuts)

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Pieces of one entry.

        `keeps_thinking=False` where its prefix has changed and the API would drop its reasoning.
        """
        for message in self._kinds[entry.kind](read_json(entry.body)):
            for found in _message(self.words, message, "messages", self.words.array, self.model.name):
                if keeps_thinking or not found.block.is_thinking:
                    yield replace(found.block, entry=entry.sequence)

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees: explicit marks, and the implicit one where the request leaves it on."""
        return prompt_of(layout, inherited(layout, params), params, self.model)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return understood(self.words, body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        messages, _ = self.words.listed(body)
        n_head = _n_head(self.words, messages)
        role = self.system_role if n_head == 1 else ""
        system = [part for message in messages[:n_head] for part in self.words.said_by(message, role)]
        definitions = [self.words.tools.definition(tool) for tool in body.get("tools") or []]
        return system, definitions, list(self.words.turns(messages[n_head:], self.model.name))


def _kinds(words: Wording, telling: str, announcing: str, noticing: str) -> dict[str, Said]:
    """Entry kind → messages or items, where phases, late tools and events are told in these ways."""

    def said(role: str, text: str) -> list[Json]:
        return words.opened(role, [{"type": "text", "text": text}])

    ways: dict[str, Said] = {
        **dict.fromkeys(("allowed_tools", "decoding"), lambda body: []),
        "developer": lambda body: said("developer", body["text"]),
        "reminder": lambda body: said("user", reminder(body["text"])) if body.get("text") else [],
        "bridge": lambda body: said("user", reminder(announcement(body))),
        **words.ways,
    }
    return {
        "user": lambda body: words.opened("user", heard(body)),
        "assistant": words.replied,
        "result": words.answered,
        "epoch": lambda body: words.opened("user", body["summary"]),
        "phase": ways[telling],
        "tools": ways[announcing],
        "notice": lambda body: ways[noticing](body) if "event" in body else said("user", body["text"]),
    }


def understood(words: Wording, body: Json) -> Parsed:
    """A request body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a string"), "openai")
    params = {name: value for name, value in fields.items() if name not in words.segments}
    columns, cuts = (
        PromptColumns(words.grammar, strips_thinking=strips(words.wire, model, params)),
        list(_cuts(words, fields, model.name)),
    )
    columns.extend(found.block for found in cuts)
    marks = marks_of(columns, cuts, params)
    layout = layout_of(columns, marks, model)
    return Parsed(model.name, params, layout, prompt_of(layout, marks, params, model))


def _cuts(words: Wording, fields: Mapping[str, Json], model: str) -> Iterator[Cut]:
    for index, tool in enumerate(expect(fields.get("tools") or [], list, "tools", "an array")):
        yield _tool(words, expect(tool, dict, f"tools[{index}]", "an object"), model)
    messages, offset = words.listed(fields)
    n_head = _n_head(words, messages)
    for index, message in enumerate(messages):
        yield from _message(
            words, message, "system" if index < n_head else "messages", f"{words.array}[{index - offset}]", model
        )


def _n_head(words: Wording, messages: list[Json]) -> int:
    """How many messages open the conversation before anybody else speaks."""
    return next((index for index, message in enumerate(messages) if words.role(message) not in SYSTEM), len(messages))


def _tool(words: Wording, tool: Mapping[str, Json], model: str) -> Cut:
    return cut(tool, "tools", "", words.tool(tool), model)


def _message(words: Wording, message: Mapping[str, Json], level: Level, path: str, model: str) -> Iterable[Cut]:
    """One message, part by part or as a whole."""
    trait = _PARTS.get((level, words.role(message)))
    return [words.one(message, path, model)] if trait is None else _each(words, message, level, trait, path, model)


def _each(
    words: Wording, message: Mapping[str, Json], level: Level, trait: Trait, path: str, model: str
) -> Iterator[Cut]:
    """The parts of a message; what it says besides role and content (a name) stands in its opening."""
    more, role = words.besides(message), words.role(message)
    said = {"role": role, **more}
    opener, speaker = canonical(said)[:-1] + b',"content":[', canonical(said).decode() if more else role
    for index, part in enumerate(_content(words, message.get("content"), f"{path}.content")):
        is_turn = trait.run == "user" and not index
        yield cut(part, level, "" if index else speaker, trait, model, (opener, b"]}"), is_turn=is_turn)


def _content(words: Wording, content: Json, path: str) -> list[Json]:
    """Content as a list of parts: a string is one text part."""
    if isinstance(content, str):
        return [{"type": words.text, "text": content}]
    for index, part in enumerate(expect(content or None, list, path, "a string or a non-empty array")):
        kind = expect(
            expect(part, dict, f"{path}[{index}]", "an object").get("type"), str, f"{path}[{index}].type", "a string"
        )
        if kind == words.text:
            expect(part.get("text"), str, f"{path}[{index}].text", "a string")
    return list(content)
