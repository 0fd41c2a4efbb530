"""Anthropic's content blocks: how a conversation is written as them, and what the prompt cache sees of a request.

Two tables translate between log entries and blocks, in both directions. Context edits, compactions and tool references
change a conversation before it is cached: from a layout and the fields of a request they give the columns that are
cached instead and what was cleared; from those comes the prompt, with the keys of its levels and its breakpoints. A
client goes on sending everything, so a request that is edited costs one walk over its blocks.

Assumed: Claude Code's billing header, a system block `x-anthropic-billing-header: cc_version=2.1.197.996;
cc_entrypoint=cli;` whose last part changes after `/compact`, in sub-agents and between sessions, is removed before the
prompt is cached (`neutral`): it enters no cache key and counts no tokens. Reports conflict; `significant` treats it as
any other text.

Sources: the prompt-caching, context editing, compaction and tool search docs (platform.claude.com/docs); field names of
`anthropic.types` 2.11, `anthropic/types/beta/beta_clear_*_param.py` and beta_compaction_block_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical, parse
from contextkit.facts.load import client
from contextkit.models import model_named
from contextkit.prompt.breakpoints import LOOKBACK
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import PromptColumns, PromptLayout
from contextkit.prompt.tokens import counter_for
from contextkit.providers.cache_keys import keyed
from contextkit.providers.neutral import Parts, Tools, announcement, call_id, reminder, user_content, verbatim
from contextkit.providers.rendered_blocks import Trait, expect
from contextkit.providers.reply_json import object_of

BillingHeader = Literal["neutral", "significant"]
"""What the cache makes of the block."""
_PREFIX: str = client("claude-code")["billing_header"]


def is_billing_header(block: Json) -> bool:
    """Return whether a system block holds the header, and nothing else.

    >>> is_billing_header({"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.996; cc_entrypoint=cli;"})
    True
    >>> is_billing_header({"type": "text", "text": "x-anthropic-billing-header: a\\nYou are Claude Code."})
    False
    """
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return isinstance(text, str) and text.startswith(_PREFIX) and "\n" not in text.strip()


COMPACTED, REFERRING, SERVED = "compaction", "tool_reference", "server_tool_result"
EFFECTS = frozenset({COMPACTED, REFERRING, SERVED})
"""Flags that tell of an effect on the prompt, and key nothing by themselves."""
PLACEHOLDER = "[cleared]"
"""Stands where a tool result was. The API's own wording is not published."""
_TRIGGER: Json = {"type": "input_tokens", "value": 100_000}
_KEPT_USES, _KEPT_TURNS = 3, 1
"""Defaults of context editing."""


def edited_columns(
    layout: PromptLayout, params: Mapping[str, Json], dropped: Collection[int] = ()
) -> tuple[PromptColumns, list[Json]]:
    """The columns as the cache sees it, and `applied_edits`.

    `dropped` are segments the API leaves out, thinking that no longer holds.
    """
    edits = (params.get("context_management") or {}).get("edits") or []
    flags = EFFECTS.intersection(layout.columns.raised(layout.n))
    if not edits and not dropped and not flags - {SERVED}:
        return layout.columns, []
    columns = layout.columns.rewound(layout.n)
    hide(columns, {*dropped, *_before_summary(columns)})
    steps = ((_EDITS[edit["type"]], edit) for edit in edits if edit.get("type") in _EDITS)
    applied = [told for step, edit in steps if (told := step(columns, edit, str(params["model"]))) is not None]
    _expand(columns)
    return columns, applied


def hide(columns: PromptColumns, segments: Collection[int]) -> int:
    """Take segments out of the prompt; how many tokens that saves."""
    before = _total(columns)
    columns.silent.update(segments)
    columns._recount(min(segments, default=len(columns)))
    return before - _total(columns)


def thinking_in(columns: PromptColumns, n: int) -> list[int]:
    """Segments of thinking among the first `n`."""
    return [
        index
        for index in range(n)
        if columns.body(index).startswith((b'{"type":"thinking"', b'{"type":"redacted_thinking"'))
    ]


def _total(columns: PromptColumns) -> int:
    return columns.ends_tokens[-1] if len(columns) else 0


def _before_summary(columns: PromptColumns) -> Iterator[int]:
    """Messages that a compaction stands for, and compactions that failed: the API takes those for nothing."""
    blocks = [index for index, run in enumerate(columns.runs) if run == COMPACTED]
    held = [index for index in blocks if parse(columns.body(index)).get("content") is not None]
    yield from (index for index in blocks if index not in held)
    yield from range(columns.level_ends[1], held[-1]) if held else ()


