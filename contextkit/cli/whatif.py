"""Implements `contextkit whatif`: what a recording would have cost with one thing changed.

The output is readable without colour, in forty columns and in ASCII. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TextIO

import click

from contextkit.canonical import canonical, parse
from contextkit.cli.models import say_assumed
from contextkit.cli.report import exit_if_incomplete, print_faults, records_of
from contextkit.ledger.figures import UNKNOWN, Dollars, dollars
from contextkit.report.tables import Column, Table
from contextkit.report.terminal import print_line, print_table, printed
from contextkit.terminal import echo_error, echo_json, rich_console
from contextkit.whatif.answer import Answer, WhatIf
from contextkit.whatif.fix import ASSUMPTIONS

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 90
"""Columns; below, an answer is printed in lines instead of cells."""


@click.command("whatif")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--fix", "fixes", multiple=True, metavar="NAME", help="One change; may be given more than once.  [default: all]"
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Ask another model: its prices, its cache's rules, its tokenizer.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Everything as one JSON object, every reading of every assumption included."
)
@click.option("--verbose", is_flag=True, help="List each fault of the recordings, not only how many there are.")
def command(
    paths: tuple[str, ...], fixes: tuple[str, ...], models: tuple[str, ...], as_json: bool, verbose: bool
) -> None:
    """Print what PATHS would have cost with one thing changed: the bill before and after, with the spread over what has
    to be assumed.

    PATHS are files, folders, patterns, or - for standard input, in any known format. Fixes: lifetime, routing-key,
    breakpoints, sorted-tools, clock-to-tail, no-pruning, leader-first.

    \b
    contextkit whatif ~/.claude/projects
    contextkit whatif session.jsonl --fix lifetime --fix breakpoints
    contextkit whatif session.jsonl --model claude-sonnet-5-5 --json
    """
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import check_any_read, files_at
    from contextkit.importers.source import Faults
    from contextkit.models import model_named
    from contextkit.report.progress import watching
    from contextkit.whatif.fixes import fixes_named
    from contextkit.whatif.what_if import what_if

    rows = [model_named(model) for model in models]
    fixes_named(fixes, rows)  # a wrong name is reported before anything is read
    faults = Faults()
    with watching() as watch, seldom_collecting():
        records = records_of(files_at(paths, faults), set(paths), faults, watch)
        found = what_if(records, fixes, rows, watch=watch.stoppable)
        say_assumed(*rows)
        watch.finish()
        if not watch.is_stopped:
            check_any_read(faults)
        if as_json:
            echo_json(canonical({**parse(found.to_json().encode()), "interrupted": watch.is_stopped}))
        else:
            show(found)
        print_faults(faults, is_verbose=verbose)
        if watch.is_stopped:
            echo_error("interrupted: these are the figures of what was read and replayed so far")
            raise click.exceptions.Exit(130)
    exit_if_incomplete(faults)


def show(found: WhatIf, file: TextIO | None = None) -> None:
    """Print `found` to `file`, standard output by default."""
    _draw(found, rich_console(file=file))


def text(found: WhatIf, width: int = 120) -> str:
    """What `show` prints, without colour, in `width` columns."""
    return printed(lambda console: _draw(found, console), width)


def _draw(found: WhatIf, console: Console) -> None:
    for line in _opening(found):
        print_line(console, line)
    if not found.calls_with_price:
        return
    answered = sorted(
        (answer for answer in found.answers if answer.after_usd is not None),
        key=lambda answer: -(answer.saves_usd or 0.0),
    )
    _answers(answered, console)
    for line in _closing(found, answered):
        print_line(console, line)


def _opening(found: WhatIf) -> Iterable[str]:
    if not found.calls_with_price:
        yield f"{found.calls:,} calls, none with a bill, a price and a row in the model table: nothing to compare"
        yield from (answer.why_not for answer in found.answers[:1] if answer.why_not)
        return
    cost = f"at list prices they cost {dollars(found.recorded_usd)}"
    yield f"{found.calls_with_price:,} of {found.calls:,} calls have a bill and a price; {cost}"
    for one in found.calibrations:
        agreed = "" if one.agreed is None else f", hit or miss predicted right in {one.agreed / one.calls:.1%}"
        yield (
            f"checked against the bills, without being told them ({one.answered_from}): {one.calls:,} calls{agreed}, billed "
            f"{dollars(one.recorded_usd)}, predicted {dollars(one.predicted_usd)}, difference {dollars(one.difference_usd)}"
        )
    unexplained = found.unexplained
    parts = [
        (unexplained.n_misses, "misses that nothing recorded explains"),
        (unexplained.n_reads, "reads longer than it remembers"),
    ]
    taken_over = " and ".join(f"{n:,} {what}" for n, what in parts if n)
    if taken_over:
        yield f"answers from usage and times start from the bills and take over {taken_over}"


def _closing(found: WhatIf, answered: Sequence[Answer]) -> Iterable[str]:
    used = {name for answer in answered for reading, _ in answer.readings for name in reading}
    if used:
        yield ""
        yield "low..high is the spread over what no record says; the figure takes the first:"
        yield from (f"  {row.name}: {' | '.join(row.readings)}" for row in ASSUMPTIONS if row.name in used)
    silent = [answer for answer in found.answers if answer.after_usd is None]
    if silent:
        yield ""
        yield "not answered:"
        yield from (
            f"  {answer.fix} needs {answer.needs}: {answer.why_not or 'nothing of the kind was recorded'}"
            for answer in silent
        )
    partly = [answer for answer in answered if answer.why_not and answer.answered_from != "usage and times"]
    if partly:
        yield ""
        yield "answered in part:"
        yield from (f"  {answer.fix}: {answer.why_not}" for answer in partly)


def _answers(answers: Sequence[Answer], console: Console) -> None:
    if console.width < NARROW:
        for answer in answers:
            print_line(console, "")
            for line in _lines(answer):
                print_line(console, line)
        return
    print_table(console, Table("Answers", COLUMNS, answers))


def _lines(answer: Answer) -> Iterable[str]:
    yield f"{answer.fix} (from {answer.answered_from})"
    yield f"  {dollars(answer.before_usd)} → {Dollars(answer.after_usd)} ({_spread(answer)}), saves {Dollars(answer.saves_usd)}"
    yield from (f"  {line}" for line in (answer.to_do, _facts(answer)) if line)


def _facts(answer: Answer) -> str:
    changed = "" if answer.changed_calls is None else f"changes {answer.changed_calls:,} of {answer.calls:,} calls"
    return "; ".join(filter(None, (changed, answer.note)))


def _spread(answer: Answer) -> str:
    if answer.low_usd is None or answer.high_usd is None:
        return UNKNOWN
    return f"{dollars(answer.low_usd)}..{dollars(answer.high_usd)}"


COLUMNS: tuple[Column[Answer], ...] = (
    Column("fix", attrgetter("fix"), is_number=False, wraps=False),
    Column("from", attrgetter("answered_from"), is_number=False),
    Column("before", lambda answer: Dollars(answer.before_usd)),
    Column("after", lambda answer: Dollars(answer.after_usd)),
    Column("low..high", _spread),
    Column("saves", lambda answer: Dollars(answer.saves_usd)),
    Column("what to do", lambda answer: "; ".join(filter(None, (answer.to_do, _facts(answer)))), is_number=False),
)
"""What the table shows of an answer."""
