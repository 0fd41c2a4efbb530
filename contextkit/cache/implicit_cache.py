"""Caches that store every prompt, asked or not: OpenAI up to gpt-5.5, Gemini, and most other hosts.

Takes prompts and the clock, gives hits, bills and lifetimes. `ImplicitCache` ignores breakpoints, except that where
writing is billed (`bills_writes`: Kimi) the last one gives the lifetime of the request. `NamedContents` (Gemini) also
reads the content that the last breakpoint names.

What is documented (OpenAI "Prompt caching" guide): the longest prefix in common with an earlier prompt is read, rounded
down to the model's granularity, from the model's minimum on; writing costs nothing there; an idle prefix dies after a
while and use keeps it alive.

What is assumed: a request uses the whole prefix it shares, readable or not, so all of that lives on; lifetimes count
from the start of the request; a prompt is readable once its response has begun (`visible_at`). The sizes known here are
those of whole segments, so what two prompts share inside the first segment that differs is not counted: a read is a
lower bound, and never more than the true common prefix. The ceiling on a prefix's age that OpenAI's in-memory policy
has is not modelled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from contextkit.cache.breakpoint_cache import Moment, check_ttl
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError

_Key = tuple[bytes, bytes]
"""Namespace, running digest: stands for everything up to and including one segment."""

_REMEMBERED_SECONDS = 86_400
"""How long a dead prefix is remembered, so that a miss can be told from a first write."""
_SWEPT_RUNS = 4
"""Runs looked at for removal per call that writes; such a call makes two at most, so the dead cannot pile up."""
_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "segments_written")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


@dataclass(eq=False, slots=True)
class _Run:
    """Segment ends that follow one another.

    Their lifetimes are few steps, since whoever uses a prefix uses all that is before it.
    """

    parent: _Key | None
    """The segment end before the first, None at the start of a prompt."""
    keys: list[_Key | None] = field(default_factory=list)
    """The segment ends in order; None for one that died here and lives in another run."""
    steps: list[tuple[int, float]] = field(default_factory=list)
    """(index, expires_at): segment ends up to `index` live until then; indices rise, moments fall, the last index is
    the last key."""

    def expires_at(self, index: int) -> float:
        """When the segment end at `index` dies."""
        step = bisect_left(self.steps, index, key=lambda step: step[0])
        return self.steps[step][1] if step < len(self.steps) else float("-inf")

    def refresh(self, index: int, expires_at: float) -> None:
        """Segment ends up to `index` live until then at least."""
        if self.expires_at(index) < expires_at:
            before = [step for step in self.steps if step[1] > expires_at]
            self.steps = [*before, (index, expires_at), *(step for step in self.steps if step[0] > index)]

    def cut(self, n_kept: int) -> list[_Key | None]:
        """Drop all but the first `n_kept` segment ends; gives the others."""
        dropped = self.keys[n_kept:]
        last = (n_kept - 1, self.expires_at(n_kept - 1))
        self.steps = [*(step for step in self.steps if step[0] < n_kept - 1), last] if n_kept else []
        del self.keys[n_kept:]
        return dropped


_Place = tuple[_Run, int]
"""A run and an index in it."""


class ImplicitCache:
    """Every prefix that was sent, to the granularity; satisfies `PrefixCache[Prompt]`.

    >>> prompt = Prompt((b"", b"", b""), (0, 0), [b"a", b"ab"], [1500, 1700], [0, 1], (), 2)
    >>> cache = ImplicitCache(1024, 128, 300)
    >>> lease = cache.begin(prompt, now=0.0)
    >>> cache.publish(lease, now=1.0)
    >>> longer = Prompt((b"", b"", b""), (0, 0), [b"a", b"ac"], [1500, 2000], [0, 1], (), 2)
    >>> cache.begin(longer, now=299.0).usage
    Usage(fresh=592, read=1408, writes={}, output=0)
    """

    def __init__(
        self,
        min_tokens: int,
        granularity_tokens: int,
        ttl_seconds: float,
        visible_at: Moment = "publish",
        *,
        bills_writes: bool = False,
    ) -> None:
        """A read is a multiple of `granularity_tokens`, at least `min_tokens`.

        Raises `UsageError` for a granularity below 1.
        """
        if granularity_tokens < 1:
            raise UsageError(
                f"granularity_tokens is {granularity_tokens}: a read is rounded down to a multiple of it, so pass 1 or more"
            )
        self._min_tokens = min_tokens
        self._granularity_tokens = granularity_tokens
        self._ttl_seconds = ttl_seconds
        self._visible_at = visible_at
        self._bills_writes = bills_writes
        self._ends: dict[_Key, _Place] = {}
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        self._in_flight: OrderedDict[_Key, float] = OrderedDict()
        self._counters: Counter[str] = Counter()

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """Return what would be read now, in O(new segments) probes; changes nothing. `segment` is the one the read ends
        in.
        """
        return self._hit(prompt, self._longest(prompt, now), now)

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return self._bill(prompt, self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts: keep alive what it shares with earlier ones, bill it.

        Raises `UsageError` for a lifetime without a write class.

        Until it is published it counts as in flight, so a request that died keeps others' reason at `not_yet_visible`
        for its lifetime.
        """
        shared = self._longest(prompt, now)
        known = prompt.key(shared) if shared >= 0 else None
        ttl_seconds = self._requested_ttl(prompt)
        expires_at = now + ttl_seconds
        bill = self._bill(prompt, self._hit(prompt, shared, now).read_tokens)
        self._refresh(self._live(known, now), expires_at)
        new = tuple(prompt.key(segment) for segment in range(shared + 1, prompt.n))
        lease = Lease(self._hit(prompt, shared, now), bill, now, (ttl_seconds, known, *new))
        self._count(lease)
        self._announce(new, expires_at, now)
        self._reach("begin", lease, now)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: its prompt becomes readable, the lifetime counted from the start of the request."""
        self._reach("publish", lease, now)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill.

        It publishes nothing that `publish` should have (unless `visible_at` is `end`).
        """
        self._reach("end", lease, now)
        self._counters["output_tokens"] += output
        return lease.usage.with_output(output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and `segments` held now (the dead that are still remembered included)."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | {"segments": len(self._ends)}

    def reset(self) -> None:
        """Forget everything."""
        self._ends.clear()
        self._runs.clear()
        self._in_flight.clear()
        self._counters.clear()

    def _requested_ttl(self, prompt: Prompt) -> float:
        """The lifetime this request gives what it sends."""
        return prompt.breakpoints[-1].ttl_seconds if self._bills_writes and prompt.breakpoints else self._ttl_seconds

    def _bill(self, prompt: Prompt, read: int) -> Usage:
        """Bill what is new as fresh or, where writing is billed, as written as far as it can be read back."""
        written = max(self._readable(prompt.n_tokens) - read, 0) if self._bills_writes else 0
        writes: dict[int, int | None] = {}
        if self._bills_writes:
            ttl_seconds = self._requested_ttl(prompt)
            check_ttl(ttl_seconds)
            writes[int(ttl_seconds)] = written
        return Usage(prompt.n_tokens - read - written, read, output=0, writes=writes)

    def _readable(self, tokens: int) -> int:
        floored = tokens - tokens % self._granularity_tokens
        return floored if floored >= self._min_tokens else 0

    def _live(self, key: _Key | None, now: float) -> _Place | None:
        place = self._ends.get(key) if key else None
        return place if place and place[0].expires_at(place[1]) > now else None

    def _longest(self, prompt: Prompt, now: float) -> int:
        """The last segment of the longest live prefix, -1 for none.

        From the end, since only what is new stands behind it.
        """
        return next((segment for segment in range(prompt.n - 1, -1, -1) if self._live(prompt.key(segment), now)), -1)

    def _hit(self, prompt: Prompt, shared: int, now: float) -> Hit:
        read = self._readable(prompt.ends_tokens[shared]) if shared >= 0 else 0
        if not read:
            return Hit(0, 0, None, *self._reason(prompt, shared, now))
        run, index = self._ends[prompt.key(shared)]
        return Hit(read, 0, bisect_left(prompt.ends_tokens, read, 0, shared), "hit", run.expires_at(index))

    def _reason(self, prompt: Prompt, shared: int, now: float) -> tuple[str, float | None]:
        """Why nothing was read: by the longest prefix that was nearly there, a death before a prompt in flight."""
        if not self._readable(prompt.n_tokens):
            return "below_minimum", None
        for segment in range(prompt.n - 1, shared, -1):
            if not self._readable(prompt.ends_tokens[segment]):
                break
            key = prompt.key(segment)
            if dead := self._live(key, now - _REMEMBERED_SECONDS):
                return "ttl_expired", dead[0].expires_at(dead[1])
            if self._in_flight.get(key, now) > now:
                return "not_yet_visible", None
        return ("below_minimum" if shared >= 0 else "first_write"), None

    def _refresh(self, place: _Place | None, expires_at: float) -> None:
        """Keep this segment end and all before it alive; stops where that is so already."""
        while place and place[0].expires_at(place[1]) < expires_at:
            run, index = place
            run.refresh(index, expires_at)
            place = self._ends.get(run.parent) if run.parent else None

    def _announce(self, keys: tuple[_Key, ...], expires_at: float, now: float) -> None:
        """These are in flight; those whose time is over are dropped, two looked at for each that comes."""
        for key in keys:
            self._in_flight[key] = expires_at
            for _ in range(min(2, len(self._in_flight))):
                other, until = self._in_flight.popitem(last=False)
                if until > now:
                    self._in_flight[other] = until

    def _reach(self, moment: Moment, lease: Lease, now: float) -> None:
        """Make the lease's prompt readable where this is the moment for it."""
        if moment == self._visible_at:
            ttl_seconds, known, *new = lease.writes
            for key in new:
                self._in_flight.pop(key, None)
            self._write(known, new, lease.at + ttl_seconds, now)

    def _write(self, known: _Key | None, new: list[_Key], expires_at: float, now: float) -> None:
        """Store `new` behind `known`; what others stored since the request began is refreshed."""
        n_stored = next((n for n, key in enumerate(new) if not self._live(key, now)), len(new))
        known = new[n_stored - 1] if n_stored else known
        place = self._live(known, now)
        if known and not place:  # the cache was reset since: a prefix without its beginning must not come back
            return
        self._refresh(place, expires_at)
        if n_stored < len(new):
            self._append(place, new[n_stored:], expires_at)
            self._sweep(now - _REMEMBERED_SECONDS)

    def _append(self, place: _Place | None, keys: list[_Key], expires_at: float) -> None:
        run = self._room(place, len(keys))
        start = len(run.keys)
        run.keys.extend(keys)
        run.refresh(len(run.keys) - 1, expires_at)
        self._ends.update((key, (run, index)) for index, key in enumerate(keys, start))
        self._counters["segments_written"] += len(keys)

    def _room(self, place: _Place | None, n_new: int) -> _Run:
        """The run that continues behind `place`.

        Where it goes on otherwise, the shorter of the two branches becomes a run of its own.

        So a conversation stays one run, whatever its tail does each turn, and a refresh has few parents to walk.
        """
        if place is None:
            return self._open(_Run(None))
        run, index = place
        if len(run.keys) - index - 1 > n_new:
            return self._open(_Run(run.keys[index]))
        if index + 1 < len(run.keys):
            self._split(run, index + 1)
        return run

    def _split(self, run: _Run, n_kept: int) -> None:
        """Move what follows the first `n_kept` segment ends into a run of its own, in O(moved)."""
        steps = [(index - n_kept, expires_at) for index, expires_at in run.steps if index >= n_kept]
        branch = self._open(_Run(run.keys[n_kept - 1], [], steps))
        branch.keys = run.cut(n_kept)
        for index, key in enumerate(branch.keys):
            if key and self._ends.get(key) == (run, index + n_kept):
                self._ends[key] = (branch, index)

    def _open(self, run: _Run) -> _Run:
        self._runs[run] = None
        return run

    def _sweep(self, before: float) -> None:
        """Look at the few runs not looked at for longest and drop what expired by `before`; every one has its turn."""
        for _ in range(min(_SWEPT_RUNS, len(self._runs))):
            run, _nothing = self._runs.popitem(last=False)
            n_kept = max((index + 1 for index, expires_at in run.steps if expires_at > before), default=0)
            for index, key in enumerate(run.cut(n_kept), n_kept):
                if key and self._ends.get(key) == (run, index):
                    del self._ends[key]
            if n_kept:
                self._runs[run] = None

    def _count(self, lease: Lease) -> None:
        reason = lease.hit.reason
        self._counters["requests"] += 1
        self._counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        self._counters["read_tokens"] += lease.hit.read_tokens
        self._counters["fresh_tokens"] += lease.usage.fresh or 0


class NamedContents(ImplicitCache):
    """The longer of what was sent before and of the content that a breakpoint names: Gemini; satisfies
    `PrefixCache[Prompt]`.

    A content exists, or the provider would have refused the request, and is read whole
    (https://ai.google.dev/gemini-api/docs/caching).

    >>> from contextkit.cache.prompt import Breakpoint
    >>> prompt = Prompt((b"", b"", b""), (1, 1), [b"A", b"AB"], [5000, 5100], [0, 1], (Breakpoint(0, 3600),), 2)
    >>> NamedContents(4096, 1, 300).quote(prompt, now=0.0)
    Usage(fresh=100, read=5000, writes={}, output=0)
    """

    def _hit(self, prompt: Prompt, shared: int, now: float) -> Hit:
        found = super()._hit(prompt, shared, now)
        last = prompt.breakpoints[-1].segment if prompt.breakpoints else None
        named = 0 if last is None else prompt.ends_tokens[last]
        return found if named <= found.read_tokens else Hit(named, 0, last, "hit", None)
