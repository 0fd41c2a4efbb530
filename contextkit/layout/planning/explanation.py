"""A choice in words: each mark with its place, lifetime, reason and worth, every lifetime that was weighed, and what was left out.

Takes a `Choice`, gives rows and text. Worked out only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contextkit.cache.usage import WRITE_CLASSES
from contextkit.economics.lifetimes.rates import Rates
from contextkit.economics.prewarm import Prewarm, prewarm
from contextkit.layout.planning.choice import Choice
from contextkit.models import Model

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
    """What it is expected to save: at once where it reads, in the next request where it writes; None without a price."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What the next request of a conversation marks, as it would be sent now; `context.plan`."""

    choice: Choice
    """What was chosen, and from what."""
    model: Model
    """The row of the model asked."""
    key: str | None
    """The cache key it carries."""

    @property
    def marks(self) -> tuple[MarkPlan, ...]:
        """Each mark with its reason and its worth."""
        return marks_of(self.choice)

    def explain(self) -> str:
        """The whole choice: marks, lifetimes, key, prewarm, and what was rejected; a line a fact."""
        return explain(self.choice, self.model, self.key)

    def prewarm(self, n_waiting: int) -> Prewarm:
        """What filling the cache first is worth before `n_waiting` calls that start together."""
        return warm_up(self.choice, self.model, n_waiting)

    def __str__(self) -> str:
        return self.explain()


def marks_of(choice: Choice) -> tuple[MarkPlan, ...]:
    """Each mark with its reason and its worth."""
    return tuple(_mark(choice, place) for place in range(len(choice.marks)))


def explain(choice: Choice, row: Model, key: str | None = None) -> str:
    """The whole choice, a line a fact."""
    return "\n".join([*_heading(choice, row), *_marks(choice), *_weighed(choice), *_refused(choice), *_besides(choice, row, key)])


def warm_up(choice: Choice, row: Model, n_waiting: int) -> Prewarm:
    """What filling the cache with what others share is worth, before `n_waiting` calls that start together."""
    shared = choice.places.branch if choice.places.branch is not None else choice.places.head
    end = choice.places.last if shared is None else shared
    return prewarm(choice.n_tokens(0 if end is None else end + 1), n_waiting, row, choice.known.price)


def _rates(choice: Choice) -> Rates | None:
    return choice.known.rates(choice.n_tokens(choice.n))


def _mark(choice: Choice, place: int) -> MarkPlan:
    mark, name = choice.marks[place], choice.names[place]
    below = choice.marks[place - 1].segment + 1 if place else 0
    size, rates = choice.n_tokens(mark.segment + 1), _rates(choice)
    given = (name, mark.segment, choice.track.entries[mark.segment], mark.ttl_seconds, size, _WHY[name])
    if rates is None:
        return MarkPlan(*given, None, None)
    new = max(size - max(choice.n_tokens(choice.read_end), choice.n_tokens(below)), 0)
    read = size - choice.n_tokens(below) - new
    is_long = WRITE_CLASSES.get(mark.ttl_seconds) == "write_1h"
    written = rates.written(is_long=is_long)
    saved = _chance(choice, name, is_long) * (written - rates.read) * new
    now = (rates.fresh - rates.read) * read if name in ("bridge", "anchor") else 0.0
    return MarkPlan(*given, (written - rates.fresh) * new, saved + now)


def _chance(choice: Choice, name: str, is_long: bool) -> float:
    rules, known = choice.rules, choice.known
    likely = known.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)
    chance = likely.within(is_long=is_long)
    return max(chance, known.head_reuse) if name in ("head", "branch") else chance


def _heading(choice: Choice, row: Model) -> Iterator[str]:
    read, size = choice.n_tokens(choice.read_end), choice.n_tokens(choice.n)
    yield f"{row.name}: {size:,} tokens, {read:,} of them expected in the cache, {size - read:,} not ({_habits(choice)})"


def _habits(choice: Choice) -> str:
    rules, rhythm = choice.rules, choice.known.rhythm
    likely = choice.known.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)
    source = f"{rhythm.turns} calls seen" if rhythm.turns else "nothing seen yet: what sessions are like"
    return f"{source}; a next call comes within {_LIFETIMES[rules.tail_ttl_seconds]} in {likely.warm:.1%} of cases"


def _marks(choice: Choice) -> Iterator[str]:
    for mark in marks_of(choice):
        money = "no price" if mark.cost_usd is None else f"costs {_usd(mark.cost_usd)}, expected to save {_usd(mark.worth_usd or 0.0)}"
        place = f"entry {mark.entry}, segment {mark.segment}, {mark.n_tokens:,} tokens"
        yield f"mark {mark.name} [{_LIFETIMES[mark.ttl_seconds]}] {place}: {mark.why}; {money}"
    if not choice.marks:
        yield "no mark"


def _weighed(choice: Choice) -> Iterator[str]:
    for number, way in enumerate(choice.lifetimes):
        long = _LIFETIMES[choice.rules.long_ttl_seconds]
        what = "nothing more" if way.place == "none" else f"up to the {way.place}"
        verdict = "chosen" if number == 0 else "rejected"
        money = f"{_usd(way.premium_usd)} now, {_usd(way.loss_usd)} expected later, together {_usd(way.cost_usd)}"
        yield f"{verdict}: {what} for {long}: {money}"
    if not choice.lifetimes and choice.rules.long_ttl_seconds:
        yield "lifetimes: not weighed, the model has no price"
    elif not choice.lifetimes:
        yield f"lifetimes: as given, {_LIFETIMES[choice.rules.tail_ttl_seconds]} (head {_LIFETIMES[choice.rules.head_ttl_seconds]})"


def _refused(choice: Choice) -> Iterator[str]:
    for name, why in choice.refused:
        yield f"rejected: a mark at the {name}: {why}"
    if choice.places.bridge is None and choice.places.previous is not None and choice.places.tail is not None:
        steps = choice.track.positions[choice.places.tail] - choice.track.positions[choice.places.previous]
        if 0 < steps < choice.rules.lookback:
            yield f"rejected: a bridge: the end of the request before is {steps} positions back, the tail reads {choice.rules.lookback}"


def _besides(choice: Choice, row: Model, key: str | None) -> Iterator[str]:
    if row.provider == "openai":
        yield f"cache key: {'none: caches are found by prefix' if key is None else f'{key!r}: shared with calls that send the same one'}"
    warm = warm_up(choice, row, 2)
    if warm.cost_usd is not None and warm.saved_usd is not None:
        verdict = "pays" if warm.saved_usd > 0 else "does not pay"
        yield f"prewarm: {_usd(warm.cost_usd)}; {verdict} before 2 calls that start together ({_usd(warm.saved_usd)} saved)"


def _usd(dollars: float) -> str:
    return f"${dollars:.6f}" if abs(dollars) < 0.01 else f"${dollars:.4f}"
