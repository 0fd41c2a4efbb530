"""What a prompt has in common with an earlier one, wherever it stands: `align` pairs their blocks in order.

Blocks that are equal are paired so that the pairs weigh the most tokens (the heaviest common subsequence); between
pairs, blocks that replaced one another are compared byte by byte. The common prefix alone is `prompt/diff.py`'s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from contextkit.prompt.diff import common_bytes
from contextkit.prompt.prompt import PromptLayout

_MESSAGES = 2
"""Number of the level `messages`."""
_REFILLED_SHARE = 0.9
"""Least share of a last message that is equal, for it to be the message before with a value replaced: a program's questions
have more in common than half of their words."""
_NEAR = 8
"""Of a block that stands in a prompt often, the n-th is weighed with those up to so many before and behind the n-th of the
other prompt, counted from the beginning and from the end."""
_MOST_PAIRS = 1 << 20
"""Pairs of equal blocks that are weighed; of a prompt that repeats one block more often, only the beginning and the end
are compared."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A block as a comparison sees it."""

    level: int
    """0 tools, 1 system, 2 messages."""
    key: bytes
    """Equal for equal blocks."""
    body: bytes | None
    """Its bytes, empty where it is equal whole or not at all, as an image is; None where they are unknown."""
    size: int = 0
    """Its size, where its bytes are unknown."""
    role: str = ""
    """Role of the message it stands in."""


def units_of(layout: PromptLayout) -> list[Unit]:
    """The blocks of a layout; those that are in no digest have an empty key."""
    columns, role = layout.columns, ""
    units = []
    for segment in range(layout.n):
        body, level, role = columns.body(segment), columns.levels[segment], columns.roles[segment] or role
        key = b""
        if segment not in columns.silent:
            digest = blake2b(role.encode() + b"\x00", digest_size=12, person=bytes([level]))
            digest.update(body)
            key = digest.digest()
        units.append(Unit(level, key, b"" if is_opaque(body) else body, role=role))
    return units


_OPAQUE = (
    b'"type":"image',
    b'"type":"document"',
    b'"type":"file"',
    b'"type":"redacted_thinking"',
    b'"image_url"',
    b'"input_image"',
    b'"input_file"',
    b'"inlineData"',
    b'"signature"',
    b'"encrypted_content"',
)
"""What the JSON of such a block holds."""


def is_opaque(body: bytes) -> bool:
    """Return whether a block is equal whole or not at all: images, documents, signed and encrypted parts."""
    return any(mark in body for mark in _OPAQUE)


@dataclass(frozen=True, slots=True)
class Alignment:
    """A later prompt beside an earlier one."""

    kept: tuple[tuple[int, float], ...]
    """Blocks of the later prompt that the earlier one had too, rising, each with the share of it that is equal: 1 for the
    whole."""
    removed: tuple[int, ...]
    """Blocks of the earlier prompt, behind the common prefix, that have no equal in the later one."""

    @property
    def last(self) -> int:
        """The last kept block; -1 for none."""
        return self.kept[-1][0] if self.kept else -1


def align(
    one: Sequence[Unit], other: Sequence[Unit], weights: Sequence[int], shared: int, least_tokens: int | None
) -> Alignment:
    """Align `other`, whose blocks weigh `weights` tokens, with the earlier prompt `one`; they share `shared` blocks.

    A replaced message counts only where an equal block follows, or where nearly all of it and `least_tokens` are
    equal: a new question at the end of a prompt is no loss. None: messages behind the common prefix do not count, as those
    of another conversation, which are other messages however much they resemble.
    """
    pairs = _heaviest_pairs(one, other, weights, shared)
    if least_tokens is None:
        pairs = [(i, j) for i, j in pairs if other[j].level < _MESSAGES]
    kept = [(i, 1.0) for i in range(shared)]
    last = pairs[-1][1] if pairs else -1
    paired = {i for i, _ in pairs}
    edges = [(shared - 1, shared - 1), *pairs, (len(one), len(other))]
    for (i, j), (next_i, next_j) in pairwise(edges):
        if j >= shared:
            kept.append((j, 1.0))
        for was, now in _replaced(one, range(i + 1, next_i), other, range(j + 1, next_j)):
            share = _equal_share(one[was], other[now])
            is_head = other[now].level < _MESSAGES
            if share and (is_head or now < last or _is_refilled(share, weights[now], least_tokens)):
                kept.append((now, share))
    removed = tuple(i for i in range(shared, len(one)) if i not in paired and one[i].key)
    return Alignment(tuple(sorted(kept)), removed)


def _replaced(one: Sequence[Unit], was: range, other: Sequence[Unit], now: range) -> Iterator[tuple[int, int]]:
    """Pair blocks without an equal in order, those of each level by themselves."""
    for level in range(_MESSAGES + 1):
        yield from zip(
            (i for i in was if one[i].level == level), (j for j in now if other[j].level == level), strict=False
        )


