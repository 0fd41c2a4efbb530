"""A naive twin of the judge: the lengths of a prompt by their definitions, everything compared with everything.

It keeps every call with its blocks, looks at each of them for each call, and has no index, no digests, no memory of what
it has compared. It takes the sizes of blocks, their lookback positions, breakpoints and keys from the endpoint's parser,
as the judge does, and has caches of its own.

Two things are no part of its independence: what two texts have in common inside a block is `equal_bytes` of
`prompt/alignment.py`, which has tests of its own; and `is_limited` applies the judge's choice of candidates, told here in
plain words. Without it, every earlier call is a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.judge import agent_of
from contextkit.ledger.prompts import read_body
from contextkit.models import Model, model_named
from contextkit.prompt.alignment import equal_bytes

MESSAGES = 2
OPAQUE = (b'"type":"image', b'"image_url"')
"""What the JSON of a block holds that is equal whole or not at all; the recordings have no others."""
MOST_CHAINS = 500
"""Heaviest chains that are tried where several weigh the same."""

Blocks = tuple[tuple[int, str, bytes], ...]
"""Level, role where it opens a message, bytes."""


@dataclass(frozen=True)
class Mark:
    segment: int
    ttl: int
    lookback: int


@dataclass(eq=False)
class Call:
    """A call with its blocks."""

    call: ModelCall
    row: Model
    blocks: Blocks
    roles: list[str]
    """Of the message that each block stands in."""
    ends: list[int]
    positions: list[int]
    marks: list[Mark]
    spaces: tuple[bytes, bytes, bytes]

    @property
    def began_at(self) -> float | None:
        call = self.call
        return call.first_byte_at if call.first_byte_at is not None else None if call.error else call.ended_at

    @property
    def pool(self) -> tuple[str, str]:
        """Calls of one pool share a cache."""
        return self.call.account, self.row.name

    @property
    def conversation(self) -> tuple[str, str]:
        return self.call.session, self.call.lane

    def tokens(self, blocks: int) -> int:
        return self.ends[blocks - 1] if blocks else 0

    def size(self, block: int) -> int:
        return self.tokens(block + 1) - self.tokens(block)

    def prefix(self, blocks: int) -> tuple[bytes, Blocks]:
        """What a cache stores a prefix under."""
        level = self.blocks[blocks - 1][0]
        return self.spaces[level], self.blocks[:blocks]


def read(call: ModelCall) -> Call | None:
    assert isinstance(call.prompt, Bodies)
    body = read_body(call.prompt.request, call.provider, call.model)
    assert body is not None
    columns, prompt = body.layout.columns, body.prompt
    assert not columns.silent, "the recordings have no blocks that leave the prompt"
    blocks = tuple((columns.levels[i], columns.roles[i], columns.body(i)) for i in range(prompt.n))
    marks = [Mark(mark.segment, mark.ttl_seconds, mark.lookback) for mark in prompt.breakpoints]
    ends, positions = list(prompt.ends_tokens[: prompt.n]), list(prompt.positions[: prompt.n])
    roles = [next((role for _, role, _ in reversed(blocks[:n]) if role), "") for n in range(1, len(blocks) + 1)]
    row = model_named(call.model, call.provider)
    return Call(call, row, blocks, roles, ends, positions, marks, prompt.namespaces)


# Caches
# -------------------------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    """One cached prefix."""

    key: tuple[bytes, Blocks]
    ttl: float
    expires_at: float


@dataclass
class Cache:
    """A list of entries; every one is looked at for every prefix."""

    row: Model
    entries: list[Entry] = field(default_factory=list)

    def live(self, key: tuple[bytes, Blocks], now: float) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key and entry.expires_at > now), None)

    def store(self, key: tuple[bytes, Blocks], ttl: float, at: float, now: float) -> None:
        """Write an entry whose lifetime counts from `at`; over a live one, keep the longer lifetime."""
        old = self.live(key, now)
        if old is not None:
            old.ttl = max(old.ttl, ttl)
            old.expires_at = max(old.expires_at, at + old.ttl)
        elif at + ttl > now:
            self.entries.append(Entry(key, ttl, at + ttl))

    def readable(self, call: Call, now: float) -> int:
        """Number of blocks of the longest prefix that can be read."""
        raise NotImplementedError

    def begin(self, call: Call, now: float) -> None:
        """Renew what the call uses."""
        raise NotImplementedError

    def publish(self, call: Call, now: float) -> None:
        """Store what the call writes."""
        raise NotImplementedError


class Marked(Cache):
    """Entries stand at breakpoints; a breakpoint reads entries within its lookback, of whatever lifetime."""

    def readable(self, call: Call, now: float) -> int:
        return max(
            (
                segment + 1
                for mark in call.marks
                for segment in range(mark.segment + 1)
                if call.positions[mark.segment] - call.positions[segment] < mark.lookback
                and call.ends[segment] >= self.row.min_tokens
                and self.live(call.prefix(segment + 1), now)
            ),
            default=0,
        )

    def begin(self, call: Call, now: float) -> None:
        found = self.readable(call, now)
        places = {found, *(mark.segment + 1 for mark in call.marks if mark.segment < found)} if found else set()
        for entry in filter(None, (self.live(call.prefix(blocks), now) for blocks in places)):
            entry.expires_at = max(entry.expires_at, now + entry.ttl)

    def publish(self, call: Call, now: float) -> None:
        for mark in call.marks:
            if call.ends[mark.segment] >= self.row.min_tokens:
                self.store(call.prefix(mark.segment + 1), mark.ttl, call.call.at, now)


class Implicit(Cache):
    """Every prefix that was sent is an entry; a call renews all that it shares."""

    def readable(self, call: Call, now: float) -> int:
        lengths = range(1, len(call.blocks) + 1)
        return max((blocks for blocks in lengths if self.live(call.prefix(blocks), now)), default=0)

    def begin(self, call: Call, now: float) -> None:
        for blocks in range(1, self.readable(call, now) + 1):
            entry = self.live(call.prefix(blocks), now)
            if entry is not None:
                entry.expires_at = max(entry.expires_at, now + entry.ttl)

    def publish(self, call: Call, now: float) -> None:
        for blocks in range(1, len(call.blocks) + 1):
            self.store(call.prefix(blocks), self.row.default_ttl_seconds, call.call.at, now)


# Lengths
# -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """What the twin says of a call."""

    prompt: int
    readable: int
    shared: int
    similar: frozenset[int]
    """One value, or several where equal blocks can be paired in several ways that weigh the same."""


class Twin:
    """Measures calls, fed in the order in which they began."""

    def __init__(self, *, is_limited: bool) -> None:
        self.is_limited = is_limited
        self.calls: list[Call] = []
        self.caches: dict[tuple[str, str], Cache] = {}
        self.pending: list[tuple[float, Call]] = []

    def feed(self, call: ModelCall) -> Lengths | None:
        """Return the lengths of the next call; None where it was refused."""
        now = read(call)
        if now is None or call.is_refused:
            return None
        cache = self.caches.setdefault(now.pool, (Marked if now.row.cache == "breakpoints" else Implicit)(now.row))
        for began, one in sorted(self.pending, key=lambda pair: pair[0]):
            if began <= call.at:
                self.caches[one.pool].publish(one, began)
        self.pending = [pair for pair in self.pending if pair[0] > call.at]
        lengths = self.lengths(now, cache)
        if now.began_at is not None:
            cache.begin(now, call.at)
            self.pending.append((now.began_at, now))
        self.calls.append(now)
        return lengths

    def lengths(self, now: Call, cache: Cache) -> Lengths:
        size, billed = now.tokens(len(now.blocks)), now.call.usage.read or 0 if now.call.usage else 0
        found = cache.readable(now, now.call.at)
        candidates = self.candidates(now)
        owner = max(
            candidates,
            key=lambda one: (
                common(one, now),
                partial_share(one, now),
                has_keys(one, now, n_blocks=common(one, now)),
                one.conversation == now.conversation,
                one.call.at,
            ),
            default=None,
        )
        if owner is None:
            readable = max(self.rounded(now, now.tokens(found)), billed)
            return Lengths(size, readable, readable, frozenset([readable]))
        n = common(owner, now)
        part = 0 if n == len(now.blocks) else round(partial_share(owner, now) * now.size(n))
        shared = now.tokens(n) + part
        similar = {shared}
        if not self.is_continued(now):
            totals = [similar_tokens(one, now) for one in candidates]
            least = max(min(total) for total in totals)
            similar = {value for total in totals for value in total if value >= least}
        held = max([now.tokens(found), *(self.part_held(one, now, cache) for one in candidates)])
        readable = max(self.rounded(now, held), billed)
        shared = max(shared, readable)
        return Lengths(size, readable, shared, frozenset(max(value, shared) for value in similar))

    def part_held(self, one: Call, now: Call, cache: Cache) -> int:
        """Tokens of the common prefix up to the first byte that differs, if a cache of any prefix holds the block in which
        that stands.
        """
        n = common(one, now)
        if not isinstance(cache, Implicit) or n >= min(len(one.blocks), len(now.blocks)):
            return 0
        has_key = one.blocks[n][0] == now.blocks[n][0] and one.prefix(n + 1)[0] == now.prefix(n + 1)[0]
        is_live = has_key and one.pool == now.pool and cache.live(one.prefix(n + 1), now.call.at)
        return now.tokens(n) + round(partial_share(one, now) * now.size(n)) if is_live else 0

    def rounded(self, now: Call, tokens: int) -> int:
        """What is billed as read of so many tokens."""
        return 0 if tokens < now.row.min_tokens else tokens - tokens % now.row.granularity_tokens

    def own(self, now: Call) -> list[Call]:
        """The calls of the same conversation, the last one first; of a failed call and its resends in a row, the last."""
        own = [one for one in self.calls if one.conversation == now.conversation]
        pairs = pairwise([*own, now])
        return [one for one, after in pairs if not is_resend(one, after)][::-1]

    def is_continued(self, now: Call) -> bool:
        """Return whether the prompt continues that of the call before: what it adds is then new."""
        own = self.own(now)
        return bool(own) and common(own[0], now) == len(own[0].blocks)

    def candidates(self, now: Call) -> list[Call]:
        """All calls of the conversation, and those of other conversations of the model, with half of the tools and half of
        the system text in common (of those without either: the first block).
        """
        own = self.own(now)
        others = [one for one in reversed(self.calls) if one.conversation != now.conversation and one.pool == now.pool]
        if self.is_limited:
            own, others = self.limited(now, own, others)
        if self.is_continued(now):
            return [*own, *others]
        return [*own, *(one for one in others if has_one_head(one, now))]

    def limited(self, now: Call, own: list[Call], others: list[Call]) -> tuple[list[Call], list[Call]]:
        """The last three calls of the conversation; the first call that had the longest known prefix of whole blocks; and,
        unless the prompt continues the last one, the last call of four conversations.
        """
        chosen = own[:3]
        first: dict[Blocks, Call] = {}
        for one in self.calls:
            if one.pool == now.pool:
                for blocks in range(1, len(one.blocks) + 1):
                    first.setdefault(one.blocks[:blocks], one)
        deepest = next((first[now.blocks[:n]] for n in range(len(now.blocks), 0, -1) if now.blocks[:n] in first), None)
        heads: list[Call] = []
        for one in reversed(self.calls):
            is_last = one.pool == now.pool and all(one.conversation != head.conversation for head in heads)
            if is_last:
                heads.append(one)
        heads = [one for one in heads if agent_of(one.call.lane) == agent_of(now.call.lane)][:4]
        added = ([] if deepest is None else [deepest]) + ([] if self.is_continued(now) else heads)
        for one in added:
            if one not in chosen:
                chosen.append(one)
        chosen = chosen[:8]
        chosen = [one for one in chosen if one.conversation != now.conversation or not is_resend(one, now)]
        own = [one for one in chosen if one.conversation == now.conversation]
        return own, [one for one in chosen if one not in own]


def common(one: Call, other: Call) -> int:
    """Number of leading blocks that are equal."""
    n = 0
    while n < min(len(one.blocks), len(other.blocks)) and one.blocks[n] == other.blocks[n]:
        n += 1
    return n


def is_resend(one: Call, after: Call) -> bool:
    """Return whether `after` repeats a call of its conversation that failed."""
    is_same = (one.pool, one.spaces, one.blocks) == (after.pool, after.spaces, after.blocks)
    return one.call.error is not None and is_same


def has_keys(one: Call, now: Call, n_blocks: int) -> bool:
    """Return whether both key so many blocks alike."""
    level = now.blocks[n_blocks - 1][0] if n_blocks else -1
    return one.spaces[: level + 1] == now.spaces[: level + 1]


def is_opaque(body: bytes) -> bool:
    return any(mark in body for mark in OPAQUE)


def partial_share(one: Call, now: Call) -> float:
    """Share of the first different block, if it stands on one level in both, that both begin with."""
    n = common(one, now)
    if n >= min(len(one.blocks), len(now.blocks)):
        return 0.0
    (level, _, before), (other_level, _, after) = one.blocks[n], now.blocks[n]
    if level != other_level or one.roles[n] != now.roles[n] or is_opaque(before) or is_opaque(after):
        return 0.0
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    return same / len(after)


def is_one_agent(one: Call, now: Call) -> bool:
    return agent_of(one.call.lane) == agent_of(now.call.lane)


def has_one_head(one: Call, now: Call) -> bool:
    """Return whether at least half of the tools and half of the system text are equal; where there are neither, whether
    the first block is.
    """
    kept, has_head = dict.fromkeys(range(common(one, now)), 1.0), False
    if is_one_agent(one, now):
        kept = kept_shares(one, now, heaviest_chains(one, now)[0])
    for level in (0, 1):
        blocks = [block for block in range(len(now.blocks)) if now.blocks[block][0] == level]
        size = sum(map(now.size, blocks))
        if sum(now.size(block) * kept.get(block, 0.0) for block in blocks) < size / 2:
            return False
        has_head = has_head or size > 0
    return has_head or common(one, now) > 0


def similar_tokens(one: Call, now: Call) -> set[int]:
    """Tokens that both have in common: of each heaviest common subsequence, with the replaced pairs between; of another
    agent, those of the common prefix.
    """
    if not is_one_agent(one, now):
        return {now.tokens(common(one, now))}
    return {
        round(sum(now.size(block) * share for block, share in sorted(kept_shares(one, now, chain).items())))
        for chain in heaviest_chains(one, now)
    }


def heaviest_chains(one: Call, now: Call) -> list[list[tuple[int, int]]]:
    """The weighted longest common subsequences behind the common prefix: textbook dynamic programming, O(n·m).

    What both end with is paired first: one text weighs more where it opens a message, and of two places for it in this
    prompt the last one is as good.
    """
    start = common(one, now)
    rows, columns = len(one.blocks), len(now.blocks)
    tail = list[tuple[int, int]]()

    def is_equal(i: int, j: int) -> bool:
        (level, _, before), (other_level, _, after) = one.blocks[i], now.blocks[j]
        return (level, one.roles[i], before) == (other_level, now.roles[j], after)

    def weight(j: int) -> int:
        return max(now.size(j), 1)

    while min(rows, columns) > start and is_equal(rows - 1, columns - 1):
        rows, columns = rows - 1, columns - 1
        tail.insert(0, (rows, columns))
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, start - 1, -1):
        for j in range(columns - 1, start - 1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1])
            if is_equal(i, j):
                best[i][j] = max(best[i][j], best[i + 1][j + 1] + weight(j))

    def chains(i: int, j: int) -> Iterator[list[tuple[int, int]]]:
        """Every chain of the greatest weight, by its first pair."""
        if not best[i][j]:
            yield []
            return
        for a in range(i, rows):
            for b in range(j, columns):
                if is_equal(a, b) and weight(b) + best[a + 1][b + 1] == best[i][j]:
                    for rest in chains(a + 1, b + 1):
                        yield [(a, b), *rest]

    found = []
    for chain in chains(start, start):
        found.append([*chain, *tail])
        if len(found) == MOST_CHAINS:
            break
    return found


def kept_shares(one: Call, now: Call, chain: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Blocks of `now` that `one` has too, each with the share that is equal: those of the common prefix, the pairs of the
    chain, and between two pairs the blocks that replaced one another.

    A replaced message counts only where a pair follows, or where nine tenths of it and the least that is cached are equal.
    Of another conversation, no message behind the common prefix counts.
    """
    start, is_own = common(one, now), one.conversation == now.conversation
    chain = [(i, j) for i, j in chain if is_own or now.blocks[j][0] < MESSAGES]
    kept = dict.fromkeys(range(start), 1.0) | {j: 1.0 for _, j in chain}
    edges = [(start - 1, start - 1), *chain, (len(one.blocks), len(now.blocks))]
    for number, ((i, j), (next_i, next_j)) in enumerate(pairwise(edges)):
        is_followed = number < len(chain)
        for was, block in replaced(one, range(i + 1, next_i), now, range(j + 1, next_j)):
            (level, _, before), (_, _, after) = one.blocks[was], now.blocks[block]
            if one.roles[was] != now.roles[block] or is_opaque(before) or is_opaque(after):
                continue
            share = equal_bytes(before, after) / len(after)
            is_refilled = is_own and share >= 0.9 and share * now.size(block) >= now.row.min_tokens
            if share and (level < MESSAGES or is_followed or is_refilled):
                kept[block] = share
    return kept


def replaced(one: Call, was: range, now: Call, blocks: range) -> Iterator[tuple[int, int]]:
    """The first block of a level with the first of the same level, the second with the second, and so on."""
    for level in range(MESSAGES + 1):
        before = [i for i in was if one.blocks[i][0] == level]
        after = [i for i in blocks if now.blocks[i][0] == level]
        yield from zip(before, after, strict=False)