def _expand(columns: PromptColumns) -> None:
    """Deferred tools enter the prompt where they are referred to; every reference is expanded."""
    deferred = [index for index in range(columns.level_ends[0]) if index in columns.silent]
    tools = {parse(columns.body(index)).get("name"): index for index in deferred}
    places = range(columns.level_ends[1], len(columns)) if tools else ()
    found = [index for index in places if b'"tool_reference"' in columns.body(index)]
    for index in found:
        block = parse(columns.body(index))
        named = [tools[name] for name in _names(block) if name in tools] if block.get("type") != "tool_removal" else []
        n_tokens = columns.sizes[index] + sum(columns.sizes[tool] for tool in named)
        _say(columns, index, b"".join(map(columns.body, (index, *named))), n_tokens)
    columns._recount(min(found, default=len(columns)))


def _names(value: Json) -> Iterator[str]:
    """Tools a block refers to."""
    if isinstance(value, dict):
        if value.get("type") == "tool_reference":
            yield str(value.get("tool_name") or value.get("name"))
        value = [inner for key, inner in value.items() if key in ("content", "tool_references", "tool")]
    for inner in value if isinstance(value, list) else ():
        yield from _names(inner)


def _say(columns: PromptColumns, index: int, body: bytes, n_tokens: int) -> None:
    """Let a segment stand for other bytes: the wire of this copy is never sent."""
    columns.bodies[index] = len(columns.wire)
    columns.wire += body
    columns.ends[index], columns.sizes[index] = len(columns.wire), n_tokens


def _clear_tool_uses(columns: PromptColumns, edit: Mapping[str, Json], model: str) -> Json:
    """The oldest results give way to a placeholder.

    Assumed: each request is looked at anew, and its whole clearing is measured.
    """
    uses = list(_uses(columns))
    trigger = {**_TRIGGER, **(edit.get("trigger") or {})}
    if (len(uses) if trigger["type"] == "tool_uses" else _total(columns)) <= trigger["value"]:
        return None
    kept = (edit.get("keep") or {}).get("value", _KEPT_USES)
    spared, inputs = set(edit.get("exclude_tools") or ()), edit.get("clear_tool_inputs")
    old = [use for use in (uses[:-kept] if kept else uses) if use[2]["name"] not in spared]
    tasks: list[tuple[int, dict[str, Json]]] = []
    for at, index, call, result in old:
        tasks.append((index, {**result, "content": [{"type": "text", "text": PLACEHOLDER}]}))
        if inputs is True or (isinstance(inputs, list) and call["name"] in inputs):
            tasks.append((at, {**call, "input": {}}))
    count = counter_for(model_named(model)).count
    sized = [
        (index, block, count(block) + columns.sizes[index] - count(parse(columns.body(index))))
        for index, block in tasks
    ]
    saved = sum(columns.sizes[index] - size for index, _, size in sized)
    if not old or saved < ((edit.get("clear_at_least") or {}).get("value") or 0):
        return None
    for index, block, size in sized:
        _say(columns, index, canonical(block), size)
    columns._recount(min(index for index, _, _ in sized))
    return {"type": edit["type"], "cleared_tool_uses": len(old), "cleared_input_tokens": saved}


_Use = tuple[int, int, dict[str, Json], dict[str, Json]]
"""Index of the block of a call, index of its result, both blocks."""


def _uses(columns: PromptColumns) -> Iterator[_Use]:
    """Answered calls, oldest first."""
    calls: dict[str, tuple[int, dict[str, Json]]] = {}
    for index, run in enumerate(columns.runs):
        if index in columns.silent or run not in ("tool_use", "tool_result"):
            continue
        block = parse(columns.body(index))
        if run == "tool_use":
            calls[block["id"]] = index, block
        elif block["tool_use_id"] in calls:
            at, call = calls.pop(block["tool_use_id"])
            yield at, index, call, block


def _clear_thinking(columns: PromptColumns, edit: Mapping[str, Json], model: str) -> Json:
    """Thinking leaves with all but the last turns that have some; a turn reaches from one user's words to the next."""
    keep = edit.get("keep") or {}
    if keep == "all" or keep.get("type") == "all":
        return None
    turns: dict[int, list[int]] = {}
    user_renderer, speaker, thoughts = 0, "", set(thinking_in(columns, len(columns)))
    for index in range(columns.level_ends[1], len(columns)):
        speaker = columns.roles[index] or speaker
        user_renderer += speaker == "user" and columns.runs[index] != "tool_result"
        if index in thoughts and index not in columns.silent:
            turns.setdefault(user_renderer, []).append(index)
    gone = list(turns.values())[: -keep.get("value", _KEPT_TURNS) or None]
    saved = hide(columns, [index for turn in gone for index in turn])
    return {"type": edit["type"], "cleared_thinking_turns": len(gone), "cleared_input_tokens": saved} if gone else None


