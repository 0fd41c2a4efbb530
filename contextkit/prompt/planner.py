"""Chooses the breakpoints of a conversation's next request and their lifetimes, so that its calls cost least.

`choose` takes the columns of a prompt, what the provider allows (`breakpoints.Plan`) and what is known of the session
(`PlanningState`), and gives a `Choice`: breakpoints with their lifetimes, every lifetime that was compared, and what was
rejected. Where nothing is known it gives what `breakpoints.plan` gives. More breakpoints below the last one cost
nothing, so what is compared is whether to write the end of the prompt at all, and up to which place to write it with
the long lifetime. `Planned` (`context.plan`) and `explain` give a choice as rows and as text, computed when asked for.

Pure: the time is an argument, that of the log's last entry, so a choice is the same however often it is made. A request
costs the same few steps however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import is_long_ttl, ttl_name
from contextkit.economics.bill import Price
from contextkit.economics.fanout import Prewarm, prewarm
from contextkit.economics.lifetime import Chances, Coverage, Rates, chances, pays, rates_at
from contextkit.economics.rhythm import Rhythm
from contextkit.models import Model
from contextkit.prompt.breakpoints import Places, Plan, last_breakpoint_place, places
from contextkit.prompt.prompt import PromptColumns

# What is known of a session
# -----------------------------------------------------------------------------------------------------------------------------


def _no_price(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class CachedEntries:
    """The cache entries that the last request of a conversation wrote or renewed."""

    breakpoints: tuple[Breakpoint, ...]
    """Where they end."""
    at: float
    """When the request started, in seconds since 1970."""
    epoch: int = 0
    """Prefix resets before it; after another one its places mean nothing any more."""

    def end(self, now: float, epoch: int, *, longer_than: float = 0) -> int:
        """Count the blocks of the longest entry that is alive and has a lifetime above `longer_than`; 0 for none."""
        if epoch != self.epoch:
            return 0
        alive = (point.segment + 1 for point in self.breakpoints if now - self.at < point.ttl_seconds > longer_than)
        return max(alive, default=0)

    def within(self, n: int) -> CachedEntries:
        """Return the entries that another conversation can read which shares the first `n` blocks."""
        shared = tuple(point for point in self.breakpoints if point.segment < n)
        return CachedEntries(shared, self.at, self.epoch)


NO_ENTRIES = CachedEntries((), 0.0, -1)
"""No request was sent, or it is not known what one wrote."""


@dataclass(slots=True)
class PlanningState:
    """A session as far as it is known before its next request."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    """Its gaps and growth."""
    price: Price = _no_price
    """Dollars of a usage; None where the model has no price."""
    now: float = 0.0
    """When the next request starts, as far as the log tells: the time of its last entry."""
    cached: CachedEntries = NO_ENTRIES
    """Entries of the conversation's last request."""
    epoch: int = 0
    """Prefix resets so far."""
    calls_to_come: float | None = None
    """Calls of this conversation after the next one, where that is known: 0 for a side call; None for an estimate."""
    head_reuse: float = 1.0
    """Probability that another conversation reads tools and system prompt while they live."""
    is_mixed: bool = True
    """Whether a breakpoint reads entries of other lifetimes: the rule `mixed_lifetimes` of `facts/rules.toml`, until a bill
    contradicts it."""
    _tables: dict[tuple[object, ...], object] = field(default_factory=dict)
    """What was computed for this rhythm."""

    def rates(self, n_tokens: int) -> Rates | None:
        """Return dollars for one token of a prompt of that size; None without a price."""
        key = ("rates", n_tokens, self.now)
        if key not in self._tables:
            self._tables[key] = rates_at(n_tokens, self.price)
        return self._tables[key]  # type: ignore[return-value]  # what the key says

    def chances(self, short_seconds: float, long_seconds: float) -> Chances:
        """Return the probabilities that the next call comes within the short lifetime, within the long one, or later."""
        key = ("chances", short_seconds, long_seconds)
        if key not in self._tables:
            self._tables[key] = chances(self.rhythm, short_seconds, long_seconds, self.calls_to_come)
        return self._tables[key]  # type: ignore[return-value]

    def coverage(self, rules: Plan, rates: Rates) -> Coverage:
        """Return the expected cost of leaving tokens to the short lifetime."""
        short_seconds, long_seconds = rules.tail_ttl_seconds, rules.long_ttl_seconds
        key = ("coverage", short_seconds, long_seconds, rates, rules.has_tail)
        if key not in self._tables:
            likely = self.chances(short_seconds, long_seconds)
            # Beside an implicit breakpoint only user messages carry explicit ones, and those come after pauses.
            self._tables[key] = Coverage(self.rhythm.growths, likely, rates, can_cover_warm=rules.has_tail)
        return self._tables[key]  # type: ignore[return-value]


