"""Hit rate over time: calls in steps of time, all together, by model and by session.

Takes `Columns`, gives points. Knows nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.report.html.columns import Columns, Session, Sums

MOST_STEPS, MOST_LINES = 120, 5
"""Points of a line, and lines of a chart; what is left over is one line more, `others`."""
STEPS = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400)
"""Seconds of a step: minutes to years; the first that needs no more than `MOST_STEPS`."""
WORDS = {
    60: "minute",
    300: "5 minutes",
    900: "15 minutes",
    3600: "hour",
    4 * 3600: "4 hours",
    86_400: "day",
    7 * 86_400: "week",
    28 * 86_400: "4 weeks",
    364 * 86_400: "52 weeks",
}
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Line:
    """One model, one session, or everything."""

    name: str
    """Whose."""
    points: tuple[tuple[int, Sums], ...]
    """(start of the step in seconds since 1970, the calls in it), in order; steps without calls are left out."""


@dataclass(frozen=True, slots=True)
class Series:
    """The lines of both charts."""

    step_seconds: int
    """Width of a step."""
    all: Line
    """Every call."""
    models: tuple[Line, ...]
    """The dearest models."""
    sessions: tuple[Line, ...]
    """The dearest sessions."""


def series(columns: Columns, ranked: Sequence[Session]) -> Series:
    """The lines; `ranked` are the sessions, the dearest first."""
    times = [at for session in ranked for at in (min(session.at), max(session.at))]
    span = max(times) - min(times) if times else 0.0
    step = next((step for step in STEPS if span / step <= MOST_STEPS), STEPS[-1])
    names = {session.name: session.name for session in ranked[:MOST_LINES]}
    models = _dearest_models(ranked)
    return Series(
        step,
        _line("all", ((session, place) for session in ranked for place in range(len(session))), step),
        _lines(
            ((models.get(name, OTHERS), session, place) for name, session, place in _by_model(ranked)),
            [*models, OTHERS],
            step,
        ),
        _lines(
            ((names.get(one.name, OTHERS), one, place) for one in ranked for place in range(len(one))),
            [*names, OTHERS],
            step,
        ),
    )


def _by_model(ranked: Sequence[Session]) -> Iterator[tuple[str, Session, int]]:
    for session in ranked:
        names = list(session.models)
        yield from ((names[index], session, place) for place, index in enumerate(session.model))


def _dearest_models(ranked: Sequence[Session]) -> dict[str, str]:
    sums: dict[str, Sums] = {}
    for name, session, place in _by_model(ranked):
        sums.setdefault(name, Sums()).add(session, place)
    dearest = sorted(sums, key=lambda name: (-sums[name].cost, -sums[name].prompt))
    return {name: name for name in dearest[:MOST_LINES]}


def _lines(calls: Iterator[tuple[str, Session, int]], names: Sequence[str], step: int) -> tuple[Line, ...]:
    found: dict[str, dict[int, Sums]] = {}
    for name, session, place in calls:
        bins = found.setdefault(name, {})
        start = int(session.at[place] // step) * step
        (bins.get(start) or bins.setdefault(start, Sums())).add(session, place)
    return tuple(
        Line(name, tuple(sorted(found[name].items(), key=lambda row: row[0])))
        for name in dict.fromkeys(names)
        if name in found
    )


def _line(name: str, calls: Iterator[tuple[Session, int]], step: int) -> Line:
    lines = _lines(((name, session, place) for session, place in calls), [name], step)
    return lines[0] if lines else Line(name, ())


def as_json(found: Series) -> dict[str, Json]:
    """What the script draws: `[time, hit rate, input tokens, dollars, calls]` a point."""
    return {
        "step": found.step_seconds,
        "word": WORDS[found.step_seconds],
        "models": [_json(line) for line in found.models],
        "sessions": [_json(line) for line in found.sessions],
    }


def _json(line: Line) -> dict[str, Json]:
    points = [[at, one.hit_rate, one.prompt, one.cost_usd, one.calls] for at, one in line.points]
    return {"name": line.name, "points": points}
