"""Conversations that use every block a request may hold, on every wire: what the SDKs' own types know is what is
generated.

A block that a new version of an SDK brings is generated as soon as a table of `pools.py` says who says it, and missed
until then."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, get_args

from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as BetaParams
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionToolUnionParam
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as ChatParams
from openai.types.responses import ToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as ResponsesParams

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses
from contextkit.providers import BedrockConverse, Gemini
from contextkit.providers.provider import Provider
from tests.laws.pools import (
    ANSWER,
    ANTHROPIC,
    BEDROCK,
    BESIDE,
    BETAS,
    CALL,
    CHAT,
    GEMINI,
    MODEL,
    NAMED,
    NEVER,
    RESPONSES,
    SYSTEM,
    USER,
    Pool,
    anthropic_blocks,
    anthropic_heads,
    anthropic_said,
    bedrock_blocks,
    bedrock_heads,
    bedrock_numbered,
    chat_messages,
    gemini_heads,
    gemini_parts,
    item_said,
    named,
    of_types,
    response_items,
    with_id,
)
from tests.providers import filled_params, oracles
from tests.providers.strict import faults

Json = Any
_EVERYBODY = (USER, MODEL, SYSTEM, CALL, ANSWER)


@dataclass
class Turn:
    """What is said up to the next reply, and that reply."""

    user: list[Json] = field(default_factory=list)
    system: list[Json] = field(default_factory=list)
    model: list[Json] = field(default_factory=list)
    calls: list[tuple[Json, Json]] = field(default_factory=list)
    """Calls of the reply, each with its answer."""


@dataclass(frozen=True)
class Row:
    """One wire."""

    speakers: Mapping[str, tuple[str, ...]]
    """Type of block → who may say it."""
    blocks: Callable[[], Pool]
    """Type of block → blocks of it, from the types of the SDK; its keys are what the SDK knows."""
    body: Callable[[list[Turn]], Json]
    """Turns as a request body."""
    provider: Callable[[], Provider]
    """As a user makes it."""
    faults: Callable[[Json], list[str]]
    """What the SDK's types have against a body."""
    said: Callable[[str, Json], Json] = lambda who, block: block
    """A block as somebody may say it; None where it is another's to say."""
    numbered: Callable[[Json, str], Json] = lambda block, name: block
    """A call or an answer with this id."""
    heads: Callable[[], list[Json]] = list
    """Fields of a body that hold one tool, or one part of a system prompt, each of every type there is."""
    answered: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    """Type of a call → type of its answer, where that matters."""


def _messages(turns: list[Turn]) -> Iterator[Json]:
    answers: list[Json] = []
    for turn in turns:
        yield {"role": "user", "content": [*answers, *turn.user]}
        yield from [{"role": "system", "content": turn.system}] if turn.system else []
        yield from (
            [{"role": "assistant", "content": [*turn.model, *(call for call, _ in turn.calls)]}]
            if turn.model or turn.calls
            else []
        )
        answers = [answer for _, answer in turn.calls]
    yield from [{"role": "user", "content": answers}] if answers else []


def _chat_messages(turns: list[Turn]) -> Iterator[Json]:
    answers: list[Json] = []
    for turn in turns:
        yield from (*answers, *turn.user, *turn.system, *turn.model)
        calls = [call for call, _ in turn.calls]
        yield from [{"role": "assistant", "tool_calls": calls}] if calls else []
        answers = [answer for _, answer in turn.calls]
    yield from answers


def _flat(turns: list[Turn]) -> Iterator[Json]:
    answers: list[Json] = []
    for turn in turns:
        yield from (*answers, *turn.user, *turn.system, *turn.model, *(call for call, _ in turn.calls))
        answers = [answer for _, answer in turn.calls]
    yield from answers


def _contents(turns: list[Turn]) -> Iterator[Json]:
    for message in _messages(turns):
        yield {"role": {"assistant": "model"}.get(message["role"], message["role"]), "parts": message["content"]}


ROWS: dict[str, Row] = {
    "anthropic_messages": Row(
        ANTHROPIC,
        anthropic_blocks,
        lambda turns: {"model": "claude-opus-5", "max_tokens": 9, "tools": NAMED, "messages": list(_messages(turns))},
        lambda: AnthropicMessages("claude-opus-5", max_tokens=9, betas=BETAS),
        lambda body: faults(BetaParams, body),
        anthropic_said,
        lambda block, name: with_id(block, name, {"tool_result": "tool_use_id", "": "id"}),
        anthropic_heads,
    ),
    "openai_chat": Row(
        CHAT,
        chat_messages,
        lambda turns: {"model": "gpt-6.1-sol", "messages": list(_chat_messages(turns))},
        lambda: OpenAIChat("gpt-6.1-sol"),
        lambda body: faults(ChatParams, body),
        numbered=lambda block, name: with_id(block, name, {"tool": "tool_call_id", "": "id"}),
        heads=lambda: [{"tools": [tool]} for tool in filled_params.variants(ChatCompletionToolUnionParam)],
    ),
    "openai_responses": Row(
        RESPONSES,
        response_items,
        lambda turns: {"model": "gpt-6.1-sol", "store": False, "input": list(_flat(turns))},
        lambda: OpenAIResponses("gpt-6.1-sol"),
        lambda body: faults(ResponsesParams, body),
        said=item_said,
        numbered=lambda block, name: with_id(block, name, {"": "call_id"}),
        answered={
            "function_call": "function_call_output",
            "custom_tool_call": "custom_tool_call_output",
            "tool_search_call": "tool_search_output",
        },
        heads=lambda: [{"tools": [tool]} for tool in of_types(get_args(ToolParam))],
    ),
    "bedrock_converse": Row(
        BEDROCK,
        bedrock_blocks,
        lambda turns: {"modelId": "anthropic.claude-sonnet-5-5", "messages": list(_messages(turns))},
        lambda: BedrockConverse("anthropic.claude-sonnet-5-5"),
        oracles.bedrock_faults,
        numbered=bedrock_numbered,
        heads=bedrock_heads,
    ),
    "gemini": Row(
        GEMINI | dict.fromkeys(BESIDE, (NEVER, "it stands beside another field")),
        gemini_parts,
        lambda turns: {"model": "gemini-2.5-pro", "contents": list(_contents(turns))},
        lambda: Gemini("gemini-2.5-pro"),
        oracles.gemini_faults,
        numbered=named,
        heads=gemini_heads,
    ),
}
"""Wire → its row."""