_EDITS: Mapping[str, Callable[[PromptColumns, Mapping[str, Json], str], Json]] = {
    "clear_tool_uses_20250919": _clear_tool_uses,
    "clear_thinking_20251015": _clear_thinking,
}
"""Type of an edit → what it does to the prompt. `compact_20260112` does nothing to it: its block, in a later request,
does."""


WIRE = "anthropic_messages"


def _flags(value: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what a block holds, at any depth, that some level is keyed on or that changes the prompt elsewhere."""
    flags, pending = set[str](), list[Json]([value])
    for held in pending:
        if isinstance(held, list):
            pending.extend(held)
        elif isinstance(held, dict):
            flags.update(_FLAGGED.get(str(held.get("type")), ()))
            citations = held.get("citations")
            if isinstance(citations, dict) and citations.get("enabled"):
                flags.add("citations")
            pending.extend(held[key] for key in ("content", "source", "tool_references", "tool") if key in held)
    return tuple(sorted(flags))


SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_result",
)
"""What tools gave that ran at Anthropic: a request that caches anything caches up to the last of them."""
_FLAGGED: dict[str, tuple[str, ...]] = {
    "image": ("image",),
    "tool_reference": (REFERRING,),
    COMPACTED: (COMPACTED,),
    **dict.fromkeys(SERVER_RESULTS, (SERVED,)),
}
_UNSAID = Trait(can_hold_breakpoint=False, is_silent=True)
"""On the wire, not in the prompt."""
TRAITS: dict[str, Trait] = {
    "tool_use": Trait(run="tool_use"),
    "tool_result": Trait(run="tool_result", flags=_flags),
    "thinking": Trait(can_hold_breakpoint=False, is_thinking=True),
    "redacted_thinking": Trait(can_hold_breakpoint=False, is_thinking=True),
    **dict.fromkeys(("image", "document", "search_result", "tool_addition"), Trait(flags=_flags)),
    **dict.fromkeys(SERVER_RESULTS, Trait(run=SERVED, flags=_flags)),
    COMPACTED: Trait(run=COMPACTED, flags=_flags),
    **dict.fromkeys(("fallback", "mcp_tool_listing"), _UNSAID),
}
"""Block type → what the cache makes of it. Runs of tool_use and of tool_result are one position each since September
2026. That a listing is not in the prompt where it stands is inferred: its tools stand in the head
(beta_mcp_tool_listing_block_param.py)."""
PLAIN = Trait()
"""Every other block."""
DEFERRED = Trait(is_silent=True)
"""A tool with `defer_loading` is not in the prefix until it is referenced (tool-search docs)."""
SWITCHES = ("web_search", "web_fetch")
"""Server tools whose presence rewrites the system level but not the tools level (prompt-caching docs, "What invalidates
the cache")."""


def tool_trait(tool: Mapping[str, Json]) -> Trait:
    """Return how the cache treats one tool definition."""
    switch = next((name for name in SWITCHES if str(tool.get("type", "")).startswith(name)), None)
    is_late = tool.get("defer_loading") or (tool.get("default_config") or {}).get("defer_loading")
    return DEFERRED if is_late else _SWITCH_TRAITS[switch] if switch else PLAIN


_SWITCH_TRAITS = {
    name: Trait(is_silent=True, flags=lambda block, name=name: (name, *_flags(block)))  # type: ignore[misc]
    for name in SWITCHES
}


def _text(user_renderer: str) -> Json:
    return {"type": "text", "text": user_renderer}


def _source(part: Mapping[str, Json]) -> Json:
    if "url" in part:
        return {"type": "url", "url": part["url"]}
    kind = "text" if part["media_type"] == "text/plain" else "base64"
    return {"type": kind, "media_type": part["media_type"], "data": part["data"]}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    source = block.get("source") or {}
    names = ("url",) if "url" in source else ("media_type", "data")
    media = {key: source[key] for key in names if key in source}
    title = {"title": block["title"]} if "title" in block else {}
    return [{"type": block["type"], **media, **title}] if media and block["type"] in PARTS.media else []


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "image", "source": _source(part)},
        "document": lambda part: {
            "type": "document",
            "source": _source(part),
            **({"title": part["title"]} if "title" in part else {}),
        },
    },
    _candidates,
)
TOOL_FORMAT = Tools(
    WIRE,
    lambda name, description, schema: {"name": name, "description": description, "input_schema": schema},
    lambda tool: (tool.get("name"), tool.get("description"), tool.get("input_schema")),
)


