"""The first difference of two prompts, and every later one: the only code that locates a divergence.

`divergence` compares two layouts by their running digests, then one block byte for byte. `changes` compares two
sequences of `Block`s and gives the changed regions in cache order. `common_segments`, `common_blocks` and
`common_bytes` measure a common prefix of digests, blocks and bytes.

Blocks are compared by their bytes without markers, so a marker that moves is no change; where the bytes differ, by the
normal form of `normal_form.py`, since the order of a block's own keys is not rendered while the order inside arguments
and schemas is. Blocks behind the last block of the earlier prompt are its tail, not a change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextkit.canonical import canonical
from contextkit.prompt.block import Block
from contextkit.prompt.normal_form import normal
from contextkit.prompt.prompt import LEVELS, Level, PromptColumns, PromptLayout

_WINDOW = 40
"""Bytes shown on either side of the first difference."""
_CHUNK = 1 << 16


# Common prefixes
# --------------------------------------------------------------------------------------------------------------


def common_segments(one: Sequence[bytes], n_one: int, other: Sequence[bytes], n_other: int) -> int:
    """Number of leading segments that two columns of running digests share.

    One comparison where one prompt continues the other, else a binary search.

    >>> common_segments([b"a", b"b", b"c"], 3, [b"a", b"b", b"x"], 3)
    2
    """
    low, high = 0, min(n_one, n_other)
    if high and one[high - 1] == other[high - 1]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


def common_blocks(one: Sequence[Block], other: Sequence[Block]) -> int:
    """Number of leading blocks with the same level and the same bytes."""
    most = min(len(one), len(other))
    at = 0
    while at < most:
        a, b = one[at], other[at]
        if a is not b and (a.body != b.body or a.level != b.level):
            break
        at += 1
    return at


def common_bytes(one: bytes | memoryview, other: bytes | memoryview) -> int:
    """Number of leading bytes that are equal.

    >>> common_bytes(b"abcd", b"abxd")
    2
    """
    at, end = 0, min(len(one), len(other))
    while at < end and one[at : at + _CHUNK] == other[at : at + _CHUNK]:
        at += _CHUNK
    if at >= end:
        return end
    low, high = at, min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def is_same_block(one: Block, other: Block) -> bool:
    """Return whether a provider renders two blocks alike: markers and the order of their own keys are ignored.

    >>> from contextkit.prompt.block import Block
    >>> text, other = ({"type": "text", "text": "hi"}, {"text": "hi", "type": "text"})
    >>> is_same_block(*(Block("system", "system[0]", -1, "system", "text", value) for value in (text, other)))
    True
    """
    if one is other or one.body == other.body:
        return one.role == other.role
    if len(one.body) != len(other.body) or one.role != other.role:
        return False
    return canonical(normal(one.value)) == canonical(normal(other.value))


def difference(before: bytes, after: bytes) -> tuple[int, str, str]:
    """The number of bytes at which two blocks agree, and the text of each around that place.

    >>> difference(b'{"a":1}', b'{"a":2}')
    (5, '{"a":1}', '{"a":2}')
    """
    offset = common_bytes(before, after)
    return offset, _snippet(before, offset), _snippet(after, offset)


def _snippet(body: bytes, offset: int) -> str:
    return body[max(0, offset - _WINDOW) : offset + _WINDOW].decode("utf-8", "replace")


# Layouts
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of two layouts."""

    level: Level
    """The level it stands on: that level and those behind it are lost."""
    path: str
    """The block it stands in: `tools[2]`, `system[0]`, `messages[4].content[1]`."""
    segment: int
    """Index of the segment; the segments before it are shared."""
    entry: int
    """Log sequence of the newer side's segment, -1 where there is none."""
    offset: int
    """Bytes of the block that still agree."""
    before: str
    """Text of the older layout around that place; empty where it has ended."""
    after: str
    """Text of the newer layout around that place; empty where it has ended."""

    def __str__(self) -> str:
        return f"{self.path} byte {self.offset}: was {self.before!r}, now {self.after!r}"


def divergence(older: PromptLayout, newer: PromptLayout) -> Divergence | None:
    """The first place where `newer` differs from `older`, or None where it only continues it.

    O(log n) digests and one block compared. A shorter `newer` diverges at its end.
    """
    shared = common_segments(older.columns.digests, older.n, newer.columns.digests, newer.n)
    if shared == older.n:
        return None
    side = newer if shared < newer.n else older
    return Divergence(
        LEVELS[side.columns.levels[shared]],
        path_of(side.columns, shared),
        shared,
        side.columns.entries[shared] if side is newer else -1,
        *difference(_body(older, shared), _body(newer, shared)),
    )


