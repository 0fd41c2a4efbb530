"""The caches of sessions that are running: how long each stays warm, and what it costs once it is cold.

Takes judged calls one by one, gives the state of each lane and the last calls; draws them. A lifetime counts from the
start of the call that wrote or read the entry. rich is imported when something is drawn.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextkit import prices
from contextkit.cache.usage import Usage
from contextkit.errors import UnknownModel
from contextkit.ledger.cold import at_risk_usd, n_left
from contextkit.ledger.figures import Dollars, Share
from contextkit.ledger.misses import AnalyzedCall
from contextkit.models import Model, find_model, model_named
from contextkit.report.contents import Contents, session_names
from contextkit.report.tables import FEW_COLUMNS, NARROW, Column, Table
from contextkit.report.terminal import drawn, plain_cell

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST_LANES = 32
"""Lanes kept: those with the latest calls."""
LANES, CALLS = 8, 8
"""Lanes and last calls that are drawn."""
FORGOTTEN = 3600.0
"""Seconds after which a lane whose cache has run out is drawn no more."""


@dataclass(frozen=True, slots=True)
class WarmLane:
    """What the last billed call of a lane left in its cache."""

    session: str
    """Its session."""
    agent: str
    """Who makes its calls: `main`, a branch or a sub-agent."""
    model: str
    """The model of that call: another model has a cache of its own."""
    at: float
    """When the call started, seconds since 1970."""
    n_tokens: int
    """Tokens that the next call could read."""
    ttl_seconds: int
    """How long they stay, from `at` on: the longest lifetime that was written since the lane last lost its cache."""
    is_ttl_recorded: bool
    """Whether the bill names the lifetime; otherwise it is the model's default."""
    cold_usd: float | None
    """What the next call costs more once they are gone; None where the model has no price."""

    @property
    def expires_at(self) -> float:
        """When they go, seconds since 1970."""
        return self.at + self.ttl_seconds


class LiveCalls:
    """The lanes and the last calls; called with each call."""

    def __init__(self) -> None:
        self.lanes: OrderedDict[tuple[str, str], WarmLane] = OrderedDict()
        """(session, lane) → its state, the latest last."""
        self.last: deque[AnalyzedCall] = deque(maxlen=CALLS)
        """The last calls."""

    def __call__(self, analyzed: AnalyzedCall) -> None:
        """One more call."""
        self.last.append(analyzed)
        if analyzed.usage is None:
            return  # it may or may not have kept the cache warm
        key = analyzed.call.session, analyzed.call.lane
        self.lanes[key] = _warm(analyzed, self.lanes.get(key))
        self.lanes.move_to_end(key)
        if len(self.lanes) > MOST_LANES:
            self.lanes.popitem(last=False)

    def copied(self) -> LiveCalls:
        """Another one with the same state, that goes on by itself."""
        ahead = LiveCalls()
        ahead.lanes, ahead.last = self.lanes.copy(), self.last.copy()
        return ahead


def _warm(analyzed: AnalyzedCall, before: WarmLane | None) -> WarmLane:
    call, usage = analyzed.call, analyzed.usage or Usage()
    row = find_model(call.model) or model_named(call.model, call.provider)
    lifetimes = [ttl for ttl, n_tokens in usage.writes or () if n_tokens]
    is_lost = analyzed.miss is not None and analyzed.miss.is_loss
    if before is not None and before.is_ttl_recorded and before.model == call.model and not is_lost:
        lifetimes.append(before.ttl_seconds)
    ttl, is_recorded = max(lifetimes, default=row.default_ttl_seconds), bool(lifetimes)
    n_tokens = n_left(usage, row)
    cold = _cold_usd(analyzed, n_tokens, row, ttl)
    return WarmLane(call.session, analyzed.agent, call.model, call.at, n_tokens, ttl, is_recorded, cold)


def _cold_usd(analyzed: AnalyzedCall, n_tokens: int, row: Model, ttl_seconds: int) -> float | None:
    call = analyzed.call
    try:
        return at_risk_usd(
            Usage(fresh=0, read=n_tokens, writes={}, output=0),
            row,
            ttl_seconds,
            lambda usage: prices.cost_usd(call.provider, call.model, usage, call.at),
        )
    except UnknownModel:
        return None


def picture(contents: Contents, live: LiveCalls, console: Console, now: float) -> RenderableType:
    """What a live report shows at the second `now`: the sums so far, each cache's countdown, the last calls."""
    from rich.console import Group

    clock = time.strftime("%H:%M:%S", time.localtime(now))
    head = [f"live, {clock}; Ctrl-C ends with the whole report", contents.title, str(contents.summary), ""]
    names = session_names(contents)
    lanes = [lane for lane in reversed(live.lanes.values()) if now - lane.expires_at < FORGOTTEN]
    parts: list[RenderableType] = [plain_cell(line, console) for line in head]
    parts += [_lanes(lanes, names, console, now)] if lanes else [plain_cell("no cache is warm", console)]
    if len(lanes) > LANES:
        parts.append(plain_cell(f"and {len(lanes) - LANES} more", console))
    return Group(*parts, plain_cell("", console), _calls(live, names, console, now))


def _lanes(lanes: list[WarmLane], names: dict[str, str], console: Console, now: float) -> RenderableType:
    columns: tuple[Column[WarmLane], ...] = (
        Column("session", lambda lane: names.get(lane.session, lane.session), is_number=False),
        Column("agent", lambda lane: lane.agent, is_number=False, least=NARROW),
        Column("model", lambda lane: lane.model, is_number=False, least=NARROW),
        Column("cached", lambda lane: lane.n_tokens, least=FEW_COLUMNS),
        Column("goes cold", lambda lane: _countdown(lane, now)),
        Column("then costs", lambda lane: Dollars(lane.cold_usd)),
    )
    return drawn(Table("Warm caches", columns, lanes[:LANES]), console)


def _countdown(lane: WarmLane, now: float) -> str:
    """How long the entry stays, or that it has gone; `~` before a lifetime that no bill names."""
    seconds = int(lane.expires_at - now)
    if seconds <= 0:
        return "cold"
    hours, rest = divmod(seconds, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return clock if lane.is_ttl_recorded else f"~{clock}"


def _calls(live: LiveCalls, names: dict[str, str], console: Console, now: float) -> RenderableType:
    def session(one: AnalyzedCall) -> str:
        return names.get(one.call.session, one.call.session)

    columns: tuple[Column[AnalyzedCall], ...] = (
        Column("ago", lambda one: f"{max(0, int(now - one.call.at)):,} s"),
        Column("session", session, is_number=False, least=NARROW),
        Column("model", lambda one: one.call.model, is_number=False, least=NARROW),
        Column("input", lambda one: one.usage.prompt if one.usage else None),
        Column("read", lambda one: Share(one.hit_rate)),
        Column("spent", lambda one: Dollars(one.cost_usd)),
        Column("miss", lambda one: one.miss.cause if one.miss and one.miss.is_loss else "", is_number=False),
    )
    return drawn(Table("Last calls", columns, list(reversed(live.last))), console)
