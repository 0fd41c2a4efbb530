"""The tables of a report, once for every format: what a column shows of a row, and where it is shown.

A format (terminal, Markdown, page, CSV, JSON) gets a `Table` and writes its cells. A new figure is one `Column` here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from math import isfinite
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from contextkit.canonical import Json
from contextkit.ledger.figures import UNKNOWN, Dollars, Figure, Share
from contextkit.ledger.misses import AnalyzedCall, Miss
from contextkit.ledger.summary import Row, dearest
from contextkit.report.contents import (
    Contents,
    Loss,
    Part,
    SessionFacts,
    dearest_losses,
    dearest_parts,
    dearest_rows,
    project_names,
    rank,
    session_names,
)
from contextkit.report.diagnosis import is_agreed, provider_says
from contextkit.report.overview import ActionRow, action_rows
from contextkit.whatif.actions import action_of

R = TypeVar("R")
Format = Literal["terminal", "markdown", "page", "csv", "json"]
READERS: tuple[Format, ...] = ("terminal", "markdown", "page")
"""The formats that people read: headings, and figures as text."""
PROGRAMS: tuple[Format, ...] = ("csv", "json")
"""The formats that programs read: names of fields, and plain numbers."""
CSV: tuple[Format, ...] = ("csv",)
JSON: tuple[Format, ...] = ("json",)
NARROW, WIDE = 76, 100
"""Columns of a terminal: below, tables leave out what can be read elsewhere; from which on misses name their sessions."""
FEW_COLUMNS = 60
"""Columns; below, tables have the two or three columns that matter most."""
LONG_NAMES = 24
"""Columns more that a terminal needs for the same numbers behind titles of sessions."""


@dataclass(frozen=True, slots=True)
class Words:
    """Text of our own, in which backticks mark code; all other text may come from a recording."""

    text: str
    """The text."""

    def __str__(self) -> str:
        """Return the text without the marks."""
        return self.text.replace("`", "")


Cell = Any
"""A text, a number or None, a `Figure`, `Words`, or what only a page can draw."""


def text_of(cell: Cell) -> str:
    """Format a cell for people.

    >>> text_of(1200), text_of(None), text_of(Dollars(0.5)), text_of("main")
    ('1,200', 'unknown', '$0.50', 'main')
    """
    return UNKNOWN if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def value_of(cell: Cell) -> Json:
    """Return a cell as programs take it.

    >>> value_of(1200), value_of(None), value_of(Dollars(0.5)), value_of(Words("run `make`"))
    (1200, None, 0.5, 'run `make`')
    """
    if isinstance(cell, Words):
        return cell.text
    value: Json = cell.value if isinstance(cell, Figure) else cell
    return value


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: its heading, what it shows of a row, and where it is shown."""

    heading: str
    """Its name."""
    cell: Callable[[R], Cell]
    """What it shows of a row."""
    field: str = ""
    """Its name in the formats that programs read; that of `heading` if empty."""
    is_number: bool = True
    """Whether it is set right."""
    least: int = 0
    """Columns that a terminal needs to show it."""
    most: int | None = None
    """Columns from which on a terminal shows it no more; None if it always does. Other formats leave such a column out."""
    formats: tuple[Format, ...] = READERS + PROGRAMS
    """Where it is shown."""
    is_extra: bool = False
    """Whether a page leaves it out on a narrow screen, and of its table of sessions."""
    wraps: bool | None = None
    """Whether a terminal may break its cells into lines; None for all but numbers."""

    @property
    def name(self) -> str:
        """Return its name for programs."""
        return self.field or self.heading


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """Columns, rows, and how many rows were left out."""

    name: str
    """What the rows are, for captions."""
    columns: tuple[Column[R], ...]
    """Left to right; the first names the row."""
    rows: Sequence[R]
    """Top to bottom."""
    more: str = ""
    """A line about the rows that were left out; empty for none."""

    def in_format(self, name: Format, width: int | None = None) -> Table[R]:
        """Return the table with the columns that the format `name` shows; `width` is that of a terminal."""
        columns = (column for column in self.columns if name in column.formats and _fits(column, width))
        return replace(self, columns=tuple(columns))

    def cells(self) -> Iterator[list[Cell]]:
        """Yield the cells of each row."""
        for row in self.rows:
            yield [column.cell(row) for column in self.columns]


