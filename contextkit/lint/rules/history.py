"""What became of messages that had been sent: cut from the front, shortened, moved, gone, back again.

Takes steps and changes on the messages level, answers questions about them; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import orjson

from contextkit.canonical import Json
from contextkit.lint.requests.rule import Change, RecordedCall, Step
from contextkit.lint.rules.shapes import texts_of
from contextkit.prompt.block import Block, text_of

MEDIA = frozenset({"image", "document", "video", "audio", "input_audio", "file"})
"""Types of blocks that hold no words of their own."""
_WORDS = frozenset({"text", "thinking", "call"})
"""Types of blocks in which no picture stands."""
_PLAIN = frozenset({"type", "text"})
_PICTURES = frozenset({"image", "input_image", "image_url", "inlineData", "inline_data"})


def bodies(blocks: Sequence[Block]) -> frozenset[bytes]:
    """Their bytes."""
    return frozenset(block.body for block in blocks)


def size(blocks: Sequence[Block]) -> int:
    """Their bytes, counted."""
    return sum(len(block.body) for block in blocks)


def messages(sent: RecordedCall) -> list[Block]:
    """The blocks of the messages level."""
    return [block for block in sent.blocks if block.level == "messages"]


def gone(change: Change) -> list[Block]:
    """Blocks that stood there and do not any more."""
    left = {*map(_said, change.now)}
    return [block for block in change.was if _said(block) not in left]


def come(change: Change) -> list[Block]:
    """Blocks that stand there and did not."""
    known = {*map(_said, change.was)}
    return [block for block in change.now if _said(block) not in known]


def stays(step: Step, block: Block) -> bool:
    """Whether the later call still has a block of the earlier one in its message."""
    return any(one.message == block.message and _said(one) == _said(block) for one in messages(step.after))


def _said(block: Block) -> bytes:
    """Its bytes.

    Of a part that is nothing but text, those of the string that stands in its place where no other part does.
    """
    if block.type != "text" or not block.body.startswith(b"{"):
        return block.body
    value = orjson.loads(block.body)
    is_bare = isinstance(value.get("text"), str) and value.keys() <= _PLAIN
    return orjson.dumps(value["text"]) if is_bare else block.body


def model_of(sent: RecordedCall) -> str:
    """The model that was asked."""
    return sent.exchange.model or str(sent.params.get("model", ""))


def is_switch(step: Step) -> bool:
    """Whether the model is another one than in the call before."""
    return model_of(step.before) != model_of(step.after)


def is_restored(step: Step, change: Change, reach: int = 4) -> bool:
    """Whether what stands there now stood in one of the calls before the last, but not in the last."""
    new = bodies(come(change))
    older = step.earlier[-1 - reach : -1]
    return (
        bool(new) and not new & bodies(messages(step.before)) and any(new <= bodies(messages(sent)) for sent in older)
    )


def tail(step: Step) -> list[Block]:
    """Blocks of messages that came behind everything the call before had."""
    known = bodies(messages(step.before))
    found: list[Block] = []
    for block in reversed(messages(step.after)):
        if block.body in known:
            break
        found.append(block)
    return found


def floated(step: Step, change: Change) -> Sequence[Block]:
    """Blocks at the end of the earlier call that the newest message of the later one has, while what stood beside them
    was answered.
    """
    if gone(change) or not any(map(is_answer, change.now)):
        return ()
    stayed = {*map(_said, change.now)}
    rest = [block for block in step.before.blocks[change.at + len(change.was) :] if _said(block) not in stayed]
    newest = [block for block in step.after.blocks if block.message == last_message(step.after)]
    places = (step.after.blocks[-len(rest) :], newest)
    return rest if rest and any(len(rest) <= len(place) and _agree(rest, place) for place in places) else ()


def is_answer(block: Block) -> bool:
    """Whether the model said it: on Responses calls and thoughts are items without a role."""
    return block.role in ("assistant", "model") or block.type in ("call", "thinking")


def n_pictures(sent: RecordedCall) -> int:
    """Pictures in the messages, those in tool results included."""
    return sum(
        _pictures(block.value) for block in sent.blocks if block.level == "messages" and block.type not in _WORDS
    )


def is_image_toggled(step: Step) -> bool:
    """Whether the first image came, or the last one went, on a provider whose messages that invalidates."""
    if step.after.row.provider != "anthropic" or step.after.wire == "bedrock_converse":
        return False
    return bool(n_pictures(step.before)) != bool(n_pictures(step.after))


def has_thinking(sent: RecordedCall) -> bool:
    """Whether thoughts of the model stand in it."""
    return any(block.type == "thinking" for block in sent.blocks)


def _pictures(value: Json) -> int:
    if isinstance(value, dict):
        is_one = (
            value.get("type") in _PICTURES or isinstance(value.get("image"), dict) or bool(_PICTURES & value.keys())
        )
        return int(is_one) or sum(_pictures(item) for item in value.values() if isinstance(item, (dict, list)))
    return sum(map(_pictures, value)) if isinstance(value, list) else 0


def pictures_lost(change: Change) -> int:
    """How many pictures fewer the change leaves."""
    was, now = (sum(_pictures(block.value) for block in blocks) for blocks in (change.was, change.now))
    return max(0, was - now)


def front_cut(before: Sequence[Block], after: Sequence[Block]) -> int:
    """How many blocks fell off the front of a history, up to two messages at the front kept; 0 where that is not what
    happened.

    The first block of the later history that the earlier one had further back decides.
    """
    if not before or not after:
        return 0
    places = {block.body: i for i, block in reversed([*enumerate(before)])}
    kept = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a.body != b.body),
        min(len(before), len(after)),
    )
    if kept >= len(after) or kept >= len(before) or before[kept].message - before[0].message > 1:
        return 0
    start = places.get(after[kept].body, -1)
    is_shift = start > kept and _opens(before, kept) and _opens(before, start) and _agree(before[start:], after[kept:])
    return start - kept if is_shift else 0


def _opens(blocks: Sequence[Block], at: int) -> bool:
    """Whether a message begins there."""
    return at == 0 or blocks[at - 1].message != blocks[at].message


def _agree(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return all(a.body == b.body for a, b in zip(one, other, strict=False))


def cuts(step: Step) -> list[int]:
    """For each call of the conversation but the first: how many blocks its history lost at the front."""
    calls = [messages(sent) for sent in (*step.earlier[-40:], step.after)]
    return [front_cut(a, b) for a, b in pairwise(calls)]


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
    """Whether `now` is the beginning of `was`, perhaps with its end, and a short mark between or behind.

    >>> is_elided("the quick brown fox jumps over the lazy dog", "the quick brown [... 20 chars]")
    True
    """
    if len(now) >= len(was) or not now:
        return False
    front = _agreeing(was, now)
    back = _agreeing(was[front:][::-1], now[front:][::-1])
    return front + back >= max(8, 0.5 * len(now)) or (front >= 8 and len(now) - front - back <= 120)


def _agreeing(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def rewritten_before(step: Step) -> int:
    """Index of the last message that the step before this one shortened in place, -1 where it did not."""
    if len(step.earlier) < 2:
        return -1
    one, other = messages(step.earlier[-2]), messages(step.before)
    pairs = (
        a
        for a, b in zip(one, other, strict=False)
        if a.body != b.body and a.type == b.type and len(b.body) < len(a.body)
    )
    return max((block.message for block in pairs), default=-1)


def last_message(sent: RecordedCall) -> int:
    """Index of the newest message."""
    return sent.blocks[-1].message if sent.blocks else -1


ABSENT = re.compile(
    r"no longer|not available|unavailable|does(?: not|n't) exist|not found|missing|was removed|has been removed|uninstalled|disconnected"
    r"|unknown tool|deleted|not (?:installed|connected|registered|enabled)",
    re.IGNORECASE,
)
"""Words of a notice that something a result belongs to is not there."""


def is_notice(was: str, now: str) -> bool:
    """Whether a short notice that says so stands where more stood, in words that were not there."""
    return len(now) <= 300 and bool(ABSENT.search(now)) and now.strip() not in was


def is_placeholder(was: str, now: str) -> bool:
    """Whether a short text stands where a longer one stood and is not its beginning."""
    is_beginning = bool(now.strip()) and was.startswith(now.strip())
    return len(now) <= 200 and len(was) > len(now) and not is_beginning and not (len(now) > 40 and is_elided(was, now))


def same_words(change: Change) -> bool:
    """Whether both sides say the same, white space left out."""
    was, now = ("".join(text.split()) for text in texts_of(change))
    return was == now


def results(blocks: Sequence[Block]) -> Iterator[Block]:
    """Those that are tool results."""
    return (block for block in blocks if block.type == "result")
