"""What is known of a session when its next request is marked: its habits, what it was billed at, what its last request
left behind.

Takes numbers, gives numbers. The moment is an argument, the time of the last entry, so a plan is the same however often
it is made.

Which places to mark and for how long, so that a lane's calls cost least; with what was weighed.

Takes a columns, the marks one provider allows and what is known of the session. Where nothing is known it gives exactly
what `plan` gives. More marks cost nothing below the last one: what is weighed is whether to write the end of the prompt
at all, and up to where to write it for long. A request costs the same few steps however long the conversation.

A choice in words: each mark with its place, lifetime, reason and worth, every lifetime that was weighed, and what
was left out.

Takes a `Choice`, gives rows and text. Worked out only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import is_long_ttl
from contextkit.economics.bill import Price
from contextkit.economics.fanout import Prewarm, prewarm
from contextkit.economics.lifetime import Chances, Coverage, Rates, chances, pays, rates_at
from contextkit.economics.rhythm import Rhythm
from contextkit.models import Model
from contextkit.prompt.breakpoints import Places, Plan, last_breakpoint_place, places
from contextkit.prompt.prompt import PromptColumns


def _unpriced(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Left:
    """What the last request of a lane left in the cache."""

    marks: tuple[Breakpoint, ...]
    """Where its entries end."""
    at: float
    """When it started."""
    epoch: int = 0
    """Declared breaks before it: after another one its places mean nothing any more."""

    def end(self, now: float, epoch: int, *, longer_than: float = 0) -> int:
        """Segments that its longest entry covers which is still alive, and lives longer than that by itself; 0 for
        none.
        """
        if epoch != self.epoch:
            return 0
        alive = (mark.segment + 1 for mark in self.marks if now - self.at < mark.ttl_seconds > longer_than)
        return max(alive, default=0)

    def within(self, n: int) -> Left:
        """What of it another conversation can read that shares the first `n` segments."""
        return Left(tuple(mark for mark in self.marks if mark.segment < n), self.at, self.epoch)


NOTHING = Left((), 0.0, -1)
"""No request was sent, or it is not known what one left."""


@dataclass(slots=True)
class PlanningState:
    """One session, as far as it is known."""

    rhythm: Rhythm = field(default_factory=Rhythm)
    """Its gaps and growth."""
    price: Price = _unpriced
    """What a bill costs in dollars; None where the model has no price."""
    now: float = 0.0
    """When the next request starts, as near as the log says: the time of its last entry."""
    left: Left = NOTHING
    """What the lane's last request left."""
    epoch: int = 0
    """Declared breaks so far."""
    calls_to_come: float | None = None
    """Calls of this lane behind the next one, where that is known: 0 for a side call; None for what sessions are like.
    """
    head_reuse: float = 1.0
    """Share of cases in which another conversation reads tools and system while they live."""
    is_mixed: bool = True
    """Whether an entry of one lifetime may be read by a mark of another; False once a bill has shown that it was not.
    """
    _tables: dict[tuple[object, ...], object] = field(default_factory=dict)
    """What was worked out for this rhythm."""

    def rates(self, n_tokens: int) -> Rates | None:
        """What a token costs in a prompt of that size."""
        key = ("rates", n_tokens, self.now)
        if key not in self._tables:
            self._tables[key] = rates_at(n_tokens, self.price)
        return self._tables[key]  # type: ignore[return-value]  # what the key says

    def chances(self, short_seconds: float, long_seconds: float) -> Chances:
        """What becomes of what the next request writes."""
        key = ("chances", short_seconds, long_seconds)
        if key not in self._tables:
            self._tables[key] = chances(self.rhythm, short_seconds, long_seconds, self.calls_to_come)
        return self._tables[key]  # type: ignore[return-value]

    def coverage(self, short_seconds: float, long_seconds: float, rates: Rates) -> Coverage:
        """What leaving tokens to the short lifetime is expected to cost."""
        key = ("coverage", short_seconds, long_seconds, rates)
        if key not in self._tables:
            self._tables[key] = Coverage(self.rhythm.growths, self.chances(short_seconds, long_seconds), rates)
        return self._tables[key]  # type: ignore[return-value]


