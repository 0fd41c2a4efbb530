"""The sections of the page, top to bottom: what was lost and how to end it, then the charts with their tables, then
where the money went.

Takes `Contents` and what is drawn, gives HTML, in which everything that came from a recording is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from contextkit.canonical import Json
from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row
from contextkit.report.contents import (
    Contents,
    Loss,
    Part,
    count_text,
    dearest_losses,
    dearest_misses,
    dearest_parts,
    dearest_rows,
    notes,
    project_names,
    rank,
    unknowns,
)
from contextkit.report.fixes import fix_of, provider_says
from contextkit.report.html.charts import WORDS, Series, tree
from contextkit.report.html.columns import Session, Sides, Sums
from contextkit.report.html.markup import UNKNOWN, Cell, Column, Html, bar, coded, count, money, percent, table
from contextkit.report.html.savings import Saving
from contextkit.terminal import sanitize_html

SESSIONS, ROWS, MISSES = 50, 40, 200
"""Rows of the tables: sessions, groups, misses; the dearest ones where there are more."""


def sections(
    contents: Contents,
    ranked: Sequence[Session],
    over_time: Series,
    waterfalls: Sequence[dict[str, Json]],
    savings: Mapping[str, Saving],
    names: Mapping[str, str],
) -> Iterator[str]:
    """Each section in turn; `ranked` are the sessions, the dearest first, `waterfalls` those of them that are drawn,
    `names` what sessions are called.
    """
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
    yield from _summary(contents)
    yield "<noscript><p>The charts need scripts, which this browser does not run; every number is in the tables.</p></noscript>\n"
    yield from _misses(contents, ranked, savings, names)
    yield _waterfall(waterfalls, len(ranked))
    yield from _time(over_time)
    yield from _groups(contents, names)
    yield from _sessions(ranked, {str(one["name"]) for one in waterfalls})
    yield f'<section id="tree" aria-labelledby="h-tree"><h2 id="h-tree">Where the money went</h2>\n{tree(ranked)}</section>\n'
    yield from _faults(contents)


def _tiles(contents: Contents) -> str:
    summary = contents.summary
    costs = [miss.cost_usd for miss in summary.losses]
    lost = (
        sum(cost for cost in costs if cost is not None)
        if any(cost is not None for cost in costs) or not costs
        else None
    )
    is_lower_bound = summary.total.is_partial or None in costs
    paid = money(summary.cost_usd, is_lower_bound=summary.total.is_cost_lower_bound)
    tiles = (
        ("read from cache", percent(summary.hit_rate)),
        ("spent", paid),
        ("saved by the cache", money(summary.saved_usd)),
        ("lost to misses", money(None if summary.total.has_no_usage else lost, is_lower_bound=is_lower_bound)),
        ("calls", count(summary.calls)),
    )
    return f'<dl class="tiles">{"".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)}</dl>\n'


def _summary(contents: Contents) -> Iterator[str]:
    """What it comes to by project and program, and what nobody can tell."""
    parts = dearest_parts(contents.parts)
    if len(parts) > 1 or any(part.program for part in parts):
        projects = project_names(part.project for part in parts)
        columns = [Column("project"), Column("program"), Column("calls", True), Column("read"), Column("spent", True)]
        columns += [Column("misses", True), Column("lost tokens", True, True), Column("they cost", True)]
        yield '<section id="summary" aria-labelledby="h-summary"><h2 id="h-summary">By project and program</h2>\n'
        yield table("Calls by project and program", columns, (_part(part, projects) for part in parts[:ROWS]))
        yield f'<p class="note">and {len(parts) - ROWS:,} more, less dear.</p>' if len(parts) > ROWS else ""
        yield "</section>\n"
    lines = unknowns(contents)
    if lines:
        yield '<section id="unknown" aria-labelledby="h-unknown"><h2 id="h-unknown">What cannot be determined</h2>\n<ul>'
        yield from (f"<li>{coded(line).text}</li>" for line in lines)
        yield "</ul></section>\n"


def _part(part: Part, projects: Mapping[str, str]) -> Sequence[Cell]:
    row = part.row
    paid = money(row.cost_usd, is_lower_bound=row.is_cost_lower_bound)
    lost = row.misses_text, part.lost_tokens_text, part.lost_text
    return projects[part.project], part.program or UNKNOWN, count(row.calls), bar(row.hit_rate), paid, *lost


def _misses(
    contents: Contents, ranked: Sequence[Session], savings: Mapping[str, Saving], names: Mapping[str, str]
) -> Iterator[str]:
    lost = contents.summary.losses
    yield '<section id="misses" aria-labelledby="h-misses" tabindex="-1"><h2 id="h-misses">Misses and their fixes</h2>\n'
    if not lost:
        row = contents.summary.total
        text = "Unknown: no call says its usage" if row.has_no_usage else "No call read clearly less than it could have"
        yield f"<p>{text}{' of those that say their usage' if row.is_partial and not row.has_no_usage else ''}.</p></section>\n"
        return
    causes = [
        Column("cause"),
        Column("misses", True),
        Column("lost tokens", True),
        Column("they cost", True),
        Column("the fix saves", True),
        Column("fix"),
    ]
    rows_of_causes = (_cause(loss, savings.get(loss.cause)) for loss in dearest_losses(contents.summary))
    yield table("Misses by cause, with what to do", causes, rows_of_causes, is_cards=True)
    yield (
        '<p class="note"><strong>replayed</strong>: the sessions with such misses once more through the reference cache, with that one '
        "thing changed and paid for; in brackets the spread over what no record says (<code>contextkit whatif</code> tells more). "
        "<strong>by the bills</strong>: what the misses cost above reading, which a fix saves at most.</p>\n"
    )
    listed = dearest_misses(lost, MISSES)
    has_verdicts = any(contents.verdicts.get(miss.index) for miss in listed)
    columns = [Column("call", True), Column("session", is_extra=True), Column("cause"), Column("where")]
    columns += [Column("provider")] if has_verdicts else []
    columns += [Column("lost tokens", True), Column("cost", True), Column("fix")]
    yield f"<details{' open' if len(listed) <= 12 else ''}><summary>Each miss</summary>"
    sides = {
        session.misses[place][0].index: both
        for session in ranked
        for place, both in session.sides.items()
        if place in session.misses
    }
    rows = (_miss(contents, miss, has_verdicts, sides.get(miss.index), names) for miss in listed)
    yield table("Each miss with its place, its cost and its fix", columns, rows, is_cards=True)
    if len(lost) > len(listed):
        yield f'<p class="note">and {len(lost) - len(listed):,} more, smaller ones.</p>'
    yield "</details></section>\n"


def _cause(loss: Loss, saving: Saving | None) -> Sequence[Cell]:
    cost = money(loss.cost_usd, is_lower_bound=loss.is_lower_bound)
    fix = coded(fix_of(loss.cause).text)
    return loss.cause, count(loss.n), count(loss.lost_tokens), cost, _saved(loss, saving), fix


def _saved(loss: Loss, saving: Saving | None) -> Cell:
    """A replay's figure with its spread.

    Else what the misses cost, marked as such; nothing for a cause that nobody knows.
    """
    if saving is None and not fix_of(loss.cause).saves:
        return "unknown"
    if saving is None:
        return Html(f'up to {money(loss.cost_usd)} <span class="how">by the bills</span>')
    low, high = money(saving.low_usd), money(saving.high_usd)
    spread = f" ({low} to {high})" if low != high else ""
    return Html(f'{money(saving.usd)}{spread} <span class="how">replayed: {saving.fix}</span>')


def _miss(
    contents: Contents, miss: Miss, has_verdicts: bool, sides: Sides | None, names: Mapping[str, str]
) -> Sequence[Cell]:
    evidence = f"{miss.where} (assumed)" if miss.basis == "assumed" else miss.where
    where = Html(f"{sanitize_html(evidence)}{_quoted(sides)}") if sides else evidence
    verdict = [provider_says(miss.cause, contents.verdicts.get(miss.index, ""))] if has_verdicts else []
    session = contents.sessions.get(miss.index, "")
    return (
        f"{miss.index + 1}",
        names.get(session, session),
        miss.cause,
        where,
        *verdict,
        count(miss.lost_tokens),
        money(miss.cost_usd),
        fix_of(miss.cause).short,
    )


def _quoted(sides: Sides) -> str:
    was, now = (f"<code>{sanitize_html(text)}</code>" if text else "nothing" for text in sides)
    return f'<span class="sides"><span>was {was}</span> <span>now {now}</span></span>'


def _waterfall(waterfalls: Sequence[dict[str, Json]], n_sessions: int) -> str:
    """Where the script draws one session; without it, a table says what each session read."""
    left = n_sessions - len(waterfalls)
    bound = (
        f" The {len(waterfalls)} dearest of {n_sessions:,} sessions can be drawn; all are in the sums." if left else ""
    )
    names = "".join(
        f'<option value="{i}">{sanitize_html(str(one["label"]))}: {count(one["calls"])} calls, {money(one["cost"])}</option>'
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
    columns = [
        Column("from (UTC)"),
        Column("calls", True),
        Column("read"),
        Column("input", True, True),
        Column("spent", True),
    ]
    yield table(f"Hit rate for each {word}", columns, (_step(at, one) for at, one in over_time.all.points))
    yield "</details></section>\n"


def _step(at: int, one: Sums) -> Sequence[Cell]:
    start = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    return (
        start,
        count(one.calls),
        bar(one.hit_rate),
        count(one.prompt),
        money(one.cost_usd, is_lower_bound=one.is_lower_bound),
    )


def _groups(contents: Contents, names: Mapping[str, str]) -> Iterator[str]:
    by = contents.by
    kinds = [("model", contents.summary.models), *([(by, contents.summary.groups)] if by not in ("", "model") else [])]
    for kind, rows in kinds:
        listed = dearest_rows(rows if kind in ("day", "model") else sorted(rows, key=rank), ROWS)
        labels = {"session": names, "project": project_names(row.name for row in rows)}.get(kind, {})
        columns = [
            Column(kind),
            Column("calls", True),
            Column("read"),
            Column("input", True, True),
            Column("output", True, True),
        ]
        columns += [Column("spent", True), Column("saved", True, True), Column("misses", True)]
        yield f'<section aria-labelledby="h-by-{kind}"><h2 id="h-by-{kind}">By {kind}</h2>\n'
        yield table(f"Calls by {kind}", columns, (_group(row, labels.get(row.name, row.name)) for row in listed))
        yield f'<p class="note">and {len(rows) - len(listed):,} more.</p>' if len(rows) > len(listed) else ""
        yield "</section>\n"


def _group(row: Row, name: str) -> Sequence[Cell]:
    usage = row.usage_or_unknown
    tokens = count_text(row, usage.prompt), count_text(row, usage.output)
    paid = money(row.cost_usd, is_lower_bound=row.is_cost_lower_bound)
    return name, count(row.calls), bar(row.hit_rate), *tokens, paid, money(row.saved_usd), row.misses_text


def _sessions(ranked: Sequence[Session], names: set[str]) -> Iterator[str]:
    columns = [
        Column("session"),
        Column("project", is_extra=True),
        Column("started (UTC)", is_extra=True),
        Column("calls", True),
    ]
    columns += [Column("read"), Column("spent", True), Column("misses", True)]
    yield '<section id="sessions" aria-labelledby="h-sessions"><h2 id="h-sessions">Sessions</h2>\n'
    yield table("Sessions, the dearest first", columns, (_session(session, names) for session in ranked[:SESSIONS]))
    yield f'<p class="note">and {len(ranked) - SESSIONS:,} more, less dear.</p>' if len(ranked) > SESSIONS else ""
    yield "</section>\n"


def _session(session: Session, names: set[str]) -> Sequence[Cell]:
    sums = Sums()
    for place in range(len(session)):
        sums.add(session, place)
    name, label = sanitize_html(session.name), sanitize_html(session.label)
    link: Cell = (
        Html(f'<a href="#waterfall" data-session="{name}">{label}</a>') if session.name in names else session.label
    )
    started = datetime.fromtimestamp(min(session.at), UTC).strftime("%Y-%m-%d %H:%M")
    paid = money(sums.cost_usd, is_lower_bound=sums.is_lower_bound)
    misses = count(session.n_losses if sums.hit_rate is not None else None)
    return link, session.place, started, count(sums.calls), bar(sums.hit_rate), paid, misses


def _faults(contents: Contents) -> Iterator[str]:
    if not contents.n_faults:
        return
    yield '<section aria-labelledby="h-faults"><h2 id="h-faults">What is wrong with the recordings</h2>'
    yield f"<p>{contents.n_faults:,} faults.</p>"
    rows = ((file, str(line) if line else "", what) for file, line, what in contents.faults)
    yield table(
        "Faults, the first few of each kind",
        [Column("file"), Column("line", True), Column("what")],
        rows,
        is_cards=True,
    )
    yield "</section>\n"
