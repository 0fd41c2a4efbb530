"""Anthropic's content blocks: neutral parts and log entries in its words, and back.

Two tables, read in both directions. Block fields are those of `anthropic.types` 2.11; facts about caching from the
prompt-caching docs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.anthropic.editing import COMPACTED, REFERRING, SERVED
from contextkit.providers.cutting import Trait
from contextkit.providers.foreign import announcement, call_id, heard, object_of, reminder
from contextkit.providers.neutral.parts import Parts, Tools, verbatim

WIRE = "anthropic_messages"


def _flags(value: Mapping[str, Json]) -> tuple[str, ...]:
    """What a block holds, at any depth, that some level is keyed on or that changes the prompt elsewhere."""
    return tuple(sorted(set(_found(value))))


def _found(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _FLAGGED.get(str(value.get("type")), ())
        citations = value.get("citations")
        yield from ("citations",) if isinstance(citations, dict) and citations.get("enabled") else ()
        value = [inner for key, inner in value.items() if key in ("content", "source", "tool_references", "tool")]
    for inner in value if isinstance(value, list) else ():
        yield from _found(inner)


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
_UNSAID = Trait(is_markable=False, is_silent=True)
"""On the wire, not in the prompt."""
TRAITS: dict[str, Trait] = {
    "tool_use": Trait(run="tool_use"),
    "tool_result": Trait(run="tool_result", flags=_flags),
    "thinking": Trait(is_markable=False, is_thinking=True),
    "redacted_thinking": Trait(is_markable=False, is_thinking=True),
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
    """What the cache makes of one tool definition."""
    switch = next((name for name in SWITCHES if str(tool.get("type", "")).startswith(name)), None)
    is_late = tool.get("defer_loading") or (tool.get("default_config") or {}).get("defer_loading")
    return DEFERRED if is_late else _SWITCH_TRAITS[switch] if switch else PLAIN


_SWITCH_TRAITS = {
    name: Trait(is_silent=True, flags=lambda block, name=name: (name, *_found(block)))  # type: ignore[misc]
    for name in SWITCHES
}


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


def _source(part: Mapping[str, Json]) -> Json:
    if "url" in part:
        return {"type": "url", "url": part["url"]}
    kind = "text" if part["media_type"] == "text/plain" else "base64"
    return {"type": kind, "media_type": part["media_type"], "data": part["data"]}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    source = block.get("source") or {}
    media = (
        {"url": source["url"]}
        if "url" in source
        else {key: source[key] for key in ("media_type", "data") if key in source}
    )
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
TOOLS = Tools(
    WIRE,
    lambda name, description, schema: {"name": name, "description": description, "input_schema": schema},
    lambda tool: (tool.get("name"), tool.get("description"), tool.get("input_schema")),
)


def unmarked(block: Mapping[str, Json]) -> dict[str, Json]:
    """A block or tool without its marker."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def neutral(blocks: Json) -> list[Json]:
    """Content blocks as neutral parts; what has no neutral form is kept verbatim, without its marker and nulls."""
    return PARTS.neutral(_told(unmarked(block)) for block in blocks)


def tidied(block: Mapping[str, Json]) -> Mapping[str, Json]:
    """A block in its one spelling: no nulls.

    A tool result whose content is a list, and which says nothing where it holds nothing.

    >>> tidied({"type": "tool_result", "tool_use_id": "a", "content": "4", "is_error": False})
    {'type': 'tool_result', 'tool_use_id': 'a', 'content': [{'type': 'text', 'text': '4'}]}
    """
    plain = _told(block) if None in block.values() else block
    if plain["type"] != "tool_result":
        return plain
    content = plain.get("content")
    listed = [_text(content)] if isinstance(content, str) and content else content
    empty = {"content"} if not listed else set()
    full = {**plain, "content": [_told(part) for part in listed] if isinstance(listed, list) else listed}
    return {
        key: value
        for key, value in full.items()
        if key not in (empty if plain.get("is_error") else empty | {"is_error"})
    }


def _told(part: Json) -> Json:
    return {key: value for key, value in part.items() if value is not None} if isinstance(part, dict) else part


def said(takes_system: bool) -> Callable[[Mapping[str, Json]], tuple[str, list[Json]]]:
    """How a user speaks, and the program in a system message between turns, where the model takes one."""
    if takes_system:
        return lambda body: (body.get("role", "user"), PARTS.blocks(body["content"]))
    return lambda body: ("user", PARTS.blocks(heard(body)))


def answered(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """What a tool gave, or the whole block of it that somebody wrote."""
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
    """What the model said: its own blocks, or another wire's reply in ours."""
    if body["native"]["wire"] == WIRE:
        return "assistant", body["native"]["body"]
    return "assistant", _noticed(body["text"]) + [_call(call) for call in body["calls"]]


def _call(call: Mapping[str, Json]) -> Json:
    return {"type": "tool_use", "id": call_id(call["id"]), "name": call["name"], "input": object_of(call["arguments"])}


def changed(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """A phase as tools withdrawn and given back (anthropic/types/beta/beta_request_tool_removal_block_param.py)."""
    gone = [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}} for name in body.get("removed", ())
    ]
    back = [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}} for name in body.get("added", ())
    ]
    return "system", gone + back + ([] if body.get("is_told") else _noticed(body.get("text", "")))


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
    tools = ({"type": "tool_definition", "definition": TOOLS.sent(definition)} for definition in body["definitions"])
    return "system", [{"type": "tool_addition", "tool": tool} for tool in tools]


LATE: Mapping[str, Callable[[Mapping[str, Json]], tuple[str, list[Json]]]] = {
    "tool_addition": added,
    "bridge_system": lambda body: ("system", _noticed(announcement(body))),
    "bridge": lambda body: ("user", _noticed(reminder(announcement(body)))),
}
"""How a tool that comes late is announced → (role, blocks)."""


def begun(body: Mapping[str, Json]) -> tuple[str, list[Json]]:
    """What an epoch begins with: the caller's words, or the model's compaction, in its own turn
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
    """How a notice is said: an event as `told` names it, the program's plain words in the user's turn."""
    return lambda body: PHASES[told](body) if "event" in body else ("user", _noticed(body["text"]))
