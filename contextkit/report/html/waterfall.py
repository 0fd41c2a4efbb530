"""The calls of the dearest sessions, as the script of the page draws them: tokens read, written and fresh, and why a
call missed.

Takes sessions, gives plain values. How many calls a page holds is bounded, and what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from contextkit.canonical import Json
from contextkit.report.fixes import fix_of, provider_says
from contextkit.report.html.columns import COUNTS, UNKNOWN, Session

MOST_SESSIONS, MOST_CALLS = 12, 8_000
"""Sessions and calls that a page draws one by one."""


def drawn(ranked: Sequence[Session]) -> list[dict[str, Json]]:
    """The sessions that are drawn, the dearest first, of a longer one its last calls."""
    return [_session(session, start) for session, start in _fitting(ranked)]


def _fitting(ranked: Sequence[Session]) -> Iterator[tuple[Session, int]]:
    """(session, first call that is drawn), as many as there is room for; the dearest one always is."""
    room = MOST_CALLS
    for session in ranked[:MOST_SESSIONS]:
        if room == MOST_CALLS or len(session) <= room:
            start = max(0, len(session) - room)
            room -= len(session) - start
            yield session, start


def _session(session: Session, start: int) -> dict[str, Json]:
    lanes = [
        name if session.agents.get(i, name) == name else f"{session.agents[i]} ({name})"
        for i, name in enumerate(session.lanes)
    ]
    return {
        "name": session.name,
        "project": session.project,
        "calls": len(session),
        "start": start,
        "cost": session.cost_usd,
        "at": [round(at, 1) for at in session.at[start:]],
        "usd": [None if isnan(cost) else round(cost, 6) for cost in session.cost[start:]],
        **{
            name: [_known(count) for count in column[start:]]
            for name, column in zip(COUNTS, session.counts, strict=True)
        },
        "lane": list(session.lane[start:]),
        "model": list(session.model[start:]),
        "lanes": lanes,
        "models": list(session.models),
        "misses": {str(place - start): _miss(session, place) for place in session.misses if place >= start},
    }


def _known(count: int) -> int | None:
    return None if count == UNKNOWN else count


def _miss(session: Session, place: int) -> dict[str, Json]:
    miss, verdict = session.misses[place]
    assumed = "" if miss.certain or miss.cause == "unknown" else " (assumed)"
    return {
        "cause": miss.cause,
        "where": miss.where + assumed,
        "expected": miss.expected_tokens,
        "lost": miss.lost_tokens,
        "usd": miss.cost_usd,
        "provider": provider_says(miss.cause, verdict),
        "fix": fix_of(miss.cause).short,
        **dict(zip(("was", "now"), session.sides.get(place, ()), strict=False)),
    }
