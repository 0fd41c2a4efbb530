"""`contextkit demo`: what three ways of building the same requests cost, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from contextkit.canonical import canonical
from contextkit.ledger.summary import Summary

COLUMNS = ("careless", "automatic caching", "contextkit")


@click.command("demo")
@click.option("--folder", default=".", show_default=True, type=click.Path(exists=True, file_okay=False), help="Where the agent works.")
@click.option("--model", default="claude-sonnet-5-5", show_default=True, help="Whose cache rules and prices apply.")
@click.option("--turns", default=28, show_default=True, type=click.IntRange(4, 500), help="Model calls in each run.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
def command(folder: str, model: str, turns: int, as_json: bool) -> None:
    """An agent loop over this folder, three times, against a local provider that bills like the real one. Nothing leaves this machine.

    \b
    contextkit demo
    contextkit demo --folder ~/project --turns 60
    """
    from contextkit.cli.demos.builders import careful, careless, with_contextkit
    from contextkit.cli.demos.workspace import Workspace

    workspace = Workspace(Path(folder))
    ways = dict(zip(COLUMNS, (careless, careful, with_contextkit), strict=True))
    summaries = {name: _run(name, way, model, workspace, turns, quiet=as_json) for name, way in ways.items()}
    click.echo(_json(summaries)) if as_json else _show(summaries, model)


def _run(name: str, way: Any, model: str, workspace: Any, turns: int, *, quiet: bool) -> Summary:
    import anthropic

    from contextkit.cli.demos.model import replies
    from contextkit.ledger.summary import summarise
    from contextkit.models import model_named
    from contextkit.server.local import LocalServer

    model_named(model)
    done = 0

    with LocalServer(replies=replies(workspace, turns), is_frozen=True) as server:

        def progress() -> None:
            nonlocal done
            done += 1
            if not quiet:
                usage = server.ledger[-1].usage
                click.echo(f"  {name:<18} turn {done:>3}/{turns}  read {usage.read:>9,}  written {usage.write_5m:>8,}  fresh {usage.fresh:>8,}")

        client = anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0)
        way(client, model, workspace, server.clock.now, progress)
        return summarise(server.ledger)


def _json(summaries: dict[str, Summary]) -> str:
    return "{" + ",".join(f"{canonical(name).decode()}:{summary.to_json()}" for name, summary in summaries.items()) + "}"


_ROWS = (
    ("model calls", lambda s: f"{s.calls}"),
    ("input tokens", lambda s: f"{s.usage.prompt:,}"),
    ("  read from cache", lambda s: f"{s.usage.read:,}"),
    ("  written to cache", lambda s: f"{s.usage.write_5m + s.usage.write_1h:,}"),
    ("  paid in full", lambda s: f"{s.usage.fresh:,}"),
    ("hit rate", lambda s: f"{s.hit_rate:.1%}"),
    ("cost", lambda s: _dollars(s.cost_usd)),
    ("without any cache", lambda s: _dollars(s.cost_uncached_usd)),
    ("misses", lambda s: f"{len(s.losses)}"),
    ("  why", lambda s: ", ".join(dict.fromkeys(miss.cause for miss in s.losses)) or "none"),
)


def _dollars(amount: float | None) -> str:
    return "price unknown" if amount is None else f"${amount:.4f}"


def _show(summaries: dict[str, Summary], model: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"The same work on {model}, three ways (local provider, token counts are estimates)")
    table.add_column("")
    for name in summaries:
        table.add_column(name, justify="right")
    for label, figure in _ROWS:
        table.add_row(label, *map(figure, summaries.values()))
    Console().print(table)
