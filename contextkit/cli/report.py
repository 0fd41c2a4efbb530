"""`contextkit report`: what recorded sessions read from cache, what they cost, and why each miss happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from contextkit.importers.source import Faults

GROUPINGS = ("day", "session", "model", "agent", "project")
"""What calls can be grouped by."""


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--by", type=click.Choice(GROUPINGS), help="A row for each day (UTC), session, model, agent or project.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(paths: tuple[str, ...], by: str | None, as_json: bool) -> None:
    """Report over PATHS: files, folders, patterns, or - for standard input, in any known format (found by content).

    \b
    contextkit report runs/gpu-prices
    contextkit report session.jsonl --json
    """
    from contextkit.importers.found import files_at, records_in
    from contextkit.importers.source import Faults
    from contextkit.ledger.summary import summarise

    faults = Faults()
    summary = summarise(records_in(paths, faults), by or "")
    if as_json:
        click.echo(summary.to_json())
        _say(faults)
        return
    from contextkit.report.terminal import show

    files = files_at(paths)
    click.echo(files[0] if len(files) == 1 else f"{len(files)} files")
    show(summary)
    _say(faults)


def _say(faults: Faults) -> None:
    """What was wrong with the recordings, apart from the report."""
    for fault in faults.kept:
        click.echo(str(fault), err=True)
    if len(faults) > len(faults.kept):
        click.echo(f"and {len(faults) - len(faults.kept)} more of the same", err=True)