# The choice
# -----------------------------------------------------------------------------------------------------------------------------

_CERTAIN = 0.9
"""Above this probability of a next call writing pays at every price there is: no price is looked up."""
_PRIORITY = ("tail", "bridge", "anchor", "branch", "head")
"""Which breakpoints stay where there are more places than a request may mark."""


@dataclass(frozen=True, slots=True)
class LifetimeOption:
    """One place up to which the prompt could be written with the long lifetime, and its expected cost."""

    place: str
    """The last place with the long lifetime; `none`."""
    segment: int
    """Index of its block, -1 for none."""
    premium_usd: float
    """What it adds to this request's bill."""
    loss_usd: float
    """What later calls are expected to write again because the rest has the short lifetime."""

    @property
    def cost_usd(self) -> float:
        """Both together."""
        return self.premium_usd + self.loss_usd


@dataclass(frozen=True, slots=True)
class Choice:
    """The breakpoints of one request, and what they were chosen from."""

    columns: PromptColumns
    """The prompt."""
    n: int
    """Blocks of the request."""
    places: Places
    """Where breakpoints could be placed."""
    marks: tuple[Breakpoint, ...]
    """The breakpoints, in wire order."""
    names: tuple[str, ...]
    """Purpose of each: head, branch, bridge, anchor, tail."""
    rules: Plan
    """What the provider allows."""
    state: PlanningState
    """What was known."""
    read_end: int
    """Blocks that are expected to be read."""
    lifetimes: tuple[LifetimeOption, ...] = ()
    """Every option that was compared, the chosen one first; empty where lifetimes are given."""
    rejected: tuple[tuple[str, str], ...] = ()
    """(place, reason) of places without a breakpoint."""

    def n_tokens(self, end: int) -> int:
        """Count the tokens of the first `end` blocks."""
        return self.columns.ends_tokens[end - 1] if end > 0 else 0

    @property
    def rates(self) -> Rates | None:
        """Dollars for one token of this request; None without a price."""
        return self.state.rates(self.n_tokens(self.n))

    @property
    def chances(self) -> Chances:
        """Probabilities of when the next call comes, by the lifetimes that can be asked for."""
        rules = self.rules
        return self.state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)


def choose(columns: PromptColumns, n: int, previous: int, rules: Plan, state: PlanningState, shared: int = 0) -> Choice:
    """Choose the breakpoints of the first `n` blocks.

    `previous`: how many of them the request before held; `shared`: how many siblings send too.
    """
    # The entries that were written are surer than what was sent last.
    cached_end = state.cached.end(state.now, state.epoch)
    available = places(columns, n, min(cached_end or previous, n), rules, shared)
    wanted = dict(available.named)
    # Where nobody recorded the entries of the last request, all that was sent before is taken to be read.
    read_end = min(cached_end if state.cached.epoch == state.epoch else previous, n)
    choice = Choice(columns, n, available, (), (), rules, state, read_end)
    rejected = dict(_below_minimum(choice, wanted))
    options = _lifetime_options(choice, wanted, rejected)
    unpaid = dict(_unpaid(choice, wanted, rejected, options))
    written = {name: place for name, place in wanted.items() if name not in rejected and name not in unpaid}
    end = _previous_end(choice, previous, written)
    if end is not None:
        wanted["bridge"] = end
    if "tail" in unpaid and "bridge" in wanted and wanted["bridge"] >= choice.read_end and not _is_aside(choice):
        unpaid["bridge"] = "nothing is left there to be read, and nothing behind it is written"
    rejected.update(unpaid)
    wanted.update(_long_end(choice, options))
    chosen = {name: wanted[name] for name in _PRIORITY if name in wanted and name not in rejected}
    return _with_breakpoints(choice, chosen, options, rejected)


