"""Implements `contextkit validate`: how well the cache rules predict what providers billed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from contextkit.cli.report import exit_if_incomplete, print_faults
from contextkit.cli.terminal import for_programs
from contextkit.errors import UnreadableLog
from contextkit.ledger.validation import Lifetime, Score, Scoreboard, Validation
from contextkit.report.markdown import escaped
from contextkit.terminal import echo, echo_error, echo_json, rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console

    from contextkit.importers.source import Faults
    from contextkit.report.progress import Watch

WIDE = 140
"""Columns a terminal needs for the sums of tokens too."""
MOST_ROWS = 40
"""Rows of a table on a terminal; --json and --markdown have them all."""
Table = tuple[str, Sequence[str], list[list[str]]]
"""Heading, columns, rows."""


@click.command("validate", hidden=True)
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As a Markdown page.")
@click.option("--verbose", is_flag=True, help="Tell each fault of the recordings, not only how many there are.")
def command(paths: tuple[str, ...], as_json: bool, as_markdown: bool, verbose: bool) -> None:
    """Predict what each recorded call reads from the cache, and score that against its bill.

    PATHS are files, folders, patterns, or - for standard input, in any known format. A call is predicted from the bills
    before it, the times, and what the record says of the call; beside it stands the trivial prediction, that everything
    sent before is read.

    \b
    contextkit validate ~/.claude/projects
    contextkit validate ~/.codex/sessions --json
    """
    from contextkit.importers.registry import check_any_read
    from contextkit.importers.source import Faults
    from contextkit.report.progress import watching

    if as_json and as_markdown:
        raise click.UsageError("--json and --markdown both write to standard output: leave one out")
    if as_json or as_markdown:
        for_programs()
    faults, validation = Faults(), Validation()
    with watching() as watch:
        for name in _files(paths, faults, watch):
            _add(validation, name, paths, faults, watch)
        watch.finish()
        if not watch.is_stopped:
            check_any_read(faults)
        found = validation.scoreboard()
        if as_json:
            echo_json(found.to_json())
        elif as_markdown:
            echo(_markdown(found), nl=False)
        else:
            _draw(found, rich_console(soft_wrap=False))
        print_faults(faults, is_verbose=verbose)
        if watch.is_stopped:
            echo_error("interrupted: these are the scores of what was read so far")
            raise click.exceptions.Exit(130)
    exit_if_incomplete(faults)


def _files(paths: Sequence[str], faults: Faults, watch: Watch) -> Iterator[str]:
    from contextkit.importers.registry import files_at

    yield from watch.parts(files_at(paths, faults))


def _add(validation: Validation, name: str, named: Sequence[str], faults: Faults, watch: Watch) -> None:
    """The records of one file; one that cannot be read is a fault, unless it is all that was named."""
    from contextkit.importers.registry import records_at

    try:
        known, records = records_at(name, faults)
        validation.add(known.program or known.name, watch.stoppable(records))
    except UnreadableLog as error:
        faults.refuse(name, error, named)


# What is shown
# ---------------------------------------------------------------------------------------------------------------------


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2%}".replace("%", " %")


def _score_row(score: Score) -> list[str]:
    return [
        f"{score.calls:,}",
        f"{score.misses:,}",
        _percent(score.agreement),
        _percent(score.agreement_trivial),
        _percent(score.median_error),
        _percent(score.median_error_trivial),
        f"{score.read_tokens:,}",
        _signed(score.predicted_tokens, score.read_tokens),
        _signed(score.predicted_tokens_trivial, score.read_tokens),
    ]


_TOKENS = ("tokens read", "predicted", "trivial")
_SCORE = ("calls", "misses", "agreed", "trivial", "median error", "trivial", *_TOKENS)


def _signed(predicted: int, read: int) -> str:
    return f"{(predicted - read) / read:+.2%}".replace("%", " %") if read else "unknown"


def _tables(found: Scoreboard) -> Iterator[Table]:
    """Every table, in its order."""
    total = [["all", *_score_row(found.total)]] if len(found.sources) != 1 else []
    yield (
        "By program or format",
        ("recorded by", *_SCORE),
        [[one.source, *_score_row(one)] for one in found.sources] + total,
    )
    yield (
        "By model and month",
        ("recorded by", "model", "month", *_SCORE),
        [[one.source, one.model, one.month, *_score_row(one)] for one in found.scores],
    )
    yield (
        "Where bills and predictions differ",
        ("recorded by", "what happened", "cause", "calls", "tokens"),
        [[one.source, one.kind, one.cause, f"{one.calls:,}", f"{one.tokens:,}"] for one in found.deviations],
    )
    yield (
        "How long entries lived, where nothing else can have made a difference",
        ("recorded by", "lifetime", "pause since the end of the call before", "read", "missed"),
        [
            [one.source, f"{one.ttl_seconds:,} s", _pause(one), f"{one.hits:,}", f"{one.misses:,}"]
            for one in found.lifetimes
        ],
    )
    if found.sizes:
        yield _size_table(found)


def _size_table(found: Scoreboard) -> Table:
    columns = ("model", "tools", "calls", "counted / billed", "counted − billed")
    rows = [
        [
            one.model,
            "yes" if one.has_tools else "",
            f"{one.calls:,}",
            f"{one.median_ratio:.2f}",
            f"{one.median_difference:+,.0f}",
        ]
        for one in found.sizes
    ]
    return "Tokens of recorded requests, as counted here and as billed (medians)", columns, rows


def _pause(row: Lifetime) -> str:
    least = round(row.least * row.ttl_seconds)
    most = row.most * row.ttl_seconds
    return f"{least:,} s and more" if most == float("inf") else f"{least:,} to {round(most):,} s"


def _opening(found: Scoreboard) -> str:
    n, score = found.calls, found.total
    line = (
        f"{n:,} calls; {score.calls:,} have one before them in their conversation and something to read, and are scored"
    )
    if found.calls_without_bill:
        line += f"; {found.calls_without_bill:,} do not say what they were billed"
    return line


def _draw(found: Scoreboard, console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    console.print(_opening(found), markup=False)
    if not found.total.calls:
        return
    for heading, all_columns, rows in _tables(found):
        is_cut = console.width < WIDE and all_columns[-len(_SCORE) :] == _SCORE
        columns = all_columns[: -len(_TOKENS)] if is_cut else all_columns
        console.print()
        console.print(heading, style="bold", markup=False)
        table = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in columns:
            table.add_column(column, justify="left" if column in _WORDS else "right", overflow="fold")
        for row in rows[:MOST_ROWS]:
            table.add_row(*(Text(sanitize_for(console.encoding, cell, keep="")) for cell in row[: len(columns)]))
        console.print(table)
        if len(rows) > MOST_ROWS:
            console.print(f"and {len(rows) - MOST_ROWS:,} more: --json has them all", markup=False)


_WORDS = ("recorded by", "model", "month", "tools", "what happened", "cause", "pause since the end of the call before")


def _markdown(found: Scoreboard) -> str:
    lines = [
        "# Predicted and billed",
        "",
        "Written by `contextkit validate --markdown`. What each call reads from the cache is predicted from the bills of the calls",
        "before it in its conversation, the times, and what the record says of the call: its prompt or its size, a compaction, another",
        "model, an event of the client. Its own split into read and written is never told. *agreed* is the share of calls",
        "predicted to hit, or to miss, as they did, a miss being a shortfall above 5 % and 2,000 tokens; *median error* that of",
        "the tokens read, over calls; *predicted* the sum of what was predicted against what was read. *trivial* stands for the",
        "prediction that everything sent before is read.",
        "",
        f"{escaped(_opening(found))}.",
    ]
    for heading, columns, rows in _tables(found):
        lines += ["", f"## {heading}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [f"| {' | '.join(cell if cell[:1] in '+-' else escaped(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
