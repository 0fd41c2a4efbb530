"""Which places to mark and for how long, so that a lane's calls cost least; with what was weighed.

Takes a track, the marks one provider allows and what is known of the session. Where nothing is known it gives exactly
what `plan` gives. More marks cost nothing below the last one: what is weighed is whether to write the end of the prompt
at all, and up to where to write it for long. A request costs the same few steps however long the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import WRITE_CLASSES
from contextkit.economics.lifetimes.coverage import pays
from contextkit.economics.lifetimes.rates import Rates
from contextkit.layout.breakpoints import Places, Plan, markable, places
from contextkit.layout.planning.known import Known
from contextkit.layout.track import Track

_SURE = 0.9
"""Above this chance of a next call writing pays at every price there is: nothing needs to be looked up."""
_KEPT = ("tail", "bridge", "anchor", "branch", "head")
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

    track: Track
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
    known: Known
    """What was known."""
    read_end: int
    """Segments that are expected to be read."""
    lifetimes: tuple[Weighed, ...] = ()
    """Every lifetime that was weighed, the chosen one first; empty where it was given."""
    refused: tuple[tuple[str, str], ...] = ()
    """Places that were left out, and why."""

    def n_tokens(self, end: int) -> int:
        """Tokens of the first `end` segments."""
        return self.track.ends_tokens[end - 1] if end > 0 else 0


def choose(track: Track, n: int, previous: int, rules: Plan, known: Known, shared: int = 0) -> Choice:
    """Marks for the first `n` segments, when the request before held the first `previous` of them and siblings send the
    first `shared`.
    """
    before = known.left.end(known.now, known.epoch) or previous  # what the lane left is surer than what was sent last
    found = places(track, n, min(before, n), rules, shared)
    choice = Choice(track, n, found, (), (), rules, known, _read_end(previous, n, known))
    wanted = dict(found.named)
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
    kept = {name: wanted[name] for name in _KEPT if name in wanted and name not in refused}
    return _marked(choice, kept, ways, refused)


def _again(choice: Choice, previous: int, written: dict[str, int]) -> dict[str, int]:
    """The end of the request before, where the tail does not see to it: nothing new is written, or what was written has
    lapsed.
    """
    known, is_short = choice.known, choice.read_end < previous
    place: int | None = None
    if (
        choice.rules.has_tail and "tail" not in written
    ):  # a side call may write it for what it interrupts; else what is there is read
        place = (
            markable(choice.track, max(previous, choice.read_end))
            if not is_short or _is_aside(choice)
            else choice.places.previous
        )
    elif "tail" in written and "bridge" not in written and is_short and known.left.epoch == known.epoch:
        place = markable(choice.track, previous, previous - 1)  # below a later mark it costs nothing
    return {} if place is None or choice.track.ends_tokens[place] < choice.rules.min_tokens else {"bridge": place}


def _is_aside(choice: Choice) -> bool:
    """Whether this is a side call of a conversation that is likely to go on."""
    known, rates = choice.known, choice.known.rates(choice.n_tokens(choice.n))
    return known.calls_to_come == 0 and rates is not None and pays(known.head_reuse, rates)


def _marked(choice: Choice, kept: dict[str, int], ways: tuple[Weighed, ...], refused: dict[str, str]) -> Choice:
    """As many of them as fit, in wire order, longer lifetimes first."""
    named: dict[int, str] = {}
    for name, place in kept.items():
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
    known = choice.known
    return min(known.left.end(known.now, known.epoch, longer_than=choice.rules.tail_ttl_seconds), choice.n)


def _read_end(previous: int, n: int, known: Known) -> int:
    """Segments this request is expected to read: by what the lane left, or, where nobody noted that, all that was sent
    before.
    """
    left = known.left
    return min(left.end(known.now, known.epoch) if left.epoch == known.epoch else previous, n)


def _too_short(choice: Choice, wanted: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, place in wanted.items():
        if (tokens := choice.track.ends_tokens[place]) < choice.rules.min_tokens:
            yield name, f"{tokens:,} tokens, and the model caches none below {choice.rules.min_tokens:,}"


def _unpaid(
    choice: Choice, wanted: dict[str, int], refused: dict[str, str], ways: tuple[Weighed, ...]
) -> Iterator[tuple[str, str]]:
    """Places whose entry is not expected to be read often enough to pay for writing it."""
    rules, known = choice.rules, choice.known
    likely = known.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds or rules.tail_ttl_seconds)
    again = max(likely.warm, known.head_reuse)
    head, tail = rules.head_ttl_seconds, rules.tail_ttl_seconds
    within = {"head": (again, head), "branch": (again, tail), "tail": (likely.warm, tail)}
    for name, (chance, ttl) in within.items():
        if chance >= _SURE or name not in wanted or name in refused:
            continue
        if wanted[name] < choice.read_end or (
            ways and wanted[name] <= ways[0].segment
        ):  # it is there already, or the long lifetime pays
            continue
        rates = known.rates(choice.n_tokens(choice.n))
        if rates is not None and not pays(chance, rates, is_long=WRITE_CLASSES.get(ttl) == "write_1h"):
            yield (
                name,
                f"a call that reads it in time comes in {chance:.0%} of cases: writing it costs more than that saves",
            )


def _lifetimes(choice: Choice, wanted: dict[str, int], refused: dict[str, str]) -> tuple[Weighed, ...]:
    """Every end that could be written for long, cheapest first.

    Nothing where lifetimes are given or there is no price to weigh.
    """
    rules, last = choice.rules, choice.places.last
    rates = choice.known.rates(choice.n_tokens(choice.n)) if rules.long_ttl_seconds else None
    if rates is None:
        return ()
    ends = {name: place for name, place in wanted.items() if name in ("head", "branch") and name not in refused}
    if last is not None and choice.track.ends_tokens[last] >= rules.min_tokens:
        ends["tail"] = last
    weigh = _weighed if choice.known.is_mixed else _weighed_apart
    ways = [weigh(choice, name, place, rates) for name, place in ends.items() if place >= choice.read_end]
    return tuple(sorted([weigh(choice, "none", -1, rates), *ways], key=lambda way: (way.cost_usd, way.segment)))


def _weighed(choice: Choice, name: str, place: int, rates: Rates) -> Weighed:
    rules, read = choice.rules, choice.n_tokens(choice.read_end)
    covered = choice.n_tokens(max(place + 1, _covered(choice)))
    table = choice.known.coverage(rules.tail_ttl_seconds, rules.long_ttl_seconds, rates)
    premium = (rates.long - rates.short) * max(choice.n_tokens(place + 1) - read, 0)
    return Weighed(name, place, premium, table.loss(choice.n_tokens(choice.n) - covered))


def _weighed_apart(choice: Choice, name: str, place: int, rates: Rates) -> Weighed:
    """Where each lifetime reads its own entries only: one of them for good, and going over to the other writes
    everything again.
    """
    rules, rhythm = choice.rules, choice.known.rhythm
    likely = choice.known.chances(rules.tail_ttl_seconds, rules.long_ttl_seconds)
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
    end = markable(choice.track, _covered(choice)) if ways else None
    return {} if end is None else {"anchor": end}