def unmarked(block: Mapping[str, Json]) -> dict[str, Json]:
    """A block or tool without its marker."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def neutral(blocks: Json) -> list[Json]:
    """Content blocks as neutral parts; what has no neutral form is kept verbatim, without its marker and nulls."""
    return PARTS.neutral(_without_nulls(unmarked(block)) for block in blocks)


def tidied(block: Mapping[str, Json]) -> Mapping[str, Json]:
    """A block in its one spelling: no nulls.

    A tool result whose content is a list, and which says nothing where it holds nothing.

    >>> tidied({"type": "tool_result", "tool_use_id": "a", "content": "4", "is_error": False})
    {'type': 'tool_result', 'tool_use_id': 'a', 'content': [{'type': 'text', 'text': '4'}]}
    """
    plain = _without_nulls(block) if None in block.values() else block
    if plain["type"] != "tool_result" or _is_tidy_result(plain):
        return plain
    content = plain.get("content")
    listed = [_text(content)] if isinstance(content, str) and content else content
    empty = {"content"} if not listed else set()
    full = {**plain, "content": [_without_nulls(part) for part in listed] if isinstance(listed, list) else listed}
    return {
        key: value
        for key, value in full.items()
        if key not in (empty if plain.get("is_error") else empty | {"is_error"})
    }


def _is_tidy_result(block: Mapping[str, Json]) -> bool:
    """Return whether a result without nulls is in its one spelling already."""
    content = block.get("content")
    if not content or not isinstance(content, list) or ("is_error" in block and not block["is_error"]):
        return False
    return all(isinstance(part, dict) and None not in part.values() for part in content)


def _without_nulls(part: Json) -> Json:
    return {key: value for key, value in part.items() if value is not None} if isinstance(part, dict) else part


def user_renderer(takes_system: bool) -> Callable[[Mapping[str, Json]], tuple[str, list[Json]]]:
    """Return the renderer of user turns; the program's text goes in a system message between turns where the model
    takes one.
    """
    if takes_system:
        return lambda body: (body.get("role", "user"), PARTS.blocks(body["content"]))
    return lambda body: ("user", PARTS.blocks(user_content(body)))


def tool_result(call: str, **fields: Json) -> Json:
    """Make the block that answers a call, with `content` and `is_error` as given."""
    return {"type": "tool_result", "tool_use_id": call, **fields}


def answered(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """Render a tool result, or the whole block that somebody wrote."""
    blocks = PARTS.blocks(body["content"])
    if [block["type"] for block in blocks] == ["tool_result"]:
        return "user", blocks
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": call_id(body["call_id"]), "content": blocks}
    return "user", [tidied({**block, "is_error": body["is_error"]})]


def resulted(block: Mapping[str, Json]) -> Json:
    """A block that answers a call as the body of a result; what a result has no field for is kept with the whole block."""
    told = tidied(block)
    content, is_error = neutral(told.get("content") or []), bool(block.get("is_error"))
    body = {"call_id": block["tool_use_id"], "name": "", "content": content, "is_error": is_error}
    if normal(answered(body)[1][0]) != normal(told):
        body["content"] = [verbatim(WIRE, normal(told))]
    return body


def replied(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """Render a reply: the model's own blocks, or another wire's reply as Anthropic's blocks."""
    if body["native"]["wire"] == WIRE:
        return "assistant", body["native"]["body"]
    return "assistant", _noticed(body["text"]) + [_call(call) for call in body["calls"]]


def _call(call: Mapping[str, Json]) -> Json:
    return {"type": "tool_use", "id": call_id(call["id"]), "name": call["name"], "input": object_of(call["arguments"])}


