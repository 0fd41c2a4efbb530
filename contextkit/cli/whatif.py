"""Implements `contextkit whatif`: what recorded calls would have cost with one thing changed.

The output is readable without colour, in forty columns and in ASCII. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, TextIO

import click

from contextkit.canonical import canonical
from contextkit.cli.models import say_assumed
from contextkit.cli.report import exit_if_incomplete, print_faults, records_of
from contextkit.ledger.figures import dollars
from contextkit.report.tables import Column, Table
from contextkit.report.terminal import print_line, print_table, printed
from contextkit.terminal import echo_error, echo_json, rich_console
from contextkit.whatif.actions import actions
from contextkit.whatif.changes import CHANGES
from contextkit.whatif.what_if import OtherModel, Saving, WhatIf, what_if, what_if_json

if TYPE_CHECKING:
    from rich.console import Console


@click.command("whatif")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--change",
    "changes",
    multiple=True,
    metavar="NAME",
    help="One change; may be given more than once.  [default: all]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Ask another model: its prices, its cache's rules, its tokenizer.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.option("--verbose", is_flag=True, help="List each fault of the recordings, not only how many there are.")
def command(
    paths: tuple[str, ...], changes: tuple[str, ...], models: tuple[str, ...], as_json: bool, verbose: bool
) -> None:
    """Print what PATHS would have cost with one thing changed: each call replayed, the cost of the change taken off.

    PATHS are files, folders, patterns, or - for standard input, in any known format. Changes: longer-lifetime,
    shorter-lifetime, compact-first, fixed-tools, fixed-system, append-only, fixed-settings, breakpoints, leader-first,
    routing-key.

    \b
    contextkit whatif ~/.claude/projects
    contextkit whatif session.jsonl --change longer-lifetime --change breakpoints
    contextkit whatif session.jsonl --model claude-sonnet-5-5 --json
    """
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import check_any_read, files_at
    from contextkit.importers.source import Faults
    from contextkit.models import model_named
    from contextkit.report.progress import watching
    from contextkit.whatif.what_if import Replays

    rows = [model_named(model) for model in models]
    wanted = changes or (() if rows else CHANGES)
    Replays(wanted)  # a wrong name is reported before anything is read
    faults = Faults()
    with watching() as watch, seldom_collecting():
        found = what_if(records_of(files_at(paths, faults), set(paths), faults, watch), wanted, rows)
        say_assumed(*rows)
        watch.finish()
        if not watch.is_stopped:
            check_any_read(faults)
        if as_json:
            echo_json(canonical({**what_if_json(found), "interrupted": watch.is_stopped}))
        else:
            show(found)
        print_faults(faults, is_verbose=verbose)
        if watch.is_stopped:
            echo_error("interrupted: these are the figures of what was read so far")
            raise click.exceptions.Exit(130)
    exit_if_incomplete(faults)


def show(found: WhatIf, file: TextIO | None = None) -> None:
    """Print `found` to `file`, standard output by default."""
    _draw(found, rich_console(file=file))


def text(found: WhatIf, width: int = 120) -> str:
    """Return what `show` prints, without colour, in `width` columns."""
    return printed(lambda console: _draw(found, console), width)


def _draw(found: WhatIf, console: Console) -> None:
    for line in _opening(found):
        print_line(console, line)
    print_table(console, Table("Changes", CHANGES_COLUMNS, found.savings))
    if found.calls_with_price:  # else a bill of $0.00 would be of no call
        print_table(console, Table("Models", MODELS_COLUMNS, found.models))


def _opening(found: WhatIf) -> Iterator[str]:
    left = "; ".join(f"{n:,} call{'s' * (n != 1)}: {reason}" for reason, n in found.why_not)
    if not found.calls_with_price:
        yield f"{found.calls:,} calls, none with a bill and a price: nothing to replay{f' ({left})' if left else ''}"
        return
    cost = f"at list prices they cost {dollars(found.recorded_usd)}"
    have = "call has" if found.calls == 1 else "calls have"
    yield f"{found.calls_with_price:,} of {found.calls:,} {have} a bill and a price; {cost}"
    if left:
        yield f"left out: {left}"
    n_misses, n_reads = (sum(getattr(sums, name) for _, sums in found.programs) for name in ("n_misses", "n_reads"))
    yield (
        f"replayed as they were, by the rules of the caches: {dollars(found.recorded_usd + found.error_usd)}, a difference of "
        f"{dollars(found.error_usd)}; {n_misses:,} miss{'es' * (n_misses != 1)} and {n_reads:,} read{'s' * (n_reads != 1)} that "
        f"the rules do not explain stay in every replay"
    )
    if found.savings:
        after, less = found.recorded_usd - found.together_usd, found.together_usd
        yield f"with all changes that the readers can make: {dollars(after)}, {dollars(less)} less"
    elif not found.models:
        yield "no change saves or costs anything"


def _what(saving: Saving) -> str:
    step = actions()[saving.change].step_for(saving.program)
    return step.text_for(saving.agents).replace("`", "") if step else "not in the hands of its users"


def _where(saving: Saving) -> str:
    n, m = len(saving.sessions), saving.conversations
    agents = f"all {saving.agents}: " if saving.agents else ""
    return f"{agents}{m:,} conversation{'s' * (m != 1)} of {n:,} session{'s' * (n != 1)}"


CHANGES_COLUMNS: tuple[Column[Saving], ...] = (
    Column("change", attrgetter("change"), is_number=False, wraps=False),
    Column("program", lambda saving: saving.program or "-", is_number=False, least=60),
    Column("saves", lambda saving: dollars(saving.usd)),
    Column("in", _where, is_number=False, least=110),
    Column("what to do", _what, is_number=False, least=60),
)
"""What the table shows of a change."""


def _spread(other: OtherModel) -> str:
    return "" if other.low_usd == other.high_usd else f"{dollars(other.low_usd)}..{dollars(other.high_usd)}"


MODELS_COLUMNS: tuple[Column[OtherModel], ...] = (
    Column("with all calls asked of", attrgetter("name"), is_number=False),
    Column("bill", lambda other: dollars(other.after_usd)),
    Column("with a fifth fewer or more tokens", _spread, is_number=False),
)
"""What the table shows of another model."""