def path_of(columns: PromptColumns, segment: int) -> str:
    """The path of a segment in the body it is sent in.

    Counts messages from the front: O(n), meant for messages to people.
    """
    level = columns.levels[segment]
    array = columns.grammar.arrays[LEVELS[level]]
    same = [i for i in range(segment + 1) if columns.grammar.arrays[LEVELS[columns.levels[i]]] == array]
    openings = [i for i in same if columns.roles[i]]
    if not openings:
        return f"{array}[{len(same) - 1}]"
    whole = columns.closers[segment] == b""
    inside = "" if whole else f".{columns.grammar.content_field}[{segment - openings[-1]}]"
    return f"{array}[{len(openings) - 1}]{inside}"


def _body(layout: PromptLayout, segment: int) -> bytes:
    return layout.columns.body(segment) if segment < layout.n else b""


# Blocks
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """One changed region between the prompts of two neighbouring calls."""

    level: Level
    """The level of its first block."""
    was: tuple[Block, ...]
    """The blocks that were there, in order; empty for an insertion."""
    now: tuple[Block, ...]
    """The blocks that replace them; empty for a deletion."""
    at: int
    """Index in the earlier prompt of the first block it touches."""
    offset: int
    """Bytes of the first touched block that still agree."""
    is_first: bool
    """Whether the prefix breaks here; later changes cost nothing more."""
    is_cached: bool
    """Whether it touches a block that the earlier call may have left in the cache."""


@dataclass(frozen=True, slots=True)
class _Region:
    """Blocks of one side that replace blocks of the other."""

    was: range
    """Indices in the earlier prompt."""
    now: range
    """Indices in the later one."""


def changes(
    before: Sequence[Block],
    after: Sequence[Block],
    *,
    is_framed: bool = False,
    n_cached: int | None = None,
    has_stored_history: bool = False,
    strips_thinking: bool = False,
) -> tuple[Change, ...]:
    """Every difference in the blocks both prompts have sent, in cache order; empty where `after` only continues.

    `is_framed`: two neighbouring messages of one role differ from one message of both. `n_cached`: leading blocks of
    `before` that may be in the cache; all where None. `has_stored_history`: `after` leaves out the messages that the
    provider stores. `strips_thinking`: the provider removes earlier thinking when a new user turn begins.

    O(blocks) pointer comparisons for the blocks both share; the rest is aligned by hashes.
    """
    one, other = _Side(before, is_framed), _Side(after, is_framed)
    shared = _n_shared(one, other)
    if shared == len(before):
        return ()
    regions = []
    for level in LEVELS:
        for region in _level_regions(one, other, level, shared, has_stored_history=has_stored_history):
            if _is_noise(one, other, region) or (strips_thinking and _is_stripped(before, after, region)):
                continue
            regions.append(region)
    cached = len(before) if n_cached is None else n_cached
    return tuple(_change(before, after, region, number == 0, cached) for number, region in enumerate(regions))


_Key = tuple[str, str, bool, bytes]
"""Level, role, whether it opens a message, bytes."""


class _Side:
    """The blocks of one prompt, with their frames."""

    __slots__ = ("blocks", "is_framed", "level_ends")

    def __init__(self, blocks: Sequence[Block], is_framed: bool) -> None:
        self.blocks = blocks
        self.is_framed = is_framed
        levels = [block.level for block in blocks]
        tools = bisect_left(levels, 1, key=lambda level: int(level != "tools"))
        self.level_ends = (tools, bisect_left(levels, 1, key=lambda level: int(level == "messages")), len(levels))

    def key(self, index: int) -> _Key:
        block = self.blocks[index]
        return block.level, block.role, self.opens(index), block.body

    def opens(self, index: int) -> bool:
        """Return whether a block is the first of its message, on endpoints that do not join the messages of one
        role.
        """
        return self.is_framed and (index == 0 or self.blocks[index - 1].message != self.blocks[index].message)

    def span(self, level: str) -> range:
        place = LEVELS.index(level)
        return range(self.level_ends[place - 1] if place else 0, self.level_ends[place])


def _n_shared(one: _Side, other: _Side) -> int:
    """Leading blocks that are the same."""
    most, at = min(len(one.blocks), len(other.blocks)), 0
    while at < most and (one.blocks[at] is other.blocks[at] or _is_same_at(one, at, other, at)):
        at += 1
    return at


def _is_same_at(one: _Side, i: int, other: _Side, j: int) -> bool:
    a, b = one.blocks[i], other.blocks[j]
    return a.level == b.level and is_same_block(a, b) and one.opens(i) == other.opens(j)


def _level_regions(one: _Side, other: _Side, level: str, shared: int, *, has_stored_history: bool) -> list[_Region]:
    was, now = (
        range(max(span.start, min(shared, span.stop)), span.stop) for span in (one.span(level), other.span(level))
    )
    if not was and (level == "messages" or not now):
        return []
    if has_stored_history:  # the server has the history: the request has tools, instructions and the new messages
        if level == "messages":
            return []
        was, now = _outside_of_messages(one, was), _outside_of_messages(other, now)
    regions = list(_aligned(one, other, was, now, has_tail=level == "messages"))
    if level == "messages":
        regions = _without_tail(one, other, regions, was.stop, now.stop)
    return _joined(one, other, regions)


