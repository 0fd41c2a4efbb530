"""Compares the message history of two calls: blocks removed, added, shortened or moved."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from contextkit.canonical import Json
from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.values import texts_of
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.block import Block, text_of
from contextkit.prompt.diff import Change

MEDIA = frozenset({"image", "document", "video", "audio", "input_audio", "file"})
"""Types of blocks that hold no words of their own."""


_TEXT_KEYS = frozenset({"type", "text"})

_IMAGES = frozenset({"image", "input_image", "image_url", "inlineData", "inline_data"})


def bodies(blocks: Sequence[Block]) -> frozenset[bytes]:
    """Their bytes."""
    return frozenset(block.body for block in blocks)


def message_blocks(sent: ParsedCall) -> list[Block]:
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


def is_still_sent(both: Comparison, block: Block) -> bool:
    """Return whether the later call still has a block of the earlier one in its message."""
    return any(
        one.message == block.message and _comparable_body(one) == _comparable_body(block)
        for one in message_blocks(both.after)
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


def recorded_model(sent: ParsedCall) -> str:
    """The model that was asked."""
    return sent.call.model or str(sent.params.get("model", ""))


def is_model_switch(both: Comparison) -> bool:
    """Return whether the model is another one than in the call before."""
    return recorded_model(both.before) != recorded_model(both.after)


def new_message_blocks(both: Comparison) -> list[Block]:
    """Blocks of messages that came behind everything the call before had."""
    old = bodies(message_blocks(both.before))
    collected: list[Block] = []
    for block in reversed(message_blocks(both.after)):
        if block.body in old:
            break
        collected.append(block)
    return collected


def moved_to_newest(both: Comparison, change: Change) -> Sequence[Block]:
    """Blocks at the end of the earlier call that the newest message of the later one has, while what stood beside them
    was answered.
    """
    if removed_blocks(change) or not any(map(is_answer, change.now)):
        return ()
    stayed = {*map(_comparable_body, change.now)}
    rest = [
        block for block in both.before.blocks[change.at + len(change.was) :] if _comparable_body(block) not in stayed
    ]
    newest = [block for block in both.after.blocks if block.message == last_message_index(both.after)]
    places = (both.after.blocks[-len(rest) :], newest)
    return rest if rest and any(len(rest) <= len(place) and _is_same_start(rest, place) for place in places) else ()


def is_answer(block: Block) -> bool:
    """Return whether the model said it: on Responses calls and thoughts are items without a role."""
    return block.role in ("assistant", "model") or block.type in ("call", "thinking")


def _n_images_in(value: Json) -> int:
    if isinstance(value, dict):
        kind = value.get("type")
        is_one = (
            (isinstance(kind, str) and kind in _IMAGES)
            or isinstance(value.get("image"), dict)
            or bool(_IMAGES & value.keys())
        )
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


def last_message_index(sent: ParsedCall) -> int:
    """Index of the newest message."""
    return sent.blocks[-1].message if sent.blocks else -1


def is_placeholder(was: str, now: str) -> bool:
    """Return whether a short text stands where a longer one stood and is not its beginning."""
    is_beginning = bool(now.strip()) and was.startswith(now.strip())
    return len(now) <= 200 and len(was) > len(now) and not is_beginning and not (len(now) > 40 and is_elided(was, now))


def is_same_but_blanks(change: Change) -> bool:
    """Return whether both sides say the same, white space left out."""
    was, now = ("".join(text.split()) for text in texts_of(change))
    return was == now