def _is_refilled(share: float, tokens: int, least_tokens: int | None) -> bool:
    return least_tokens is not None and share >= _REFILLED_SHARE and share * tokens >= least_tokens


def _equal_share(was: Unit, now: Unit) -> float:
    """Share of `now` that `was` has too, nothing where their roles differ; of two blocks whose bytes are unknown, that of the
    smaller one, where it is at least half: a program seldom writes its tools or system text anew.
    """
    if (was.level, was.role) != (now.level, now.role):
        return 0.0
    if was.body is None and now.body is None:
        less, more = sorted((was.size, now.size))
        return less / more if now.level < _MESSAGES and 2 * less >= more > 0 else 0.0
    return equal_bytes(was.body, now.body) / len(now.body) if was.body and now.body else 0.0


_PROBE, _SKIPS, _WINDOW = 32, (0, 8, 32, 128, 512, 2048), 2048
"""Bytes by which two texts are brought together again, how many of the earlier one may be left out, and how many of the
later one may have been put in beside."""


def equal_bytes(was: bytes, now: bytes) -> int:
    """Count the bytes that two texts have in common: up to a difference, behind it from the next place where they agree
    again, and at their ends; at least those of their beginning and their end.

    >>> text = b" Be careful with what you delete, always."
    >>> equal_bytes(b"Now 10:31." + text, b"Now 2:40 pm." + text), len(b"Now ." + text)
    (46, 46)
    """
    start = common_bytes(was, now)
    rest = min(len(was), len(now)) - start
    return max(start + _common_end(was[len(was) - rest :], now[len(now) - rest :]), _bytes_in_order(was, now))


def _bytes_in_order(was: bytes, now: bytes) -> int:
    i = j = total = 0
    one, other = memoryview(was), memoryview(now)
    while True:
        n = common_bytes(one[i:], other[j:])
        i, j, total = i + n, j + n, total + n
        if i == len(was) or j == len(now):
            return total
        for skip in _SKIPS:
            probe = was[i + skip : i + skip + _PROBE]
            at = now.find(probe, j, j + skip + _WINDOW) if len(probe) == _PROBE else -1
            if at >= 0:
                back = _common_end(was[i : i + skip], now[j:at])
                i, j = i + skip - back, at - back
                break
        else:
            rest = min(len(was) - i, len(now) - j)
            return total + _common_end(was[len(was) - rest :], now[len(now) - rest :])


def _common_end(one: bytes, other: bytes) -> int:
    """Number of trailing bytes that are equal."""
    return common_bytes(one[::-1], other[::-1])


def _heaviest_pairs(
    one: Sequence[Unit], other: Sequence[Unit], weights: Sequence[int], shared: int
) -> list[tuple[int, int]]:
    """Pairs of equal blocks behind the common prefix that rise on both sides and weigh the most."""
    end_one, end_other, tail = len(one), len(other), []
    while end_one > shared and end_other > shared and one[end_one - 1].key == other[end_other - 1].key:
        end_one, end_other = end_one - 1, end_other - 1
        if one[end_one].key:
            tail.append((end_one, end_other))
    places: dict[bytes, list[int]] = {}
    for j in range(shared, end_other):
        if other[j].key:
            places.setdefault(other[j].key, []).append(j)
    totals = Counter(unit.key for unit in one[shared:end_one] if unit.key in places)
    ranks = Counter[bytes]()
    matches = []
    for i in range(shared, end_one):
        key = one[i].key
        if key in places:
            matches += [(i, j) for j in _near(places[key], ranks[key], totals[key])]
            ranks[key] += 1
    return _rising(matches if len(matches) <= _MOST_PAIRS else [], weights) + tail[::-1]


def _near(places: Sequence[int], rank: int, total: int) -> list[int]:
    """The places, falling, of those equal blocks that the block of a rank among `total` is weighed with."""
    if len(places) <= 4 * _NEAR:
        return [*reversed(places)]
    starts = {min(max(at, 0), len(places)) for at in (rank, len(places) - total + rank)}
    near = {place for at in starts for place in places[max(at - _NEAR, 0) : at + _NEAR + 1]}
    return sorted(near, reverse=True)


def _rising(matches: list[tuple[int, int]], weights: Sequence[int]) -> list[tuple[int, int]]:
    """The heaviest chain of matches that rises on both sides; `matches` are by rising i, then by falling j."""
    ends: list[int] = []
    """Last j of the best chains, rising; `totals` rises with it."""
    totals: list[int] = []
    nodes: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(matches):
        place = bisect_left(ends, j)
        total = (totals[place - 1] if place else 0) + max(weights[j], 1)
        before.append(nodes[place - 1] if place else -1)
        if place < len(ends) and ends[place] == j and totals[place] >= total:
            continue
        stop = place
        while stop < len(ends) and totals[stop] <= total:
            stop += 1
        ends[place:stop], totals[place:stop], nodes[place:stop] = [j], [total], [number]
    chain, number = [], nodes[-1] if nodes else -1
    while number >= 0:
        chain.append(matches[number])
        number = before[number]
    return chain[::-1]
