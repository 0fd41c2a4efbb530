"""One lane under the reference cache, known by its bills and times alone; as it was, or with one thing changed.

Takes the calls of a lane as they were judged, gives what each would be billed. A call repeats what it read; where it
missed for a reason of time it repeats what was there to be read, and where the prompt itself is known to have changed
it does not. What the reference cache cannot explain is told to it: a read it thinks dead was kept alive by somebody
unseen, a miss it cannot see is a change nobody recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from contextkit import prices
from contextkit.analysis.counterfactual.fix import LaneChange, Reading
from contextkit.analysis.counterfactual.from_end import cache_for
from contextkit.analysis.counterfactual.prompt_sizes import Grown
from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage, is_long_ttl
from contextkit.economics.keep_alive import interval_seconds, keep_alive, most_pings, ping_usage
from contextkit.ledger.calls import Exchange
from contextkit.ledger.causes import Cause
from contextkit.models import Model

TIMELY: frozenset[str] = frozenset(
    {"ttl_expired", "cold_fan_out", "aborted", "early_eviction", "other_server", "unknown"}
)
"""Causes that leave the prompt what it was: it went on, and found nothing. Every other one changed the prompt or the
place it is kept."""
PINGED_SECONDS = 3600.0
"""Nobody keeps a prefix alive for longer than this."""
AS_IT_WAS = LaneChange()


@dataclass(frozen=True, slots=True)
class Call:
    """A call as its lane sees it."""

    exchange: Exchange
    """Times, and who is asked."""
    row: Model
    """Whose rules hold."""
    usage: Usage
    """The bill; every part of the prompt known."""
    expected: int
    """What it could have read; what it read where it missed nothing."""
    cause: Cause | None
    """Why it missed."""
    is_marked: bool
    """Whether it was written where a mark stood; other caches keep prompts whole."""

    read: int = field(init=False)
    """Tokens read."""
    long: int = field(init=False)
    """Tokens written for the long lifetime."""
    short: int = field(init=False)
    """Tokens written for the short one."""
    size: int = field(init=False)
    """Tokens of its prompt."""
    repeats: int = field(init=False)
    """Tokens of the prompt before that it says again."""
    begins: float = field(init=False)
    """When its writes became readable; an unknown beginning is taken for the end."""
    ends: float = field(init=False)
    """When it ended."""

    def __post_init__(self) -> None:
        """Work out once what every run asks for."""
        usage, read = self.usage, self.usage.read or 0
        begins, ends = _moments(self.exchange)
        repeats = max(self.expected, read) if self.cause in TIMELY else read
        for name, value in (
            ("read", read),
            ("long", usage.write_1h or 0),
            ("short", usage.write_5m or 0),
            ("size", usage.prompt or 0),
            ("repeats", repeats),
            ("begins", begins),
            ("ends", ends),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class AdjustedCall:
    """What the reference cache had to be told about a call, so that it bills what was billed."""

    is_read_seeded: bool
    """What was read must be put there."""
    is_unexplained: bool
    """It would have read more: something changed, or was forgotten, that nobody recorded."""


_AS_BILLED, _SEEDED, _UNEXPLAINED = AdjustedCall(False, False), AdjustedCall(True, False), AdjustedCall(True, True)


@dataclass(frozen=True, slots=True)
class Paid:
    """One bill."""

    call: Call
    """For which call, or after which."""
    usage: Usage
    """What was billed."""


@dataclass(frozen=True, slots=True)
class Pings:
    """The pings of one gap."""

    call: Call
    """The call before it."""
    times: tuple[float, ...]
    """When each is sent."""
    usage: Usage
    """What each is billed that comes to nothing."""


class LaneRun:
    """One lane, one change, one reading of the assumptions."""

    __slots__ = ("_asked", "_cache", "_change", "_flying", "_grown", "_last", "_marks", "_reading", "_scale")

    def __init__(self, change: LaneChange, reading: Reading, scale: float = 1.0) -> None:
        """`scale`: tokens of the model that is asked for each token of the recorded one."""
        self._change, self._reading, self._scale = change, reading, scale
        self._asked: dict[str, Model] = {}
        self._cache: dict[str, PrefixCache[Prompt]] = {}
        self._grown = Grown()
        self._flying: list[tuple[float, float, str, Lease]] = []
        """(when it begins to answer, when it ends, name of the model, lease) of calls under way."""
        self._last: tuple[Call, Prompt] | None = None
        self._marks: dict[bool, int] = {}
        """Whether long → where the last mark of that kind stands."""

    def fork(self, change: LaneChange, reading: Reading) -> LaneRun:
        """The same lane up to now, that goes on by itself under a change, or a reading, that makes a difference from
        here on; lifetimes count as before.
        """
        other = LaneRun(change, reading, self._scale)
        other._asked, other._marks, other._grown = dict(self._asked), dict(self._marks), self._grown.copy()
        other._flying = list(self._flying)
        for name, cache in self._cache.items():
            other._cache[name] = self._empty_cache(self._asked[name])
            other._cache[name].restore(cache.snapshot())
        if self._last is not None:
            other._last = self._last[0], other._grown.on_own_places(self._last[1])
        return other

    def find_out(self, call: Call) -> AdjustedCall:
        """Ask the reference cache what it would read of the next call, and compare; the lane stays as it was."""
        at = call.exchange.at
        self._settle(at)
        cache, scaled = self._cache[self._requested_model(call)], self._scaled(call)
        grown, marks = self._grown, self._marks
        self._grown = grown.copy()
        read = cache.lookup(self._prompt_of(scaled, _AS_BILLED), at).read_tokens
        self._grown, self._marks = grown, marks
        if read > scaled.read:
            return _UNEXPLAINED
        return _SEEDED if read < scaled.read else _AS_BILLED

    def see(self, call: Call, adjustment: AdjustedCall) -> Paid:
        """The next call, with what has to be told of it: its bill."""
        at = call.exchange.at
        self._settle(at)
        name = self._requested_model(call)
        cache, scaled = self._cache[name], self._scaled(call)
        prompt = self._prompt_of(scaled, adjustment)
        if adjustment.is_read_seeded and cache.lookup(prompt, at).read_tokens < scaled.read:
            self._seed(cache, scaled, at)
        lease = cache.begin(prompt, at)
        self._flying.append((call.begins, call.ends, name, lease))
        self._last = call, prompt
        return Paid(call, lease.usage.with_output(scaled.usage.output))

    # What is said
    # ---------------------------------------------------------------------------------------------------------

    def _prompt_of(self, call: Call, adjusted: AdjustedCall) -> Prompt:
        """The prompt of a call, on what is left of the one before."""
        is_new = adjusted.is_unexplained and self._reading.get("unexplained") != "vanish"
        repeats = call.read if is_new else call.repeats
        if self._change.model and call.cause == "model_changed":
            repeats = max(call.expected, call.read)
        n_repeated = min(repeats, call.size, self._grown.n_tokens)
        self._grown.cut(n_repeated)
        self._marks = {kind: place for kind, place in self._marks.items() if place <= n_repeated}
        places = [(place, self._ttl(call, is_long), False) for is_long, place in self._marks.items()]
        places += [(call.read, self._ttl(call, False), False)] if call.read else []
        return self._grown.prompt(call.size, [*places, *self._billed_breakpoints(call)], call.row.name.encode())

    def _billed_breakpoints(self, call: Call) -> Iterator[tuple[int, int, bool]]:
        """Breakpoints where the bill implies that they stood."""
        long, short = call.long, call.short
        is_unmarked = not long and not short
        place = call.read if is_unmarked else call.read + long
        if not call.is_marked:  # another model's marks would stand at the end
            long, short, is_unmarked, place = 0, call.size, False, 0
        if long or (is_unmarked and place):
            is_long = bool(long) or (True in self._marks and False not in self._marks)
            self._marks[is_long] = place
            yield place, self._ttl(call, is_long), True
        if short:
            self._marks[False] = place + short
            yield place + short, self._ttl(call, False), True

    def _ttl(self, call: Call, is_long: bool) -> int:
        model = self._change.model or call.row
        return _requested_ttl(model.ttls_seconds, model.default_ttl_seconds, is_long or self._change.is_long)

    def _seed(self, cache: PrefixCache[Prompt], call: Call, at: float) -> None:
        """Put what was read where it can be read: somebody else wrote it, or kept it alive."""
        seed = self._grown.prompt(
            call.read, [(call.read, self._ttl(call, bool(call.long)), True)], call.row.name.encode()
        )
        cache.publish(cache.begin(seed, at), at)

    # Time
    # -----------------------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """What began, and ended, by now."""
        rest = []
        for begins, ends, name, lease in self._flying:
            if begins <= now:
                self._cache[name].publish(lease, begins)
            if ends <= now:
                self._cache[name].end(lease, 0, ends)
            elif begins <= now:
                rest.append((float("inf"), ends, name, lease))
            else:
                rest.append((begins, ends, name, lease))
        self._flying = rest

    def pings_before(self, until: float, pinging: str, gaps: Counter[str]) -> Pings | None:
        """The pings of the gap before `until` under a reading of `pinging`, None where there are none; counts the gap in
        `gaps`.
        """
        if self._last is None:
            return None
        call, prompt = self._last
        at = call.exchange.at
        ttl = prompt.breakpoints[-1].ttl_seconds if prompt.breakpoints else call.row.default_ttl_seconds
        wait, begins = interval_seconds(ttl), call.begins
        if until <= at + wait:  # before the first one is due: nearly every call
            return None
        readable = max((prompt.ends_tokens[mark.segment] for mark in prompt.breakpoints), default=0)
        n = _n_pings(call, until, ttl, readable, pinging, gaps)
        times: list[float] = []
        for number in range(1, n + 1):
            time = max(at + number * wait, begins)
            if time >= until or time >= at + (number - 1) * wait + ttl:
                break
            times.append(time)
        gaps["pings"] += len(times)
        return Pings(call, tuple(times), ping_usage(readable, prompt.n_tokens - readable)) if times else None

    def ping(self, pings: Pings) -> list[Paid]:
        """Send them: each finds the prefix and renews it; their bills."""
        if self._last is None:
            return []
        call, prompt = self._last
        cache, bills = self._cache[self._requested_model(call)], list[Paid]()
        for at in pings.times:
            self._settle(at)
            lease = cache.begin(prompt, at)
            cache.publish(lease, at)
            bills.append(Paid(call, lease.usage.with_output(1)))
        return bills

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for a next call: a sub-agent that is done is known to be."""
        return self._last is None or self._last[0].exchange.lane != "main"

    # Who is asked
    # ---------------------------------------------------------------------------------------------------------

    def _requested_model(self, call: Call) -> str:
        """The model whose reference cache sees the call; the record says how much was read, so of the recorded model's
        own nothing is rounded.
        """
        model = self._change.model or call.row
        if model.name not in self._cache:
            self._asked[model.name] = self._change.model or _unrounded(model)
            self._cache[model.name] = self._empty_cache(self._asked[model.name])
        return model.name

    def _empty_cache(self, model: Model) -> PrefixCache[Prompt]:
        return cache_for(model, self._reading.get("lifetime", "from start"))

    def _scaled(self, call: Call) -> Call:
        """The call in the tokens of the model that is asked."""
        row = self._change.model or call.row
        if self._scale == 1.0:
            return replace(call, row=row) if self._change.model else call
        ends = [call.read, call.read + call.long, call.size - (call.usage.fresh or 0), call.size]
        read, long, short, size = (round(end * self._scale) for end in ends)
        output = call.usage.output and round(call.usage.output * self._scale)
        usage = Usage(size - short, read, short - long, long - read, output, True)
        return replace(call, row=row, usage=usage, expected=min(round(call.expected * self._scale), size))


