"""What Anthropic refuses in a `/v1/messages` body of the right shape.

Sources: platform.claude.com/docs/en/ build-with-claude/prompt-caching (markers, pre-warming), api/errors (prefill),
agents-and-tools/ tool-use/define-tools (forced choice), api/migration-2026-10-21 (version),
build-with-claude/mid-conversation-system-messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from contextkit.canonical import Json
from contextkit.prompt.prompt import Layout
from contextkit.server.refusals.anthropic_betas import compactions, edits, opted_in, platform, threadless
from contextkit.server.refusals.anthropic_shape import (
    NEW_VERSION,
    authenticated,
    blocks,
    counted,
    counted_abroad,
    created,
    invalid,
    options,
    placed,
    posted,
    tool_names,
    versioned,
)
from contextkit.server.refusals.choices import named
from contextkit.server.refusals.refusal import Asked, Early, Late, Refusal, Sent
from contextkit.server.refusals.tool_changes import tool_changes, tool_changes_in_turns

MOST_MARKS = 4
_TTLS = {300: "5m", 3600: "1h"}
_FORCING = frozenset({"any", "tool"})


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Neighbouring messages of one role, which the API merges."""

    index: int
    """The first of them."""
    role: str
    """Who speaks."""
    blocks: list[Mapping[str, Json]]
    """What is said."""

    def ids(self, kind: str, field: str) -> list[str]:
        """Ids of its blocks of one type."""
        return [block[field] for block in self.blocks if block["type"] == kind]


def _turns(body: Mapping[str, Json]) -> list[_Spoken]:
    turns: list[_Spoken] = []
    for index, message in enumerate(body["messages"]):
        content = message["content"]
        said = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if turns and turns[-1].role == message["role"]:
            turns[-1].blocks.extend(said)
        else:
            turns.append(_Spoken(index, message["role"], list(said)))
    return turns


def _option(body: Mapping[str, Json], *path: str) -> Json:
    value: Json = body
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_thinking(body: Mapping[str, Json]) -> bool:
    return bool(_option(body, "thinking", "type") == "enabled")


def new_version(sent: Sent) -> Iterator[Refusal]:
    """Sampling parameters the newest version no longer takes."""
    for name in ("temperature", "top_p", "top_k") if sent.headers.get("anthropic-version") == NEW_VERSION else ():
        if sent.body.get(name) is not None:
            yield invalid(f"{name}: not supported with anthropic-version {NEW_VERSION}")


def prewarming(sent: Sent) -> Iterator[Refusal]:
    """`max_tokens: 0` fills the cache; what only a generation needs conflicts with it."""
    tokens = sent.body.get("max_tokens", 1)
    if tokens < 0:
        yield invalid("max_tokens: Input should be greater than or equal to 0")
    conflicts = (
        ("stream", sent.body.get("stream") is True),
        ("thinking", _is_thinking(sent.body)),
        ("output_config.format", _option(sent.body, "output_config", "format") is not None),
        ("tool_choice", _option(sent.body, "tool_choice", "type") in _FORCING),
    )
    yield from (
        invalid(f"max_tokens: 0 cannot be combined with {name}") for name, holds in conflicts if tokens == 0 and holds
    )


def thinking(sent: Sent) -> Iterator[Refusal]:
    """A budget that fits, and no forced tool beside manual thinking."""
    budget = _option(sent.body, "thinking", "budget_tokens")
    if _is_thinking(sent.body):
        if not isinstance(budget, int) or budget < 1024:
            yield invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        elif sent.body.get("max_tokens", budget + 1) <= budget:
            yield invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if _option(sent.body, "tool_choice", "type") in _FORCING:
            yield invalid("Thinking may not be enabled when tool_choice forces tool use.")


def forced(asked: Asked) -> Iterator[Refusal]:
    """`tool_choice` any or tool, where the model takes it and there is a tool."""
    choice = _option(asked.sent.body, "tool_choice", "type")
    if choice in _FORCING and not asked.model.accepts_forced_choice:
        yield invalid(f'tool_choice: "{choice}" is not supported by this model; use "auto" or "none"')
    if choice in _FORCING and not asked.sent.body.get("tools"):
        yield invalid("tool_choice: may only be specified while providing tools.")


def conversation(asked: Asked) -> Iterator[Refusal]:
    """Who speaks when, and who answers whom."""
    turns = _turns(asked.sent.body)
    for check in (_order, _answered, _unique_calls, _prefill):
        yield from check(asked, turns)


def _order(asked: Asked, turns: list[_Spoken]) -> Iterator[Refusal]:
    """Who may speak when."""
    if turns[0].role != "user" and [block["type"] for block in turns[0].blocks[:1]] != ["compaction"]:
        yield invalid('messages: first message must use the "user" role')
    for at, turn in enumerate(turns):
        if turn.role == "system" and at:
            yield from _mid_system(asked, turns[at - 1], turn, turns[at + 1 :])


