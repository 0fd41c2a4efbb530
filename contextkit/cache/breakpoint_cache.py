"""A cache that writes where it is told to: Anthropic, and OpenAI from gpt-5.6 on (the difference is data, in the
breakpoints).

Takes prompts and the clock, gives hits, bills and lifetimes; knows nothing of text, models or prices.

What is documented (platform.claude.com "Prompt caching"; OpenAI "Prompt caching" guide): one entry per breakpoint and
nowhere else; a lookup visits `lookback` positions, the breakpoint's own being the first; lifetimes count from the start
of the request that writes or reads, a read refreshes for free; an entry is readable once the response that writes it
has begun; a prefix below the minimum is silently uncached; reads, long writes and short writes are billed by where the
last hit and the last marks stand.

What is assumed, because nothing is published: every live entry that stands at a breakpoint of a request at or below its
hit is refreshed with it; writing over a live entry refreshes it and keeps the longer of the two lifetimes, which
upgrades a 5m entry under a 1h mark free of charge; any mark reads any entry (the rule `mixed_lifetimes` of
`facts/rules.toml`; `is_ttl_interchangeable=False` is the other reading); OpenAI entries become readable when
Anthropic's do (`visible_at`). Where a read renews with the reading request's lifetime (`renewal`), it never shortens a
life.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import PRICED_TTLS, Usage, is_long_ttl
from contextkit.errors import UsageError

Moment = Literal["begin", "publish", "end"]
"""When what a request writes becomes readable."""

Renewal = Literal["entry", "request", "never"]
"""Whose lifetime a read gives the entry again: its own, that of the request's last mark, or nobody's."""

_Key = tuple[bytes, bytes, int]
"""Namespace, running digest, lifetime family (0 where all lifetimes are one)."""

_REACH_SEGMENTS = 400
"""How far behind the last breakpoint a miss looks for a live entry that no window reached; older ones are called
`first_write`."""
_REMEMBERED_SECONDS = 86_400
"""How long a dead entry is remembered, so that a miss can be told from a first write."""
_SWEPT_PER_WRITE = 4
"""Entries looked at for removal per entry written: more than one, so the dead cannot pile up."""
_COUNTERS = (
    "requests",
    "hits",
    "read_tokens",
    "fresh_tokens",
    "write_5m_tokens",
    "write_1h_tokens",
    "output_tokens",
    "entries_written",
)
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


class _Entry(NamedTuple):
    """One cached prefix."""

    ttl_seconds: int
    """Lifetime that a read gives it again."""
    expires_at: float
    """It is readable before this moment, not at it."""
    tokens: int
    """Size of the prefix."""


class _Match(NamedTuple):
    """An entry and where in the prompt it ends."""

    segment: int
    """Last segment of its prefix."""
    key: _Key
    """What it is stored under."""
    entry: _Entry
    """As it was when found."""


class _Write(NamedTuple):
    """An entry a request leaves behind once it is readable."""

    key: _Key
    """What it will be stored under."""
    ttl_seconds: int
    """Lifetime the mark asked for."""
    tokens: int
    """Size of the prefix."""


class BreakpointCache:
    """Prefixes kept at marked places; satisfies `PrefixCache[Prompt]`.

    >>> prompt = Prompt((b"", b"", b""), (0, 0), [b"a", b"ab"], [2000, 2500], [0, 1], (Breakpoint(1, 300),), 2)
    >>> cache = BreakpointCache(1024)
    >>> lease = cache.begin(prompt, now=0.0)
    >>> lease.hit.reason, lease.usage.write_5m
    ('first_write', 2500)
    >>> cache.lookup(prompt, now=1.0).reason
    'not_yet_visible'
    >>> cache.publish(lease, now=2.0)
    >>> cache.lookup(prompt, now=299.0).read_tokens, cache.lookup(prompt, now=300.0).reason
    (2500, 'ttl_expired')
    """

    def __init__(
        self,
        min_tokens: int,
        *,
        is_ttl_interchangeable: bool = True,
        visible_at: Moment = "publish",
        renewal: Renewal = "entry",
    ) -> None:
        """`min_tokens`: prefixes shorter than this are neither written nor read."""
        self._min_tokens = min_tokens
        self._is_ttl_interchangeable = is_ttl_interchangeable
        self._visible_at = visible_at
        self._renewal: Renewal = renewal
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._in_flight: OrderedDict[_Key, _Entry] = OrderedDict()
        self._counters: Counter[str] = Counter()

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """Return what would be read now, in O(window) probes; changes nothing."""
        match = self._longest(prompt, now)
        return _hit(prompt, match) if match else self._miss(prompt, now)

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        match = self._longest(prompt, now)
        read = prompt.ends_tokens[match.segment] if match else 0
        return _bill(prompt, read, self._written(prompt))

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts: refresh what it reads, bill it; raises `UsageError` for a lifetime that has no write class.

        Until it is published it counts as in flight, so a request that died keeps others' reason at `not_yet_visible`
        for its lifetime.
        """
        marks = self._written(prompt)
        match = self._longest(prompt, now)
        hit = _hit(prompt, self._refresh(prompt, match, now)) if match else self._miss(prompt, now)
        writes = tuple(
            _Write(
                self._key(prompt, mark.segment, mark.ttl_seconds), mark.ttl_seconds, prompt.ends_tokens[mark.segment]
            )
            for mark in marks
        )
        lease = Lease(hit, _bill(prompt, hit.read_tokens, marks), now, writes)
        self._count(lease)
        for write in writes:
            self._in_flight[write.key] = _Entry(write.ttl_seconds, now + write.ttl_seconds, write.tokens)
            _sweep(self._in_flight, now)
        self._reach("begin", lease, now)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: what it writes becomes readable, its lifetime counted from the start of the request."""
        self._reach("publish", lease, now)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill.

        It publishes nothing that `publish` should have (unless `visible_at` is `end`).
        """
        self._reach("end", lease, now)
        self._counters["output_tokens"] += output
        return lease.usage.with_output(output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and `entries` held now (the dead that are still remembered included)."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | {"entries": len(self._entries)}

    @property
    def is_ttl_interchangeable(self) -> bool:
        """Return whether a breakpoint reads entries of other lifetimes than its own."""
        return self._is_ttl_interchangeable

    def separate_lifetimes(self) -> None:
        """Let a breakpoint read only entries of its own lifetime from now on: a bill has shown that the provider does so.

        An entry counts as one of the longest lifetime that it was written with.
        """
        if not self._is_ttl_interchangeable:
            return
        self._is_ttl_interchangeable = False
        self._entries = _by_lifetime(self._entries)
        self._in_flight = _by_lifetime(self._in_flight)

    def reset(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._in_flight.clear()
        self._counters.clear()

    def _key(self, prompt: Prompt, segment: int, ttl_seconds: int) -> _Key:
        # `Prompt.key`, written out: a miss computes it hundreds of times
        level = (segment >= prompt.level_ends[0]) + (segment >= prompt.level_ends[1])
        return prompt.namespaces[level], prompt.digests[segment], 0 if self._is_ttl_interchangeable else ttl_seconds

    def _longest(self, prompt: Prompt, now: float) -> _Match | None:
        """The longest live entry in any breakpoint's window."""
        entries, ends, positions = self._entries, prompt.ends_tokens, prompt.positions
        best: _Match | None = None
        if not entries:
            return None
        for mark in reversed(prompt.breakpoints):
            own = positions[mark.segment]
            for segment in range(mark.segment, best.segment if best else -1, -1):
                if ends[segment] < self._min_tokens or own - positions[segment] >= mark.lookback:
                    break
                key = self._key(prompt, segment, mark.ttl_seconds)
                entry = entries.get(key)
                if entry and entry.expires_at > now:
                    best = _Match(segment, key, entry)
                    break
        return best

    def _visit(
        self, store: OrderedDict[_Key, _Entry], prompt: Prompt, mark: Breakpoint, segments: Iterable[int]
    ) -> Iterator[_Match]:
        """Yield what `store` holds for these segments (newest first) and may be read by `mark`."""
        if not store:
            return
        for segment in segments:
            if prompt.ends_tokens[segment] < self._min_tokens:
                return
            key = self._key(prompt, segment, mark.ttl_seconds)
            if entry := store.get(key):
                yield _Match(segment, key, entry)

    def _miss(self, prompt: Prompt, now: float) -> Hit:
        """Why nothing was read: by the longest prefix that was nearly there, a death before a write in flight."""
        reason, expires_at = self._reason(prompt, now)
        return Hit(0, 0, None, reason, expires_at)

    def _reason(self, prompt: Prompt, now: float) -> tuple[str, float | None]:
        if not prompt.breakpoints:
            return "no_breakpoint", None
        last = prompt.breakpoints[-1]
        if prompt.ends_tokens[last.segment] < self._min_tokens:
            return "below_minimum", None
        dead = self._nearly(self._entries, prompt, now - _REMEMBERED_SECONDS)
        coming = self._nearly(self._in_flight, prompt, now)
        if dead and not (coming and coming.segment > dead.segment):
            return "ttl_expired", dead.entry.expires_at
        if coming:
            return "not_yet_visible", None
        return ("out_of_reach" if self._is_out_of_reach(prompt, now) else "first_write"), None

    def _nearly(self, store: OrderedDict[_Key, _Entry], prompt: Prompt, after: float) -> _Match | None:
        """The longest of what the windows show in `store` and expires after that moment."""
        matches = (
            match for mark in prompt.breakpoints for match in self._visit(store, prompt, mark, _window(prompt, mark))
        )
        return max(
            (match for match in matches if match.entry.expires_at > after),
            key=lambda match: match.segment,
            default=None,
        )

    def _is_out_of_reach(self, prompt: Prompt, now: float) -> bool:
        last = prompt.breakpoints[-1].segment
        segments = range(last, max(-1, last - _REACH_SEGMENTS), -1)
        return any(
            match.entry.expires_at > now
            for mark in {mark.ttl_seconds: mark for mark in prompt.breakpoints}.values()
            for match in self._visit(self._entries, prompt, mark, segments)
        )

    def _refresh(self, prompt: Prompt, match: _Match, now: float) -> _Match:
        """Lengthen the life of what was read and of the live entries at breakpoints below it.

        Gives `match` as it is now.
        """
        if self._renewal == "never":
            return match
        marks = (mark for mark in prompt.breakpoints if mark.segment <= match.segment)
        for key in {match.key, *(self._key(prompt, mark.segment, mark.ttl_seconds) for mark in marks)}:
            entry = self._entries.get(key)
            if entry and entry.expires_at > now:
                ttl = entry.ttl_seconds if self._renewal == "entry" else prompt.breakpoints[-1].ttl_seconds
                self._entries[key] = _Entry(ttl, max(entry.expires_at, now + ttl), entry.tokens)
        return _Match(match.segment, match.key, self._entries[match.key])

    def _written(self, prompt: Prompt) -> list[Breakpoint]:
        """The breakpoints at which an entry is written. Raises `UsageError` for a lifetime that has no write price."""
        marks = [
            mark
            for mark in prompt.breakpoints
            if mark.is_written and prompt.ends_tokens[mark.segment] >= self._min_tokens
        ]
        for ttl_seconds in {mark.ttl_seconds for mark in marks}:
            check_ttl(ttl_seconds)
        return marks

    def _reach(self, moment: Moment, lease: Lease, now: float) -> None:
        """Make the lease's entries readable where this is the moment for it."""
        if moment == self._visible_at:
            for write in lease.writes:
                self._in_flight.pop(write.key, None)
                self._write(write, lease.at, now)

    def _write(self, write: _Write, at: float, now: float) -> None:
        old = self._entries.get(write.key)
        is_live = old is not None and old.expires_at > now
        if is_live and self._renewal == "never":
            return
        ttl_seconds = max(write.ttl_seconds, old.ttl_seconds) if old and is_live else write.ttl_seconds
        expires_at = max(at + ttl_seconds, old.expires_at if old else at)
        self._entries[write.key] = _Entry(ttl_seconds, expires_at, write.tokens)
        self._counters["entries_written"] += 1
        _sweep(self._entries, now - _REMEMBERED_SECONDS)

    def _count(self, lease: Lease) -> None:
        usage, reason = lease.usage, lease.hit.reason
        counters = self._counters
        counters["requests"] += 1
        counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        counters["read_tokens"] += usage.read or 0
        counters["fresh_tokens"] += usage.fresh or 0
        for ttl_seconds, tokens in usage.writes or ():
            counters["write_1h_tokens" if is_long_ttl(ttl_seconds) else "write_5m_tokens"] += tokens or 0


def _hit(prompt: Prompt, match: _Match) -> Hit:
    return Hit(prompt.ends_tokens[match.segment], 0, match.segment, "hit", match.entry.expires_at)


def _window(prompt: Prompt, mark: Breakpoint) -> Iterator[int]:
    """Segments from `mark` back that its lookup visits: all of a position, since an entry may have been written inside
    a run.
    """
    own = prompt.positions[mark.segment]
    for segment in range(mark.segment, -1, -1):
        if own - prompt.positions[segment] >= mark.lookback:
            return
        yield segment


def _bill(prompt: Prompt, read: int, marks: list[Breakpoint]) -> Usage:
    """Split the tokens of `prompt` by the hit and the last written breakpoint of each lifetime, the longest first; the
    parts add up to all.

    Whether the sizes were counted or estimated is the caller's knowledge, so `estimated` stays False.
    """
    ends: dict[int, int] = {}
    for mark in marks:
        ends[mark.ttl_seconds] = max(ends.get(mark.ttl_seconds, 0), prompt.ends_tokens[mark.segment])
    tokens_by_ttl: dict[int, int | None] = {}
    end = read
    for ttl_seconds in sorted(ends, reverse=True) if len(ends) > 1 else ends:
        if ends[ttl_seconds] > end:
            tokens_by_ttl[ttl_seconds] = ends[ttl_seconds] - end
            end = ends[ttl_seconds]
    total = prompt.ends_tokens[prompt.n - 1] if prompt.n else 0
    return Usage(total - end, read, output=0, writes=tokens_by_ttl)


def check_ttl(ttl_seconds: float) -> None:
    """Raise `UsageError` for a lifetime that has no write price."""
    if ttl_seconds not in PRICED_TTLS:
        priced = ", ".join(map(str, PRICED_TTLS))
        raise UsageError(
            f"a breakpoint asks for a lifetime of {ttl_seconds} s, which has no write price: use one of {priced}"
        )


def _sweep(store: OrderedDict[_Key, _Entry], before: float) -> None:
    """Look at the few entries not looked at for longest and drop those that expired by `before`: O(1), and every one
    has its turn.
    """
    for _ in range(min(_SWEPT_PER_WRITE, len(store))):
        key, entry = store.popitem(last=False)
        if entry.expires_at > before:
            store[key] = entry


def _by_lifetime(store: OrderedDict[_Key, _Entry]) -> OrderedDict[_Key, _Entry]:
    return OrderedDict(((key[0], key[1], entry.ttl_seconds), entry) for key, entry in store.items())
