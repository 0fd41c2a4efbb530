"""A Summary on a terminal: what it comes to by project and cause, the hit rate call by call, and the dearest misses.

Takes a `Summary`, or the `Contents` of a report, prints tables; readable without colour, in forty columns, and where
only ASCII can be shown. Knows nothing of ledgers or importers. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row, Summary, dollars, spent
from contextkit.report.contents import (
    Contents,
    Loss,
    Part,
    count_text,
    dearest_losses,
    dearest_misses,
    dearest_parts,
    dearest_rows,
    dearest_sessions,
    lost_money,
    notes,
    project_names,
    rank,
    session_names,
    shares,
    sparkline,
    unknowns,
)
from contextkit.report.fixes import fix_of, provider_says
from contextkit.terminal import rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NARROW = 76
"""Columns; below, tables drop what can be read elsewhere."""
FEW_COLUMNS = 60
"""Columns; below, tables have the two or three that matter most."""
WIDE = 100
"""Columns from which on the misses name their sessions."""
MISSES = 10
"""Misses listed; the dearest ones where there are more."""
PARTS, ROWS, SESSIONS, GROUPS = 10, 10, 5, 30
"""Projects, models and lanes, sessions, and rows of a grouping that are listed; the dearest ones where there are more."""
LONG_NAMES = 24
"""Columns more that a terminal needs for the same numbers behind titles of sessions."""
FIXES_TOLD = 3
"""Causes, the dearest ones, whose fix is told in full."""
UNKNOWN = "unknown"
"""Where nobody said; never 0."""


def show(report: Summary | Contents, file: TextIO | None = None, *, n_misses: int = MISSES) -> None:
    """Print `report` to `file`, standard output by default: colour, width and character set are those of the terminal.

    `n_misses` are listed at most.
    """
    draw(_contents(report), rich_console(file=file, soft_wrap=False), n_misses)


def text(report: Summary | Contents, width: int = 100, *, n_misses: int = MISSES) -> str:
    """What `show` prints, without colour, in `width` columns."""
    page = StringIO()
    console = rich_console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    draw(_contents(report), console, n_misses)
    return page.getvalue()


def _contents(report: Summary | Contents) -> Contents:
    return report if isinstance(report, Contents) else Contents("", report)


def draw(contents: Contents, console: Console, n_misses: int = MISSES) -> None:
    """Print a report on a console of rich's: first what it comes to, then what it is made of."""
    summary, is_ascii = contents.summary, console.options.ascii_only
    if contents.title:
        _print_line(console, contents.title)
    if contents.is_partial:
        _print_line(console, "partial: reading was cut short, these are the figures of what was read", style="bold")
    _print_line(console, str(summary), style="bold")
    if not summary.calls:
        return
    if contents.counted:
        _print_line(console, f"counted: {contents.counted}")
    for line in notes(contents):
        _print_line(console, line)
    _parts(contents, console)
    _causes(contents, console)
    _undetermined(contents, console)
    _print_line(console, "")
    _print_line(console, f"hit rate  {sparkline(summary.hit_rates, console.width - 10, is_ascii=is_ascii)}")
    parts = "  ".join(f"{name} {share:.1%}" for name, share in shares(summary.usage))
    _print_line(console, f"input     {parts or UNKNOWN}")
    _totals(contents, console)
    if summary.losses and n_misses:
        _print(console, _missed(contents, console, n_misses))
    _explain(contents, console, n_misses)


def _parts(contents: Contents, console: Console) -> None:
    """A row for each project and agent program."""
    parts = contents.parts
    if len(parts) < 2 and not any(part.program for part in parts):
        return
    names = project_names(part.project for part in parts)
    columns = [column for column in _PARTS if console.width >= column[2]]
    has_program = console.width >= NARROW
    table = empty_table(
        ("project", False), *([("program", False)] if has_program else []), *((name, True) for name, _, _ in columns)
    )
    for part in dearest_parts(parts)[:PARTS]:
        project, program = names[part.project], part.program or UNKNOWN
        named = [project, program] if has_program else [f"{project} ({program})"]
        cells = [*named, *(number(part) for _, number, _ in columns)]
        table.add_row(*(plain_cell(text, console) for text in cells))
    _print(console, table)
    if len(parts) > PARTS:
        _print_line(console, f"and {len(parts) - PARTS:,} more, less dear")