def _mid_system(asked: Asked, before: _Spoken, system: _Spoken, after: list[_Spoken]) -> Iterator[Refusal]:
    if not asked.model.accepts_mid_system:
        yield invalid(f"messages.{system.index}.role: `system` messages are not supported by this model")
    ends_in_result = (
        before.role == "assistant" and before.blocks and str(before.blocks[-1]["type"]).endswith("_tool_result")
    )
    if before.role != "user" and not ends_in_result:
        yield invalid(f"messages.{system.index}: a `system` message must follow a `user` message")
    if after and after[0].role != "assistant":
        yield invalid(
            f"messages.{system.index}: a `system` message must be last or be followed by an `assistant` message"
        )


def _answered(asked: Asked, spoken: list[_Spoken]) -> Iterator[Refusal]:
    """Each call has its result in the next turn, and each result its call in the turn before."""
    turns = [turn for turn in spoken if turn.role != "system"]
    edges = _Spoken(0, "", []), _Spoken(len(asked.sent.body["messages"]), "user", [])
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


def _unique_calls(asked: Asked, turns: list[_Spoken]) -> Iterator[Refusal]:
    """No id twice in a turn."""
    for turn in turns:
        for kind, field in (("tool_use", "id"), ("tool_result", "tool_use_id")):
            ids = turn.ids(kind, field)
            if len(set(ids)) < len(ids):
                yield invalid(f"messages.{turn.index}: `{kind}` ids must be unique")


def _prefill(asked: Asked, turns: list[_Spoken]) -> Iterator[Refusal]:
    """Words put into the model's mouth; a paused turn goes on, and one that is only compacted says nothing more."""
    if asked.sent.body.get("compaction") is not None:
        return
    last = turns[-1]
    ends_in_text = (
        last.role == "assistant" and (not last.blocks or last.blocks[-1]["type"] == "text") and not asked.continues
    )
    if ends_in_text and not asked.model.accepts_prefill:
        yield invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    if ends_in_text and _is_thinking(asked.sent.body):
        yield invalid("When thinking is enabled, the conversation must end with a user message.")


def marks(asked: Asked) -> Iterator[Refusal]:
    """At most four, longer lifetimes first."""
    explicit = asked.parsed.layout.breakpoints
    if len(explicit) > MOST_MARKS:
        yield invalid(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {len(explicit)}.")
    rising = [
        later for earlier, later in pairwise(asked.parsed.prompt.breakpoints) if later.ttl_seconds > earlier.ttl_seconds
    ]
    if rising:
        yield invalid(
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def automatic(asked: Asked) -> Iterator[Refusal]:
    """A top-level marker that would be a fifth, or contradict the one that is there."""
    marker, layout = asked.sent.body.get("cache_control"), asked.parsed.layout
    place = _last_markable(layout)
    if marker is None or place is None:
        return
    own = next((mark for mark in layout.breakpoints if mark.segment == place), None)
    if own and _TTLS[own.ttl_seconds] != marker.get("ttl", "5m"):
        yield invalid("cache_control: the last block already has a cache_control with another ttl")
    if not own and len(layout.breakpoints) >= MOST_MARKS:
        yield invalid(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {MOST_MARKS + 1}.")


def _last_markable(layout: Layout) -> int | None:
    return next((index for index in range(layout.n - 1, -1, -1) if layout.track.marks[index] >= 0), None)


def window(asked: Asked) -> Iterator[Refusal]:
    """A prompt that fits."""
    if asked.parsed.prompt.n_tokens > asked.model.window_tokens:
        yield invalid(
            f"prompt is too long: {asked.parsed.prompt.n_tokens} tokens > {asked.model.window_tokens} maximum"
        )


def moved(body: Mapping[str, Json], ordinal: int) -> Refusal:
    """Thinking block number `ordinal` no longer stands behind the conversation it was made from."""
    paths = [
        at.path
        for at in placed(body)
        if at.role == "assistant" and at.block.get("type") in ("thinking", "redacted_thinking")
    ]
    return invalid(
        f"{paths[ordinal]}: `thinking` blocks are bound to the conversation before them, and what stands before this one (system, tools, "
        "messages) has changed since it was generated. Send the earlier conversation unchanged, or remove thinking blocks oldest first."
    )


_SAID: tuple[Early, ...] = (
    options,
    blocks,
    tool_names,
    tool_changes,
    tool_changes_in_turns,
    opted_in,
    named,
    edits,
    compactions,
    new_version,
)
EARLY: tuple[Early, ...] = (authenticated, versioned, created, threadless, *_SAID, prewarming, thinking)
ABROAD: Mapping[str, tuple[Early, ...]] = {
    name: (authenticated, platform(name), posted, threadless, *_SAID, prewarming, thinking)
    for name in ("Amazon Bedrock", "Google Cloud")
}
"""On platforms where the version stands in the body, and the model in the path."""
LATE: tuple[Late, ...] = (conversation, forced, marks, automatic, window)
EARLY_COUNT: tuple[Early, ...] = (authenticated, versioned, counted, *_SAID, thinking)
COUNT_ABROAD: tuple[Early, ...] = (authenticated, platform("Google Cloud"), counted_abroad, *_SAID, thinking)
"""For `/v1/messages/count_tokens`; its late checks are the same."""
