"""Replays recorded calls with something changed and adds up what each change saves.

Takes calls as they are judged and holds those of a conversation until it has ended; then it replays the conversation once
for each change that may matter to it. `contextkit report` and `contextkit whatif` print the same sums.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.ledger.calls import Record
from contextkit.ledger.misses import AnalyzedCall, analyzed_calls
from contextkit.ledger.verdict import Cause
from contextkit.models import Model
from contextkit.whatif.actions import actions, is_open
from contextkit.whatif.changes import CHANGES, COMPACT, CURES, LONGER, MAIN, SHORTER, SUB_AGENTS
from contextkit.whatif.replay import (
    AsItWas,
    Bill,
    Change,
    ReplayedCall,
    as_it_was,
    compacted_usd,
    has_lifetime_choice,
    replay,
    replayed_call,
    saved_usd,
)

MOST_LANES, MOST_CALLS = 64, 50_000
"""Conversations that are held, those used last; calls of one. What is too much is replayed as if it had ended."""
MOST_STARTS = 4_096
"""Calls whose start is remembered for those of other conversations that were compared with them."""
_MAIN_LANES = ("", "main")
SUMMED = "a row that adds up several calls"
LEAST_USD = 1e-9
"""A smaller difference is the rounding of sums."""
TOKENIZER_SPREAD = 0.2
"""Of nine models in ten the tokens of a text were within this share of what the model table gives; no more is known of a
model whose tokenizer is another."""


@dataclass(slots=True)
class Saving:
    """What one change saves in the conversations of one program."""

    change: str
    """Its name."""
    program: str = ""
    """The agent program; empty where the recording is of none."""
    agents: str = ""
    """Of a lifetime: the conversations that it is for, those of `sub-agents` or the `main` ones; empty for all."""
    usd: float = 0.0
    """Dollars, net: what the change itself costs is taken off."""
    best_usd: float = 0.0
    """The same if only those conversations were changed that it pays in, which is known afterwards only."""
    calls: int = 0
    """Calls whose misses are gone, pauses before which a compaction was made, or calls of the conversations with another
    lifetime."""
    conversations: int = 0
    """How many it changes."""
    sessions: set[str] = field(default_factory=set)
    """Their sessions."""
    projects: dict[str, float] = field(default_factory=dict)
    """Project → dollars saved there."""

    def add(self, lane: _Lane, usd: float, calls: int) -> None:
        """Add one conversation."""
        self.usd += usd
        self.best_usd += max(usd, 0.0)
        self.calls += calls
        self.conversations += 1
        self.sessions.add(lane.session)
        self.projects[lane.project] = self.projects.get(lane.project, 0.0) + usd


@dataclass(slots=True)
class Sums:
    """What was replayed of the conversations of one program."""

    usd: float = 0.0
    """What they cost, at list prices."""
    together_usd: float = 0.0
    """What all changes that are in the reader's hands save together: sub-agents and main conversations take the lifetime
    that is best for all of their kind, and each conversation the compaction that is."""
    error_usd: float = 0.0
    """What the calls would have cost by the rule of the cache, less what they did cost."""
    n_misses: int = 0
    """Misses that the rule does not explain: they happen again in each replay."""
    n_reads: int = 0
    """Reads that the rule does not explain: a prefix that somebody unseen wrote, or kept alive."""


@dataclass(slots=True)
class OtherModel:
    """What the calls would have cost with another model, at today's prices."""

    name: str
    """The model."""
    after_usd: float = 0.0
    """The bill."""
    low_usd: float = 0.0
    """The bill with a fifth fewer tokens, where the tokenizer is another."""
    high_usd: float = 0.0
    """The bill with a fifth more."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Everything."""

    calls: int
    """How many were recorded."""
    calls_with_price: int
    """How many have a bill and a price; only these are replayed."""
    why_not: tuple[tuple[str, int], ...]
    """Why the others are not, and how many, the most frequent first."""
    programs: tuple[tuple[str, Sums], ...]
    """Agent program → its sums."""
    savings: tuple[Saving, ...]
    """What saves or costs something, the most first."""
    models: tuple[OtherModel, ...] = ()
    """The other models that were named."""

    @property
    def recorded_usd(self) -> float:
        """Return what the replayed calls cost at list prices."""
        return math.fsum(sums.usd for _, sums in self.programs)

    @property
    def together_usd(self) -> float:
        """Return what all changes save together."""
        return math.fsum(sums.together_usd for _, sums in self.programs)

    @property
    def error_usd(self) -> float:
        """Return what the calls would have cost by the rules of the caches, less what they did cost."""
        return math.fsum(sums.error_usd for _, sums in self.programs)

    def error_of(self, program: str) -> float:
        """Return the same of one program."""
        return next((abs(sums.error_usd) for name, sums in self.programs if name == program), 0.0)