_SURE = 0.9
"""Above this chance of a next call writing pays at every price there is: nothing needs to be looked up."""
_PRIORITY = ("tail", "bridge", "anchor", "branch", "head")
"""What stays when there are more places than marks."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One way to give lifetimes, and what it is expected to cost."""

    place: str
    """The last place written for long; `none`."""
    segment: int
    """Index of it, -1 for none."""
    premium_usd: float
    """What it adds to this request's bill."""
    loss_usd: float
    """What later calls are expected to write again because the rest was not."""

    @property
    def cost_usd(self) -> float:
        """Both."""
        return self.premium_usd + self.loss_usd


@dataclass(frozen=True, slots=True)
class Choice:
    """The marks of one request, and what they were chosen from."""

    columns: PromptColumns
    """What is marked."""
    n: int
    """Segments of the request."""
    places: Places
    """Where marks could go."""
    marks: tuple[Breakpoint, ...]
    """What is marked, in wire order."""
    names: tuple[str, ...]
    """What each of them is for: head, branch, bridge, anchor, tail."""
    rules: Plan
    """What the provider lets us mark."""
    state: PlanningState
    """What was known."""
    read_end: int
    """Segments that are expected to be read."""
    lifetimes: tuple[Weighed, ...] = ()
    """Every lifetime that was weighed, the chosen one first; empty where it was given."""
    refused: tuple[tuple[str, str], ...] = ()
    """Places that were left out, and why."""

    def n_tokens(self, end: int) -> int:
        """Tokens of the first `end` segments."""
        return self.columns.ends_tokens[end - 1] if end > 0 else 0


def choose(columns: PromptColumns, n: int, previous: int, rules: Plan, state: PlanningState, shared: int = 0) -> Choice:
    """Marks for the first `n` segments, when the request before held the first `previous` of them and siblings send the
    first `shared`.
    """
    before = state.left.end(state.now, state.epoch) or previous  # what the lane left is surer than what was sent last
    available = places(columns, n, min(before, n), rules, shared)
    wanted = dict(available.named)
    choice = Choice(columns, n, available, (), (), rules, state, _read_end(previous, n, state))
    refused = dict(_too_short(choice, wanted))
    ways = _lifetimes(choice, wanted, refused)
    unpaid = dict(_unpaid(choice, wanted, refused, ways))
    wanted.update(
        _again(choice, previous, {name: place for name, place in wanted.items() if name not in {**refused, **unpaid}})
    )
    if "tail" in unpaid and "bridge" in wanted and wanted["bridge"] >= choice.read_end and not _is_aside(choice):
        unpaid["bridge"] = "nothing is left there to be read, and nothing behind it is written"
    refused.update(unpaid)
    wanted.update(_held(choice, ways))
    chosen = {name: wanted[name] for name in _PRIORITY if name in wanted and name not in refused}
    return _marked(choice, chosen, ways, refused)


def _again(choice: Choice, previous: int, written: dict[str, int]) -> dict[str, int]:
    """The end of the request before, where the tail does not see to it: nothing new is written, or what was written has
    lapsed.
    """
    state, is_short = choice.state, choice.read_end < previous
    place: int | None = None
    if (
        choice.rules.has_tail and "tail" not in written
    ):  # a side call may write it for what it interrupts; else what is there is read
        place = (
            last_breakpoint_place(choice.columns, max(previous, choice.read_end))
            if not is_short or _is_aside(choice)
            else choice.places.previous
        )
    elif "tail" in written and "bridge" not in written and is_short and state.left.epoch == state.epoch:
        place = last_breakpoint_place(choice.columns, previous, previous - 1)  # below a later mark it costs nothing
    return {} if place is None or choice.columns.ends_tokens[place] < choice.rules.min_tokens else {"bridge": place}


