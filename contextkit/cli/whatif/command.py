"""`contextkit whatif`: what a recording would have cost with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from contextkit.canonical import canonical, parse
from contextkit.cli.models import say_assumed
from contextkit.errors import UnreadableLog
from contextkit.terminal import echo_error, echo_json

if TYPE_CHECKING:
    from contextkit.analysis.counterfactual.answer import WhatIf
    from contextkit.importers.source import Faults
    from contextkit.ledger.calls import Record
    from contextkit.report.watching import Watch


@click.command("whatif")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="NAME",
    help="One change; may be given more than once.  [default: all of them]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Ask another model: its prices, its cache's rules, its tokenizer.",
)
@click.option("--by", type=click.Choice(["session"]), help="A row for each session under each change.")
@click.option(
    "--json", "as_json", is_flag=True, help="Everything as one JSON object, every reading of every assumption included."
)
def command(
    paths: tuple[str, ...], fixes: tuple[str, ...], models: tuple[str, ...], by: str | None, as_json: bool
) -> None:
    """What PATHS would have cost with one thing changed: the bill before and after, with the spread over what has to be
    assumed.

    PATHS are files, folders, patterns, or - for standard input, in any known format. Fixes: ttl-1h, ttl-1h-per-lane,
    keep-alive, bridging-marker, sorted-tools, clock-to-tail, no-pruning, leader-first.

    \b
    contextkit whatif ~/.claude/projects
    contextkit whatif session.jsonl --fix ttl-1h --fix keep-alive
    contextkit whatif session.jsonl --model claude-sonnet-5-5 --json
    """
    from contextkit.importers.found import check_any_read
    from contextkit.importers.source import Faults
    from contextkit.report.watching import watching

    faults = Faults()
    with watching() as watch:
        found = _answered(paths, fixes, models, faults, watch, by_session=by is not None)
        watch.finish()
        if not watch.is_stopped:
            check_any_read(faults)
        _show(found, as_json=as_json, is_whole=not watch.is_stopped)
        _say(faults)
        if watch.is_stopped:
            echo_error("interrupted: these are the figures of what was read and replayed so far")
            raise click.exceptions.Exit(130)


def _answered(
    paths: tuple[str, ...],
    fixes: tuple[str, ...],
    models: tuple[str, ...],
    faults: Faults,
    watch: Watch,
    *,
    by_session: bool,
) -> WhatIf:
    from contextkit.analysis.counterfactual.fixes import fixes_named
    from contextkit.analysis.counterfactual.what_if import what_if
    from contextkit.models import model_named

    rows = [model_named(model) for model in models]
    fixes_named(fixes, rows)  # a wrong name is said before anything is read
    read = watch.stoppable(_records(paths, faults, watch))
    found = what_if(read, fixes, rows, by_session=by_session, watch_replay=watch.stoppable)
    say_assumed(*rows)
    return found


def _records(paths: tuple[str, ...], faults: Faults, watch: Watch) -> Iterator[Record]:
    """The records of all files, each file a part of the work."""
    from contextkit.importers.found import files_at, records_in

    for name in watch.parts(files_at(paths, faults)):
        try:
            yield from records_in([name], faults)
        except UnreadableLog as error:
            if name in paths:
                raise
            faults.refuse(name, error)


def _show(found: WhatIf, *, as_json: bool, is_whole: bool) -> None:
    from contextkit.cli.whatif.table import show

    if as_json:
        echo_json(canonical({**parse(found.to_json().encode()), "interrupted": not is_whole}))
    else:
        show(found)


def _say(faults: Faults) -> None:
    """What was wrong with the recordings, apart from the answer."""
    for fault in faults.kept:
        echo_error(str(fault))
    if len(faults) > len(faults.kept):
        echo_error(f"and {len(faults) - len(faults.kept)} more of the same")