def what_if_json(found: WhatIf) -> dict[str, Json]:
    """Return what a replay found as JSON."""
    return {
        "format": 1,
        "calls": found.calls,
        "calls_with_price": found.calls_with_price,
        "recorded_usd": found.recorded_usd,
        "together_usd": found.together_usd,
        "why_not": dict(found.why_not),
        "programs": [{"program": name or None, **asdict(sums)} for name, sums in found.programs],
        "savings": [
            {
                "change": one.change,
                "program": one.program or None,
                "agents": one.agents or None,
                "saves_usd": one.usd,
                "best_usd": one.best_usd,
                "calls": one.calls,
                "conversations": one.conversations,
                "sessions": sorted(one.sessions),
                "projects": one.projects,
            }
            for one in found.savings
        ],
        "models": [asdict(one) for one in found.models],
    }


@dataclass(slots=True)
class _Lane:
    """A conversation that is held."""

    session: str
    program: str
    project: str
    agents: str
    calls: list[ReplayedCall] = field(default_factory=list)
    bills: dict[Change, list[Bill]] = field(default_factory=dict)
    """What was replayed of it."""

    def replayed(self, change: Change, was: AsItWas) -> list[Bill]:
        """Return the bills with something changed, replayed once."""
        bills = self.bills.get(change)
        if bills is None:
            bills = self.bills[change] = replay(self.calls, change, was)
        return bills