def _previous_end(choice: Choice, previous: int, written: dict[str, int]) -> int | None:
    """The end of the request before, where the tail does not cover it: nothing new is written, or its entry has
    expired.
    """
    state = choice.state
    is_short = choice.read_end < previous
    place: int | None = None
    if choice.rules.has_tail and "tail" not in written:
        # A side call may write it for the conversation it interrupts; otherwise what is there is read.
        if not is_short or _is_aside(choice):
            place = last_breakpoint_place(choice.columns, max(previous, choice.read_end))
        else:
            place = choice.places.previous
    elif "tail" in written and "bridge" not in written and is_short and state.cached.epoch == state.epoch:
        place = last_breakpoint_place(choice.columns, previous, previous - 1)  # below a later breakpoint it is free
    if place is None or choice.columns.ends_tokens[place] < choice.rules.min_tokens:
        return None
    return place


def _is_aside(choice: Choice) -> bool:
    """Return whether this is a side call of a conversation that is likely to go on."""
    return choice.state.calls_to_come == 0 and choice.rates is not None and pays(choice.state.head_reuse, choice.rates)


def _with_breakpoints(
    choice: Choice, chosen: dict[str, int], options: tuple[LifetimeOption, ...], rejected: dict[str, str]
) -> Choice:
    """The choice with as many of the chosen places as a request may mark, in wire order, longer lifetimes first."""
    named: dict[int, str] = {}
    for name, place in chosen.items():
        if place not in named and len(named) == choice.rules.most:
            rejected[name] = f"{choice.rules.most} breakpoints are placed already"
            continue
        named[place] = name
    breakpoints = tuple(
        Breakpoint(place, _ttl_seconds(choice, place, named[place], options), choice.rules.lookback)
        for place in sorted(named)
    )
    names = tuple(named[point.segment] for point in breakpoints)
    return replace(choice, marks=breakpoints, names=names, lifetimes=options, rejected=tuple(rejected.items()))


def _ttl_seconds(choice: Choice, place: int, name: str, options: tuple[LifetimeOption, ...]) -> int:
    rules = choice.rules
    if not options:
        return rules.head_ttl_seconds if name == "head" else rules.tail_ttl_seconds
    # Longer lifetimes come first on the wire, so everything before what is, or was, written for long is too.
    is_long = place <= max(options[0].segment, _n_long(choice) - 1)
    return rules.long_ttl_seconds if is_long else rules.tail_ttl_seconds


def _n_long(choice: Choice) -> int:
    """Blocks that a live entry with the long lifetime covers."""
    state = choice.state
    return min(state.cached.end(state.now, state.epoch, longer_than=choice.rules.tail_ttl_seconds), choice.n)


def _below_minimum(choice: Choice, wanted: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, place in wanted.items():
        n_tokens = choice.columns.ends_tokens[place]
        if n_tokens < choice.rules.min_tokens:
            yield name, f"{n_tokens:,} tokens, and the model caches none below {choice.rules.min_tokens:,}"


def _unpaid(
    choice: Choice, wanted: dict[str, int], rejected: dict[str, str], options: tuple[LifetimeOption, ...]
) -> Iterator[tuple[str, str]]:
    """Places whose entry is not expected to be read often enough to pay for writing it."""
    rules, state = choice.rules, choice.state
    likely = state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or rules.tail_ttl_seconds)
    reused = max(likely.warm, state.head_reuse)
    candidates = (
        ("head", reused, rules.head_ttl_seconds),
        ("branch", reused, rules.tail_ttl_seconds),
        ("tail", likely.warm, rules.tail_ttl_seconds),
    )
    for name, chance, ttl_seconds in candidates:
        if chance >= _CERTAIN or name not in wanted or name in rejected:
            continue
        is_read = wanted[name] < choice.read_end
        is_long = bool(options) and wanted[name] <= options[0].segment
        if is_read or is_long:  # it is cached already, or the long lifetime pays
            continue
        rates = choice.rates
        if rates is not None and not pays(chance, rates, is_long=is_long_ttl(ttl_seconds)):
            yield (
                name,
                f"a call that reads it in time comes in {chance:.0%} of cases: writing it costs more than that saves",
            )