def _causes(contents: Contents, console: Console) -> None:
    """The misses by cause, the dearest first, and how the first few end."""
    ranked = dearest_losses(contents.summary)
    if not ranked:
        return
    columns = [column for column in _CAUSES if console.width >= column[2]]
    has_fix = console.width >= NARROW
    table = empty_table(
        ("cause", False), *((name, True) for name, _, _ in columns), *([("fix", False)] if has_fix else [])
    )
    for loss in ranked:
        fix = [fix_of(loss.cause).short] if has_fix else []
        cells = [loss.cause, *(number(loss) for _, number, _ in columns), *fix]
        table.add_row(*(plain_cell(text, console) for text in cells))
    _print(console, table)
    for loss in [loss for loss in ranked if fix_of(loss.cause).saves][:FIXES_TOLD]:
        _print_line(console, f"{loss.cause}: {fix_of(loss.cause).text}")


def _undetermined(contents: Contents, console: Console) -> None:
    """What the figures leave out."""
    lines = unknowns(contents)
    if lines:
        _print_line(console, "")
        _print_line(console, "cannot be determined:")
    for line in lines:
        _print_line(console, f"- {line}")


def _print_line(console: Console, line: str, style: str = "") -> None:
    console.print(_plain(line, console), style=style, markup=False)


def plain_cell(line: str, console: Console) -> Text:
    """Text for a cell of a table, `line` as it stands: a name in brackets is no markup."""
    from rich.text import Text

    return Text(_plain(line, console))


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _plain(line: str, console: Console) -> str:
    """`line` in characters the terminal has, and none that it obeys: a newline in a name begins no line."""
    return sanitize_for(console.encoding, line, keep="")


