"""A report on a terminal: what it comes to by project and cause, the hit rate call by call, and the dearest misses.

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
    dearest_losses,
    dearest_sessions,
    notes,
    session_names,
    shares,
    sparkline,
    unknowns,
)
from contextkit.report.fixes import fix_of, provider_says
from contextkit.report.tables import NARROW, Table, text_of
from contextkit.terminal import rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

MISSES = 10
"""Misses listed; the dearest ones where there are more."""
PARTS, ROWS, SESSIONS, GROUPS = 10, 10, 5, 30
"""Projects, models and lanes, sessions, and rows of a grouping that are listed; the dearest ones where there are more."""
FIXES_TOLD = 3
"""Causes, the dearest ones, whose fix is told in full."""


def show(report: Summary | Contents, file: TextIO | None = None, *, n_misses: int = MISSES) -> None:
    """Print `report` to `file`, standard output by default: colour, width and character set are those of the terminal.

    `n_misses` are listed at most.
    """
    draw(_contents(report), rich_console(file=file, soft_wrap=False), n_misses)


def text(report: Summary | Contents, width: int = 100, *, n_misses: int = MISSES) -> str:
    """Return what `show` prints, without colour, in `width` columns."""
    return printed(lambda console: draw(_contents(report), console, n_misses), width)


def _contents(report: Summary | Contents) -> Contents:
    return report if isinstance(report, Contents) else Contents("", report)


def draw(contents: Contents, console: Console, n_misses: int = MISSES) -> None:
    """Print a report on a console of rich's: first what it comes to, then what it is made of."""
    summary, is_ascii = contents.summary, console.options.ascii_only
    if contents.title:
        print_line(console, contents.title)
    if contents.is_partial:
        print_line(console, "partial: reading was cut short, these are the figures of what was read", style="bold")
    print_line(console, str(summary), style="bold")
    if not summary.calls:
        return
    if contents.counted:
        print_line(console, f"counted: {contents.counted}")
    for line in notes(contents):
        print_line(console, line)
    print_table(console, tables.by_project(contents, PARTS))
    print_table(console, tables.causes(contents))
    for loss in [loss for loss in dearest_losses(summary) if fix_of(loss).saves][:FIXES_TOLD]:
        print_line(console, f"{loss.cause}: {fix_of(loss).text}")
    _undetermined(contents, console)
    print_line(console, "")
    print_line(console, f"hit rate  {sparkline(summary.hit_rates, console.width - 10, is_ascii=is_ascii)}")
    parts = "  ".join(f"{name} {Share(share)}" for name, share in shares(summary.total.usage_with_reads))
    print_line(console, f"input     {parts or UNKNOWN}")
    _totals(contents, console)
    print_table(console, tables.misses(contents, n_misses))
    _explain(contents, console, n_misses)


def _undetermined(contents: Contents, console: Console) -> None:
    """Print what the figures leave out."""
    lines = unknowns(contents)
    if lines:
        print_line(console, "")
        print_line(console, "cannot be determined:")
    for line in lines:
        print_line(console, f"- {line}")


def _totals(contents: Contents, console: Console) -> None:
    """Print all calls, then a row a model, then the dearest sessions, or the agents of the only one, then the groups
    that were asked for.
    """
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
    if by:
        print_table(console, tables.by_group(contents, GROUPS))


def _explain(contents: Contents, console: Console, most: int) -> None:
    """Print what the table of misses leaves out in few columns, and the misses that lost nothing."""
    free = [*_unavoidable(contents.summary)]
    if console.width < NARROW:
        for miss in dearest(contents.summary.losses, most):
            verdict = provider_says(miss.cause, contents.verdicts.get(miss.index, ""))
            line = f"{miss.index + 1}: {tables.where_text(miss)}{f'; provider {verdict}' if verdict else ''}"
            print_line(console, line)
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