# Lifetimes
# -----------------------------------------------------------------------------------------------------------------------------


def _lifetime_options(choice: Choice, wanted: dict[str, int], rejected: dict[str, str]) -> tuple[LifetimeOption, ...]:
    """Every place up to which the prompt could be written for long, cheapest first.

    Nothing where lifetimes are given or the model has no price.
    """
    rules, last = choice.rules, choice.places.last
    rates = choice.rates if rules.long_ttl_seconds else None
    if rates is None:
        return ()
    ends = {name: place for name, place in wanted.items() if name in ("head", "branch") and name not in rejected}
    if last is not None and choice.columns.ends_tokens[last] >= rules.min_tokens:
        ends["tail"] = last
    option = _mixed_option if choice.state.is_mixed else _separate_option
    options = [option(choice, name, place, rates) for name, place in ends.items() if place >= choice.read_end]
    options.append(option(choice, "none", -1, rates))
    return tuple(sorted(options, key=lambda one: (one.cost_usd, one.segment)))


def _mixed_option(choice: Choice, name: str, place: int, rates: Rates) -> LifetimeOption:
    """Where a breakpoint reads entries of any lifetime, only what lies behind the read is written for long."""
    rules, read = choice.rules, choice.n_tokens(choice.read_end)
    covered = choice.n_tokens(max(place + 1, _n_long(choice)))
    table = choice.state.coverage(rules, rates)
    premium = (rates.long - rates.short) * max(choice.n_tokens(place + 1) - read, 0)
    return LifetimeOption(name, place, premium, table.loss(choice.n_tokens(choice.n) - covered))


def _separate_option(choice: Choice, name: str, place: int, rates: Rates) -> LifetimeOption:
    """Where a breakpoint reads entries of its own lifetime only, a conversation has one lifetime for all its calls, and
    changing it writes everything again.
    """
    rules, rhythm = choice.rules, choice.state.rhythm
    likely = choice.state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds)
    total, covered, calls = choice.n_tokens(choice.n), choice.n_tokens(_n_long(choice)), rhythm.remaining_turns
    lost = calls * likely.lapsed * (rates.short - rates.read)
    if place < 0:
        return LifetimeOption(name, place, (rates.short - rates.read) * covered, lost * total)
    held, dearer = choice.n_tokens(place + 1), rates.long - rates.short
    rewritten = max(choice.n_tokens(choice.read_end) - covered, 0)
    premium = (rates.long - rates.read) * rewritten + dearer * max(held - covered, 0)
    growth = calls * dearer * rhythm.growth_tokens if name == "tail" else 0.0
    return LifetimeOption(name, place, premium, growth + lost * (total - held))


def _long_end(choice: Choice, options: tuple[LifetimeOption, ...]) -> dict[str, int]:
    """A tail that is written for long; else the end of what was, marked again so that it lives on and is found."""
    if options and options[0].place == "tail":
        return {"tail": options[0].segment}
    end = last_breakpoint_place(choice.columns, _n_long(choice)) if options else None
    return {} if end is None else {"anchor": end}


# The choice as rows and as text
# -----------------------------------------------------------------------------------------------------------------------------

_PURPOSE = {
    "head": "end of tools and system prompt, read by other conversations and after an edit of everything behind it",
    "branch": "end of what siblings send too",
    "bridge": "end of the request before: the lookback from the last breakpoint does not reach it",
    "anchor": "end of what was written with the long lifetime before: marked again, so that it lives on and is found",
    "tail": "end of the prompt: the next request reads everything up to here",
}


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """One breakpoint of a request, and what it is worth."""

    name: str
    """head, branch, bridge, anchor or tail."""
    segment: int
    """Index of the last block it includes."""
    entry: int
    """Log sequence of that block."""
    ttl_seconds: int
    """Lifetime it asks for."""
    n_tokens: int
    """Size of the prefix."""
    why: str
    """Its purpose."""
    cost_usd: float | None
    """What writing it adds to this request, against sending its tokens uncached; None without a price."""
    worth_usd: float | None
    """What it is expected to save: at once where it reads, in the next request where it writes; None without a price.
    """