def _is_aside(choice: Choice) -> bool:
    """Whether this is a side call of a conversation that is likely to go on."""
    state, rates = choice.state, choice.state.rates(choice.n_tokens(choice.n))
    return state.calls_to_come == 0 and rates is not None and pays(state.head_reuse, rates)


def _marked(choice: Choice, chosen: dict[str, int], ways: tuple[Weighed, ...], refused: dict[str, str]) -> Choice:
    """As many of them as fit, in wire order, longer lifetimes first."""
    named: dict[int, str] = {}
    for name, place in chosen.items():
        if place not in named and len(named) == choice.rules.most:
            refused[name] = f"{choice.rules.most} marks are taken"
            continue
        named[place] = name
    marks = tuple(
        Breakpoint(place, _ttl(choice, place, named[place], ways), choice.rules.lookback) for place in sorted(named)
    )
    names = tuple(named[mark.segment] for mark in marks)
    return replace(choice, marks=marks, names=names, lifetimes=ways, refused=tuple(refused.items()))


def _ttl(choice: Choice, place: int, name: str, ways: tuple[Weighed, ...]) -> int:
    rules = choice.rules
    if not ways:
        return rules.head_ttl_seconds if name == "head" else rules.tail_ttl_seconds
    is_long = place <= max(
        ways[0].segment, _covered(choice) - 1
    )  # written for long now, or before: longer lifetimes come first
    return rules.long_ttl_seconds if is_long else rules.tail_ttl_seconds


def _covered(choice: Choice) -> int:
    """Segments that an entry covers which was written for long and lives."""
    state = choice.state
    return min(state.left.end(state.now, state.epoch, longer_than=choice.rules.tail_ttl_seconds), choice.n)


def _read_end(previous: int, n: int, state: PlanningState) -> int:
    """Segments this request is expected to read: by what the lane left, or, where nobody noted that, all that was sent
    before.
    """
    left = state.left
    return min(left.end(state.now, state.epoch) if left.epoch == state.epoch else previous, n)


def _too_short(choice: Choice, wanted: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, place in wanted.items():
        if (tokens := choice.columns.ends_tokens[place]) < choice.rules.min_tokens:
            yield name, f"{tokens:,} tokens, and the model caches none below {choice.rules.min_tokens:,}"


def _unpaid(
    choice: Choice, wanted: dict[str, int], refused: dict[str, str], ways: tuple[Weighed, ...]
) -> Iterator[tuple[str, str]]:
    """Places whose entry is not expected to be read often enough to pay for writing it."""
    rules, state = choice.rules, choice.state
    likely = state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or rules.tail_ttl_seconds)
    again = max(likely.warm, state.head_reuse)
    head, tail = rules.head_ttl_seconds, rules.tail_ttl_seconds
    within = {"head": (again, head), "branch": (again, tail), "tail": (likely.warm, tail)}
    for name, (chance, ttl) in within.items():
        if chance >= _SURE or name not in wanted or name in refused:
            continue
        if wanted[name] < choice.read_end or (
            ways and wanted[name] <= ways[0].segment
        ):  # it is there already, or the long lifetime pays
            continue
        rates = state.rates(choice.n_tokens(choice.n))
        if rates is not None and not pays(chance, rates, is_long=is_long_ttl(ttl)):
            yield (
                name,
                f"a call that reads it in time comes in {chance:.0%} of cases: writing it costs more than that saves",
            )


