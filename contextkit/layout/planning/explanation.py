"""A choice in words: each mark with its place, lifetime, reason and worth, every lifetime that was weighed, and what
was left out.

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

    @property
    def marks(self) -> tuple[MarkPlan, ...]:
        """Each mark with its reason and its worth."""
        return marks_of(self.choice, self.model)

    def explain(self) -> str:
        """The whole choice: marks, lifetimes, key, prewarm, and what was rejected; a line a fact."""
        return explain(self.choice, self.model, self.key, self.why)

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
    weighed = [*_weighed(choice), *_refused(choice)] if _takes_marks(choice) else []
    return "\n".join(
        [*_heading(choice, row), *_marks(choice, row), *weighed, *_key(row, key, why), *_prewarm(choice, row)]
    )


def warm_up(choice: Choice, row: Model, n_waiting: int) -> Prewarm:
    """What filling the cache with what others share is worth, before `n_waiting` calls that start together."""
    return prewarm(choice.n_tokens(_shared_end(choice)), n_waiting, row, choice.known.price)


def _shared_end(choice: Choice) -> int:
    """Segments that others send too; all of it where nothing says what they share."""
    shared = choice.places.branch if choice.places.branch is not None else choice.places.head
    end = choice.places.last if shared is None else shared
    return 0 if end is None else end + 1


def _takes_marks(choice: Choice) -> bool:
    return choice.rules.has_head or choice.rules.has_tail


def _rates(choice: Choice) -> Rates | None:
    return choice.known.rates(choice.n_tokens(choice.n))


def _mark(choice: Choice, place: int, row: Model) -> MarkPlan:
    mark, name = choice.marks[place], choice.names[place]
    below = choice.marks[place - 1].segment + 1 if place else 0
    size, rates = choice.n_tokens(mark.segment + 1), _rates(choice)
    given = (name, mark.segment, choice.track.entries[mark.segment], mark.ttl_seconds, size, _WHY[name])
    if rates is None:
        return MarkPlan(*given, None, None)
    if size < row.min_tokens:  # it is carried so that later requests begin alike: nothing is written
        return MarkPlan(*given, 0.0, 0.0)
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
    if _takes_marks(choice):
        yield f"{row.name}: {size:,} tokens, {read:,} of them expected in the cache, {size - read:,} not ({_habits(choice)})"
    else:
        yield f"{row.name}: {size:,} tokens"


def _habits(choice: Choice) -> str:
    rules, rhythm = choice.rules, choice.known.rhythm
    likely = choice.known.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or 12 * rules.tail_ttl_seconds)
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
        head, tail = _LIFETIMES[choice.rules.head_ttl_seconds], _LIFETIMES[choice.rules.tail_ttl_seconds]
        yield f"lifetimes: as given, {tail if head == tail else f'{head} for the head, {tail} behind it'}"


def _refused(choice: Choice) -> Iterator[str]:
    for name, why in choice.refused:
        yield f"rejected: a mark at the {name}: {why}"
    if choice.places.bridge is None and choice.places.previous is not None and choice.places.tail is not None:
        steps = choice.track.positions[choice.places.tail] - choice.track.positions[choice.places.previous]
        if 0 < steps < choice.rules.lookback:
            yield f"rejected: a bridge: the end of the request before is {steps} positions back, the tail reads {choice.rules.lookback}"


def _key(row: Model, key: str | None, why: str) -> Iterator[str]:
    if row.provider == "openai" or key is not None or why:
        given = f"{key!r}: {why or 'shared with calls that send the same one'}"
        yield f"cache key: {(why or 'none: caches are found by prefix') if key is None else given}"


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
