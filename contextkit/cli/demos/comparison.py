"""What the demonstration found: three columns side by side, and the same in words.

Takes one `Summary` a way, prints; readable without colour, in forty columns, and where only ASCII can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from contextkit.ledger.summary import Summary, dollars
from contextkit.terminal import rich_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WAYS = {
    "careless": "a clock in the system prompt, tools in changing order, old results cut short",
    "automatic caching": "a list that is only appended to, and the provider's automatic breakpoint",
    "contextkit": "the same conversation in a Context",
}
"""Column → what was done; the last is the one the others are compared with."""
NEXT = (
    "Next: `contextkit report PATH` on a recorded session of yours, then build its requests as the third column does, "
    "with `Context` (README)."
)
"""What to do with it."""
NARROW = 64
"""Columns; below, numbers are rounded to thousands and millions."""

_Cell = Callable[[Summary, bool], str]


def show(summaries: Mapping[str, Summary], model: str) -> None:
    """Print the table, what each way did, and what came of it, to standard output."""
    console = rich_console()
    _say(
        console, f"The same work on {model}, three ways (local provider, list prices, token counts estimated):", "bold"
    )
    for name, what in WAYS.items():
        _say(console, f"  {name}: {what}")
    console.print()
    console.print(_table(summaries, console.width < NARROW))
    console.print()
    _say(console, " ".join(sentences(summaries)))
    _say(console, f"\n{NEXT}", "bold")


def sentences(summaries: Mapping[str, Summary]) -> list[str]:
    """What happened, one sentence a way, in the words of the figures."""
    *others, ours = summaries
    return [*(_lost(name, summaries[name]) for name in others), _compared(ours, summaries)]


def _lost(name: str, summary: Summary) -> str:
    """What a way read, lost and paid; worse than no cache at all is said."""
    is_worse = summary.saved_usd is not None and summary.saved_usd < 0
    paid = f"paid {_money(summary.cost_usd)}{', more than without any cache' if is_worse else ''}"
    return f"{name.capitalize()} {_read(summary)}, {_misses(summary)} and {paid}."


def _compared(ours: str, summaries: Mapping[str, Summary]) -> str:
    summary = summaries[ours]
    less = ", ".join(filter(None, (_less(summary, name, other) for name, other in summaries.items() if name != ours)))
    return f"{ours} {_read(summary)}, {_misses(summary)} and paid {_money(summary.cost_usd)}{less and f': {less}'}."


def _read(summary: Summary) -> str:
    return f"read {summary.hit_rate or 0:.1%} of its input from cache"


def _misses(summary: Summary) -> str:
    n, causes = len(summary.losses), ", ".join(dict.fromkeys(miss.cause for miss in summary.losses))
    return f"missed on {n} of {summary.calls} calls ({causes})" if n else "had no miss"


def _less(summary: Summary, name: str, other: Summary) -> str:
    if not summary.cost_usd or not other.cost_usd:
        return ""
    change = 1 - summary.cost_usd / other.cost_usd
    return (
        f"as much as {name}"
        if abs(change) < 0.005
        else f"{abs(change):.0%} {'less' if change > 0 else 'more'} than {name}"
    )


def _table(summaries: Mapping[str, Summary], is_narrow: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0 if is_narrow else 1, 0, 0))
    table.add_column("", no_wrap=True)
    *others, ours = summaries
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column(ours, justify="right", style="green", no_wrap=True)
    for label, cell in _ROWS:
        table.add_row(label, *(cell(summary, is_narrow) for summary in summaries.values()))
    return table


def _count(number: int | None, is_narrow: bool) -> str:
    """A number of tokens; unknown is said.

    >>> _count(924_678, False), _count(924_678, True), _count(1_997_474, True), _count(999_600, True)
    ('924,678', '925k', '2.0M', '1.0M')
    """
    if number is None:
        return "unknown"
    if not is_narrow or number < 1000:
        return f"{number:,}"
    return f"{number / 1e6:.1f}M" if number >= 999_500 else f"{number / 1e3:.0f}k"


def _money(amount: float | None) -> str:
    return "unknown" if amount is None else dollars(amount)


def _written(summary: Summary) -> int | None:
    return summary.usage.written


_ROWS: tuple[tuple[str, _Cell], ...] = (
    ("calls", lambda summary, is_narrow: f"{summary.calls}"),
    ("input", lambda summary, is_narrow: _count(summary.usage.prompt, is_narrow)),
    ("  read", lambda summary, is_narrow: _count(summary.usage.read, is_narrow)),
    ("  written", lambda summary, is_narrow: _count(_written(summary), is_narrow)),
    ("  in full", lambda summary, is_narrow: _count(summary.usage.fresh, is_narrow)),
    ("hit rate", lambda summary, is_narrow: "unknown" if summary.hit_rate is None else f"{summary.hit_rate:.1%}"),
    ("misses", lambda summary, is_narrow: f"{len(summary.losses)}"),
    ("cost", lambda summary, is_narrow: _money(summary.cost_usd)),
    ("uncached", lambda summary, is_narrow: _money(summary.cost_uncached_usd)),
)


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, markup=False)