def _fits(column: Column[Any], width: int | None) -> bool:
    if width is None:
        return column.most is None
    return column.least <= width and (column.most is None or width < column.most)


def _more(n_all: int, n_listed: int, kind: str = "", why: str = "less dear") -> str:
    return f"and {n_all - n_listed:,} more{f' {kind}s' if kind else ''}, {why}" if n_all > n_listed else ""


def _attributes(formats: tuple[Format, ...], *names: str, of: str = "") -> tuple[Column[Any], ...]:
    """Return columns for programs that show attributes under their names: those of a row, or of its attribute `of`, which
    may be None.
    """

    def column(name: str) -> Column[Any]:
        def cell(row: Any) -> Cell:
            owner = getattr(row, of) if of else row
            return None if owner is None else getattr(owner, name)

        return Column(name, cell, formats=formats)

    return tuple(map(column, names))


# Sums
# ---------------------------------------------------------------------------------------------------------------------


COUNTERS = ("read", "write_5m", "write_1h", "fresh", "output")
"""Counters of a usage that CSV shows."""


def _usage(row: Row) -> Json:
    usage = row.usage_or_unknown.to_json()
    usage.pop("service_tier", None)  # of one call, not of a sum
    return usage


SUMS: tuple[Column[Row], ...] = (
    Column("calls", attrgetter("calls")),
    Column("read", lambda row: Share(row.hit_rate), formats=READERS),
    *_attributes(PROGRAMS, "calls_with_usage", "calls_with_price"),
    Column("usage", _usage, formats=JSON),
    *_attributes(CSV, *COUNTERS, of="usage_or_unknown"),
    *_attributes(CSV, "hit_rate"),
    Column("input", lambda row: row.count(row.usage_or_unknown.prompt), least=NARROW, is_extra=True, formats=READERS),
    Column("output", lambda row: row.count(row.usage_or_unknown.output), least=WIDE, is_extra=True, formats=READERS),
    Column("spent", attrgetter("spent"), "cost_usd"),
    *_attributes(PROGRAMS, "cost_uncached_usd"),
    Column(
        "saved", lambda row: Dollars(row.saved_usd), "saved_usd", least=90, is_extra=True, formats=(*READERS, "csv")
    ),
    Column("misses", attrgetter("misses"), least=FEW_COLUMNS, formats=(*READERS, "csv")),
    Column("n_misses", attrgetter("misses"), formats=JSON),
    *_attributes(PROGRAMS, "list_cost_usd"),
    *_attributes(JSON, "calls_without_price", "calls_with_partial_cost"),
    Column("recorded", lambda row: asdict(row.recorded), formats=JSON),
    Column("placeholders", lambda row: asdict(row.placeholders), formats=JSON),
    Column("calls_recorded", attrgetter("recorded.calls"), formats=CSV),
    Column("recorded_usd", attrgetter("recorded.usd"), formats=CSV),
    Column("calls_with_placeholder_output", attrgetter("placeholders.calls"), formats=CSV),
    Column("placeholder_output_estimate", attrgetter("placeholders.tokens_estimated"), formats=CSV),
    *_attributes(JSON, "calls_refused", "calls_silent", "hit_rate", "input_to_output", "saved_usd"),
    Column("cost_is_lower_bound", attrgetter("is_cost_lower_bound"), formats=JSON),
)
"""What is shown of calls that were added up, whatever they were grouped by. Each format has its own order and names of
some fields, which stay; such a figure has several columns.
"""