def empty_table(*columns: tuple[str, bool]) -> Table:
    """An empty table of (heading, is a number)."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, is_number in columns:
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    return table


def _totals(contents: Contents, console: Console) -> None:
    """All calls, then a row a model, then the dearest sessions, or the agents of the only one, then the groups that
    were asked for.
    """
    summary, by = contents.summary, contents.by
    _rows(console, "", [summary.total], 1)
    sessions = session_names(contents)
    if len(summary.models) > 1 and by != "model":
        _rows(console, "model", summary.models, ROWS)
    if len(contents.session_rows) > 1:
        if by != "session":
            _rows(console, "session", dearest_sessions(contents), SESSIONS, sessions)
    elif len(summary.lanes) > 1:
        session = contents.session_rows[0].name if contents.session_rows else ""
        _rows(console, "agent", summary.lanes, ROWS, _agent_names(contents, session))
    if by:
        groups = summary.groups if by == "day" else sorted(summary.groups, key=rank)
        names = {"session": sessions, "project": project_names(row.name for row in summary.groups)}.get(by, {})
        _rows(console, by, groups, GROUPS, names)


def _agent_names(contents: Contents, session: str) -> dict[str, str]:
    """Lane → the name of its agent, with the lane where several have that name."""
    agents = {row.name: contents.agents.get(f"{session}/{row.name}", row.name) for row in contents.summary.lanes}
    n_with = Counter(agents.values())
    return {
        lane: agent if n_with[agent] == 1 or agent == lane else f"{agent} ({lane})" for lane, agent in agents.items()
    }


def _rows(
    console: Console, kind: str, rows: Sequence[Row], most: int, names: Mapping[str, str] = MappingProxyType({})
) -> None:
    """A table of the dearest rows, and how many it leaves out; `names` are shown for those of the rows."""
    columns = [column for column in _TOTALS if console.width >= column[2] + LONG_NAMES * (kind == "session")]
    table = empty_table((kind, False), *((heading, True) for heading, _, _ in columns))
    for row in dearest_rows(rows, most):
        name = names.get(row.name, row.name)
        table.add_row(plain_cell(name, console), *(plain_cell(cell(row), console) for _, cell, _ in columns))
    _print(console, table)
    if len(rows) > most:
        _print_line(console, f"and {len(rows) - most:,} more {kind}s, less dear")


def _rate(row: Row) -> str:
    return UNKNOWN if row.hit_rate is None else f"{row.hit_rate:.1%}"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else dollars(amount)


_PARTS: tuple[tuple[str, Callable[[Part], str], int], ...] = (
    ("calls", lambda part: _count(part.row.calls), FEW_COLUMNS),
    ("spent", lambda part: spent(part.row), 0),
    ("misses", lambda part: part.row.misses_text, NARROW),
    ("lost tokens", lambda part: part.lost_tokens_text, WIDE),
    ("they cost", lambda part: part.lost_text, 0),
)
_CAUSES: tuple[tuple[str, Callable[[Loss], str], int], ...] = (
    ("misses", lambda loss: _count(loss.n), 0),
    ("lost tokens", lambda loss: _count(loss.lost_tokens), FEW_COLUMNS),
    ("they cost", lost_money, 0),
)
_TOTALS: tuple[tuple[str, Callable[[Row], str], int], ...] = (
    ("calls", lambda row: _count(row.calls), 0),
    ("read", _rate, 0),
    ("input", lambda row: count_text(row, row.usage_or_unknown.prompt), NARROW),
    ("output", lambda row: count_text(row, row.usage_or_unknown.output), 100),
    ("spent", spent, 0),
    ("saved", lambda row: _money(row.saved_usd), 90),
    ("misses", lambda row: row.misses_text, FEW_COLUMNS),
)
"""(heading, cell, columns a terminal needs to show it), for projects, for causes, and for sums."""


def _missed(contents: Contents, console: Console, most: int) -> Table:
    is_wide, has_verdicts = console.width >= NARROW, bool(contents.verdicts)
    has_session = console.width >= WIDE and len(contents.session_rows) > 1
    names = session_names(contents) if has_session else {}
    middle = [*([("where", False)] if is_wide else []), *([("provider", False)] if is_wide and has_verdicts else [])]
    first = [("call", True), *([("session", False)] if has_session else []), ("cause", False)]
    table = empty_table(*first, *middle, ("lost tokens" if is_wide else "lost", True), ("cost", True))
    for miss in dearest_misses(contents.summary.losses, most):
        session = contents.sessions.get(miss.index, "")
        row = [_where(miss), *([_verdict(contents.verdicts, miss)] if has_verdicts else [])] if is_wide else []
        named = [names.get(session, session), miss.cause] if has_session else [miss.cause]
        cells = [plain_cell(words, console) for words in (*named, *row)]
        table.add_row(f"{miss.index + 1}", *cells, _count(miss.lost_tokens), _money(miss.cost_usd))
    return table


def _where(miss: Miss) -> str:
    return f"{miss.where} (assumed)" if miss.basis == "assumed" else miss.where


def _verdict(verdicts: Mapping[int, str], miss: Miss) -> str:
    """The provider's own verdict beside our cause."""
    return provider_says(miss.cause, verdicts.get(miss.index, ""))


def _explain(contents: Contents, console: Console, most: int) -> None:
    """What the table leaves out."""
    lost, free = (
        contents.summary.losses,
        Counter(miss.cause for miss in contents.summary.misses if not miss.lost_tokens),
    )
    if 0 < most < len(lost):
        _print_line(console, f"and {len(lost) - most:,} more, smaller ones")
    if console.width < NARROW:
        for miss in dearest_misses(lost, most):
            cells = _verdict(contents.verdicts, miss)
            _print_line(console, f"{miss.index + 1}: {_where(miss)}{f'; provider {cells}' if cells else ''}")
    if free:
        _print_line(console, "")
        _print_line(console, f"lost nothing, so not listed: {', '.join(f'{n:,} {cause}' for cause, n in free.items())}")
