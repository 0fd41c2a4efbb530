"""Computes the charts of the page: hit rate over time, cost by project and model, and the calls of single sessions.

Takes `Columns` and `Session`s, gives points, HTML and plain values for the page's script. The tree of costs shows the
most expensive branches of each level and sums the rest in one line; the number of calls a page holds is bounded, and
the
page states what is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from contextkit.canonical import Json
from contextkit.ledger.figures import Dollars, Share
from contextkit.report.contents import Contents
from contextkit.report.diagnosis import provider_says
from contextkit.report.html.columns import COUNTS, UNKNOWN, Columns, Session, Sums
from contextkit.report.html.markup import bar
from contextkit.report.tables import advice, where_text
from contextkit.terminal import sanitize_html

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
    names = {session.name: session.label for session in ranked[:MOST_LINES]}
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
            [*names.values(), OTHERS],
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
    sums: dict[str, dict[int, Sums]] = {}
    for name, session, place in calls:
        bins = sums.setdefault(name, {})
        start = int(session.at[place] // step) * step
        (bins.get(start) or bins.setdefault(start, Sums())).add(session, place)
    return tuple(
        Line(name, tuple(sorted(sums[name].items(), key=lambda row: row[0])))
        for name in dict.fromkeys(names)
        if name in sums
    )


def _line(name: str, calls: Iterator[tuple[Session, int]], step: int) -> Line:
    lines = _lines(((name, session, place) for session, place in calls), [name], step)
    return lines[0] if lines else Line(name, ())


def as_json(series: Series) -> dict[str, Json]:
    """What the script draws: `[time, hit rate, input tokens, dollars, calls]` a point."""
    return {
        "step": series.step_seconds,
        "word": WORDS[series.step_seconds],
        "models": [_json(line) for line in series.models],
        "sessions": [_json(line) for line in series.sessions],
    }


def _json(line: Line) -> dict[str, Json]:
    points = [[at, one.hit_rate, one.prompt, one.cost_usd, one.calls] for at, one in line.points]
    return {"name": line.name, "points": points}


MOST = (10, 8, 8, 5)
"""Branches shown of each level."""
LEVELS = ("project", "session", "lane", "model")


class _Node:
    __slots__ = ("branches", "sums")

    def __init__(self) -> None:
        self.sums = Sums()
        self.branches: dict[str, _Node] = {}

    @property
    def ranked(self) -> list[tuple[str, _Node]]:
        return sorted(
            self.branches.items(), key=lambda row: (-row[1].sums.cost, -row[1].sums.prompt, -row[1].sums.calls)
        )


def tree(sessions: Sequence[Session]) -> str:
    """The whole tree, as nested lists."""
    root = _Node()
    for session in sessions:
        for path, place in _paths(session):
            node = root
            node.sums.add(session, place)
            for name in path:
                node = node.branches.setdefault(name, _Node())
                node.sums.add(session, place)
    return f'<ul class="tree">{"".join(_branches(root, root.sums, 0))}</ul>\n'


def _paths(session: Session) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    lanes, models = session.lane_names, list(session.models)
    project = session.place or session.project or "no project named"
    for place, (lane, model) in enumerate(zip(session.lane, session.model, strict=True)):
        yield (project, session.label, lanes[lane], models[model]), place


def _branches(node: _Node, whole: Sums, level: int) -> Iterator[str]:
    ranked = node.ranked
    for name, branch in ranked[: MOST[level]]:
        line = _branch_line(LEVELS[level], name, branch.sums, whole)
        if level + 1 == len(LEVELS):
            yield f"<li>{line}</li>"
        else:
            is_open = " open" if level == 0 and len(ranked) <= 3 else ""
            below = "".join(_branches(branch, whole, level + 1))
            yield f"<li><details{is_open}><summary>{line}</summary><ul>{below}</ul></details></li>"
    left = ranked[MOST[level] :]
    if left:
        cost = sum(branch.sums.cost for _, branch in left)
        calls = sum(branch.sums.calls for _, branch in left)
        yield f"<li>and {len(left):,} more {LEVELS[level]}s: {calls:,} calls, {Dollars(cost)}</li>"


def _branch_line(kind: str, name: str, sums: Sums, whole: Sums) -> str:
    share = f"{bar(Share(sums.cost / whole.cost)).text} of all" if whole.cost and sums.has_cost else ""
    facts = f"{sums.calls:,} call{'' if sums.calls == 1 else 's'}, {Share(sums.hit_rate).spaced} read"
    paid = sums.spent
    return (
        f'<span class="name"><span class="kind">{kind}</span> {sanitize_html(name) or "(no name)"}</span> '
        f'<span class="cost">{paid}</span> <span class="facts">{share} {"· " if share else ""}{facts}</span>'
    )


MOST_SESSIONS, MOST_CALLS, MOST_MISSES = 12, 8_000, 2_000
"""Sessions, calls and misses that a page draws one by one; more would make a page of more than 2 MB."""


def drawn(ranked: Sequence[Session], contents: Contents) -> list[dict[str, Json]]:
    """The sessions that are drawn, the dearest first, of a longer one its last calls."""
    advised = advice(contents)
    return [_session(session, start, contents.changed, advised) for session, start in _fitting(ranked)]


def _fitting(ranked: Sequence[Session]) -> Iterator[tuple[Session, int]]:
    """(session, first call that is drawn), as many as there is room for; the dearest one always is."""
    calls, misses = MOST_CALLS, MOST_MISSES
    for place, session in enumerate(ranked[:MOST_SESSIONS]):
        start = max(0, len(session) - calls)
        missed = sorted(one for one in session.misses if one >= start)
        if len(missed) > misses:
            start = missed[-misses] if misses else len(session)
        if not place or not start:
            yield session, start
            calls -= len(session) - start
            misses -= min(len(missed), misses)


def _session(
    session: Session, start: int, changed: Mapping[int, tuple[str, str]], advised: Mapping[str, str]
) -> dict[str, Json]:
    misses = {place - start: _miss(session, place, changed, advised) for place in session.misses if place >= start}
    return {
        "name": session.name,
        "label": session.label,
        "project": session.place or session.project,
        "calls": len(session),
        "start": start,
        "cost": session.cost_usd,
        "at": [round(at, 1) for at in session.at[start:]],
        "usd": [None if isnan(cost) else round(cost, 6) for cost in session.cost[start:]],
        **{
            name: [_count_or_none(count) for count in column[start:]]
            for name, column in zip(COUNTS, session.counts, strict=True)
        },
        "lane": list(session.lane[start:]),
        "model": list(session.model[start:]),
        "lanes": session.lane_names,
        "models": list(session.models),
        "misses": {str(place): miss for place, miss in misses.items()},
    }


def _count_or_none(count: int) -> int | None:
    return None if count == UNKNOWN else count


def _miss(
    session: Session, place: int, changed: Mapping[int, tuple[str, str]], advised: Mapping[str, str]
) -> dict[str, Json]:
    miss, verdict = session.misses[place]
    return {
        "cause": miss.cause,
        "where": where_text(miss),
        "expected": miss.expected_tokens,
        "lost": miss.lost_tokens,
        "usd": miss.cost_usd,
        "provider": provider_says(miss.cause, verdict),
        "advice": advised.get(miss.cause, ""),
        **dict(zip(("was", "now"), changed.get(miss.index, ()), strict=False)),
    }
