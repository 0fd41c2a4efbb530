"""The tables of a report, once for every format: what a column shows of a row, and where it is shown.

A format (terminal, Markdown, page) gets a `Table` and draws its cells. A new figure is one `Column` here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row, dollars, spent
from contextkit.report.contents import (
    Contents,
    Loss,
    Part,
    count_text,
    dearest_losses,
    dearest_misses,
    dearest_parts,
    dearest_rows,
    lost_money,
    project_names,
    rank,
    session_names,
)
from contextkit.report.fixes import fix_of, provider_says

R = TypeVar("R")
Format = Literal["terminal", "markdown", "page"]
EVERYWHERE: tuple[Format, ...] = ("terminal", "markdown", "page")
NARROW, WIDE = 76, 100
"""Columns of a terminal: below, tables leave out what can be read elsewhere; from which on misses name their sessions."""
FEW_COLUMNS = 60
"""Columns; below, tables have the two or three columns that matter most."""
LONG_NAMES = 24
"""Columns more that a terminal needs for the same numbers behind titles of sessions."""
UNKNOWN = "unknown"
"""Stands for a value nobody knows; never 0."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of 1; a page draws it as a bar too."""

    of_one: float | None
    """None if it is unknown."""

    def __str__(self) -> str:
        """Format it in percent."""
        return UNKNOWN if self.of_one is None else f"{self.of_one:.1%}"


@dataclass(frozen=True, slots=True)
class Words:
    """Text of our own, in which backticks mark code; all other text may come from a recording."""

    text: str
    """The text."""

    def __str__(self) -> str:
        """Return the text without the marks."""
        return self.text.replace("`", "")


Cell = Any
"""A text, a `Share`, `Words`, or what only a page can draw; `str` gives its text."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: its heading, what it shows of a row, and where it is shown."""

    heading: str
    """Its name."""
    cell: Callable[[R], Cell]
    """What it shows of a row."""
    is_number: bool = True
    """Whether it is set right."""
    least: int = 0
    """Columns that a terminal needs to show it."""
    most: int | None = None
    """Columns from which on a terminal shows it no more; None if it always does. Other formats leave such a column out."""
    formats: tuple[Format, ...] = EVERYWHERE
    """Where it is shown."""
    is_extra: bool = False
    """Whether a page on a narrow screen leaves it out."""


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


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else dollars(amount)


# Sums
# ---------------------------------------------------------------------------------------------------------------------

SUMS: tuple[Column[Row], ...] = (
    Column("calls", lambda row: _count(row.calls)),
    Column("read", lambda row: Share(row.hit_rate)),
    Column("input", lambda row: count_text(row, row.usage_or_unknown.prompt), least=NARROW, is_extra=True),
    Column("output", lambda row: count_text(row, row.usage_or_unknown.output), least=WIDE, is_extra=True),
    Column("spent", spent),
    Column("saved", lambda row: _money(row.saved_usd), least=90, is_extra=True),
    Column("misses", lambda row: row.misses_text, least=FEW_COLUMNS),
)
"""What is shown of calls that were added up, whatever they were grouped by."""


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
    names = project_names(part.project for part in parts)

    def program(part: Part) -> str:
        return part.program or UNKNOWN

    columns: tuple[Column[Part], ...] = (
        Column("project", lambda part: f"{names[part.project]} ({program(part)})", is_number=False, most=NARROW),
        Column("project", lambda part: names[part.project], is_number=False, least=NARROW),
        Column("program", program, is_number=False, least=NARROW),
        Column("calls", lambda part: _count(part.row.calls), least=FEW_COLUMNS),
        Column("read", lambda part: Share(part.row.hit_rate), formats=("page",)),
        Column("spent", lambda part: spent(part.row)),
        Column("misses", lambda part: part.row.misses_text, least=NARROW),
        Column("lost tokens", lambda part: part.lost_tokens_text, least=WIDE, is_extra=True),
        Column("they cost", lambda part: part.lost_text),
    )
    return Table("Calls by project and program", columns, parts[:most], _more(len(parts), min(most, len(parts))))


# Misses
# ---------------------------------------------------------------------------------------------------------------------


def _up_to(loss: Loss) -> str:
    return lost_money(loss) if fix_of(loss).saves else UNKNOWN


def causes(contents: Contents, saves: Callable[[Loss], Cell] = _up_to) -> Table[Loss] | None:
    """Return the table of causes, the dearest first; None without a miss that lost something.

    `saves` gives what ending a cause saves; without it, what its misses cost at most.
    """
    ranked = dearest_losses(contents.summary)
    heading = "fixing it saves up to" if saves is _up_to else "the fix saves"
    columns: tuple[Column[Loss], ...] = (
        Column("cause", lambda loss: Words(f"`{loss.cause}`"), is_number=False),
        Column("misses", lambda loss: _count(loss.n)),
        Column("lost tokens", lambda loss: _count(loss.lost_tokens), least=FEW_COLUMNS),
        Column("they cost", lost_money),
        Column(heading, saves, formats=("markdown", "page")),
        Column("fix", lambda loss: fix_of(loss).short, is_number=False, least=NARROW, formats=("terminal",)),
        Column("fix", lambda loss: Words(fix_of(loss).text), is_number=False, formats=("markdown", "page")),
    )
    return Table("Misses by cause, with what to do", columns, ranked) if ranked else None


def where_text(miss: Miss) -> str:
    """Format the place and the evidence of a miss."""
    return f"{miss.where} (assumed)" if miss.basis == "assumed" else miss.where


def misses(contents: Contents, most: int, where: Callable[[Miss], Cell] = where_text) -> Table[Miss] | None:
    """Return the table of the misses that cost most, in the order of the calls; None without one.

    `where` draws the place of a miss.
    """
    lost = contents.summary.losses
    listed = dearest_misses(lost, most)
    if not listed:
        return None
    names, has_verdicts = session_names(contents), any(contents.verdicts.get(miss.index) for miss in listed)
    has_sessions = len(contents.session_rows) > 1

    def session(miss: Miss) -> str:
        name = contents.sessions.get(miss.index, "")
        return names.get(name, name)

    def verdict(miss: Miss) -> str:
        return provider_says(miss.cause, contents.verdicts.get(miss.index, ""))

    columns: tuple[Column[Miss], ...] = (
        Column("call", lambda miss: f"{miss.index + 1}"),
        *([Column("session", session, is_number=False, least=WIDE, is_extra=True)] if has_sessions else []),
        Column("cause", lambda miss: Words(f"`{miss.cause}`"), is_number=False),
        Column("where", where, is_number=False, least=NARROW),
        *([Column("provider", verdict, is_number=False, least=NARROW)] if has_verdicts else []),
        Column("lost tokens", lambda miss: _count(miss.lost_tokens), least=NARROW),
        Column("lost", lambda miss: _count(miss.lost_tokens), most=NARROW),
        Column("cost", lambda miss: _money(miss.cost_usd)),
        Column("fix", lambda miss: fix_of(miss).short, is_number=False, formats=("page",)),
    )
    more = _more(len(lost), len(listed), why="smaller ones")
    return Table("Each miss with its place, its cost and its fix", columns, listed, more)