def changed(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """A phase as tools withdrawn and given back (anthropic/types/beta/beta_request_tool_removal_block_param.py)."""
    blocks = [
        {"type": kind, "tool": {"type": "tool_reference", "name": name}}
        for kind, field in (("tool_removal", "removed"), ("tool_addition", "added"))
        for name in body.get(field, ())
    ]
    return "system", blocks + ([] if body.get("is_told") else _noticed(body.get("text", "")))


def _noticed(text: str) -> list[Json]:
    return [_text(text)] if text else []


PHASES: Mapping[str, Callable[[Mapping[str, Json]], tuple[str, list[Json]]]] = {
    "tool_changes": changed,
    "system_notice": lambda body: ("system", _noticed(body.get("text", ""))),
    "reminder": lambda body: ("user", _noticed(reminder(body.get("text", "")))),
}
"""How a phase is told → (role, blocks)."""


def added(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """Tools that came late, defined where they come (anthropic/types/beta/beta_tool_change_tool_definition_param.py)."""
    tools = (
        {"type": "tool_definition", "definition": TOOL_FORMAT.sent(definition)} for definition in body["definitions"]
    )
    return "system", [{"type": "tool_addition", "tool": tool} for tool in tools]


LATE: Mapping[str, Callable[[Mapping[str, Json]], tuple[str, list[Json]]]] = {
    "tool_addition": added,
    "bridge_system": lambda body: ("system", _noticed(announcement(body))),
    "bridge": lambda body: ("user", _noticed(reminder(announcement(body)))),
}
"""How a tool that comes late is announced → (role, blocks)."""


def begun(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """Render the start of an epoch: the caller's words, or the model's compaction, in its own turn
    (beta_compaction_block_param.py).
    """
    blocks = PARTS.blocks(body["summary"])
    return "assistant" if blocks and blocks[0]["type"] == "compaction" else "user", blocks


KINDS: dict[str, Callable[[Mapping[str, Json]], tuple[str, list[Json]]]] = {
    "assistant": replied,
    "result": answered,
    "epoch": begun,
}
"""Entry kind → (role, blocks), where that is the same for every model."""


def noticed(told: str) -> Callable[[Mapping[str, Json]], tuple[str, list[Json]]]:
    """Return the renderer of notices: an event as `told` names it, the program's plain words in the user's turn."""
    return lambda body: PHASES[told](body) if "event" in body else ("user", _noticed(body["text"]))


TTLS = {"5m": 300, "1h": 3600}
"""`cache_control.ttl` → seconds (anthropic/types/cache_control_ephemeral_param.py)."""
_SPLIT = {
    "output_config": ("effort", "format", "task_budget"),
    "thinking": ("display", "block_binding"),
    "container": ("skills",),
}
"""Parameter → fields of it that are keyed apart from the rest of it, each as `parameter.field`."""


def prompt(layout: PromptLayout, params: Mapping[str, Json], dropped: Collection[int] = ()) -> Prompt:
    """The prompt of a request: what edits leave, keyed, with the marks it carries and those the API sets.

    Without `dropped` segments.
    """
    columns, n = edited_columns(layout, params, dropped)[0], layout.n
    flags = layout.columns.raised(n)
    marks = _with_automatic(layout, params.get("cache_control"))
    marks = _with_served(columns, n, marks) if SERVED in flags and marks else marks
    return keyed("anthropic", _split(params), tuple(flag for flag in flags if flag not in EFFECTS), columns, n, marks)


def _split(params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters, the fields that count by themselves apart."""
    split: dict[str, Json] = {}
    for name, value in params.items():
        fields = _SPLIT.get(name, ()) if isinstance(value, dict) else ()
        split.update((f"{name}.{field}", value.get(field)) for field in fields)
        rest = {key: inner for key, inner in value.items() if key not in fields} if fields else value
        if rest or not fields:
            split[name] = rest
    return split


def _with_automatic(layout: PromptLayout, marker: Json) -> tuple[Breakpoint, ...]:
    """A top-level `cache_control` marks the last block that can carry one, unless that one is marked."""
    if marker is None:
        return layout.breakpoints
    place = next((i for i in range(layout.n - 1, -1, -1) if layout.columns.breakpoint_offsets[i] >= 0), None)
    if place is None or any(mark.segment == place for mark in layout.breakpoints):
        return layout.breakpoints
    return (*layout.breakpoints, Breakpoint(place, lifetime(marker), LOOKBACK))


def _with_served(columns: PromptColumns, n: int, marks: tuple[Breakpoint, ...]) -> tuple[Breakpoint, ...]:
    """Add a five-minute breakpoint at the last result of a server's tool (prompt-caching docs).

    Not where a breakpoint behind it asks for longer, which is assumed.
    """
    place = next((i for i in range(n - 1, -1, -1) if columns.runs[i] == SERVED), None)
    if place is None or any(
        mark.segment == place or (mark.segment > place and mark.ttl_seconds > TTLS["5m"]) for mark in marks
    ):
        return marks
    return tuple(sorted((*marks, Breakpoint(place, TTLS["5m"], LOOKBACK)), key=lambda mark: mark.segment))


def lifetime(marker: Json) -> int:
    """Seconds a marker asks for."""
    ttl = expect(marker, dict, "cache_control", "an object").get("ttl") or "5m"
    return TTLS[expect(ttl if ttl in tuple(TTLS) else None, str, "cache_control.ttl", "'5m' or '1h'")]
