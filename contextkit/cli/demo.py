"""`contextkit demo`: what three ways of building the same requests cost, measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import click

from contextkit.cache.usage import ZERO, Usage
from contextkit.canonical import canonical
from contextkit.cli.models import say_assumed
from contextkit.cli.terminal.streams import for_programs, interruptible
from contextkit.errors import UsageError
from contextkit.ledger.summary import Summary
from contextkit.terminal import echo_error, echo_json, rich_console

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
    "--turns", type=click.IntRange(4, 500), help="Model calls in each run; 28 if not said, 200 with --masking."
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
    from contextkit.cli.demos import masked
    from contextkit.cli.demos.masking import WAYS, endpoints, run

    found: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints(model):
        for way in WAYS:
            found.setdefault(endpoint.name, {})[way] = run(way, endpoint, turns)
            echo_error(f"{endpoint.name}, {way}: {turns} turns")
    echo_json(masked.as_json(found)) if as_json else masked.show(found, model, turns)


def _three_ways(folder: str, model: str, turns: int, as_json: bool) -> None:
    from contextkit.cli.demos.builders import careful, careless, with_contextkit
    from contextkit.cli.demos.comparison import WAYS, show
    from contextkit.cli.demos.workspace import Workspace

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

    from contextkit.cli.demos.model import replies
    from contextkit.ledger.summary import summarise
    from contextkit.server.local import LocalServer

    with LocalServer(replies=replies(workspace, turns), is_frozen=True) as server:
        try:
            with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
                way(client, model, workspace, server.clock.now, lambda: tick(server.ledger[-1].usage or ZERO))
        except anthropic.BadRequestError as error:
            raise UsageError(
                f"call {len(server.ledger) + 1} was refused ({_said(error)}): ask for fewer --turns"
            ) from None
        return summarise(server.ledger)


def _said(error: Any) -> str:
    """The provider's own words; of a prompt they say the size."""
    return str(error.body["error"]["message"])


@contextmanager
def _progress(ways: Mapping[str, Any], turns: int) -> Iterator[dict[str, Tick]]:
    """On standard error: one moving line a way on a terminal, else one line a turn."""
    if not sys.stderr.isatty():
        yield {name: _told(name, turns) for name in ways}
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    name_column, read_column = TextColumn("{task.description:<17}"), TextColumn("{task.fields[read]:>6.1%} read")
    columns = name_column, BarColumn(bar_width=None), MofNCompleteColumn(), read_column
    with Progress(*columns, console=rich_console(stderr=True), transient=True) as bars:
        yield {name: _moving(bars, bars.add_task(name, total=turns, read=0.0)) for name in ways}


def _told(name: str, turns: int) -> Tick:
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