def all_sums(name: str, rows: Sequence[Row], *more: Column[Row]) -> Table[Row]:
    """Return the table of all rows for a program; `name` is the field of their names, behind the sums stand `more`."""
    return Table(name, (Column(name, attrgetter("name")), *SUMS, *more), rows)


def all_sessions(contents: Contents) -> Table[Row]:
    """Return the table of all sessions for a program, named by their whole ids, with what is known of them."""

    def facts(row: Row) -> SessionFacts:
        return contents.about.get(row.name, SessionFacts())

    def started_at(row: Row) -> float | None:
        at = facts(row).started_at
        return at if isfinite(at) else None

    return all_sums(
        "name",
        contents.session_rows,
        Column("title", lambda row: facts(row).title or None),
        Column("program", lambda row: facts(row).program or None),
        Column("project", lambda row: facts(row).project or None),
        Column("started_at", started_at),
    )


def sums(
    kind: str, rows: Sequence[Row], most: int, names: Mapping[str, str] | None = None, total: Row | None = None
) -> Table[Row]:
    """Return the table of the dearest rows of one kind (`model`, `session`, …; empty for the total), shown by `names`;
    below several rows stands their `total`.
    """
    known = names or {}
    room = LONG_NAMES * (kind == "session")
    columns = (replace(column, least=column.least + room) if column.least else column for column in SUMS)
    listed = dearest_rows(rows, most)

    def name(row: Row) -> Cell:
        return Words("**all**") if row is total else known.get(row.name, row.name)

    first: Column[Row] = Column(kind, name, is_number=False)
    more = _more(len(rows), len(listed), kind)
    if total is not None and len(rows) > 1:
        listed = [*listed, total]
    return Table(f"Calls by {kind}", (first, *columns), listed, more)


def by_group(contents: Contents, most: int, total: Row | None = None) -> Table[Row]:
    """Return the table of the grouping that was asked for: days in their order, other groups the dearest first."""
    by, rows = contents.by, contents.summary.groups
    names: Mapping[str, str] = {}
    if by == "session":
        names = session_names(contents)
    elif by == "project":
        names = project_names(row.name for row in rows)
    return sums(by, rows if by == "day" else sorted(rows, key=rank), most, names, total)


def agent_names(contents: Contents) -> dict[str, str]:
    """Return lane → the name of its agent, with the lane where several agents have that name."""
    session = contents.session_rows[0].name if contents.session_rows else ""
    agents = {row.name: contents.agents.get(f"{session}/{row.name}", row.name) for row in contents.summary.lanes}
    n_with = Counter(agents.values())
    return {
        lane: agent if n_with[agent] == 1 or agent == lane else f"{agent} ({lane})" for lane, agent in agents.items()
    }


def by_project(contents: Contents, most: int) -> Table[Part] | None:
    """Return the table of projects and agent programs; None if there is one project and no program."""
    parts = dearest_parts(contents.parts)
    if len(parts) < 2 and not any(part.program for part in parts):
        return None
    return projects(parts[:most], _more(len(parts), min(most, len(parts))))


def projects(parts: Sequence[Part], more: str = "") -> Table[Part]:
    """Return the table of these projects and agent programs."""
    names = project_names(part.project for part in parts)

    def program(part: Part) -> str:
        return part.program or UNKNOWN

    columns: tuple[Column[Part], ...] = (
        Column("project", lambda part: f"{names[part.project]} ({program(part)})", is_number=False, most=NARROW),
        Column("project", lambda part: names[part.project], is_number=False, least=NARROW, formats=READERS),
        Column("program", program, is_number=False, least=NARROW, formats=READERS),
        Column("calls", attrgetter("row.calls"), least=FEW_COLUMNS, formats=READERS),
        Column("read", lambda part: Share(part.row.hit_rate), formats=("page",)),
        Column("spent", attrgetter("row.spent"), formats=READERS),
        Column("misses", attrgetter("row.misses"), least=NARROW, formats=READERS),
        Column("name", attrgetter("row.name"), formats=JSON),
        *(_of_part(column) for column in SUMS if "json" in column.formats),
        Column("project", lambda part: part.project or None, formats=JSON),
        Column("program", lambda part: part.program or None, formats=JSON),
        Column("lost tokens", attrgetter("lost_tokens"), "lost_tokens", least=WIDE, is_extra=True),
        Column("they cost", attrgetter("lost_usd"), "lost_usd"),
        Column("lost_usd_is_lower_bound", attrgetter("is_lost_lower_bound"), formats=JSON),
    )
    return Table("Calls by project and program", columns, parts, more)


