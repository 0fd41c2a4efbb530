"""A Summary on a terminal: totals, the hit rate call by call, and every miss with its cause and its price.

Takes a `Summary`, or the `Contents` of a report, prints tables; readable without colour, in forty columns, and where
only ASCII can be shown. Knows nothing of ledgers or importers. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row, Summary, dollars, spent
from contextkit.report.contents import Contents, dearest_misses, dearest_rows, notes, shares, sparkline, unknowns
from contextkit.report.fixes import provider_says
from contextkit.terminal import rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NARROW = 76
"""Columns; below, tables drop what can be read elsewhere."""
MOST_ROWS = 20
"""Misses listed in full; the dearest ones where there are more."""
ROWS, GROUPS = 10, 30
"""Models and lanes, and rows of a grouping, listed in full; the dearest ones where there are more."""
UNKNOWN = "unknown"
"""Where nobody said; never 0."""


def show(report: Summary | Contents, file: TextIO | None = None) -> None:
    """Print `report` to `file`, standard output by default: colour, width and character set are those of the terminal."""
    draw(_contents(report), rich_console(file=file, soft_wrap=False))


def text(report: Summary | Contents, width: int = 100) -> str:
    """What `show` prints, without colour, in `width` columns."""
    page = StringIO()
    console = rich_console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    draw(_contents(report), console)
    return page.getvalue()


def _contents(report: Summary | Contents) -> Contents:
    return report if isinstance(report, Contents) else Contents("", report)


def draw(contents: Contents, console: Console) -> None:
    """Print a report on a console of rich's."""
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
    for line in notes(summary):
        _print_line(console, line)
    _print_line(console, "")
    _print_line(console, f"hit rate  {sparkline(summary.hit_rates, console.width - 10, is_ascii=is_ascii)}")
    parts = "  ".join(f"{name} {share:.1%}" for name, share in shares(summary.usage))
    _print_line(console, f"input     {parts or UNKNOWN}")
    _totals(contents, console)
    if summary.losses:
        _print(console, _missed(contents, console))
    _explain(contents, console)


def _print_line(console: Console, line: str, style: str = "") -> None:
    console.print(_plain(line, console), style=style, markup=False)


def _cell(line: str, console: Console) -> Text:
    """`line` as it stands: a name in brackets is no markup."""
    from rich.text import Text

    return Text(_plain(line, console))


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _plain(line: str, console: Console) -> str:
    """`line` in characters the terminal has, and none that it obeys: a newline in a name begins no line."""
    return sanitize_for(console.encoding, line, keep="")


def _table(*columns: tuple[str, bool]) -> Table:
    """An empty table of (heading, is a number)."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, is_number in columns:
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    return table


def _totals(contents: Contents, console: Console) -> None:
    """All calls, then a row a model and a lane where there are several, then the groups that were asked for."""
    summary, by = contents.summary, contents.by
    _rows(console, "", [summary.total], 1)
    for kind, rows in (("model", summary.models), ("lane", summary.lanes)):
        if len(rows) > 1 and kind != by:
            _rows(console, kind, rows, ROWS)
    if by:
        _rows(console, by, summary.groups, GROUPS)


def _rows(console: Console, kind: str, rows: Sequence[Row], most: int) -> None:
    """A table of the dearest rows, and how many it leaves out."""
    columns = [column for column in _TOTALS if console.width >= column[2]]
    table = _table((kind, False), *((heading, True) for heading, _, _ in columns))
    for row in dearest_rows(rows, most):
        table.add_row(_cell(row.name, console), *(_cell(cell(row), console) for _, cell, _ in columns))
    _print(console, table)
    if len(rows) > most:
        _print_line(console, f"and {len(rows) - most:,} more {kind}s, less dear")


def _rate(row: Row) -> str:
    return UNKNOWN if row.hit_rate is None else f"{row.hit_rate:.1%}"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else dollars(amount)


_TOTALS: tuple[tuple[str, Callable[[Row], str], int], ...] = (
    ("calls", lambda row: _count(row.calls), 0),
    ("read", _rate, 0),
    ("input", lambda row: _count(row.usage.prompt if row.calls_with_usage else None), NARROW),
    ("output", lambda row: _count(row.usage.output if row.calls_with_usage else None), 100),
    ("spent", spent, 0),
    ("saved", lambda row: _money(row.saved_usd), 90),
    ("misses", lambda row: _count(row.n_misses), 0),
)
"""(heading, cell, columns a terminal needs to show it)."""


def _missed(contents: Contents, console: Console) -> Table:
    is_wide, has_verdicts = console.width >= NARROW, bool(contents.verdicts)
    middle = [*([("where", False)] if is_wide else []), *([("provider", False)] if is_wide and has_verdicts else [])]
    table = _table(
        ("call", True), ("cause", False), *middle, ("lost tokens" if is_wide else "lost", True), ("cost", True)
    )
    for miss in dearest_misses(contents.summary.losses, MOST_ROWS):
        row = [_where(miss), *([_verdict(contents.verdicts, miss)] if has_verdicts else [])] if is_wide else []
        cells = [_cell(words, console) for words in row]
        table.add_row(f"{miss.index + 1}", miss.cause, *cells, _count(miss.lost_tokens), _money(miss.cost_usd))
    return table


def _where(miss: Miss) -> str:
    return miss.where if miss.certain or miss.cause == "unknown" else f"{miss.where} (assumed)"


def _verdict(verdicts: Mapping[int, str], miss: Miss) -> str:
    """The provider's own verdict beside our cause."""
    return provider_says(miss.cause, verdicts.get(miss.index, ""))


def _explain(contents: Contents, console: Console) -> None:
    """What the table leaves out."""
    lost, free = (
        contents.summary.losses,
        Counter(miss.cause for miss in contents.summary.misses if not miss.lost_tokens),
    )
    if len(lost) > MOST_ROWS:
        _print_line(console, f"and {len(lost) - MOST_ROWS} more, smaller ones")
    if console.width < NARROW:
        for miss in dearest_misses(lost, MOST_ROWS):
            cells = _verdict(contents.verdicts, miss)
            _print_line(console, f"{miss.index + 1}: {_where(miss)}{f'; provider {cells}' if cells else ''}")
    for line in unknowns(contents):
        _print_line(console, "")
        _print_line(console, line)
    if free:
        _print_line(console, "")
        _print_line(console, f"lost nothing, so not listed: {', '.join(f'{n:,} {cause}' for cause, n in free.items())}")
