"""Compares the message history of two calls: blocks removed, added, shortened or moved; the first call of a conversation.

Takes steps and their changes, returns blocks; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

from contextkit.canonical import Json
from contextkit.lint.requests.rule import Calls, Change, RecordedCall, Step
from contextkit.lint.requests.values import texts_of
from contextkit.prompt.block import Block, text_of

MEDIA = frozenset({"image", "document", "video", "audio", "input_audio", "file"})
"""Types of blocks that hold no words of their own."""

_WORDS = frozenset({"text", "thinking", "call"})
"""Types of blocks in which no picture stands."""

_TEXT_KEYS = frozenset({"type", "text"})

_IMAGES = frozenset({"image", "input_image", "image_url", "inlineData", "inline_data"})


def bodies(blocks: Sequence[Block]) -> frozenset[bytes]:
    """Their bytes."""
    return frozenset(block.body for block in blocks)


def n_body_bytes(blocks: Sequence[Block]) -> int:
    """Their bytes, counted."""
    return sum(len(block.body) for block in blocks)


def message_blocks(sent: RecordedCall) -> list[Block]:
    """The blocks of the messages level."""
    return [block for block in sent.blocks if block.level == "messages"]


def removed_blocks(change: Change) -> list[Block]:
    """Blocks that stood there and do not any more."""
    left = {*map(_comparable_body, change.now)}
    return [block for block in change.was if _comparable_body(block) not in left]


def added_blocks(change: Change) -> list[Block]:
    """Blocks that stand there and did not."""
    old = {*map(_comparable_body, change.was)}
    return [block for block in change.now if _comparable_body(block) not in old]


def is_still_sent(step: Step, block: Block) -> bool:
    """Return whether the later call still has a block of the earlier one in its message."""
    return any(
        one.message == block.message and _comparable_body(one) == _comparable_body(block)
        for one in message_blocks(step.after)
    )


def _comparable_body(block: Block) -> bytes:
    """Its bytes.

    Of a part that is nothing but text, those of the string that stands in its place where no other part does.
    """
    if block.type != "text" or not block.body.startswith(b"{"):
        return block.body
    value = orjson.loads(block.body)
    is_bare = isinstance(value.get("text"), str) and value.keys() <= _TEXT_KEYS
    return orjson.dumps(value["text"]) if is_bare else block.body


def recorded_model(sent: RecordedCall) -> str:
    """The model that was asked."""
    return sent.call.model or str(sent.params.get("model", ""))


def is_model_switch(step: Step) -> bool:
    """Return whether the model is another one than in the call before."""
    return recorded_model(step.before) != recorded_model(step.after)


def is_restored(step: Step, change: Change, reach: int = 4) -> bool:
    """Return whether what stands there now stood in one of the calls before the last, but not in the last."""
    new = bodies(added_blocks(change))
    older = step.earlier[-1 - reach : -1]
    return (
        bool(new)
        and not new & bodies(message_blocks(step.before))
        and any(new <= bodies(message_blocks(sent)) for sent in older)
    )


def new_message_blocks(step: Step) -> list[Block]:
    """Blocks of messages that came behind everything the call before had."""
    old = bodies(message_blocks(step.before))
    collected: list[Block] = []
    for block in reversed(message_blocks(step.after)):
        if block.body in old:
            break
        collected.append(block)
    return collected


def moved_to_newest(step: Step, change: Change) -> Sequence[Block]:
    """Blocks at the end of the earlier call that the newest message of the later one has, while what stood beside them
    was answered.
    """
    if removed_blocks(change) or not any(map(is_answer, change.now)):
        return ()
    stayed = {*map(_comparable_body, change.now)}
    rest = [
        block for block in step.before.blocks[change.at + len(change.was) :] if _comparable_body(block) not in stayed
    ]
    newest = [block for block in step.after.blocks if block.message == last_message_index(step.after)]
    places = (step.after.blocks[-len(rest) :], newest)
    return rest if rest and any(len(rest) <= len(place) and _is_same_start(rest, place) for place in places) else ()


def is_answer(block: Block) -> bool:
    """Return whether the model said it: on Responses calls and thoughts are items without a role."""
    return block.role in ("assistant", "model") or block.type in ("call", "thinking")


def n_images(sent: RecordedCall) -> int:
    """Pictures in the messages, those in tool results included."""
    return sum(
        _n_images_in(block.value) for block in sent.blocks if block.level == "messages" and block.type not in _WORDS
    )


def is_image_toggled(step: Step) -> bool:
    """Return whether the first image came, or the last one went, on a provider whose messages that invalidates."""
    if step.after.row.provider != "anthropic" or step.after.wire == "bedrock_converse":
        return False
    return bool(n_images(step.before)) != bool(n_images(step.after))


def has_thinking(sent: RecordedCall) -> bool:
    """Return whether thoughts of the model stand in it."""
    return any(block.type == "thinking" for block in sent.blocks)


def _n_images_in(value: Json) -> int:
    if isinstance(value, dict):
        is_one = value.get("type") in _IMAGES or isinstance(value.get("image"), dict) or bool(_IMAGES & value.keys())
        return int(is_one) or sum(_n_images_in(item) for item in value.values() if isinstance(item, (dict, list)))
    return sum(map(_n_images_in, value)) if isinstance(value, list) else 0


def n_images_lost(change: Change) -> int:
    """How many pictures fewer the change leaves."""
    was, now = (sum(_n_images_in(block.value) for block in blocks) for blocks in (change.was, change.now))
    return max(0, was - now)


def n_blocks_cut_in_front(before: Sequence[Block], after: Sequence[Block]) -> int:
    """How many blocks fell off the front of a history, up to two messages at the front kept; 0 where that is not what
    happened.

    The first block of the later history that the earlier one had further back decides.
    """
    if not before or not after:
        return 0
    places = {block.body: i for i, block in reversed([*enumerate(before)])}
    n_same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a.body != b.body),
        min(len(before), len(after)),
    )
    if n_same >= len(after) or n_same >= len(before) or before[n_same].message - before[0].message > 1:
        return 0
    start = places.get(after[n_same].body, -1)
    is_shift = (
        start > n_same
        and _begins_message(before, n_same)
        and _begins_message(before, start)
        and _is_same_start(before[start:], after[n_same:])
    )
    return start - n_same if is_shift else 0


def _begins_message(blocks: Sequence[Block], at: int) -> bool:
    """Return whether a message begins there."""
    return at == 0 or blocks[at - 1].message != blocks[at].message


def _is_same_start(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return all(a.body == b.body for a, b in zip(one, other, strict=False))


def front_cuts(step: Step) -> list[int]:
    """For each call of the conversation but the first: how many blocks its history lost at the front."""
    calls = [message_blocks(sent) for sent in (*step.earlier[-40:], step.after)]
    return [n_blocks_cut_in_front(a, b) for a, b in pairwise(calls)]


def shortened(change: Change) -> list[tuple[Block, Block]]:
    """Pairs of blocks of one type of which the later says less, no word of it new but a mark of what is missing."""
    if len(change.was) != len(change.now):
        return []
    return [
        (was, now)
        for was, now in zip(change.was, change.now, strict=True)
        if was.body != now.body and was.type == now.type and len(text_of(now)) < len(text_of(was))
    ]


def is_elided(was: str, now: str) -> bool:
    """Return whether `now` is the beginning of `was`, perhaps with its end, and a short mark between or behind.

    >>> is_elided("the quick brown fox jumps over the lazy dog", "the quick brown [... 20 chars]")
    True
    """
    if len(now) >= len(was) or not now:
        return False
    front = _n_common_characters(was, now)
    back = _n_common_characters(was[front:][::-1], now[front:][::-1])
    return front + back >= max(8, 0.5 * len(now)) or (front >= 8 and len(now) - front - back <= 120)


def _n_common_characters(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def last_shortened_message(step: Step) -> int:
    """Index of the last message that the step before this one shortened in place, -1 where it did not."""
    if len(step.earlier) < 2:
        return -1
    one, other = message_blocks(step.earlier[-2]), message_blocks(step.before)
    pairs = (
        a
        for a, b in zip(one, other, strict=False)
        if a.body != b.body and a.type == b.type and len(b.body) < len(a.body)
    )
    return max((block.message for block in pairs), default=-1)


def last_message_index(sent: RecordedCall) -> int:
    """Index of the newest message."""
    return sent.blocks[-1].message if sent.blocks else -1


ABSENT = re.compile(
    r"no longer|not available|unavailable|does(?: not|n't) exist|not found|missing|was removed|has been removed|uninstalled|disconnected"
    r"|unknown tool|deleted|not (?:installed|connected|registered|enabled)",
    re.IGNORECASE,
)
"""Words of a notice that something a result belongs to is not there."""


def is_notice(was: str, now: str) -> bool:
    """Return whether a short notice that says so stands where more stood, in words that were not there."""
    return len(now) <= 300 and bool(ABSENT.search(now)) and now.strip() not in was


def is_placeholder(was: str, now: str) -> bool:
    """Return whether a short text stands where a longer one stood and is not its beginning."""
    is_beginning = bool(now.strip()) and was.startswith(now.strip())
    return len(now) <= 200 and len(was) > len(now) and not is_beginning and not (len(now) > 40 and is_elided(was, now))


def is_same_but_blanks(change: Change) -> bool:
    """Return whether both sides say the same, white space left out."""
    was, now = ("".join(text.split()) for text in texts_of(change))
    return was == now


@dataclass(frozen=True, slots=True)
class Opening:
    """The first call of a conversation that has a system text."""

    name: str
    """Of the conversation."""
    sent: RecordedCall
    """The call."""
    text: str
    """Its system text."""
    path: str
    """Of its first block of system text."""
    kind: tuple[str, ...]
    """Wire, model and names of the tools: conversations of one kind could share their front."""


def openings(calls: Calls) -> Iterator[Opening]:
    """One for each conversation that has a system text, in order."""
    for name, mine in calls.conversations.items():
        sent = mine[0]
        system = [block for block in sent.blocks if block.level == "system"]
        if system:
            tools = (block.role for block in sent.blocks if block.level == "tools")
            kind = (sent.wire, sent.row.name, *tools)
            yield Opening(name, sent, "\n".join(map(text_of, system)), system[0].path, kind)
