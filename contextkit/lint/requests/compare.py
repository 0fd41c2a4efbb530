"""What differs between two neighbouring calls in what both of them sent, and whether it stood in the cache.

Takes two calls cut into blocks, gives the changed regions in cache order. Blocks are compared by their bytes without
markers, so a marker that moves is no change; where the bytes differ, by the normal form of `layout.normal_form`, since
the order of a block's own keys is not rendered while the order inside arguments and schemas is. What stands behind the
last block of the earlier call is its tail, no change. Knows nothing of rules or prices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from contextkit.canonical import canonical
from contextkit.lint.requests.cut import common_bytes
from contextkit.lint.requests.rule import Change, Sent
from contextkit.prompt.block import Block
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import LEVELS
from contextkit.providers.codecs import CODECS
from contextkit.providers.server_state import named_in

_Key = tuple[str, str, bool, bytes]
"""Level, role, whether it opens a message, bytes."""


@dataclass(frozen=True, slots=True)
class _Region:
    """Blocks of one side that stand where others stood."""

    was: range
    """Indices in the earlier call."""
    now: range
    """Indices in the later one."""


def compare(before: Sent, after: Sent) -> tuple[Change, ...]:
    """Every difference in what both calls sent, in cache order; empty where `after` only goes on.

    O(blocks) pointer comparisons for what both share in the same bytes; the rest is aligned by hashes.
    """
    if before.wire != after.wire:
        return ()
    one, other = _Side(before), _Side(after)
    shared = _shared(one, other)
    if shared == len(before.blocks):
        return ()
    regions = [region for level in LEVELS for region in _level_regions(one, other, level, shared)]
    real = [
        region for region in regions if not _is_noise(one, other, region) and not _is_stripped(before, after, region)
    ]
    cached = reach_of(before)
    return tuple(_change(before, after, region, number == 0, cached) for number, region in enumerate(real))


def reach_of(sent: Sent) -> int:
    """How many leading blocks of a call the provider may have kept: those up to its last marker, or all on an implicit
    cache.
    """
    if sent.row.cache != "breakpoints":
        return len(sent.blocks)
    options = sent.params.get("prompt_cache_options")
    is_explicit = isinstance(options, dict) and options.get("mode") == "explicit"
    if sent.params.get("cache_control") is not None or (sent.row.provider == "openai" and not is_explicit):
        return len(sent.blocks)  # marked by the provider, on the last block that can carry it
    return next((i + 1 for i in range(len(sent.blocks) - 1, -1, -1) if sent.blocks[i].marker is not None), 0)


def is_same(one: Block, other: Block) -> bool:
    """Whether two blocks say the same to a provider, markers and the order of their own keys left out.

    >>> from contextkit.prompt.block import block_of
    >>> text, other = ({"type": "text", "text": "hi"}, {"text": "hi", "type": "text"})
    >>> is_same(*(block_of("system", "system[0]", -1, "system", "text", value) for value in (text, other)))
    True
    """
    if one is other or one.body == other.body:
        return one.role == other.role
    if len(one.body) != len(other.body) or one.role != other.role:
        return False
    return canonical(normal(one.value)) == canonical(normal(other.value))


class _Side:
    """The blocks of one call, with what stands in their frames."""

    __slots__ = ("blocks", "is_framed", "is_stateful", "level_ends")

    def __init__(self, sent: Sent) -> None:
        self.blocks = sent.blocks
        self.is_framed = CODECS[sent.wire].body.is_framed
        self.is_stateful = named_in(sent.params) is not None
        levels = [block.level for block in sent.blocks]
        tools = bisect_left(levels, 1, key=lambda level: int(level != "tools"))
        self.level_ends = (tools, bisect_left(levels, 1, key=lambda level: int(level == "messages")), len(levels))

    def key(self, index: int) -> _Key:
        block = self.blocks[index]
        return block.level, block.role, self.opens(index), block.body

    def opens(self, index: int) -> bool:
        """Whether a block is the first of its message, on wires that do not join the messages of one role."""
        return self.is_framed and (index == 0 or self.blocks[index - 1].message != self.blocks[index].message)

    def span(self, level: str) -> range:
        place = LEVELS.index(level)
        return range(self.level_ends[place - 1] if place else 0, self.level_ends[place])


def _shared(one: _Side, other: _Side) -> int:
    """Leading blocks that are the same."""
    most, at = min(len(one.blocks), len(other.blocks)), 0
    while at < most and (one.blocks[at] is other.blocks[at] or _is_same_at(one, at, other, at)):
        at += 1
    return at


def _is_same_at(one: _Side, i: int, other: _Side, j: int) -> bool:
    a, b = one.blocks[i], other.blocks[j]
    return a.level == b.level and is_same(a, b) and one.opens(i) == other.opens(j)


def _level_regions(one: _Side, other: _Side, level: str, shared: int) -> list[_Region]:
    was, now = (
        range(max(span.start, min(shared, span.stop)), span.stop) for span in (one.span(level), other.span(level))
    )
    if not was and (level == "messages" or not now):
        return []
    if other.is_stateful:  # the server holds what was said before: the request has tools, instructions and the news
        if level == "messages":
            return []
        was, now = _outside_of_messages(one, was), _outside_of_messages(other, now)
    regions = list(_aligned(one, other, was, now, has_tail=level == "messages"))
    if level == "messages":
        regions = _without_tail(one, other, regions, was.stop, now.stop)
    return _joined(one, other, regions)


def _outside_of_messages(side: _Side, span: range) -> range:
    """Without the system messages at its end."""
    return range(span.start, next((at for at in span if side.blocks[at].message >= 0), span.stop))


def _aligned(one: _Side, other: _Side, was: range, now: range, *, has_tail: bool) -> Iterator[_Region]:
    """Regions between blocks that both sides have in the same order."""
    i, j = was.start, now.start
    for a, b in [*_anchors(one, other, was, now), (was.stop, now.stop)]:
        i, j = _skip(one, other, i, j, a, b)
        end_a, end_b, is_tail = a, b, has_tail and a == was.stop
        while end_a > i and end_b > j and not is_tail and _is_same_at(one, end_a - 1, other, end_b - 1):
            end_a, end_b = end_a - 1, end_b - 1
        if i < end_a or j < end_b:
            yield _Region(range(i, end_a), range(j, end_b))
        i, j = a + 1, b + 1


def _skip(one: _Side, other: _Side, i: int, j: int, a: int, b: int) -> tuple[int, int]:
    """Past what both sides share from here on."""
    while i < a and j < b and _is_same_at(one, i, other, j):
        i, j = i + 1, j + 1
    return i, j


def _anchors(one: _Side, other: _Side, was: range, now: range) -> list[tuple[int, int]]:
    """Pairs of blocks that occur once on either side, as many as keep their order."""
    mine, theirs = Counter(map(one.key, was)), Counter(map(other.key, now))
    places = {other.key(j): j for j in now if theirs[other.key(j)] == 1}
    pairs = [(i, places[key]) for i in was if (key := one.key(i)) in places and mine[key] == 1]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs that rises on both sides."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for at, (_, j) in enumerate(pairs):
        place = bisect_left(tails, j)
        back.append(ends[place - 1] if place else -1)
        tails[place:], ends[place:] = [j, *tails[place + 1 :]], [at, *ends[place + 1 :]]
    found, at = [], ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = back[at]
    return found[::-1]


def _without_tail(one: _Side, other: _Side, regions: list[_Region], end: int, last: int) -> list[_Region]:
    """The last region holds the tail of the later call: what replaces the end of the earlier one is told from what only
    follows.
    """
    if not regions or regions[-1].was.stop != end or regions[-1].now.stop != last:
        return regions
    region = regions[-1]
    if not region.was:
        return regions[:-1]
    return [*regions[:-1], _Region(region.was, range(region.now.start, _replaced_end(one, other, region)))]


def _replaced_end(one: _Side, other: _Side, region: _Region) -> int:
    """Where in `now` the counterpart of `was` ends: the rest of a message they both stand in, then message by message
    of equal role.
    """
    at, stop = region.now.start, region.now.stop
    messages = [one.blocks[i].message for i in region.was]
    roles = [
        one.blocks[i].role
        for i in region.was
        if i == region.was.start or one.blocks[i].message != one.blocks[i - 1].message
    ]
    if (
        region.was.start and one.blocks[region.was.start - 1].message == messages[0]
    ):  # its message began before, and is shared
        shared = other.blocks[at - 1].message if at else -1
        while at < stop and other.blocks[at].message == shared:
            at += 1
        roles = roles[1:]
    for role in roles:
        if at >= stop or other.blocks[at].role != role:
            break
        message = other.blocks[at].message
        while at < stop and other.blocks[at].message == message:
            at += 1
    return at


def _joined(one: _Side, other: _Side, regions: list[_Region]) -> list[_Region]:
    """Regions between which blocks only changed places are one."""
    gone = {one.key(i)[3]: number for number, region in enumerate(regions) for i in region.was}
    moves = [
        sorted((gone[body], number))
        for number, region in enumerate(regions)
        for j in region.now
        if (body := other.key(j)[3]) in gone
    ]
    if not any(first != last for first, last in moves):
        return regions
    first, last = min(first for first, _ in moves), max(last for _, last in moves)
    whole = _Region(
        range(regions[first].was.start, regions[last].was.stop), range(regions[first].now.start, regions[last].now.stop)
    )
    return [*regions[:first], whole, *regions[last + 1 :]]


def _is_noise(one: _Side, other: _Side, region: _Region) -> bool:
    """Whether nothing differs that a provider renders."""
    was, now = ([side.blocks[i] for i in span] for side, span in ((one, region.was), (other, region.now)))
    heard_was, heard_now = ([block for block in blocks if not _is_deferred(block)] for blocks in (was, now))
    if not heard_was and not heard_now:
        return True
    is_equal = len(heard_was) == len(heard_now) and all(map(is_same, heard_was, heard_now))
    return is_equal and (not one.is_framed or [*map(one.opens, region.was)] == [*map(other.opens, region.now)])


def _is_stripped(before: Sent, after: Sent, region: _Region) -> bool:
    """Whether only thinking is gone that the model's provider takes out by itself once a new user turn has come."""
    was = before.blocks[region.was.start : region.was.stop]
    if region.now or not after.row.strips_thinking or any(block.type != "thinking" for block in was):
        return False
    return any(block.role == "user" and block.type != "result" for block in after.blocks[region.now.start :])


def _is_deferred(block: Block) -> bool:
    """A tool with `defer_loading` is not in the prefix until it is referenced."""
    return block.level == "tools" and isinstance(block.value, dict) and bool(block.value.get("defer_loading"))


def _change(before: Sent, after: Sent, region: _Region, is_first: bool, cached: int) -> Change:
    was, now = before.blocks[region.was.start : region.was.stop], after.blocks[region.now.start : region.now.stop]
    level = (was or now)[0].level
    is_moved = bool(was and now) and was[0].body != now[0].body and any(one.body == now[0].body for one in was)
    offset = common_bytes(was[0].body, now[0].body) if was and now and not is_moved else 0
    return Change(level, tuple(was), tuple(now), region.was.start, offset, is_first, region.was.start < cached)