@dataclass(frozen=True, slots=True)
class Planned:
    """Breakpoints of a conversation's next request, as it would be sent now; `context.plan`."""

    choice: Choice
    """What was chosen, and from what."""
    model: Model
    """The row of the model."""
    key: str | None
    """The cache key the request carries."""
    why: str = ""
    """Reason for the key, or for none, where it was derived."""
    residencies: tuple[str, ...] = ()
    """How each large result since the last reply lives, and why; a line each."""

    @property
    def marks(self) -> tuple[MarkPlan, ...]:
        """Each breakpoint with its purpose and its worth, in wire order."""
        return marks_of(self.choice, self.model)

    def explain(self) -> str:
        """Describe the whole choice: breakpoints, lifetimes, cache key, prewarm and what was rejected; a line a fact."""
        return "\n".join([explain(self.choice, self.model, self.key, self.why), *self.residencies])

    def prewarm(self, n_waiting: int) -> Prewarm:
        """Compute what filling the cache first is worth before `n_waiting` calls that start together."""
        return warm_up(self.choice, self.model, n_waiting)

    def __str__(self) -> str:
        return self.explain()


def marks_of(choice: Choice, row: Model) -> tuple[MarkPlan, ...]:
    """Each breakpoint with its purpose and its worth, in wire order."""
    return tuple(_mark_plan(choice, index, row) for index in range(len(choice.marks)))


def explain(choice: Choice, row: Model, key: str | None = None, why: str = "") -> str:
    """Describe the whole choice, a line a fact."""
    lines = [_heading(choice, row), *_breakpoint_lines(choice, row)]
    if _takes_breakpoints(choice):
        lines += [*_lifetime_lines(choice), *_rejected_lines(choice)]
    lines += [*_key_lines(row, key, why), *_prewarm_lines(choice, row)]
    return "\n".join(lines)


def warm_up(choice: Choice, row: Model, n_waiting: int) -> Prewarm:
    """Compute what filling the cache with what others share is worth, before `n_waiting` calls that start together."""
    return prewarm(choice.n_tokens(_shared_end(choice)), n_waiting, row, choice.state.price)


def _shared_end(choice: Choice) -> int:
    """Blocks that others send too; all of them where nothing says what they share."""
    shared = choice.places.branch if choice.places.branch is not None else choice.places.head
    end = choice.places.last if shared is None else shared
    return 0 if end is None else end + 1


def _takes_breakpoints(choice: Choice) -> bool:
    return choice.rules.has_head or choice.rules.has_tail


def _mark_plan(choice: Choice, index: int, row: Model) -> MarkPlan:
    point, name = choice.marks[index], choice.names[index]
    below = choice.marks[index - 1].segment + 1 if index else 0
    size, rates = choice.n_tokens(point.segment + 1), choice.rates
    entry = choice.columns.entries[point.segment]
    fields = (name, point.segment, entry, point.ttl_seconds, size, _PURPOSE[name])
    if rates is None:
        return MarkPlan(*fields, None, None)
    if size < row.min_tokens:  # it is sent so that later requests begin with the same bytes: nothing is written
        return MarkPlan(*fields, 0.0, 0.0)
    new = max(size - max(choice.n_tokens(choice.read_end), choice.n_tokens(below)), 0)
    read = size - choice.n_tokens(below) - new
    is_long = is_long_ttl(point.ttl_seconds)
    written = rates.written(is_long=is_long)
    later = _read_chance(choice, name, is_long) * (written - rates.read) * new
    now = (rates.fresh - rates.read) * read if name in ("bridge", "anchor") else 0.0
    return MarkPlan(*fields, (written - rates.fresh) * new, later + now)


def _read_chance(choice: Choice, name: str, is_long: bool) -> float:
    chance = choice.chances.within(is_long=is_long)
    return max(chance, choice.state.head_reuse) if name in ("head", "branch") else chance


def _heading(choice: Choice, row: Model) -> str:
    read, size = choice.n_tokens(choice.read_end), choice.n_tokens(choice.n)
    if not _takes_breakpoints(choice):
        return f"{row.name}: {size:,} tokens"
    return (
        f"{row.name}: {size:,} tokens, {read:,} of them expected in the cache, {size - read:,} not ({_habits(choice)})"
    )


