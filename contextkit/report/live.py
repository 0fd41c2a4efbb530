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
from contextkit.ledger.misses import AnalyzedCall
from contextkit.ledger.summary import dollars
from contextkit.models import Model, find_model, model_named
from contextkit.report.contents import Contents, session_names
from contextkit.report.terminal import FEW_COLUMNS, NARROW, UNKNOWN, empty_table, plain_cell

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
    is_lost = analyzed.miss is not None and analyzed.miss.lost_tokens > 0
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
    is_wide = console.width >= NARROW
    wide = [("agent", False), ("model", False)] if is_wide else []
    size = [("cached", True)] if console.width >= FEW_COLUMNS else []
    table = empty_table(("session", False), *wide, *size, ("goes cold", True), ("then costs", True))
    for lane in lanes[:LANES]:
        middle = [lane.agent, lane.model] if is_wide else []
        left = _countdown(lane, now)
        cost = UNKNOWN if lane.cold_usd is None else dollars(lane.cold_usd)
        cached = [f"{lane.n_tokens:,}"] if size else []
        cells = [names.get(lane.session, lane.session), *middle, *cached, left, cost]
        table.add_row(*(plain_cell(text, console) for text in cells))
    return table


def _countdown(lane: WarmLane, now: float) -> str:
    """How long the entry stays, or that it has gone; `~` before a lifetime that no bill names."""
    seconds = int(lane.expires_at - now)
    if seconds <= 0:
        return "cold"
    hours, rest = divmod(seconds, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return clock if lane.is_ttl_recorded else f"~{clock}"


def _calls(live: LiveCalls, names: dict[str, str], console: Console, now: float) -> RenderableType:
    is_wide = console.width >= NARROW
    wide = [("session", False), ("model", False)] if is_wide else []
    table = empty_table(("ago", True), *wide, ("input", True), ("read", True), ("spent", True), ("miss", False))
    for analyzed in reversed(live.last):
        call, usage = analyzed.call, analyzed.usage
        middle = [names.get(call.session, call.session), call.model] if is_wide else []
        rate = UNKNOWN if usage is None or usage.hit_rate is None else f"{usage.hit_rate:.1%}"
        cells = [
            f"{max(0, int(now - call.at)):,} s",
            *middle,
            UNKNOWN if usage is None or usage.prompt is None else f"{usage.prompt:,}",
            rate,
            UNKNOWN if analyzed.cost_usd is None else dollars(analyzed.cost_usd),
            analyzed.miss.cause if analyzed.miss and analyzed.miss.lost_tokens else "",
        ]
        table.add_row(*(plain_cell(text, console) for text in cells))
    return table