def _outside_of_messages(side: _Side, span: range) -> range:
    """The span without the system messages at its end."""
    return range(span.start, next((at for at in span if side.blocks[at].message >= 0), span.stop))


def _aligned(one: _Side, other: _Side, was: range, now: range, *, has_tail: bool) -> Iterator[_Region]:
    """Regions between blocks that both sides have in the same order."""
    i, j = was.start, now.start
    for a, b in [*_anchors(one, other, was, now), (was.stop, now.stop)]:
        while i < a and j < b and _is_same_at(one, i, other, j):
            i, j = i + 1, j + 1
        end_a, end_b, is_tail = a, b, has_tail and a == was.stop
        while end_a > i and end_b > j and not is_tail and _is_same_at(one, end_a - 1, other, end_b - 1):
            end_a, end_b = end_a - 1, end_b - 1
        if i < end_a or j < end_b:
            yield _Region(range(i, end_a), range(j, end_b))
        i, j = a + 1, b + 1


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
    run, at = [], ends[-1] if ends else -1
    while at >= 0:
        run.append(pairs[at])
        at = back[at]
    return run[::-1]


def _without_tail(one: _Side, other: _Side, regions: list[_Region], end: int, last: int) -> list[_Region]:
    """The regions, the last one cut where the tail of the later prompt begins.

    What replaces the end of the earlier prompt is a change; what only follows it is not.
    """
    if not regions or regions[-1].was.stop != end or regions[-1].now.stop != last:
        return regions
    region = regions[-1]
    if not region.was:
        return regions[:-1]
    return [*regions[:-1], _Region(region.was, range(region.now.start, _replaced_end(one, other, region)))]


def _replaced_end(one: _Side, other: _Side, region: _Region) -> int:
    """The index in `now` behind the counterpart of `was`.

    First the rest of a message both stand in, then message by message of equal role.
    """
    at, stop = region.now.start, region.now.stop
    messages = [one.blocks[i].message for i in region.was]
    roles = [
        one.blocks[i].role
        for i in region.was
        if i == region.was.start or one.blocks[i].message != one.blocks[i - 1].message
    ]
    if region.was.start and one.blocks[region.was.start - 1].message == messages[0]:  # its message begins before it
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
    """The regions, those between which blocks only changed places joined to one."""
    removed = {one.key(i)[3]: number for number, region in enumerate(regions) for i in region.was}
    moves = [
        sorted((removed[body], number))
        for number, region in enumerate(regions)
        for j in region.now
        if (body := other.key(j)[3]) in removed
    ]
    if not any(first != last for first, last in moves):
        return regions
    first, last = min(first for first, _ in moves), max(last for _, last in moves)
    whole = _Region(
        range(regions[first].was.start, regions[last].was.stop), range(regions[first].now.start, regions[last].now.stop)
    )
    return [*regions[:first], whole, *regions[last + 1 :]]


def _is_noise(one: _Side, other: _Side, region: _Region) -> bool:
    """Return whether a region differs in nothing that a provider renders."""
    was = [block for i in region.was if not _is_deferred(block := one.blocks[i])]
    now = [block for i in region.now if not _is_deferred(block := other.blocks[i])]
    if not was and not now:
        return True
    is_equal = len(was) == len(now) and all(map(is_same_block, was, now))
    return is_equal and (not one.is_framed or [*map(one.opens, region.was)] == [*map(other.opens, region.now)])


def _is_stripped(before: Sequence[Block], after: Sequence[Block], region: _Region) -> bool:
    """Return whether only thinking was removed that the provider itself drops once a new user turn has come."""
    if region.now or any(block.type != "thinking" for block in before[region.was.start : region.was.stop]):
        return False
    return any(block.role == "user" and block.type != "result" for block in after[region.now.start :])


def _is_deferred(block: Block) -> bool:
    """Return whether a tool is not in the prefix until it is referenced (`defer_loading`)."""
    return block.level == "tools" and isinstance(block.value, dict) and bool(block.value.get("defer_loading"))


def _change(before: Sequence[Block], after: Sequence[Block], region: _Region, is_first: bool, n_cached: int) -> Change:
    was, now = before[region.was.start : region.was.stop], after[region.now.start : region.now.stop]
    level = (was or now)[0].level
    is_moved = bool(was and now) and was[0].body != now[0].body and any(one.body == now[0].body for one in was)
    offset = common_bytes(was[0].body, now[0].body) if was and now and not is_moved else 0
    return Change(level, tuple(was), tuple(now), region.was.start, offset, is_first, region.was.start < n_cached)