def _lifetimes(choice: Choice, wanted: dict[str, int], refused: dict[str, str]) -> tuple[Weighed, ...]:
    """Every end that could be written for long, cheapest first.

    Nothing where lifetimes are given or there is no price to weigh.
    """
    rules, last = choice.rules, choice.places.last
    rates = choice.state.rates(choice.n_tokens(choice.n)) if rules.long_ttl_seconds else None
    if rates is None:
        return ()
    ends = {name: place for name, place in wanted.items() if name in ("head", "branch") and name not in refused}
    if last is not None and choice.columns.ends_tokens[last] >= rules.min_tokens:
        ends["tail"] = last
    weigh = _weighed if choice.state.is_mixed else _weighed_apart
    ways = [weigh(choice, name, place, rates) for name, place in ends.items() if place >= choice.read_end]
    return tuple(sorted([weigh(choice, "none", -1, rates), *ways], key=lambda way: (way.cost_usd, way.segment)))


def _weighed(choice: Choice, name: str, place: int, rates: Rates) -> Weighed:
    rules, read = choice.rules, choice.n_tokens(choice.read_end)
    covered = choice.n_tokens(max(place + 1, _covered(choice)))
    table = choice.state.coverage(rules.tail_ttl_seconds, rules.long_ttl_seconds, rates)
    premium = (rates.long - rates.short) * max(choice.n_tokens(place + 1) - read, 0)
    return Weighed(name, place, premium, table.loss(choice.n_tokens(choice.n) - covered))


def _weighed_apart(choice: Choice, name: str, place: int, rates: Rates) -> Weighed:
    """Where each lifetime reads its own entries only: one of them for good, and going over to the other writes
    everything again.
    """
    rules, rhythm = choice.rules, choice.state.rhythm
    likely = choice.state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds)
    total, covered, calls = choice.n_tokens(choice.n), choice.n_tokens(_covered(choice)), rhythm.remaining_turns
    lost = calls * likely.lapsed * (rates.short - rates.read)
    if place < 0:
        return Weighed(name, place, (rates.short - rates.read) * covered, lost * total)
    held, dearer = choice.n_tokens(place + 1), rates.long - rates.short
    premium = (rates.long - rates.read) * max(choice.n_tokens(choice.read_end) - covered, 0) + dearer * max(
        held - covered, 0
    )
    growth = calls * dearer * rhythm.growth_tokens if name == "tail" else 0.0
    return Weighed(name, place, premium, growth + lost * (total - held))


def _held(choice: Choice, ways: tuple[Weighed, ...]) -> dict[str, int]:
    """A tail that is written for long.

    Else the end of what was written so before, marked again so that it lives on and is found.
    """
    if ways and ways[0].place == "tail":
        return {"tail": ways[0].segment}
    end = last_breakpoint_place(choice.columns, _covered(choice)) if ways else None
    return {} if end is None else {"anchor": end}


_WHY = {
    "head": "tools and system, read by other conversations and after an edit of everything behind them",
    "branch": "what siblings send too",
    "bridge": "where the request before ended: the mark at the end no longer reaches it",
    "anchor": "what was written for long before: marked again, so that it lives on and is found after a gap",
    "tail": "the end: the next request reads everything up to here",
}
_LIFETIMES = {300: "5m", 1800: "30m", 3600: "1h", 43200: "12h"}


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """One mark of a request, and what it is worth."""

    name: str
    """head, branch, bridge, anchor or tail."""
    segment: int
    """Index of the last segment it includes."""
    entry: int
    """Log sequence of that segment."""
    ttl_seconds: int
    """Lifetime it asks for."""
    n_tokens: int
    """Size of the prefix."""
    why: str
    """What it is for."""
    cost_usd: float | None
    """What writing it adds to this request, against sending its tokens uncached; None without a price."""
    worth_usd: float | None
    """What it is expected to save: at once where it reads, in the next request where it writes; None without a price.
    """


