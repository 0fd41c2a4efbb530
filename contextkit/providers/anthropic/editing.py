"""What the API does to a conversation before its cache sees it: edits, compactions, tools that a reference brings in.

Takes a layout and the fields of a request, gives the track that is cached instead, and what was cleared. Used by
whoever predicts a bill and by whoever makes one. The client goes on sending everything, so a request that is edited
costs one walk over its blocks. Sources: the context editing, compaction and tool search docs;
`anthropic/types/beta/beta_clear_*_param.py`, beta_compaction_block_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from contextkit.canonical import Json, canonical, parse
from contextkit.layout.layout import Layout
from contextkit.layout.tokens import counter_for
from contextkit.layout.track import Track
from contextkit.models import model_named

COMPACTED, REFERRING, SERVED = "compaction", "tool_reference", "server_tool_result"
EFFECTS = frozenset({COMPACTED, REFERRING, SERVED})
"""Flags that tell of an effect on the prompt, and key nothing by themselves."""
PLACEHOLDER = "[cleared]"
"""Stands where a tool result was. The API's own wording is not published."""
_TRIGGER: Json = {"type": "input_tokens", "value": 100_000}
_KEPT_USES, _KEPT_TURNS = 3, 1
"""Defaults of context editing."""


def seen(layout: Layout, params: Mapping[str, Json], dropped: Collection[int] = ()) -> tuple[Track, list[Json]]:
    """The track as the cache sees it, and `applied_edits`.

    `dropped` are segments the API leaves out, thinking that no longer holds.
    """
    edits = (params.get("context_management") or {}).get("edits") or []
    flags = EFFECTS.intersection(layout.track.raised(layout.n))
    if not edits and not dropped and not flags - {SERVED}:
        return layout.track, []
    track = layout.track.rewound(layout.n)
    hide(track, {*dropped, *_before_summary(track)})
    steps = ((_EDITS[edit["type"]], edit) for edit in edits if edit.get("type") in _EDITS)
    applied = [told for step, edit in steps if (told := step(track, edit, str(params["model"]))) is not None]
    _expand(track)
    return track, applied


def hide(track: Track, segments: Collection[int]) -> int:
    """Take segments out of the prompt; how many tokens that saves."""
    before = _total(track)
    track.silent.update(segments)
    track._recount(min(segments, default=len(track)))
    return before - _total(track)


def thinking_in(track: Track, n: int) -> list[int]:
    """Segments of thinking among the first `n`."""
    return [
        index
        for index in range(n)
        if track.body(index).startswith((b'{"type":"thinking"', b'{"type":"redacted_thinking"'))
    ]


def _total(track: Track) -> int:
    return track.ends_tokens[-1] if len(track) else 0


def _before_summary(track: Track) -> Iterator[int]:
    """Messages that a compaction stands for, and compactions that failed: the API takes those for nothing."""
    blocks = [index for index, run in enumerate(track.runs) if run == COMPACTED]
    held = [index for index in blocks if parse(track.body(index)).get("content") is not None]
    yield from (index for index in blocks if index not in held)
    yield from range(track.level_ends[1], held[-1]) if held else ()


def _expand(track: Track) -> None:
    """Deferred tools enter the prompt where they are referred to; every reference is expanded."""
    deferred = [index for index in range(track.level_ends[0]) if index in track.silent]
    tools = {parse(track.body(index)).get("name"): index for index in deferred}
    found = (
        [index for index in range(track.level_ends[1], len(track)) if b'"tool_reference"' in track.body(index)]
        if tools
        else []
    )
    for index in found:
        block = parse(track.body(index))
        named = [tools[name] for name in _names(block) if name in tools] if block.get("type") != "tool_removal" else []
        definitions = b"".join(map(track.body, named))
        _say(
            track, index, track.body(index) + definitions, track.sizes[index] + sum(track.sizes[tool] for tool in named)
        )
    track._recount(min(found, default=len(track)))


def _names(value: Json) -> Iterator[str]:
    """Tools a block refers to."""
    if isinstance(value, dict):
        if value.get("type") == "tool_reference":
            yield str(value.get("tool_name") or value.get("name"))
        value = [inner for key, inner in value.items() if key in ("content", "tool_references", "tool")]
    for inner in value if isinstance(value, list) else ():
        yield from _names(inner)


