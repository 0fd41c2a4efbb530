"""Compares the message history of two calls: blocks removed, added, shortened or moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from contextkit.canonical import Json
from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.values import differing_span, texts_of
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.block import Block, text_of
from contextkit.prompt.diff import Change

MEDIA = frozenset({"image", "document", "video", "audio", "input_audio", "file"})
"""Types of blocks that hold no words of their own."""


_TEXT_KEYS = frozenset({"type", "text"})
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_IMAGES = frozenset({"image", "input_image", "image_url", "inlineData", "inline_data"})


def bodies(blocks: Sequence[Block]) -> frozenset[bytes]:
    """Return the bytes of each block."""
    return frozenset(block.body for block in blocks)


def message_blocks(sent: ParsedCall) -> list[Block]:
    """Return the blocks of the messages level."""
    return [block for block in sent.blocks if block.level == "messages"]


def removed_blocks(change: Change) -> list[Block]:
    """Return the blocks that only the earlier call has there."""
    left = {*map(_comparable_body, change.now)}
    return [block for block in change.was if _comparable_body(block) not in left]


def added_blocks(change: Change) -> list[Block]:
    """Return the blocks that only the later call has there."""
    old = {*map(_comparable_body, change.was)}
    return [block for block in change.now if _comparable_body(block) not in old]


def is_still_sent(both: Comparison, block: Block) -> bool:
    """Return whether the later call still has a block of the earlier one in its message."""
    return any(
        one.message == block.message and _comparable_body(one) == _comparable_body(block)
        for one in message_blocks(both.after)
    )


def _comparable_body(block: Block) -> bytes:
    """Return the bytes of a block; of bare text, those of the string."""
    if block.type != "text" or not block.body.startswith(b"{"):
        return block.body
    value = orjson.loads(block.body)
    return orjson.dumps(value["text"]) if is_bare_text(value) else block.body


def is_bare_text(value: Mapping[str, Json]) -> bool:
    """Return whether a part of a message is text and nothing else, so that a string may stand in its place."""
    text, kind = value.get("text"), value.get("type", "text")
    is_text = isinstance(text, str) and isinstance(kind, str) and kind in _TEXT_TYPES
    return is_text and value.keys() <= _TEXT_KEYS


def recorded_model(sent: ParsedCall) -> str:
    """Return the model that was requested."""
    return sent.call.model or str(sent.params.get("model", ""))


def is_model_switch(both: Comparison) -> bool:
    """Return whether the two calls are to different models."""
    return recorded_model(both.before) != recorded_model(both.after)


def new_message_blocks(both: Comparison) -> list[Block]:
    """Return the message blocks behind everything that the earlier call had."""
    old = bodies(message_blocks(both.before))
    collected: list[Block] = []
    for block in reversed(message_blocks(both.after)):
        if block.body in old:
            break
        collected.append(block)
    return collected


def moved_to_newest(both: Comparison, change: Change) -> Sequence[Block]:
    """Return the blocks at the end of the earlier call that the newest message of the later one has, while what stood
    beside them was answered.
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
    """Return whether a block is the model's output: on Responses, calls and thoughts are items without a role."""
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
    """Count the images that a change removes."""
    was, now = (sum(_n_images_in(block.value) for block in blocks) for blocks in (change.was, change.now))
    return max(0, was - now)


def n_blocks_cut_from_front(before: Sequence[Block], after: Sequence[Block]) -> int:
    """Count the blocks that were cut from the front of a history, up to two messages at its very front kept; 0 where the
    later history does not go on from there.
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
    """Return whether a message begins with block `at`."""
    return at == 0 or blocks[at - 1].message != blocks[at].message


def _is_same_start(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return all(a.body == b.body for a, b in zip(one, other, strict=False))


def shortened_pairs(change: Change) -> list[tuple[Block, Block]]:
    """Return the pairs of blocks of one type of which the later one is shorter."""
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
    front, _, mark = differing_span(was, now)
    return len(now) - len(mark) >= max(8, 0.5 * len(now)) or (front >= 8 and len(mark) <= 120)


def last_message_index(sent: ParsedCall) -> int:
    """Return the index of the newest message; -1 where there is none."""
    return sent.blocks[-1].message if sent.blocks else -1


def is_placeholder(was: str, now: str) -> bool:
    """Return whether a short text stands where a longer one stood and is not its beginning."""
    is_beginning = bool(now.strip()) and was.startswith(now.strip())
    return len(now) <= 200 and len(was) > len(now) and not is_beginning and not (len(now) > 40 and is_elided(was, now))


def is_same_without_blanks(change: Change) -> bool:
    """Return whether the texts of both sides are equal, white space left out."""
    was, now = ("".join(text.split()) for text in texts_of(change))
    return was == now
