"""A report on a terminal: the first screen, and behind it the dearest misses or what the figures are made of.

Readable without colour, in forty columns, and where only ASCII can be shown. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal, TextIO

from contextkit.ledger.figures import UNKNOWN, Share
from contextkit.ledger.summary import Summary, dearest
from contextkit.report import tables
from contextkit.report.contents import (
    Contents,
    dearest_sessions,
    losses,
    notes,
    session_names,
    shares,
    sparkline,
    unknowns,
)
from contextkit.report.diagnosis import provider_says
from contextkit.report.overview import overview
from contextkit.report.tables import NARROW, Table, text_of
from contextkit.terminal import rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

MISSES = 30
"""Misses listed; the dearest ones where there are more."""
PARTS, ROWS, SESSIONS, GROUPS = 10, 10, 5, 30
"""Projects, models and lanes, sessions, and rows of a grouping that are listed; the dearest ones where there are more."""
MOST_COLUMNS = 100
"""Columns of a line of words; more are hard to read."""


def show(
    report: Summary | Contents, file: TextIO | None = None, *, has_misses: bool = False, is_verbose: bool = False
) -> None:
    """Print the first screen to `file`, standard output by default: colour, width and character set are those of the
    terminal.

    `has_misses` adds each miss, `is_verbose` what the figures are made of; a grouping that was asked for is always shown.
    """
    console = rich_console(file=file, soft_wrap=False)
    draw(_contents(report), console, has_misses=has_misses, is_verbose=is_verbose)


def text(report: Summary | Contents, width: int = 100, *, has_misses: bool = False, is_verbose: bool = False) -> str:
    """Return what `show` prints, without colour, in `width` columns."""
    contents = _contents(report)
    return printed(lambda console: draw(contents, console, has_misses=has_misses, is_verbose=is_verbose), width)


def _contents(report: Summary | Contents) -> Contents:
    return report if isinstance(report, Contents) else Contents("", report, by_program=tuple(losses(report)))


def draw(contents: Contents, console: Console, *, has_misses: bool = False, is_verbose: bool = False) -> None:
    """Print a report on a console of rich's: the first screen, then what was asked for."""
    if contents.title:
        print_line(console, contents.title)
    if contents.is_partial:
        print_line(console, "partial: reading was cut short, these are the figures of what was read", style="bold")
    if not contents.summary.calls:
        print_line(console, str(contents.summary))
        return
    for line in overview(contents, min(console.width, MOST_COLUMNS)):
        print_line(console, line)
    if contents.by:
        print_table(console, tables.by_group(contents, GROUPS))
    if has_misses:
        print_table(console, tables.causes(contents))
        print_table(console, tables.misses(contents, MISSES))
        _explain(contents, console, MISSES)
    if is_verbose:
        _details(contents, console)


def _details(contents: Contents, console: Console) -> None:
    """Print what the figures are made of, and what they leave out."""
    summary, is_ascii = contents.summary, console.options.ascii_only
    print_line(console, "")
    print_line(console, str(summary), style="bold")
    if contents.counted:
        print_line(console, f"counted: {contents.counted}")
    for line in notes(contents):
        print_line(console, line)
    print_table(console, tables.actions(contents))
    print_table(console, tables.by_project(contents, PARTS))
    print_table(console, tables.causes(contents))
    _undetermined(contents, console)
    print_line(console, "")
    print_line(console, f"hit rate  {sparkline(summary.hit_rates, console.width - 10, is_ascii=is_ascii)}")
    parts = "  ".join(f"{name} {Share(share)}" for name, share in shares(summary.total.usage_with_reads))
    print_line(console, f"input     {parts or UNKNOWN}")
    _totals(contents, console)


def _undetermined(contents: Contents, console: Console) -> None:
    """Print what the figures leave out."""
    lines = unknowns(contents)
    if lines:
        print_line(console, "")
        print_line(console, "cannot be determined:")
    for line in lines:
        print_line(console, f"- {line}")


