"""What every face of a report shows: the sums, the misses with whose they are and what the provider said, and how whole it all is.

Takes judged calls one by one, gives `Contents`. Knows nothing of terminals, pages or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from contextkit.ledger.judged import Judged
from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import MOST_MISSES, Row, Summary, Tally

Fault = tuple[str, int, str]
"""(file, line or 0, what is wrong with it)."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which calls a report counts; the others are still read, as what they left in the cache matters to those."""

    since: float | None = None
    """Calls that started at this second or later."""
    until: float | None = None
    """Calls that started before it."""
    session: str = ""
    """Calls of the session of this id, or whose id starts so."""

    def has(self, call: Judged) -> bool:
        """Whether a call counts."""
        at = call.exchange.at
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        return not self.session or call.exchange.session.startswith(self.session)


@dataclass(frozen=True, slots=True)
class Contents:
    """A report, whatever it is shown on."""

    title: str
    """What was read: a file's name, or how many files."""
    summary: Summary
    """The sums."""
    by: str = ""
    """What `Summary.groups` has a row of each; empty for nothing."""
    verdicts: Mapping[int, str] = field(default_factory=dict)
    """`Miss.index` → the provider's own diagnosis, where it gave one."""
    sessions: Mapping[int, str] = field(default_factory=dict)
    """`Miss.index` → whose call it was."""
    is_partial: bool = False
    """Whether reading was cut short by Ctrl-C."""
    faults: tuple[Fault, ...] = ()
    """What was wrong with the recordings, the first few of each kind."""
    n_faults: int = 0
    """How many there were in all."""
    n_left_out: int = 0
    """Calls that were read and not among those chosen."""


class Gathering:
    """Adds calls up for a report as they come."""

    __slots__ = ("_also", "_chosen", "_n_left_out", "_sessions", "_tally", "_verdicts", "by")

    def __init__(self, by: str = "", chosen: Chosen | None = None, also: Sequence[Callable[[Judged], None]] = ()) -> None:
        """`also` is shown each call that counts."""
        self.by = by
        self._tally, self._chosen, self._also = Tally(by), chosen or Chosen(), tuple(also)
        self._verdicts: dict[int, str] = {}
        self._sessions: dict[int, str] = {}
        self._n_left_out = 0

    def add(self, call: Judged) -> None:
        """One more call, if it is one of those chosen."""
        if not self._chosen.has(call):
            self._n_left_out += 1
            return
        self._tally.add(call)
        if call.miss:
            self._note(call.miss, call)
        for other in self._also:
            other(call)

    def _note(self, miss: Miss, call: Judged) -> None:
        """Whose miss it was; of misses that are in the report no more, as dearer ones came, nothing is kept."""
        self._sessions[miss.index] = call.exchange.session
        if call.verdict:
            self._verdicts[miss.index] = call.verdict
        if len(self._sessions) > 2 * MOST_MISSES:
            kept = {miss.index for miss in self._tally.summary().misses}
            self._sessions = {index: session for index, session in self._sessions.items() if index in kept}
            self._verdicts = {index: verdict for index, verdict in self._verdicts.items() if index in kept}

    def copied(self) -> Gathering:
        """Another one with the same sums, that goes on by itself and shows its calls to nobody."""
        ahead = Gathering(self.by, self._chosen)
        kept: dict[int, Any] = {id(miss): miss for miss in self._tally.summary().misses}  # they never change, and may be many
        ahead._tally = deepcopy(self._tally, kept)
        ahead._verdicts, ahead._sessions, ahead._n_left_out = dict(self._verdicts), dict(self._sessions), self._n_left_out
        return ahead

    def add_all(self, calls: Iterable[Judged]) -> None:
        """Each of them."""
        for call in calls:
            self.add(call)

    def contents(self, title: str, *, is_partial: bool = False, faults: Sequence[Fault] = (), n_faults: int = 0) -> Contents:
        """What was gathered so far."""
        return Contents(
            title, self._tally.summary(), self.by, self._verdicts, self._sessions, is_partial, tuple(faults), n_faults, self._n_left_out
        )  # fmt: skip


def dearest_misses(misses: Sequence[Miss], most: int) -> list[Miss]:
    """At most so many of them, those that cost or lost most, in the order they happened."""
    worst = sorted(misses, key=lambda miss: (-(miss.cost_usd or 0.0), -miss.lost_tokens))[:most]
    return sorted(worst, key=lambda miss: miss.index)


def dearest_rows(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of them, those that cost or sent most, in the order they came."""
    ranked = sorted(range(len(rows)), key=lambda i: (-(rows[i].cost_usd or 0.0), -(rows[i].usage.prompt or 0), -rows[i].calls))
    return [rows[i] for i in sorted(ranked[:most])]
