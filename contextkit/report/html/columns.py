"""Stores the calls of a report for its page: a few numbers a call in flat arrays, so that a gigabyte of logs fits.

Takes judged calls one by one, gives `Session`s.
"""

from __future__ import annotations

from array import array
from math import isnan, nan

from contextkit.ledger.figures import Dollars
from contextkit.ledger.misses import AnalyzedCall, Miss
from contextkit.report.prefix_tree import PrefixTree

UNKNOWN = -1
"""A count nobody knows."""
COUNTS = ("read", "write", "fresh", "output")
"""Counters of a call, the order in which `Session.counts` holds them."""


class Session:
    """One conversation, a column a fact, a place a call."""

    __slots__ = (
        "agents",
        "at",
        "cost",
        "counts",
        "label",
        "lane",
        "lanes",
        "misses",
        "model",
        "models",
        "name",
        "place",
        "project",
    )

    def __init__(self, name: str) -> None:
        self.name, self.project = name, ""
        self.label, self.place = name, ""
        """What the page calls the session and its project."""
        self.at = array("d")
        self.cost = array("d")
        """Dollars; NaN for unknown."""
        self.counts = tuple(array("q") for _ in COUNTS)
        self.lane, self.model = array("l"), array("l")
        self.lanes: dict[str, int] = {}
        self.models: dict[str, int] = {}
        self.agents: dict[int, str] = {}
        """Lane → who it is."""
        self.misses: dict[int, tuple[Miss, str]] = {}
        """Call → its miss and what the provider said of it."""

    def __len__(self) -> int:
        return len(self.at)

    def add(self, analyzed: AnalyzedCall) -> None:
        """One more call."""
        call, usage = analyzed.call, analyzed.usage
        if analyzed.miss:
            self.misses[len(self.at)] = analyzed.miss, analyzed.diagnosis
        self.at.append(call.at)
        self.cost.append(nan if analyzed.cost_usd is None else analyzed.cost_usd)
        billed = (usage.read, usage.written, usage.fresh, usage.output) if usage else (None,) * 4
        for column, count in zip(self.counts, billed, strict=True):
            column.append(UNKNOWN if count is None else count)
        if analyzed.is_silent:
            self.counts[0][-1] = UNKNOWN
        self.lane.append(self.lanes.setdefault(call.lane, len(self.lanes)))
        self.model.append(self.models.setdefault(call.model, len(self.models)))
        self.agents[self.lane[-1]] = analyzed.agent
        self.project = analyzed.project or self.project

    @property
    def cost_usd(self) -> float | None:
        """What the calls with a price cost, None where none has one."""
        costs = [cost for cost in self.cost if not isnan(cost)]
        return sum(costs) if costs else None

    @property
    def lane_names(self) -> list[str]:
        """Return the name of each lane, behind that of its agent if it has another."""
        agents = (self.agents.get(i, name) for i, name in enumerate(self.lanes))
        return [name if agent == name else f"{agent} ({name})" for name, agent in zip(self.lanes, agents, strict=True)]

    @property
    def n_losses(self) -> int:
        """Calls that lost something."""
        return sum(miss.is_loss for miss, _ in self.misses.values())


class Columns:
    """Every session of a report; called with each call."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        """In order of appearance."""
        self.tree = PrefixTree()
        """All prompts."""

    def __call__(self, analyzed: AnalyzedCall) -> None:
        """One more call."""
        name = analyzed.call.session
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = Session(name)
        session.add(analyzed)
        self.tree(analyzed)

    def dearest(self) -> list[Session]:
        """The sessions, those that cost most first, then those with most calls."""
        ranked = [
            (-(session.cost_usd or 0.0), -len(session), place, session)
            for place, session in enumerate(self.sessions.values())
        ]
        return [session for *_, session in sorted(ranked, key=lambda row: row[:3])]


class Sums:
    """Calls added up: what a bar, a point or a line of a tree says."""

    __slots__ = ("calls", "cost", "has_cost", "is_lower_bound", "is_silent", "prompt", "read")

    def __init__(self) -> None:
        self.calls = self.read = self.prompt = 0
        self.cost, self.has_cost = 0.0, False
        self.is_lower_bound = False
        """Whether the cost leaves out calls that have tokens and no price."""
        self.is_silent = False
        """Whether there are calls of a host that reports no reads."""

    def add(self, session: Session, place: int) -> None:
        """One call of a session; a call whose bill is unknown counts as a call only."""
        read, write, fresh, _ = (column[place] for column in session.counts)
        self.calls += 1
        has_tokens = UNKNOWN not in (write, fresh)
        if has_tokens and read == UNKNOWN:
            self.is_silent = True
        elif has_tokens:
            self.read += read
            self.prompt += read + write + fresh
        cost = session.cost[place]
        if not isnan(cost):
            self.cost += cost
            self.has_cost = True
        elif has_tokens:
            self.is_lower_bound = True

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens, None where nothing is known."""
        return self.read / self.prompt if self.prompt and (self.read or not self.is_silent) else None

    @property
    def cost_usd(self) -> float | None:
        """Dollars, None where no call has a price."""
        return self.cost if self.has_cost else None

    @property
    def spent(self) -> Dollars:
        """Return `cost_usd`, a lower bound if it leaves something out."""
        return Dollars(self.cost_usd, self.is_lower_bound)
