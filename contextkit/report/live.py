"""The caches of sessions that are running: how long each stays warm, what it costs once it is cold, the last calls.

Takes judged calls one by one; draws them. rich is imported when something is drawn.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from contextkit.ledger.figures import Dollars, Share
from contextkit.ledger.misses import AnalyzedCall
from contextkit.report.contents import Contents, session_names
from contextkit.report.status import WarmLane, countdown, warm_lane
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
        self.lanes[key] = warm_lane(analyzed, self.lanes.get(key))
        self.lanes.move_to_end(key)
        if len(self.lanes) > MOST_LANES:
            self.lanes.popitem(last=False)

    def copied(self) -> LiveCalls:
        """Another one with the same state, that goes on by itself."""
        ahead = LiveCalls()
        ahead.lanes, ahead.last = self.lanes.copy(), self.last.copy()
        return ahead


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
        Column("goes cold", lambda lane: countdown(lane.expires_at - now, is_recorded=lane.is_ttl_recorded)),
        Column("then costs", lambda lane: Dollars(lane.cold_usd)),
    )
    return drawn(Table("Warm caches", columns, lanes[:LANES]), console)


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