class Replays:
    """Takes calls one by one; `result` has the sums of those whose conversation is over."""

    def __init__(self, changes: Sequence[str] = CHANGES, models: Sequence[Model] = ()) -> None:
        """Raises `UsageError` for a change there is not."""
        unknown = next((name for name in changes if name not in CHANGES), None)
        if unknown is not None:
            raise UsageError(
                f"{unknown!r} is no change: use one of {', '.join(CHANGES)}, or name a model for its prices"
            )
        self._changes = changes
        self._models = [(model, OtherModel(model.name)) for model in models]
        self._lanes: OrderedDict[tuple[str, str], _Lane] = OrderedDict()
        self._starts: OrderedDict[str, float] = OrderedDict()
        self._savings: dict[tuple[str, str, str], Saving] = {}
        self._chosen: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        """Agent program, kind of conversation → what all changes save, by the lifetime that is chosen."""
        self._sums: defaultdict[str, Sums] = defaultdict(Sums)
        self._why_not: Counter[str] = Counter()
        self._counts = Counter[str]()

    def add(self, analyzed: AnalyzedCall) -> None:
        """Add the next call."""
        call, verdict = analyzed.call, analyzed.verdict
        self._counts["calls"] += 1
        earlier_at = self._starts.get(verdict.earlier_id) if verdict is not None and verdict.earlier_id else None
        if verdict is not None and verdict.shared is not None:
            self._starts[call.id] = call.at
            if len(self._starts) > MOST_STARTS:
                self._starts.popitem(last=False)
        replayed = SUMMED if analyzed.is_sum else replayed_call(analyzed, earlier_at)
        if isinstance(replayed, str):
            self._why_not[replayed] += 1
            return
        self._counts["priced"] += 1
        key = call.session, call.lane
        lane = self._lanes.pop(key, None)
        if lane is None or len(lane.calls) >= MOST_CALLS:
            if lane is not None:
                self._fold(lane)
            lane = _Lane(
                call.session, analyzed.program, analyzed.project, MAIN if call.lane in _MAIN_LANES else SUB_AGENTS
            )
        self._lanes[key] = lane
        lane.calls.append(replayed)
        if len(self._lanes) > MOST_LANES:
            self._fold(self._lanes.popitem(last=False)[1])

    def result(self) -> WhatIf:
        """Replay what is still held and return all sums."""
        while self._lanes:
            self._fold(self._lanes.popitem(last=False)[1])
        for sums in self._sums.values():
            sums.together_usd = 0.0
        for (program, _), together in self._chosen.items():
            self._sums[program].together_usd += max(together.values())
        savings = sorted(self._savings.values(), key=lambda one: (-one.usd, one.change, one.program))
        return WhatIf(
            self._counts["calls"],
            self._counts["priced"],
            tuple(self._why_not.most_common()),
            tuple(sorted(self._sums.items(), key=lambda item: -item[1].usd)),
            tuple(one for one in savings if abs(one.usd) > LEAST_USD),
            tuple(other for _, other in self._models),
        )

    def _fold(self, lane: _Lane) -> None:
        """Replay a conversation that is over."""
        calls, sums, was = lane.calls, self._sums[lane.program], as_it_was(lane.calls)
        sums.usd += math.fsum(call.usd for call in calls)
        sums.error_usd += was.error_usd
        sums.n_misses += was.n_misses
        sums.n_reads += sum(was.seeded) - sum(was.unexplained)
        cures, lifetimes = dict(self._cured(lane, was)), dict(self._lifetimes(lane, was))
        compacted, n_pauses = self._compacted(lane, [call.bill for call in calls])
        if n_pauses:
            self._saving(COMPACT, lane).add(lane, compacted, n_pauses)
        has_pauses = bool(n_pauses) and is_open(COMPACT, lane.program)
        together = self._chosen[lane.program, lane.agents]
        for name, usd in self._together(lane, was, cures, lifetimes, has_pauses=has_pauses).items():
            together[name] = together.get(name, 0.0) + usd
        for model, other in self._models:
            _add_model(model, other, calls)

    def _saving(self, change: str, lane: _Lane) -> Saving:
        key = change, lane.program, lane.agents if change in (LONGER, SHORTER) else ""
        return self._savings.get(key) or self._savings.setdefault(key, Saving(*key))

    def _compacted(self, lane: _Lane, bills: Sequence[Bill]) -> tuple[float, int]:
        """Return what compactions before pauses save of these bills, and how many there are."""
        if COMPACT not in self._changes:
            return 0.0, 0
        step = actions()[COMPACT].step_for(lane.program)
        return compacted_usd(lane.calls, bills, is_cached=step is None or step.is_prefix_shared)

    def _cured(self, lane: _Lane, was: AsItWas) -> Iterator[tuple[str, float]]:
        """Yield what each change by causes saves in a conversation, where it changes anything."""
        causes = {cause for call in lane.calls for cause in call.lost}
        is_unmarked = any(call.is_unmarked for call in lane.calls)
        for name, ended in CURES.items():
            if name not in self._changes or not (ended & causes or (is_unmarked and "no_breakpoint" in ended)):
                continue
            usd = saved_usd(lane.calls, lane.replayed(Change(ended), was))
            n_calls = sum(1 for call in lane.calls if ended & call.lost.keys())
            self._saving(name, lane).add(lane, usd, n_calls)
            yield name, usd

    def _lifetimes(self, lane: _Lane, was: AsItWas) -> Iterator[tuple[str, float]]:
        """Yield what another lifetime saves in a conversation, where it changes anything."""
        calls = lane.calls
        if not any(has_lifetime_choice(call.row) for call in calls):
            return
        can = {LONGER: any(call.bill[2] for call in calls), SHORTER: any(call.bill[3] for call in calls)}
        for name in (name for name in (LONGER, SHORTER) if name in self._changes and can[name]):
            usd = saved_usd(calls, lane.replayed(Change(is_long=name == LONGER), was))
            self._saving(name, lane).add(lane, usd, len(calls))
            yield name, usd

    def _together(
        self, lane: _Lane, was: AsItWas, cures: dict[str, float], lifetimes: dict[str, float], *, has_pauses: bool
    ) -> dict[str, float]:
        """Return what all changes save in a conversation together, by the lifetime that is chosen; "" is the recorded one.

        A change by causes that costs more than it saves is not made.
        """
        worth = [name for name, usd in cures.items() if usd > LEAST_USD and is_open(name, lane.program)]
        ended = frozenset[Cause]().union(*(CURES[name] for name in worth))
        saved: dict[str, float] = {}
        for name in ("", *(name for name in lifetimes if is_open(name, lane.program))):
            if not ended and not has_pauses:
                saved[name] = lifetimes.get(name, 0.0)
                continue
            bills = lane.replayed(Change(ended, name == LONGER if name else None), was)
            paused = self._compacted(lane, bills)[0] if has_pauses else 0.0
            saved[name] = saved_usd(lane.calls, bills) + paused
        return {name: saved.get(name, saved[""]) for name in ("", LONGER, SHORTER)}


def _add_model(model: Model, other: OtherModel, calls: Sequence[ReplayedCall]) -> None:
    """Add what a conversation would have cost with another model."""
    row = calls[0].row
    is_same = (row.tokenizer, row.bytes_per_token) == (model.tokenizer, model.bytes_per_token)
    scale = 1.0 if is_same else row.bytes_per_token / model.bytes_per_token
    bills = []
    for factor in (1.0,) if is_same else (1.0, 1 - TOKENIZER_SPREAD, 1 + TOKENIZER_SPREAD):
        others = [call.for_model(model, scale * factor) for call in calls]
        bills.append(
            math.fsum(
                call.usd_of(bill) for call, bill in zip(others, replay(others, Change(), as_it_was(calls)), strict=True)
            )
        )
    other.after_usd += bills[0]
    other.low_usd += min(bills)
    other.high_usd += max(bills)


def what_if(records: Iterable[Record], changes: Sequence[str] = CHANGES, models: Sequence[Model] = ()) -> WhatIf:
    """Replay `records` with each of `changes`, or with each of `models` in place of the recorded one.

    Raises `UsageError` for a change there is not, `UnknownModel` for a model without a price.
    """
    replays = Replays(changes, models)
    for analyzed in analyzed_calls(records):
        replays.add(analyzed)
    return replays.result()