@cache
def spoken_by(wire: str, who: str) -> list[Json]:
    """All blocks of a wire that `who` may say."""
    return [block for kind in ROWS[wire].speakers for block in _of_kind(wire, kind, who)]


def _of_kind(wire: str, kind: str, who: str) -> list[Json]:
    row = ROWS[wire]
    said = (row.said(who, block) for block in row.blocks()[kind]) if who in row.speakers[kind] else ()
    return [block for block in said if block is not None]


def _pairs(wire: str, calls: list[Json], answers: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Each call with an answer of its kind, each answer with a call."""
    number, made = ROWS[wire].numbered, count(1)
    for call, answer in ROWS[wire].answered.items():
        mine = [block for block in calls if block.get("type", call) == call or not call]
        theirs = [block for block in answers if block.get("type", answer) == answer or not answer]
        for index in range(max(len(mine), len(theirs)) if mine and theirs else 0):
            name = f"call_{next(made)}"
            yield number(mine[index % len(mine)], name), number(theirs[index % len(theirs)], name)


def covering(blocks: Iterable[Json]) -> Iterator[Json]:
    """Those of `blocks` that hold a word which none before them held."""
    seen: set[str] = set()
    for block in blocks:
        found = set(words_in(block))
        if not found <= seen:
            seen |= found
            yield block


def words_in(value: Json) -> Iterator[str]:
    """Keys, and texts under `type` and `role`, at any depth."""
    if isinstance(value, dict):
        yield from (*value, *(str(value.get(key)) for key in ("type", "role")))
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from words_in(item)


def conversation_of(wire: str, *kinds: str, is_whole: bool = False) -> Json:
    """A body in which blocks of these kinds (none: of all) are said, by everybody who may say them, with what must
    stand around them.

    All blocks where it is to be whole, else as many as hold every field, type and role.
    """
    row = ROWS[wire]
    words = {who: spoken_by(wire, who)[:1] for who in (USER, MODEL)}
    take = list if is_whole else covering
    said = {
        who: [block for kind in kinds or row.speakers for block in take(_of_kind(wire, kind, who))]
        for who in _EVERYBODY
    }
    calls = list(_pairs(wire, said[CALL] or spoken_by(wire, CALL), said[ANSWER] or spoken_by(wire, ANSWER)))
    first, last = Turn(words[USER], model=words[MODEL]), Turn(words[USER])
    turn = Turn(
        [*words[USER], *said[USER]],
        said[SYSTEM],
        [*words[MODEL], *said[MODEL]],
        calls if said[CALL] or said[ANSWER] else [],
    )
    return copy.deepcopy(row.body([first, turn, last]))


def heads_of(wire: str, is_full: bool) -> list[Json]:
    """Bodies of one word behind each tool and each part of a system prompt.

    One of each type, where not all are asked for.
    """
    row, found = ROWS[wire], dict[Any, Json]()
    for head in row.heads():
        ((field, held),) = head.items()
        one = (held.get("tools") or held.get("parts") if isinstance(held, dict) else held)[0]
        found[len(found) if is_full else (field, str(one.get("type", next(iter(one)))))] = head
    return [copy.deepcopy({**row.body([Turn(spoken_by(wire, USER)[:1])]), **head}) for head in found.values()]


@st.composite
def bodies(draw: st.DrawFn, wire: str) -> Json:
    """Conversations in which anything that may be said is, in any order."""

    def some(who: str, least: int = 1) -> list[Json]:
        pool = spoken_by(wire, who)
        return draw(st.lists(st.sampled_from(pool), min_size=least, max_size=3)) if pool else []

    turns, pairs = [], list(_pairs(wire, spoken_by(wire, CALL), spoken_by(wire, ANSWER)))
    for number in range(draw(st.integers(1, 3))):
        calls = draw(st.lists(st.sampled_from(pairs), max_size=2))
        ids = [f"call_{number}_{index}" for index in range(len(calls))]
        named = [
            tuple(ROWS[wire].numbered(block, name) for block in pair) for pair, name in zip(calls, ids, strict=True)
        ]
        turns.append(Turn(some(USER), some(SYSTEM, 0), some(MODEL), named))  # type: ignore[arg-type]
    return copy.deepcopy(ROWS[wire].body([*turns, Turn(some(USER))]))