def _say(track: Track, index: int, body: bytes, n_tokens: int) -> None:
    """Let a segment stand for other bytes: the wire of this copy is never sent."""
    track.bodies[index] = len(track.wire)
    track.wire += body
    track.ends[index], track.sizes[index] = len(track.wire), n_tokens


def _clear_tool_uses(track: Track, edit: Mapping[str, Json], model: str) -> Json:
    """The oldest results give way to a placeholder.

    Assumed: each request is looked at anew, and its whole clearing is measured.
    """
    uses = list(_uses(track))
    trigger = {**_TRIGGER, **(edit.get("trigger") or {})}
    if (len(uses) if trigger["type"] == "tool_uses" else _total(track)) <= trigger["value"]:
        return None
    kept = (edit.get("keep") or {}).get("value", _KEPT_USES)
    spared = set(edit.get("exclude_tools") or ())
    old = [use for use in (uses[:-kept] if kept else uses) if use[2]["name"] not in spared]
    tasks = [task for use in old for task in _emptied(use, edit.get("clear_tool_inputs"))]
    count = counter_for(model_named(model)).count
    sized = [
        (index, block, count(block) + track.sizes[index] - count(parse(track.body(index)))) for index, block in tasks
    ]
    saved = sum(track.sizes[index] - size for index, _, size in sized)
    if not old or saved < ((edit.get("clear_at_least") or {}).get("value") or 0):
        return None
    for index, block, size in sized:
        _say(track, index, canonical(block), size)
    track._recount(min(index for index, _, _ in sized))
    return {"type": edit["type"], "cleared_tool_uses": len(old), "cleared_input_tokens": saved}


_Use = tuple[int, int, dict[str, Json], dict[str, Json]]
"""Segment of a call, segment of its result, the blocks."""


def _uses(track: Track) -> Iterator[_Use]:
    """Answered calls, oldest first."""
    calls: dict[str, tuple[int, dict[str, Json]]] = {}
    for index, run in enumerate(track.runs):
        if index in track.silent or run not in ("tool_use", "tool_result"):
            continue
        block = parse(track.body(index))
        if run == "tool_use":
            calls[block["id"]] = index, block
        elif block["tool_use_id"] in calls:
            at, call = calls.pop(block["tool_use_id"])
            yield at, index, call, block


def _emptied(use: _Use, inputs: Json) -> Iterator[tuple[int, dict[str, Json]]]:
    at, index, call, result = use
    yield index, {**result, "content": [{"type": "text", "text": PLACEHOLDER}]}
    if inputs is True or (isinstance(inputs, list) and call["name"] in inputs):
        yield at, {**call, "input": {}}


def _clear_thinking(track: Track, edit: Mapping[str, Json], model: str) -> Json:
    """Thinking leaves with all but the last turns that have some; a turn reaches from one user's words to the next."""
    keep = edit.get("keep") or {}
    if keep == "all" or keep.get("type") == "all":
        return None
    turns: dict[int, list[int]] = {}
    said, speaker, thoughts = 0, "", set(thinking_in(track, len(track)))
    for index in range(track.level_ends[1], len(track)):
        speaker = track.roles[index] or speaker
        said += speaker == "user" and track.runs[index] != "tool_result"
        if index in thoughts and index not in track.silent:
            turns.setdefault(said, []).append(index)
    gone = list(turns.values())[: -keep.get("value", _KEPT_TURNS) or None]
    saved = hide(track, [index for turn in gone for index in turn])
    return {"type": edit["type"], "cleared_thinking_turns": len(gone), "cleared_input_tokens": saved} if gone else None


_EDITS: Mapping[str, Callable[[Track, Mapping[str, Json], str], Json]] = {
    "clear_tool_uses_20250919": _clear_tool_uses,
    "clear_thinking_20251015": _clear_thinking,
}
"""Type of an edit → what it does to the prompt. `compact_20260112` does nothing to it: its block, in a later request,
does."""
