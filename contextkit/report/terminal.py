"""A Summary on a terminal: totals, the hit rate call by call, and every miss with its cause and its price.

Takes a `Summary`, prints tables; readable without colour, in forty columns, and where only ASCII can be shown. Knows nothing of
ledgers or importers. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row, Summary, dollars
from contextkit.report.figures import shares, sparkline

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NARROW = 76
"""Columns; below, tables drop what can be read elsewhere."""
SHOWN = 20
"""Misses listed in full; the dearest ones where there are more."""
UNKNOWN = "unknown"
"""Where nobody said; never 0."""


def show(summary: Summary, file: TextIO | None = None) -> None:
    """Print `summary` to `file`, standard output by default: colour, width and character set are those of the terminal."""
    from rich.console import Console

    _draw(summary, Console(file=file, highlight=False, soft_wrap=False))


def text(summary: Summary, width: int = 100) -> str:
    """What `show` prints, without colour, in `width` columns."""
    from rich.console import Console

    page = StringIO()
    _draw(summary, Console(file=page, width=width, color_system=None, highlight=False, force_terminal=False, legacy_windows=False))
    return page.getvalue()


def _draw(summary: Summary, console: Console) -> None:
    is_ascii = console.options.ascii_only
    _say(console, str(summary), style="bold")
    if not summary.calls:
        return
    _say(console, "")
    _say(console, f"hit rate  {sparkline(summary.hit_rates, console.width - 10, is_ascii=is_ascii)}")
    parts = "  ".join(f"{name} {share:.1%}" for name, share in shares(summary.usage))
    _say(console, f"input     {parts or UNKNOWN}")
    _print(console, _totals(summary, console))
    if summary.misses:
        _print(console, _missed(summary, console))
        _explain(summary, console)


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(_plain(line, console), style=style, markup=False)


def _cell(line: str, console: Console) -> Text:
    """`line` as it stands: a name in brackets is no markup."""
    from rich.text import Text

    return Text(_plain(line, console))


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


_ASCII = str.maketrans({"·": "-", "→": "->", "≤": "<=", "…": "..."})


def _plain(line: str, console: Console) -> str:
    """`line` in characters the terminal has."""
    return line.translate(_ASCII).encode(console.encoding, "replace").decode(console.encoding) if console.options.ascii_only else line


def _table(*columns: tuple[str, bool]) -> Table:
    """An empty table of (heading, is a number)."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, is_number in columns:
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    return table


def _totals(summary: Summary, console: Console) -> Table:
    """All calls, then one row a model and a lane where there are several."""
    rows = [("", summary.total), *_several("model", summary.models), *_several("lane", summary.lanes)]
    columns = [column for column in _TOTALS if console.width >= NARROW or column[2]]
    table = _table(("", False), *((heading, True) for heading, _, _ in columns))
    for kind, row in rows:
        table.add_row(_cell(f"{kind} {row.name}".strip(), console), *(cell(row) for _, cell, _ in columns))
    return table


def _several(kind: str, rows: Sequence[Row]) -> list[tuple[str, Row]]:
    return [(kind, row) for row in rows] if len(rows) > 1 else []


def _rate(row: Row) -> str:
    return UNKNOWN if row.hit_rate is None else f"{row.hit_rate:.1%}"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else dollars(amount)


_TOTALS: tuple[tuple[str, Callable[[Row], str], bool], ...] = (
    ("calls", lambda row: _count(row.calls), True),
    ("read", _rate, True),
    ("input", lambda row: _count(row.usage.prompt if row.calls_with_usage else None), False),
    ("output", lambda row: _count(row.usage.output if row.calls_with_usage else None), False),
    ("spent", lambda row: _money(row.cost_usd), True),
    ("saved", lambda row: _money(row.saved_usd), False),
    ("misses", lambda row: _count(row.n_misses), True),
)
"""(heading, cell, whether narrow terminals have it)."""


def _missed(summary: Summary, console: Console) -> Table:
    is_wide = console.width >= NARROW
    table = _table(("call", True), ("cause", False), *([("where", False)] if is_wide else []), ("lost tokens", True), ("cost", True))
    for miss in _dearest(summary.misses):
        where = [_cell(_where(miss), console)] if is_wide else []
        table.add_row(f"{miss.index + 1}", miss.cause, *where, _count(miss.lost_tokens), _money(miss.cost_usd))
    return table


def _dearest(misses: Sequence[Miss]) -> list[Miss]:
    """The ones to show, in the order they happened."""
    return sorted(sorted(misses, key=lambda miss: -miss.lost_tokens)[:SHOWN], key=lambda miss: miss.index)


def _where(miss: Miss) -> str:
    return miss.where if miss.certain or miss.cause == "unknown" else f"{miss.where} (assumed)"


def _explain(summary: Summary, console: Console) -> None:
    """What the table leaves out."""
    left = len(summary.misses) - SHOWN
    if left > 0:
        _say(console, f"and {left} more, smaller ones")
    if console.width < NARROW:
        for miss in _dearest(summary.misses):
            _say(console, f"{miss.index + 1}: {_where(miss)}")