def _habits(choice: Choice) -> str:
    n_gaps = choice.state.rhythm.turns
    basis = f"by {n_gaps} gaps of this session" if n_gaps else "by recorded sessions, this one has no gap yet"
    short = ttl_name(choice.rules.tail_ttl_seconds)
    return f"{basis}, a next call comes within {short} in {choice.chances.warm:.1%} of cases"


def _breakpoint_lines(choice: Choice, row: Model) -> Iterator[str]:
    for mark in marks_of(choice, row):
        place = f"entry {mark.entry}, block {mark.segment}, {mark.n_tokens:,} tokens"
        yield f"breakpoint {mark.name} [{ttl_name(mark.ttl_seconds)}] {place}: {mark.why}; {_worth(mark, row)}"
    if not choice.marks:
        if _takes_breakpoints(choice):
            yield "no breakpoint"
        else:
            yield "no breakpoint: the provider takes none and caches what it can by itself"


def _worth(mark: MarkPlan, row: Model) -> str:
    if mark.n_tokens < row.min_tokens:
        return f"writes nothing yet: the model caches none below {row.min_tokens:,} tokens"
    if mark.cost_usd is None or mark.worth_usd is None:
        return "no price"
    if mark.cost_usd == 0 == mark.worth_usd:
        return "cached already, and renewed free of charge"
    return f"costs {_usd(mark.cost_usd)}, expected to save {_usd(mark.worth_usd)}"


def _lifetime_lines(choice: Choice) -> Iterator[str]:
    rules = choice.rules
    for number, option in enumerate(choice.lifetimes):
        verdict = "chosen" if number == 0 else "rejected"
        end = "nothing more" if option.place == "none" else f"everything up to the {option.place}"
        money = (
            f"{_usd(option.premium_usd)} now, {_usd(option.loss_usd)} expected later, together {_usd(option.cost_usd)}"
        )
        yield f"lifetime {verdict}: {end} with {ttl_name(rules.long_ttl_seconds)}: {money}"
    if choice.lifetimes and not choice.state.is_mixed:
        yield "lifetimes are kept apart: a breakpoint reads entries of its own lifetime only (rule mixed_lifetimes)"
    elif not choice.lifetimes and rules.long_ttl_seconds:
        yield "lifetimes: not compared, the model has no price"
    elif not choice.lifetimes:
        head, tail = ttl_name(rules.head_ttl_seconds), ttl_name(rules.tail_ttl_seconds)
        yield f"lifetimes: as given, {tail if head == tail else f'{head} for the head, {tail} behind it'}"


def _rejected_lines(choice: Choice) -> Iterator[str]:
    for name, reason in choice.rejected:
        yield f"breakpoint rejected: {name}: {reason}"
    available, lookback = choice.places, choice.rules.lookback
    if available.bridge is None and available.previous is not None and available.tail is not None:
        steps = choice.columns.positions[available.tail] - choice.columns.positions[available.previous]
        if 0 < steps < lookback:
            yield (
                f"breakpoint rejected: bridge: the request before ended {steps} positions back, within the lookback of "
                f"{lookback} from the tail"
            )


def _key_lines(row: Model, key: str | None, why: str) -> Iterator[str]:
    if row.provider == "openai" or key is not None or why:
        if key is None:
            yield f"cache key: {why or 'none: caches are available by prefix'}"
        else:
            yield f"cache key: {key!r}: {why or 'shared with calls that send the same one'}"


def _prewarm_lines(choice: Choice, row: Model) -> Iterator[str]:
    size, warm = choice.n_tokens(_shared_end(choice)), warm_up(choice, row, 2)
    if size == 0 or warm.cost_usd is None or warm.saved_usd is None:
        return
    if size < row.min_tokens:
        yield f"prewarm: nothing to fill, {size:,} tokens are shared and the model caches none below {row.min_tokens:,}"
        return
    if warm.saved_usd > 0:
        verdict, money = "pays", f"{_usd(warm.saved_usd)} saved"
    else:
        verdict, money = "does not pay", f"{_usd(-warm.saved_usd)} lost"
    yield f"prewarm: costs {_usd(warm.cost_usd)}; {verdict} before 2 calls that start together ({money})"


def _usd(dollars: float) -> str:
    if dollars == 0:
        return "$0"
    return f"${dollars:.6f}" if abs(dollars) < 0.01 else f"${dollars:.4f}"