def _of_part(column: Column[Row]) -> Column[Part]:
    return Column(column.name, lambda part: column.cell(part.row), formats=JSON)


# Misses
# ---------------------------------------------------------------------------------------------------------------------


def actions(contents: Contents, source: Callable[[ActionRow], Cell] = attrgetter("step.source")) -> Table[ActionRow]:
    """Return the table of what the readers can do, what saves most first; `source` draws where a step comes from."""
    columns: tuple[Column[ActionRow], ...] = (
        Column("what to change", lambda row: Words(row.title), is_number=False, formats=READERS),
        *_attributes(JSON, "name", "title", of="action"),
        Column("program", lambda row: row.program or None, formats=JSON),
        Column("saves", attrgetter("saves"), formats=READERS),
        Column("saves_usd", lambda row: row.saving.usd if row.saving else None, formats=JSON),
        Column("replay_error_usd", lambda row: row.error_usd if row.saving else None, formats=JSON),
        Column("in", attrgetter("where"), is_number=False, least=FEW_COLUMNS, formats=READERS),
        Column("agents", lambda row: row.saving.agents or None if row.saving else None, formats=JSON),
        Column("calls", lambda row: row.saving.calls if row.saving else None, formats=JSON),
        Column("conversations", lambda row: row.saving.conversations if row.saving else None, formats=JSON),
        Column("sessions", lambda row: sorted(row.saving.sessions) if row.saving else None, formats=JSON),
        Column(
            "how",
            lambda row: Words(row.how),
            is_number=False,
            least=NARROW,
            formats=READERS,
        ),
        Column("source", source, is_number=False, is_extra=True, formats=("page",)),
        Column("evidence", lambda row: row.evidence or None, formats=JSON),
        *_attributes(JSON, "reader", "source", "grade", of="step"),
        *_attributes(JSON, "text"),
        Column("date", lambda row: row.step.date.isoformat(), formats=JSON),
    )
    return Table("What to change", columns, action_rows(contents))


def advice(contents: Contents) -> dict[str, str]:
    """Return cause → what the report says to change against its misses, where it says anything."""
    return {cause: row.action.title for row in action_rows(contents) for cause in row.action.causes}


def causes(contents: Contents) -> Table[Loss]:
    """Return the table of causes, the dearest first."""
    advised = advice(contents)
    columns: tuple[Column[Loss], ...] = (
        Column("cause", lambda loss: Words(f"`{loss.cause}`"), is_number=False, formats=READERS),
        *_attributes(JSON, "cause"),
        Column("misses", attrgetter("n"), "n"),
        Column("lost tokens", attrgetter("lost_tokens"), "lost_tokens", least=FEW_COLUMNS),
        Column("they cost", attrgetter("cost"), "cost_usd"),
        *_attributes(JSON, "is_lower_bound"),
        Column(
            "what to change", lambda loss: advised.get(loss.cause, ""), is_number=False, least=NARROW, formats=READERS
        ),
        Column("action", _action_name, formats=JSON),
    )
    return Table("Misses by cause", columns, dearest_losses(contents.summary))


def _action_name(row: Loss | Miss) -> str | None:
    action = action_of(row.cause)
    return action.name if action else None


def where_text(miss: Miss) -> str:
    """Format the place and the evidence of a miss."""
    return f"{miss.where} (assumed)" if miss.basis == "assumed" else miss.where