def _totals(contents: Contents, console: Console) -> None:
    """Print all calls, then a row a model, then the dearest sessions, or the agents of the only one."""
    summary, by = contents.summary, contents.by
    print_table(console, tables.sums("", [summary.total], 1))
    if len(summary.models) > 1 and by != "model":
        print_table(console, tables.sums("model", summary.models, ROWS))
    if len(contents.session_rows) > 1:
        if by != "session":
            ranked = dearest_sessions(contents)
            print_table(console, tables.sums("session", ranked, SESSIONS, session_names(contents)))
    elif len(summary.lanes) > 1:
        print_table(console, tables.sums("agent", summary.lanes, ROWS, tables.agent_names(contents)))


def _explain(contents: Contents, console: Console, most: int) -> None:
    """Print what changed, what the table of misses leaves out in few columns, and the misses that lost nothing."""
    free = [*_unavoidable(contents.summary)]
    for miss in dearest(contents.summary.losses, most):
        verdict = provider_says(miss.cause, contents.verdicts.get(miss.index, ""))
        if console.width < NARROW:
            line = f"{miss.index + 1}: {tables.where_text(miss)}{f'; provider {verdict}' if verdict else ''}"
            print_line(console, line)
        if miss.index in contents.changed:
            was, now = contents.changed[miss.index]
            print_line(console, f"{miss.index + 1}: “{was}” became “{now}”")
    if free:
        print_line(console, "")
        print_line(console, f"lost nothing, so not listed: {', '.join(free)}")


def _unavoidable(summary: Summary) -> Iterator[str]:
    """Yield the causes of misses that lost nothing, each with the number of its calls and what they cost above reading:
    a start after a long pause has its price.
    """
    misses = [miss for miss in summary.misses if not miss.is_loss]
    for cause, n in Counter(miss.cause for miss in misses).items():
        cost = sum(miss.cost_usd or 0.0 for miss in misses if miss.cause == cause)
        yield f"{n:,} {cause}" + (f" (${cost:.2f})" if cost >= _LEAST_USD else "")


_LEAST_USD = 0.01
"""Smaller costs are not told."""


# Drawing
# ---------------------------------------------------------------------------------------------------------------------


def printed(draw: Callable[[Console], None], width: int) -> str:
    """Return what `draw` prints on a console of `width` columns, without colour."""
    page = StringIO()
    draw(rich_console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False))
    return page.getvalue()


def print_line(console: Console, line: str, style: str = "") -> None:
    """Print text in characters the terminal has."""
    console.print(_plain(line, console), style=style, markup=False)


def print_table(console: Console, table: Table[Any] | None) -> None:
    """Print a table with rows behind an empty line, and a line about the rows that were left out."""
    if table is not None and table.rows:
        console.print()
        console.print(drawn(table, console))
        if table.more:
            print_line(console, table.more)


def drawn(table: Table[Any], console: Console) -> RenderableType:
    """Return the columns of a table that the console has room for, as a table of rich's."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    visible = table.in_format("terminal", console.width)
    page = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in visible.columns:
        side: Literal["right", "left"] = "right" if column.is_number else "left"
        wraps = not column.is_number if column.wraps is None else column.wraps
        page.add_column(column.heading, justify=side, overflow="fold" if wraps else "ellipsis", no_wrap=not wraps)
    for cells in visible.cells():
        page.add_row(*(plain_cell(text_of(cell), console) for cell in cells))
    return page


def plain_cell(line: str, console: Console) -> Text:
    """Return text for a cell of a table, `line` as it stands: a name in brackets is no markup."""
    from rich.text import Text

    return Text(_plain(line, console))


def _plain(line: str, console: Console) -> str:
    """Return `line` in characters the terminal has, and none that it obeys: a newline in a name begins no line."""
    return sanitize_for(console.encoding, line, keep="")
