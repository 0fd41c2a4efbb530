"""A cache of whole units: DeepSeek, where a prefix is read as one piece that was persisted, or not at all.

Takes prompts and the clock, gives hits, bills and lifetimes; knows nothing of text, models or prices, and ignores
breakpoints.

Documented (https://api-docs.deepseek.com/guides/kv_cache): a unit is persisted at the end of the user input and at the
end of the model's output; where a prefix common to several requests is detected, which makes the second request persist
it and the third hit it; and at fixed token intervals in long inputs and outputs. A request hits only a unit it contains
whole. Writing costs nothing.

Assumed: lifetimes count from the start of a request and a read renews what it read; units are readable once the
response that persists them has begun (`visible_at`). The interval is not published: None for never. The end of the
output is persisted when somebody says what prompt it makes (`answered`); otherwise the next turn hits no more than this
turn's input. What two prompts share inside a segment is not seen.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

from contextkit.cache.breakpoint_cache import Moment
from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage

_Key = tuple[bytes, bytes]
_REMEMBERED_SECONDS = 86_400
"""How long a dead unit is remembered, so that a miss can be told from a first write."""
_SWEPT_PER_WRITE = 4
"""Units looked at for removal per unit written: more than one, so the dead cannot pile up."""
_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "units_written")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


@dataclass(frozen=True, slots=True)
class _Writes:
    """What a request leaves behind."""

    sent: Lease
    """Its place among the prompts that were sent."""
    keys: tuple[_Key, ...]
    """Units it persists."""


class UnitCache:
    """Units at ends of requests and of common prefixes; satisfies `PrefixCache[Prompt]`.

    >>> def asked(ending):
    ...     return Prompt((b"", b"", b""), (0, 0), [b"A", b"A" + ending], [900, 1000], [0, 1], (), 2)
    >>> cache, reads = UnitCache(3600), []
    >>> for ending in (b"B", b"C", b"D"):
    ...     lease = cache.begin(asked(ending), now=0.0)
    ...     cache.publish(lease, now=0.0)
    ...     reads.append(lease.hit.read_tokens)
    >>> reads
    [0, 0, 900]
    """

    def __init__(
        self,
        ttl_seconds: float,
        *,
        min_tokens: int = 0,
        interval_tokens: int | None = None,
        visible_at: Moment = "publish",
    ) -> None:
        """`interval_tokens`: long inputs are cut into units of so many tokens, None for never."""
        self._ttl_seconds = ttl_seconds
        self._min_tokens = min_tokens
        self._interval_tokens = interval_tokens
        self._visible_at = visible_at
        self._sent = ImplicitCache(0, 1, ttl_seconds, visible_at)
        self._units: OrderedDict[_Key, float] = OrderedDict()
        self._counters: Counter[str] = Counter()

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """Return what would be read now, in O(prompt); changes nothing. `segment` is the one the read ends in."""
        shared = self._shared(prompt, now)
        whole = self._longest(prompt, now)
        tokens = prompt.ends_tokens[whole] if whole >= 0 else 0
        common = prompt.ends_tokens[shared] if shared >= 0 else 0
        cut = common - common % self._interval_tokens if self._interval_tokens else 0
        read, segment = (tokens, whole) if tokens >= cut else (cut, shared)
        if read < max(self._min_tokens, 1):
            return self._miss(prompt, now)
        expires_at = self._units[prompt.key(whole)] if tokens >= cut else self._sent.lookup(prompt, now).expires_at
        return Hit(read, 0, segment, "hit", expires_at)

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return _bill(prompt, self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts: renew the unit it reads, note what it has in common with earlier ones."""
        hit = self.lookup(prompt, now)
        shared, whole = self._shared(prompt, now), self._longest(prompt, now)
        if whole >= 0 and hit.read_tokens:
            self._units[prompt.key(whole)] = max(self._units[prompt.key(whole)], now + self._ttl_seconds)
            hit = replace(hit, expires_at=max(hit.expires_at or now, now + self._ttl_seconds))
        ends = dict.fromkeys(segment for segment in (shared, prompt.n - 1) if segment > whole)
        sent = self._sent.begin(prompt, now)
        lease = Lease(
            hit, _bill(prompt, hit.read_tokens), now, (_Writes(sent, tuple(prompt.key(segment) for segment in ends)),)
        )
        self._count(lease)
        self._reach("begin", lease, now)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: its units become readable, their lifetimes counted from the start of the request."""
        self._reach("publish", lease, now)

    def answered(self, prompt: Prompt, now: float, lease: Lease | None = None) -> None:
        """The prompt a request makes with its answer behind it: the end of the model's output is a unit too.

        `lease` need not be said.
        """
        sent = self._sent.begin(prompt, now)
        self._sent.publish(sent, now)
        self._sent.end(sent, 0, now)
        self._persist((prompt.key(prompt.n - 1),) if prompt.n else (), now, now)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill."""
        self._reach("end", lease, now)
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and `units` held now (the dead that are still remembered included)."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | {"units": len(self._units)}

    def reset(self) -> None:
        """Forget everything."""
        self._sent.reset()
        self._units.clear()
        self._counters.clear()

    def _shared(self, prompt: Prompt, now: float) -> int:
        """The last segment of the longest prefix some earlier request sent, -1 for none."""
        segment = self._sent.lookup(prompt, now).segment
        return -1 if segment is None else segment

    def _longest(self, prompt: Prompt, now: float) -> int:
        """The last segment of the longest live unit, -1 for none."""
        return next(
            (segment for segment in range(prompt.n - 1, -1, -1) if self._units.get(prompt.key(segment), now) > now), -1
        )

    def _miss(self, prompt: Prompt, now: float) -> Hit:
        if prompt.n_tokens < self._min_tokens:
            return Hit(0, 0, None, "below_minimum", None)
        dead = [
            self._units[key]
            for key in map(prompt.key, range(prompt.n))
            if key in self._units and self._units[key] <= now
        ]
        if dead:
            return Hit(0, 0, None, "ttl_expired", dead[-1])
        seen = self._sent.lookup(prompt, now)
        return Hit(0, 0, None, "not_yet_visible" if seen.reason == "not_yet_visible" else "first_write", None)

    def _reach(self, moment: Moment, lease: Lease, now: float) -> None:
        """Pass the moment on, and persist where this is the one for it."""
        (writes,) = lease.writes
        if moment == "publish":
            self._sent.publish(writes.sent, now)
        if moment == "end":
            self._sent.end(writes.sent, 0, now)
        if moment == self._visible_at:
            self._persist(writes.keys, lease.at, now)

    def _persist(self, keys: tuple[_Key, ...], at: float, now: float) -> None:
        for key in keys:
            expires_at = max(self._units.pop(key, at), at + self._ttl_seconds)
            self._units[key] = expires_at
            self._counters["units_written"] += 1
            self._sweep(now - _REMEMBERED_SECONDS)

    def _sweep(self, before: float) -> None:
        for _ in range(min(_SWEPT_PER_WRITE, len(self._units))):
            key, expires_at = self._units.popitem(last=False)
            if expires_at > before:
                self._units[key] = expires_at

    def _count(self, lease: Lease) -> None:
        reason = lease.hit.reason
        self._counters["requests"] += 1
        self._counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        self._counters["read_tokens"] += lease.hit.read_tokens
        self._counters["fresh_tokens"] += lease.usage.fresh or 0


def _bill(prompt: Prompt, read: int) -> Usage:
    return Usage(prompt.n_tokens - read, read, 0, 0, 0)