def misses(contents: Contents, most: int | None = None, where: Callable[[Miss], Cell] = where_text) -> Table[Miss]:
    """Return the table of the `most` misses that cost most, in the order of the calls; without `most` of all, those that
    lost nothing too.

    `where` draws the place of a miss.
    """
    lost = contents.summary.losses
    listed = contents.summary.misses if most is None else dearest(lost, most)
    names, has_verdicts = session_names(contents), any(contents.verdicts.get(miss.index) for miss in listed)
    has_sessions, advised = len(contents.session_rows) > 1, advice(contents)

    def session(miss: Miss) -> str:
        name = contents.sessions.get(miss.index, "")
        return names.get(name, name)

    def verdict(miss: Miss) -> str:
        return contents.verdicts.get(miss.index, "")

    def provider(miss: Miss) -> str:
        return provider_says(miss.cause, verdict(miss))

    columns: tuple[Column[Miss], ...] = (
        *_attributes(JSON, *(field.name for field in fields(Miss))),
        Column("session", lambda miss: contents.sessions.get(miss.index), formats=JSON),
        Column("is_loss", attrgetter("is_loss"), formats=JSON),
        Column("call", lambda miss: f"{miss.index + 1}", formats=READERS),
        *(
            [Column("session", session, is_number=False, least=WIDE, is_extra=True, formats=READERS)]
            if has_sessions
            else []
        ),
        Column("cause", lambda miss: Words(f"`{miss.cause}`"), is_number=False, formats=READERS),
        Column("where", where, is_number=False, least=NARROW, formats=READERS),
        *([Column("provider", provider, is_number=False, least=NARROW, formats=READERS)] if has_verdicts else []),
        Column("lost tokens", attrgetter("lost_tokens"), least=NARROW, formats=READERS),
        Column("lost", attrgetter("lost_tokens"), most=NARROW, formats=READERS),
        Column("cost", lambda miss: Dollars(miss.cost_usd), formats=READERS),
        Column("what to change", lambda miss: advised.get(miss.cause, ""), is_number=False, formats=("page",)),
        Column("action", _action_name, formats=JSON),
        Column("verdict", lambda miss: verdict(miss) or None, formats=JSON),
        Column("is_agreed", lambda miss: is_agreed(miss.cause, verdict(miss)), formats=JSON),
    )
    return Table(
        "Each miss with its place and its cost",
        columns,
        listed,
        _more(len(lost), len(listed), why="smaller ones"),
    )


# Calls
# ---------------------------------------------------------------------------------------------------------------------


def time_text(at: float) -> str:
    """Format a time as ISO 8601 in UTC.

    >>> time_text(1775696615.96)
    '2026-04-09T01:03:35.960Z'
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


CALLS: tuple[Column[AnalyzedCall], ...] = (
    Column("call", lambda analyzed: analyzed.index + 1, formats=CSV),
    *_attributes(CSV, "id", "session", "lane", of="call"),
    *_attributes(CSV, "agent", "project"),
    Column("at", lambda analyzed: time_text(analyzed.call.at), formats=CSV),
    *_attributes(CSV, "provider", "model", of="call"),
    *_attributes(CSV, *COUNTERS, of="usage"),
    *_attributes(CSV, "cost_usd", "cost_uncached_usd"),
    *_attributes(CSV, "error", of="call"),
    *_attributes(CSV, "cause", "whose", "is_loss", "where", "expected_tokens", "lost_tokens", of="miss"),
    Column("lost_usd", lambda analyzed: analyzed.miss.cost_usd if analyzed.miss else None, formats=CSV),
    Column("verdict", lambda analyzed: analyzed.diagnosis, formats=CSV),
    *_attributes(CSV, "billed_usd", of="call"),
    *_attributes(CSV, "list_cost_usd"),
    *_attributes(CSV, "output_estimate", "account", "host", of="call"),
)
"""What is shown of a single call, which only CSV lists."""
