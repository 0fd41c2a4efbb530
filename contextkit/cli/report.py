"""`contextkit report`: what a recorded session read from cache, what it cost, and why each miss happened."""

from __future__ import annotations

import click


@click.command("report")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(path: str, as_json: bool) -> None:
    """Report over PATH: a ledger.jsonl, the folder of a Context, or a pi session (found by content).

    \b
    contextkit report runs/gpu-prices
    contextkit report session.jsonl --json
    """
    from contextkit.importers.found import ledger_at
    from contextkit.ledger.summary import summarise

    name, ledger = ledger_at(path)
    summary = summarise(ledger)
    if as_json:
        click.echo(summary.to_json())
        return
    from contextkit.report.terminal import show

    click.echo(f"{path} · {name}")
    show(summary)
