"""The best that marks can do: every set of at most four of twelve places at every call, over every history the law
allows.

A restatement of the cache's rules in a few lines, and a search that shares nothing with the planner. It knows what will
be sent, which the planner does not; gaps and the end it knows as the law, as the planner does. Of two live entries only
the longer is kept where every later call that could read the shorter can read it as well, and it lives as long: that
never makes the search dearer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from contextkit.cache.usage import Usage
from tests.prompt.planned.cost import price_of, unwritten
from tests.prompt.planned.sessions import Session

MOST_PLACES, MOST_MARKS, LOOKBACK = 12, 4, 20
SHORT, LONG = 300, 3600
Held = tuple[tuple[bytes, int, float], ...]
"""(digest, lifetime, seconds left) of each entry worth keeping."""


class TooManyStates(Exception):
    """The search has met more states than it may."""


class Oracle:
    """Least expected dollars of one session."""

    def __init__(
        self, session: Session, *, is_auto: bool = False, n_places: int = MOST_PLACES, most_states: int | None = None
    ) -> None:
        self.session, self.is_auto, self.n_places, self.most_states = session, is_auto, n_places, most_states
        self.price = lru_cache(maxsize=None)(price_of(session))
        self.at = [{digest: index for index, digest in enumerate(columns.digests)} for columns in session.prompts]
        self.places = [candidates(session, index, n_places) for index in range(len(session.calls))]
        self.known: dict[tuple[int, Held], float] = {}
        self.n_tried = 0
        self.tried: dict[int, list[tuple[tuple[int, ...], frozenset[int], tuple[tuple[int, int], ...]]]] = {}
        later = range(len(session.calls))
        self.readers = [
            {
                digest: frozenset(i for i in later if i >= index and digest in self.at[i])
                for columns in session.prompts
                for digest in columns.digests
            }
            for index in later
        ]

    def best(self) -> float:
        return self.cost(0, ())

    def cost(self, index: int, held: Held) -> float:
        key = (index, held)
        if key not in self.known:
            if self.most_states is not None and len(self.known) >= self.most_states:
                raise TooManyStates
            self.known[key] = min(bill + self.later(index, after) for after, bill in self.outcomes(index, held).items())
        return self.known[key]

    def later(self, index: int, held: Held) -> float:
        if index + 1 == len(self.session.calls):
            return 0.0
        law = self.session.law
        total = 0.0
        for share, gap in (one for one in law.gaps if one[0]):
            alive = tuple((digest, ttl, left - gap) for digest, ttl, left in held if left > gap)
            total += share * self.cost(index + 1, alive)
        return (1 - law.ends) * total

    def outcomes(self, index: int, held: Held) -> dict[Held, float]:
        """What each set of marks leaves → the least it costs to leave it."""
        columns, at, least = self.session.prompts[index], self.at[index], self.session.model.min_tokens
        live = sorted(((at[digest], digest, ttl, left) for digest, ttl, left in held if digest in at), reverse=True)
        elsewhere = [entry for entry in held if entry[0] not in at]
        long = {one[0] for one in live if one[2] == LONG}
        found: dict[Held, float] = {}
        tried = set()
        for marks, reach, useful in self.sets(index):
            self.n_tried += 1
            hit = next((one for one in live if one[0] in reach), None)
            ways = (
                self.lifetimes(marks, hit[0] if hit else -1, long) if self.is_auto else iter([(useful, marks[-1:], ())])
            )
            for kept, last, last_long in ways:
                if (kept, last, last_long, hit) in tried:
                    continue
                tried.add((kept, last, last_long, hit))
                read = columns.ends_tokens[hit[0]] if hit else 0
                end = columns.ends_tokens[last[0]] if last else 0
                end_long = columns.ends_tokens[last_long[0]] if last_long else 0
                usage = Usage(
                    columns.ends_tokens[-1] - max(read, end),
                    read,
                    max(end - max(read, end_long), 0),
                    max(end_long - read, 0),
                    0,
                )
                entries = {one[1]: (one[2], one[3]) for one in live}
                if hit:
                    entries[hit[1]] = (hit[2], float(hit[2]))
                for mark, ttl in kept:
                    if columns.ends_tokens[mark] >= least:
                        life = max(ttl, entries[columns.digests[mark]][0]) if columns.digests[mark] in entries else ttl
                        entries[columns.digests[mark]] = (life, float(life))
                after = self.pruned(index + 1, [*elsewhere, *((digest, *life) for digest, life in entries.items())])
                bill = self.price(usage if index + 1 < len(self.session.calls) else unwritten(usage)) or 0.0
                if bill < found.get(after, float("inf")):
                    found[after] = bill
        return found

    def sets(self, index: int) -> list[tuple[tuple[int, ...], frozenset[int], tuple[tuple[int, int], ...]]]:
        """Each set of marks, where it finds entries, and those of its marks that leave something a later call may need."""
        if index not in self.tried:
            columns, ends = self.session.prompts[index], self.ends(index)
            rows = {}
            for marks in sets_of(self.places[index], only_full=not self.is_auto):
                reach = frozenset(place for place in ends if any(self.reaches(index, mark, place) for mark in marks))
                left = self.pruned(index + 1, [(columns.digests[mark], SHORT, float(SHORT)) for mark in marks])
                useful = tuple((self.at[index][digest], SHORT) for digest, _, _ in left)
                rows[(marks if self.is_auto else marks[-1:], reach, useful)] = (
                    marks,
                    reach,
                    useful,
                )  # alike in bill and in what they leave
            self.tried[index] = list(rows.values())
        return self.tried[index]

    def ends(self, index: int) -> list[int]:
        """Places of this call at which an earlier one may have left an entry."""
        prompts, at = self.session.prompts, self.at[index]
        return sorted(
            {
                at[prompts[i].digests[place]]
                for i in range(index)
                for place in self.places[i]
                if prompts[i].digests[place] in at
            }
        )

    def lifetimes(
        self, marks: tuple[int, ...], hit: int, long: set[int]
    ) -> Iterator[tuple[tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]]]:
        """Every order of lifetimes, longer ones first.

        None makes a live short entry long for nothing, which nobody promises.
        """
        for n_long in range(len(marks) + 1):
            if all(mark > hit or mark in long for mark in marks[:n_long]):
                kept = tuple((mark, LONG if number < n_long else SHORT) for number, mark in enumerate(marks))
                yield kept, marks[-1:], marks[:n_long][-1:]

    def reaches(self, index: int, mark: int, place: int) -> bool:
        positions = self.session.prompts[index].positions
        return mark >= place and positions[mark] - positions[place] < LOOKBACK

    def pruned(self, index: int, entries: list[tuple[bytes, int, float]]) -> Held:
        """Entries that some later call can read, without those another makes needless."""
        if index == len(self.session.calls):
            return ()
        readers = self.readers[index]
        useful = [(readers[digest], digest, ttl, left) for digest, ttl, left in entries if readers[digest]]
        kept = []
        for calls, digest, ttl, left in useful:
            size = self.at[min(calls)][digest]
            if not any(
                calls <= others
                and other != digest
                and longer >= ttl
                and more >= left
                and self.at[min(calls)][other] > size
                for others, other, longer, more in useful
            ):
                kept.append((digest, ttl, left))
        return tuple(sorted(kept))


def sets_of(places: list[int], *, only_full: bool) -> Iterator[tuple[int, ...]]:
    """Every set of at most four.

    `only_full`: of those with the same last place only the largest; with one lifetime a mark below the last costs and
    takes nothing."""
    yield ()
    for number, last in enumerate(places):
        most = min(MOST_MARKS - 1, number)
        for size in range(most if only_full else 0, most + 1):
            for others in combinations(places[:number], size):
                yield (*others, last)


def candidates(session: Session, index: int, most: int) -> list[int]:
    """At most so many places of a call: its end, the ends of the calls before, tools and system, what calls share, and
    others between."""
    columns, call = session.prompts[index], session.calls[index]
    able = [
        place
        for place in range(len(columns))
        if columns.breakpoint_offsets[place] >= 0 and columns.ends_tokens[place] >= session.model.min_tokens
    ]
    found: list[int] = []

    def add(end: int) -> None:
        place = next((one for one in reversed(able) if one < end), None)
        if place is not None and place not in found and len(found) < most:
            found.append(place)

    for end in (len(columns), columns.level_ends[1], call.common, call.shared, call.previous, columns.level_ends[0]):
        add(end)
    for other in range(len(session.calls)):
        if other != index:
            both = session.prompts[other].digests
            add(
                next(
                    (i for i, (a, b) in enumerate(zip(both, columns.digests, strict=False)) if a != b),
                    min(len(both), len(columns)),
                )
            )
    step = max(len(able) // most, 1)
    for place in able[::-step]:
        add(place + 1)
    return sorted(found)
