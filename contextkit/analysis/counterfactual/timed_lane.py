"""One lane under the reference cache, known by its bills and times alone; as it was, or with one thing changed.

Takes the calls of a lane as they were judged, gives what each would be billed. A call repeats what it read; where it
missed for a reason of time it repeats what was there to be read, and where the prompt itself is known to have changed
it does not. What the reference cache cannot explain is told to it: a read it thinks dead was kept alive by somebody
unseen, a miss it cannot see is a change nobody recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

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

    @property
    def read(self) -> int:
        """Tokens read."""
        return self.usage.read or 0

    @property
    def size(self) -> int:
        """Tokens of its prompt."""
        return self.usage.prompt or 0

    @property
    def repeats(self) -> int:
        """Tokens of the prompt before that it says again."""
        return max(self.expected, self.read) if self.cause in TIMELY else self.read


@dataclass(frozen=True, slots=True)
class AdjustedCall:
    """What the reference cache had to be told about a call, so that it bills what was billed."""

    is_read_seeded: bool
    """What was read must be put there."""
    is_unexplained: bool
    """It would have read more: something changed, or was forgotten, that nobody recorded."""


@dataclass(frozen=True, slots=True)
class Paid:
    """One bill."""

    call: Call
    """For which call, or after which."""
    usage: Usage
    """What was billed."""


class LaneRun:
    """One lane, one change, one reading of the assumptions."""

    __slots__ = ("_cache", "_change", "_flying", "_grown", "_last", "_marks", "_reading", "_scale", "gaps")

    def __init__(self, change: LaneChange, reading: Reading, scale: float = 1.0) -> None:
        """`scale`: tokens of the model that is asked for each token of the recorded one."""
        self._change, self._reading, self._scale = change, reading, scale
        self._cache: dict[str, PrefixCache[Prompt]] = {}
        self._grown = Grown()
        self._flying: list[tuple[float, float, PrefixCache[Prompt], Lease]] = []
        self._last: tuple[Call, Prompt] | None = None
        self._marks: dict[bool, int] = {}
        """Whether long → where the last mark of that kind stands."""
        self.gaps = Counter[str]()
        """Of a run with pings: how many were sent, how many gaps were longer than the lifetime, in how many of those
        pings pay."""

    def see(self, call: Call, adjusted: AdjustedCall | None = None) -> tuple[list[Paid], AdjustedCall]:
        """The next call: the bills since the last one, its own at the end.

        And what had to be told, found out where it is not given.
        """
        at = call.exchange.at
        bills = list(self._pinged(at)) if self._change.has_pings else []
        self._settle(at)
        cache, scaled = self._cache_of(call), self._scaled(call)
        adjustment = adjusted or self._find_out(cache, scaled)
        prompt = self._prompt_of(scaled, adjustment)
        if adjustment.is_read_seeded and cache.lookup(prompt, at).read_tokens < scaled.read:
            self._seed(cache, scaled, at)
        lease = cache.begin(prompt, at)
        self._flying.append((*_moments(call.exchange), cache, lease))
        self._last = call, prompt
        output = scaled.usage.output
        return [*bills, Paid(call, replace(lease.usage, output=output))], adjustment

    def finish(self) -> list[Paid]:
        """What is still billed after the last call: nobody knew that it was the last."""
        is_blind = self._change.has_pings and self._reading["pinging"] == "until it no longer pays"
        is_over = self._last is None or self._last[0].exchange.lane != "main"  # a sub-agent that is done is known to be
        return list(self._pinged(float("inf"))) if is_blind and not is_over else []

    # What is said
    # ---------------------------------------------------------------------------------------------------------

    def _find_out(self, cache: PrefixCache[Prompt], call: Call) -> AdjustedCall:
        """Ask the reference cache what it would read, and compare."""
        marks = dict(self._marks)
        read = cache.lookup(self._prompt_of(call, AdjustedCall(False, False)), call.exchange.at).read_tokens
        self._marks = marks
        if read <= call.read:
            return AdjustedCall(read < call.read, False)
        return AdjustedCall(True, True)

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
        long, short = call.usage.write_1h or 0, call.usage.write_5m or 0
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
        is_long = is_long or self._change.is_long
        return next((ttl for ttl in model.ttls_seconds if is_long_ttl(ttl) is is_long), model.default_ttl_seconds)

    def _seed(self, cache: PrefixCache[Prompt], call: Call, at: float) -> None:
        """Put what was read where it can be read: somebody else wrote it, or kept it alive."""
        seed = self._grown.prompt(
            call.read, [(call.read, self._ttl(call, bool(call.usage.write_1h)), True)], call.row.name.encode()
        )
        cache.publish(cache.begin(seed, at), at)

    # Time
    # -----------------------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """What began, and ended, by now."""
        rest = []
        for begins, ends, cache, lease in self._flying:
            if begins <= now:
                cache.publish(lease, begins)
            if ends <= now:
                cache.end(lease, 0, ends)
            elif begins <= now:
                rest.append((float("inf"), ends, cache, lease))
            else:
                rest.append((begins, ends, cache, lease))
        self._flying = rest

    def _pinged(self, until: float) -> Iterator[Paid]:
        """Pings of the gap before `until`."""
        if self._last is None:
            return
        call, prompt = self._last
        ttl = prompt.breakpoints[-1].ttl_seconds if prompt.breakpoints else call.row.default_ttl_seconds
        readable = max((prompt.ends_tokens[mark.segment] for mark in prompt.breakpoints), default=0)
        paid = ping_usage(readable, prompt.n_tokens - readable)
        wait, begins = interval_seconds(ttl), _moments(call.exchange)[0]
        for number in range(1, self._n_pings(call, until, ttl, readable) + 1):
            at = max(call.exchange.at + number * wait, begins)
            if at >= until or at >= call.exchange.at + (number - 1) * wait + ttl:
                return
            if self._reading["pings"] == "renew":
                self._settle(at)
                lease = self._cache_of(call).begin(prompt, at)
                self._cache_of(call).publish(lease, at)
                paid = replace(lease.usage, output=1)
            self.gaps["pings"] += 1
            yield Paid(call, paid)

    def _n_pings(self, call: Call, until: float, ttl: int, n_tokens: int) -> int:
        exchange = call.exchange

        def price(usage: Usage) -> float | None:
            return prices.cost_usd(exchange.provider, exchange.model, usage, exchange.at)

        most = min(most_pings(n_tokens, ttl, call.row, price), int(PINGED_SECONDS // interval_seconds(ttl)))
        needed = keep_alive(min(until - exchange.at, 1e9), n_tokens, ttl, call.row, price).pings
        self.gaps.update(long=needed > 0 and until < float("inf"), paying=0 < needed <= most)
        return most if self._reading["pinging"] != "with hindsight" else needed if needed <= most else 0

    # Who is asked
    # ---------------------------------------------------------------------------------------------------------

    def _cache_of(self, call: Call) -> PrefixCache[Prompt]:
        """The reference cache; the record says how much was read, so of the recorded model's own nothing is rounded."""
        model = self._change.model or _unrounded(call.row)
        if model.name not in self._cache:
            self._cache[model.name] = cache_for(model, self._reading.get("lifetime", "from start"))
        return self._cache[model.name]

    def _scaled(self, call: Call) -> Call:
        """The call in the tokens of the model that is asked."""
        row = self._change.model or call.row
        if self._scale == 1.0:
            return replace(call, row=row) if self._change.model else call
        ends = [call.read, call.read + (call.usage.write_1h or 0), call.size - (call.usage.fresh or 0), call.size]
        read, long, short, size = (round(end * self._scale) for end in ends)
        output = call.usage.output and round(call.usage.output * self._scale)
        usage = Usage(size - short, read, short - long, long - read, output, True)
        return replace(call, row=row, usage=usage, expected=min(round(call.expected * self._scale), size))


def _unrounded(row: Model) -> Model:
    kind = "implicit" if row.cache == "units" else row.cache
    return replace(row, cache=kind, min_tokens=0, granularity_tokens=1)


def _moments(exchange: Exchange) -> tuple[float, float]:
    """When a call's writes became readable, and when it ended; an unknown beginning is taken for the end."""
    ended = exchange.at if exchange.ended_at is None else max(exchange.at, exchange.ended_at)
    begun = ended if exchange.first_byte_at is None else max(exchange.at, exchange.first_byte_at)
    return begun, max(ended, begun)