@dataclass(frozen=True, slots=True)
class Planned:
    """What the next request of a conversation marks, as it would be sent now; `context.plan`."""

    choice: Choice
    """What was chosen, and from what."""
    model: Model
    """The row of the model asked."""
    key: str | None
    """The cache key it carries."""
    why: str = ""
    """Why it carries that one, or none, where nobody thought it up."""
    residencies: tuple[str, ...] = ()
    """How each large result since the last reply lives, and why; a line each."""

    @property
    def marks(self) -> tuple[MarkPlan, ...]:
        """Each mark with its reason and its worth."""
        return marks_of(self.choice, self.model)

    def explain(self) -> str:
        """The whole choice: marks, lifetimes, key, prewarm, and what was rejected; a line a fact."""
        return "\n".join([explain(self.choice, self.model, self.key, self.why), *self.residencies])

    def prewarm(self, n_waiting: int) -> Prewarm:
        """What filling the cache first is worth before `n_waiting` calls that start together."""
        return warm_up(self.choice, self.model, n_waiting)

    def __str__(self) -> str:
        return self.explain()


def marks_of(choice: Choice, row: Model) -> tuple[MarkPlan, ...]:
    """Each mark with its reason and its worth."""
    return tuple(_mark(choice, place, row) for place in range(len(choice.marks)))


def explain(choice: Choice, row: Model, key: str | None = None, why: str = "") -> str:
    """The whole choice, a line a fact."""
    weighed = [*_explanation_weighed(choice), *_refused(choice)] if _takes_marks(choice) else []
    return "\n".join(
        [*_heading(choice, row), *_marks(choice, row), *weighed, *_key(row, key, why), *_prewarm(choice, row)]
    )


def warm_up(choice: Choice, row: Model, n_waiting: int) -> Prewarm:
    """What filling the cache with what others share is worth, before `n_waiting` calls that start together."""
    return prewarm(choice.n_tokens(_shared_end(choice)), n_waiting, row, choice.state.price)


def _shared_end(choice: Choice) -> int:
    """Segments that others send too; all of it where nothing says what they share."""
    shared = choice.places.branch if choice.places.branch is not None else choice.places.head
    end = choice.places.last if shared is None else shared
    return 0 if end is None else end + 1


def _takes_marks(choice: Choice) -> bool:
    return choice.rules.has_head or choice.rules.has_tail


def _rates(choice: Choice) -> Rates | None:
    return choice.state.rates(choice.n_tokens(choice.n))


def _mark(choice: Choice, place: int, row: Model) -> MarkPlan:
    mark, name = choice.marks[place], choice.names[place]
    below = choice.marks[place - 1].segment + 1 if place else 0
    size, rates = choice.n_tokens(mark.segment + 1), _rates(choice)
    given = (name, mark.segment, choice.columns.entries[mark.segment], mark.ttl_seconds, size, _WHY[name])
    if rates is None:
        return MarkPlan(*given, None, None)
    if size < row.min_tokens:  # it is carried so that later requests begin alike: nothing is written
        return MarkPlan(*given, 0.0, 0.0)
    new = max(size - max(choice.n_tokens(choice.read_end), choice.n_tokens(below)), 0)
    read = size - choice.n_tokens(below) - new
    is_long = is_long_ttl(mark.ttl_seconds)
    written = rates.written(is_long=is_long)
    saved = _chance(choice, name, is_long) * (written - rates.read) * new
    now = (rates.fresh - rates.read) * read if name in ("bridge", "anchor") else 0.0
    return MarkPlan(*given, (written - rates.fresh) * new, saved + now)


def _chance(choice: Choice, name: str, is_long: bool) -> float:
    rules, state = choice.rules, choice.state
    likely = state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)
    chance = likely.within(is_long=is_long)
    return max(chance, state.head_reuse) if name in ("head", "branch") else chance


def _heading(choice: Choice, row: Model) -> Iterator[str]:
    read, size = choice.n_tokens(choice.read_end), choice.n_tokens(choice.n)
    if _takes_marks(choice):
        yield f"{row.name}: {size:,} tokens, {read:,} of them expected in the cache, {size - read:,} not ({_habits(choice)})"
    else:
        yield f"{row.name}: {size:,} tokens"