def _n_pings(call: Call, until: float, ttl: int, n_tokens: int, pinging: str, gaps: Counter[str]) -> int:
    price = prices.price_of(call.exchange.provider, call.exchange.model, call.exchange.at)
    most = min(most_pings(n_tokens, ttl, call.row, price), int(PINGED_SECONDS // interval_seconds(ttl)))
    needed = keep_alive(min(until - call.exchange.at, 1e9), n_tokens, ttl, call.row, price).pings
    gaps["long"] += needed > 0 and until < float("inf")
    gaps["paying"] += 0 < needed <= most
    return most if pinging != "with hindsight" else needed if needed <= most else 0


@lru_cache(maxsize=256)
def _requested_ttl(ttls: tuple[int, ...], default: int, is_long: bool) -> int:
    return next((ttl for ttl in ttls if is_long_ttl(ttl) is is_long), default)


@lru_cache(maxsize=256)
def _unrounded(row: Model) -> Model:
    kind = "implicit" if row.cache == "units" else row.cache
    return replace(row, cache=kind, min_tokens=0, granularity_tokens=1)


def _moments(exchange: Exchange) -> tuple[float, float]:
    """When a call's writes became readable, and when it ended; an unknown beginning is taken for the end."""
    ended = exchange.at if exchange.ended_at is None else max(exchange.at, exchange.ended_at)
    begun = ended if exchange.first_byte_at is None else max(exchange.at, exchange.first_byte_at)
    return begun, max(ended, begun)
