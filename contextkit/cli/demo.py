"""Implements `contextkit demo`: measures what three ways of building the same requests cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.cache.usage import ZERO, Usage
from contextkit.canonical import canonical
from contextkit.cli.models import say_assumed
from contextkit.cli.terminal import for_programs, interruptible
from contextkit.errors import UsageError
from contextkit.ledger.summary import Summary, dollars
from contextkit.terminal import echo_error, echo_json, rich_console

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
    _print(
        console, f"The same work on {model}, three ways (local provider, list prices, token counts estimated):", "bold"
    )
    for name, what in WAYS.items():
        _print(console, f"  {name}: {what}")
    console.print()
    console.print(_table(summaries, console.width < NARROW))
    console.print()
    _print(console, " ".join(sentences(summaries)))
    _print(console, f"\n{NEXT}", "bold")


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


def _print(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, markup=False)


Tick = Callable[[Usage], None]
"""Told what one more call was billed."""


@click.command("demo")
@click.option(
    "--folder",
    default=".",
    show_default=True,
    type=click.Path(exists=True, file_okay=False),
    help="Where the agent works.",
)
@click.option(
    "--model",
    default="claude-sonnet-5-5",
    show_default=True,
    help="Whose cache rules and prices apply; a Claude model.",
)
@click.option(
    "--turns", type=click.IntRange(4, 500), help="Model calls in each run; 28 by default, 200 with --masking."
)
@click.option(
    "--masking", is_flag=True, help="60 tools in 6 phases: no masks, masks, and tools removed, at three endpoints."
)
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object.")
def command(folder: str, model: str, turns: int | None, masking: bool, as_json: bool) -> None:
    """An agent loop over this folder, three times, against a local provider that bills like the real one.

    Nothing leaves this machine.

    \b
    contextkit demo
    contextkit demo --folder ~/project --turns 60
    contextkit demo --masking
    """
    _check(model)
    if as_json:
        for_programs()
    with interruptible("the ways are compared when all are done; no figures"):
        _masked(model, turns or 200, as_json) if masking else _three_ways(folder, model, turns or 28, as_json)


def _masked(model: str, turns: int, as_json: bool) -> None:
    """What masks cost, beside what they are there instead of."""
    from contextkit.cli import demo_masks as masked
    from contextkit.cli.demo_masks import WAYS, endpoints, run

    results: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints(model):
        for way in WAYS:
            results.setdefault(endpoint.name, {})[way] = run(way, endpoint, turns)
            echo_error(f"{endpoint.name}, {way}: {turns} turns")
    echo_json(masked.as_json(results)) if as_json else masked.show(results, model, turns)


def _three_ways(folder: str, model: str, turns: int, as_json: bool) -> None:
    from contextkit.cli.demo_agent import Workspace, careful, careless, with_contextkit

    workspace = Workspace(Path(folder))
    ways = dict(zip(WAYS, (careless, careful, with_contextkit), strict=True))
    with _progress(ways, turns) as ticks:
        summaries = {name: _run(way, model, workspace, turns, ticks[name]) for name, way in ways.items()}
    echo_json(_json(summaries)) if as_json else show(summaries, model)


def _check(model: str) -> None:
    from contextkit.models import model_named

    row = model_named(model)
    if row.provider != "anthropic":
        what = f"{model} is a model of {row.provider}" if row.provider else f"{model!r} is no model of Anthropic's"
        raise UsageError(f"the demo speaks Anthropic's Messages API and {what}: name a Claude model, or none")
    say_assumed(row)


def _run(way: Any, model: str, workspace: Any, turns: int, tick: Tick) -> Summary:
    """One way, with the real client, against a local provider of its own."""
    import anthropic

    from contextkit.cli.demo_agent import replies
    from contextkit.ledger.summary import summarise
    from contextkit.server.local import LocalServer

    with LocalServer(replies=replies(workspace, turns), is_frozen=True) as server:
        try:
            with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
                way(client, model, workspace, server.clock.now, lambda: tick(server.ledger[-1].usage or ZERO))
        except anthropic.BadRequestError as error:
            raise UsageError(
                f"call {len(server.ledger) + 1} was refused ({_provider_message(error)}): ask for fewer --turns"
            ) from None
        return summarise(server.ledger)


def _provider_message(error: Any) -> str:
    """The provider's own words; of a prompt they say the size."""
    return str(error.body["error"]["message"])


@contextmanager
def _progress(ways: Mapping[str, Any], turns: int) -> Iterator[dict[str, Tick]]:
    """On standard error: one moving line a way on a terminal, else one line a turn."""
    if not sys.stderr.isatty():
        yield {name: _progress_tick(name, turns) for name in ways}
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    name_column, read_column = TextColumn("{task.description:<17}"), TextColumn("{task.fields[read]:>6.1%} read")
    columns = name_column, BarColumn(bar_width=None), MofNCompleteColumn(), read_column
    with Progress(*columns, console=rich_console(stderr=True), transient=True) as bars:
        yield {name: _moving(bars, bars.add_task(name, total=turns, read=0.0)) for name in ways}


def _progress_tick(name: str, turns: int) -> Tick:
    bills: list[Usage] = []

    def tick(usage: Usage) -> None:
        bills.append(usage)
        written = usage.written or 0
        echo_error(
            f"{name} {len(bills)}/{turns}: read {usage.read or 0:,}, written {written:,}, in full {usage.fresh or 0:,}"
        )

    return tick


def _moving(bars: Any, task: Any) -> Tick:
    bills: list[Usage] = []

    def tick(usage: Usage) -> None:
        bills.append(usage)
        bars.update(task, advance=1, read=_rate(bills))

    return tick


def _rate(bills: list[Usage]) -> float:
    return reduce(add, bills, ZERO).hit_rate or 0.0


def _json(summaries: Mapping[str, Summary]) -> str:
    return (
        "{" + ",".join(f"{canonical(name).decode()}:{summary.to_json()}" for name, summary in summaries.items()) + "}"
    )