def _habits(choice: Choice) -> str:
    rules, rhythm = choice.rules, choice.state.rhythm
    likely = choice.state.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)
    source = f"gaps seen: {rhythm.turns}" if rhythm.turns else "no gap seen yet, so what sessions are like"
    return f"{source}; a next call comes within {_LIFETIMES[rules.tail_ttl_seconds]} in {likely.warm:.1%} of cases"


def _marks(choice: Choice, row: Model) -> Iterator[str]:
    for mark in marks_of(choice, row):
        place = f"entry {mark.entry}, segment {mark.segment}, {mark.n_tokens:,} tokens"
        yield f"mark {mark.name} [{_LIFETIMES[mark.ttl_seconds]}] {place}: {mark.why}; {_worth(mark, row)}"
    if not choice.marks:
        yield "no mark" if _takes_marks(choice) else "no mark: the provider takes none and keeps what it can by itself"


def _worth(mark: MarkPlan, row: Model) -> str:
    if mark.n_tokens < row.min_tokens:
        return f"writes nothing yet: the model caches none below {row.min_tokens:,} tokens"
    if mark.cost_usd is None or mark.worth_usd is None:
        return "no price"
    if mark.cost_usd == 0 == mark.worth_usd:
        return "it is in the cache already, and lives on for nothing"
    return f"costs {_usd(mark.cost_usd)}, expected to save {_usd(mark.worth_usd)}"


def _explanation_weighed(choice: Choice) -> Iterator[str]:
    for number, way in enumerate(choice.lifetimes):
        long = _LIFETIMES[choice.rules.long_ttl_seconds]
        what = "nothing more" if way.place == "none" else f"up to the {way.place}"
        verdict = "chosen" if number == 0 else "rejected"
        money = f"{_usd(way.premium_usd)} now, {_usd(way.loss_usd)} expected later, together {_usd(way.cost_usd)}"
        yield f"{verdict}: {what} for {long}: {money}"
    if not choice.lifetimes and choice.rules.long_ttl_seconds:
        yield "lifetimes: not weighed, the model has no price"
    elif not choice.lifetimes:
        head, tail = _LIFETIMES[choice.rules.head_ttl_seconds], _LIFETIMES[choice.rules.tail_ttl_seconds]
        yield f"lifetimes: as given, {tail if head == tail else f'{head} for the head, {tail} behind it'}"


def _refused(choice: Choice) -> Iterator[str]:
    for name, why in choice.refused:
        yield f"rejected: a mark at the {name}: {why}"
    if choice.places.bridge is None and choice.places.previous is not None and choice.places.tail is not None:
        steps = choice.columns.positions[choice.places.tail] - choice.columns.positions[choice.places.previous]
        if 0 < steps < choice.rules.lookback:
            yield f"rejected: a bridge: the end of the request before is {steps} positions back, the tail reads {choice.rules.lookback}"


def _key(row: Model, key: str | None, why: str) -> Iterator[str]:
    if row.provider == "openai" or key is not None or why:
        given = f"{key!r}: {why or 'shared with calls that send the same one'}"
        yield f"cache key: {(why or 'none: caches are available by prefix') if key is None else given}"


def _prewarm(choice: Choice, row: Model) -> Iterator[str]:
    size, warm = choice.n_tokens(_shared_end(choice)), warm_up(choice, row, 2)
    if size == 0 or warm.cost_usd is None or warm.saved_usd is None:
        return
    if size < row.min_tokens:
        yield f"prewarm: nothing to fill, {size:,} tokens are shared and the model caches none below {row.min_tokens:,}"
        return
    verdict, saved = (
        ("pays", f"{_usd(warm.saved_usd)} saved")
        if warm.saved_usd > 0
        else ("does not pay", f"{_usd(-warm.saved_usd)} lost")
    )
    yield f"prewarm: costs {_usd(warm.cost_usd)}; {verdict} before 2 calls that start together ({saved})"


def _usd(dollars: float) -> str:
    if dollars == 0:
        return "$0"
    return f"${dollars:.6f}" if abs(dollars) < 0.01 else f"${dollars:.4f}"
