"""The sections of the page, top to bottom: what was lost and how to end it, then the charts with their tables, then
where the money went.

Takes `Contents` and what is drawn, gives HTML, in which everything that came from a recording is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from contextkit.canonical import Json
from contextkit.ledger.figures import Count, Dollars, Share
from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row
from contextkit.report import tables
from contextkit.report.contents import Contents, Fault, Part, notes, total_loss, unknowns
from contextkit.report.html import icicle
from contextkit.report.html.charts import WORDS, Series, tree
from contextkit.report.html.columns import Session, Sums
from contextkit.report.html.markup import Html, coded, table_html
from contextkit.report.overview import avoidable
from contextkit.report.prefix_tree import PrefixTree
from contextkit.report.tables import Cell, Column, Table
from contextkit.terminal import sanitize_html

SESSIONS, ROWS, MISSES = 50, 40, 200
"""Rows of the tables: sessions, groups, misses; the dearest ones where there are more."""


def sections(
    contents: Contents,
    ranked: Sequence[Session],
    over_time: Series,
    waterfalls: Sequence[dict[str, Json]],
    prefixes: PrefixTree,
) -> Iterator[str]:
    """Yield each section; `ranked` are the sessions, the dearest first, `waterfalls` those of them that are drawn."""
    yield f"<header><h1>Prompt cache report</h1><p>{sanitize_html(contents.title)}</p>"
    if contents.is_partial:
        yield '<p class="warning">Partial: reading was cut short; these are the figures of what was read.</p>'
    counted = (
        f"<p>Counted: {sanitize_html(contents.counted)}.</p>" if contents.counted and contents.summary.calls else ""
    )
    why = "".join(f"<p>{sanitize_html(line)}</p>" for line in notes(contents))
    yield f"<p><strong>{sanitize_html(str(contents.summary))}</strong></p>{counted}{why}</header>\n"
    if not contents.summary.calls:
        return
    yield _tiles(contents)
    yield from _actions(contents)
    yield from _summary(contents)
    yield "<noscript><p>The charts need scripts, which this browser does not run; every number is in the tables.</p></noscript>\n"
    yield from _misses(contents)
    yield from icicle.section(prefixes)
    yield _waterfall(waterfalls, len(ranked))
    yield from _time(over_time)
    yield from _groups(contents)
    yield from _sessions(contents, ranked, {str(one["name"]) for one in waterfalls})
    yield f'<section id="tree" aria-labelledby="h-tree"><h2 id="h-tree">Where the money went</h2>\n{tree(ranked)}</section>\n'
    yield from _faults(contents)


def _tiles(contents: Contents) -> str:
    summary = contents.summary
    lost = Part("", "", summary.total, total_loss(summary.losses)).lost_usd
    tiles = (
        ("read from cache", Share(summary.hit_rate).spaced),
        ("spent", summary.total.spent),
        ("saved by the cache", Dollars(summary.saved_usd)),
        ("lost to misses", lost),
        ("calls", Count(summary.calls)),
    )
    return f'<dl class="tiles">{"".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)}</dl>\n'


def _summary(contents: Contents) -> Iterator[str]:
    """Yield what it comes to by project and program, and what nobody can tell."""
    parts = tables.by_project(contents, ROWS)
    if parts:
        yield '<section id="summary" aria-labelledby="h-summary"><h2 id="h-summary">By project and program</h2>\n'
        yield f"{table_html(parts, is_cards=True)}</section>\n"
    lines = unknowns(contents)
    if lines:
        yield '<section id="unknown" aria-labelledby="h-unknown"><h2 id="h-unknown">What cannot be determined</h2>\n<ul>'
        yield from (f"<li>{coded(line).text}</li>" for line in lines)
        yield "</ul></section>\n"


def _actions(contents: Contents) -> Iterator[str]:
    """Yield what the readers can do, with what the replay says that it saves."""
    table = tables.actions(contents, lambda row: Html(_breakable(row.step.source)))
    yield '<section id="actions" aria-labelledby="h-actions"><h2 id="h-actions">What to change</h2>\n'
    saved = avoidable(contents)
    yield f"<p><strong>Avoidable: {saved[0]} ({saved[1]})</strong></p>\n" if saved else ""
    if not table.rows:
        yield "<p>Nothing that a replay or a cause supports.</p></section>\n"
        return
    yield table_html(table, is_cards=True)
    yield (
        '<p class="note">An amount is what a replay of all calls with this one change saves, net; the line above is the replay with all of '
        "them. Advice without a replay has no amount. A figure behind \u00b1 is how far the replay of the calls as they were is from their "
        "bills, where that is more than the saving.</p></section>\n"
    )


def _breakable(source: str) -> str:
    """Return a source that a narrow cell breaks behind a slash, not within a word."""
    return sanitize_html(source.removeprefix("https://")).replace("/", "/<wbr>")


def _misses(contents: Contents) -> Iterator[str]:
    yield '<section id="misses" aria-labelledby="h-misses" tabindex="-1"><h2 id="h-misses">Misses</h2>\n'
    causes, listed = tables.causes(contents), tables.misses(contents, MISSES, _places(contents))
    if not causes.rows or not listed.rows:
        row = contents.summary.total
        text = "No call read clearly less than it could have"
        if row.has_unknown_misses:
            text = f"Unknown: {'no call says its usage' if row.has_no_usage else 'the host reports no reads'}"
        elif row.is_partial:
            text += " of those that say their usage"
        yield f"<p>{text}.</p></section>\n"
        return
    yield table_html(causes, is_cards=True)
    yield f"<details{' open' if len(listed.rows) <= 12 else ''}><summary>Each miss</summary>"
    yield f"{table_html(listed, is_cards=True)}</details></section>\n"


def _places(contents: Contents) -> Callable[[Miss], Cell]:
    """Return what draws the place of a miss, with both sides of the change where a body shows them."""

    def where(miss: Miss) -> Cell:
        evidence, both = tables.where_text(miss), contents.changed.get(miss.index)
        return Html(f"{sanitize_html(evidence)}{_quoted(both)}") if both else evidence

    return where


def _quoted(sides: tuple[str, str]) -> str:
    was, now = (f"<code>{sanitize_html(text)}</code>" if text else "nothing" for text in sides)
    return f'<span class="sides"><span>was {was}</span> <span>now {now}</span></span>'


def _waterfall(waterfalls: Sequence[dict[str, Json]], n_sessions: int) -> str:
    """Where the script draws one session; without it, a table says what each session read."""
    left = n_sessions - len(waterfalls)
    bound = (
        f" The {len(waterfalls)} dearest of {n_sessions:,} sessions can be drawn; all are in the sums." if left else ""
    )
    names = "".join(
        f'<option value="{i}">{sanitize_html(str(one["label"]))}: {Count(one["calls"])} calls, {Dollars(one["cost"])}</option>'
        for i, one in enumerate(waterfalls)
    )
    return (
        '<section id="waterfall" aria-labelledby="h-waterfall"><h2 id="h-waterfall">One session, call by call</h2>\n'
        f'<p class="note" id="waterfall-help">One bar a call: tokens read from cache, written to it, and fresh. A dashed frame is what '
        f"could have been read and was not. Arrow keys walk from call to call, M to the next miss, Shift+M to the one before.{bound}</p>\n"
        f'<div class="controls"><label>Session <select id="session">{names}</select></label> '
        '<label id="lane-label" hidden>Conversation <select id="lane"></select></label> '
        '<span><button type="button" id="narrower" aria-label="Narrower bars">\u2212</button> '
        '<button type="button" id="wider" aria-label="Wider bars">+</button></span></div>\n'
        '<ul class="legend" id="waterfall-legend"></ul><div class="chart" id="waterfall-chart"></div>'
        '<p class="told" id="waterfall-told" role="status"></p>\n'
        '<details id="turns"><summary>The same as a table</summary><div id="turns-table"></div></details></section>\n'
    )


def _time(over_time: Series) -> Iterator[str]:
    word = WORDS[over_time.step_seconds]
    yield (
        '<section id="time" aria-labelledby="h-time"><h2 id="h-time">Hit rate over time</h2>\n'
        f'<p class="note">Tokens read over all input tokens, one point for each {word} (UTC) with calls. '
        "Arrow keys walk from point to point.</p>\n"
        '<div class="controls"><label>A line for each <select id="lines"><option value="models">model</option>'
        '<option value="sessions">session</option></select></label></div>\n'
        '<ul class="legend" id="time-legend"></ul><div class="chart" id="time-chart"></div>'
        '<p class="told" id="time-told" role="status"></p>\n<details><summary>The same as a table</summary>'
    )
    columns: tuple[Column[tuple[int, Sums]], ...] = (
        Column("from (UTC)", lambda point: _clock(point[0]), is_number=False),
        Column("calls", lambda point: point[1].calls),
        Column("read", lambda point: Share(point[1].hit_rate), is_number=False),
        Column("input", lambda point: point[1].prompt, is_extra=True),
        Column("spent", lambda point: point[1].spent),
    )
    yield table_html(Table(f"Hit rate for each {word}", columns, list(over_time.all.points)))
    yield "</details></section>\n"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _groups(contents: Contents) -> Iterator[str]:
    groups = [("model", tables.sums("model", contents.summary.models, ROWS))]
    if contents.by not in ("", "model"):
        groups.append((contents.by, tables.by_group(contents, ROWS)))
    for kind, table in groups:
        yield f'<section aria-labelledby="h-by-{kind}"><h2 id="h-by-{kind}">By {kind}</h2>\n{table_html(table, is_cards=True)}</section>\n'


def _sessions(contents: Contents, ranked: Sequence[Session], names: set[str]) -> Iterator[str]:
    sums = {row.name: row for row in contents.session_rows}
    rows = [(session, sums[session.name]) for session in ranked[:SESSIONS]]
    columns: tuple[Column[tuple[Session, Row]], ...] = (
        Column("session", lambda row: _link(row[0], names), is_number=False),
        Column("project", lambda row: row[0].place, is_number=False, is_extra=True),
        Column("started (UTC)", lambda row: _clock(min(row[0].at)), is_number=False, is_extra=True),
        *(_of_session(column) for column in tables.SUMS if not column.is_extra),
    )
    more = f"and {len(ranked) - SESSIONS:,} more, less dear" if len(ranked) > SESSIONS else ""
    yield '<section id="sessions" aria-labelledby="h-sessions"><h2 id="h-sessions">Sessions</h2>\n'
    yield f"{table_html(Table('Sessions, the dearest first', columns, rows, more))}</section>\n"


def _of_session(column: Column[Row]) -> Column[tuple[Session, Row]]:
    own = {"spent": _spent, "misses": _n_losses}.get(column.heading)  # of the calls with a complete bill
    is_number = column.is_number and column.heading != "read"  # bars begin at the left

    def cell(row: tuple[Session, Row]) -> Cell:
        return own(row[0]) if own else column.cell(row[1])

    return Column(column.heading, cell, is_number=is_number, formats=column.formats)


def _spent(session: Session) -> Cell:
    return _sums_of(session).spent


def _n_losses(session: Session) -> Cell:
    return None if _sums_of(session).hit_rate is None else session.n_losses


def _sums_of(session: Session) -> Sums:
    sums = Sums()
    for place in range(len(session)):
        sums.add(session, place)
    return sums


def _link(session: Session, names: set[str]) -> Cell:
    """Return the name of a session, linked to its chart if it is drawn."""
    if session.name not in names:
        return session.label
    name, label = sanitize_html(session.name), sanitize_html(session.label).replace("/", "/<wbr>")
    return Html(f'<a href="#waterfall" data-session="{name}">{label}</a>')


def _faults(contents: Contents) -> Iterator[str]:
    if not contents.n_faults:
        return
    columns: tuple[Column[Fault], ...] = (
        Column("file", lambda fault: fault[0], is_number=False),
        Column("line", lambda fault: str(fault[1] or "")),
        Column("what", lambda fault: fault[2], is_number=False),
    )
    yield '<section aria-labelledby="h-faults"><h2 id="h-faults">What is wrong with the recordings</h2>'
    yield f"<p>{contents.n_faults:,} faults.</p>"
    yield table_html(Table("Faults, the first few of each kind", columns, contents.faults), is_cards=True)
    yield "</section>\n"
