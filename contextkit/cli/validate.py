"""Implements `contextkit validate`: how well the cache rules predict what providers billed.

`validate --engine` is `validate_engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.report import exit_if_incomplete, print_faults
from contextkit.cli.terminal import for_programs
from contextkit.cli.validate_engine import first_server_option, server_options, validate_engine
from contextkit.engines.running import RUNNING
from contextkit.errors import UnreadableLog
from contextkit.ledger.figures import UNKNOWN
from contextkit.ledger.validation import Lifetime, Scoreboard, Validation
from contextkit.report.markdown import escaped
from contextkit.report.tables import Cell, Column, Table, text_of
from contextkit.report.terminal import drawn, print_line
from contextkit.terminal import echo, echo_error, echo_json, rich_console

if TYPE_CHECKING:
    from rich.console import Console

    from contextkit.importers.source import Faults
    from contextkit.report.progress import Watch

WIDE = 140
"""Columns a terminal needs for the sums of tokens too."""
MOST_ROWS = 40
"""Rows of a table on a terminal; --json and --markdown have them all."""


@click.command("validate", hidden=True)
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As a Markdown page.")
@click.option("--verbose", is_flag=True, help="List each fault of the recordings, each request that differs.")
@server_options
def command(
    paths: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    verbose: bool,
    engine: str | None,
    base_url: str | None,
    served_model: str | None,
    api_key: str | None,
    n_requests: int,
    seed: int | None,
    min_agreement: float,
    timeout_seconds: float,
    **options: Any,
) -> None:
    """Predict what calls read from the cache, and score that: against the bills of recordings, or a running engine.

    PATHS are files, folders, patterns, or - for standard input, in any known format. A call is predicted from the bills
    before it, the times, and what the record says of the call; beside it stands the trivial prediction, that everything
    sent before is read.

    With --engine, seeded prompts are sent to your own server, one at a time, and each is compared with contextkit's
    reference cache of that engine, set as the server says it is. The options of the cache from --block-size on say what
    the server does not. Nobody else should use it meanwhile. Exits with 1 below --min-agreement.

    \b
    contextkit validate ~/.claude/projects
    contextkit validate ~/.codex/sessions --json
    contextkit validate --engine vllm --base-url http://127.0.0.1:8000
    contextkit validate --engine llamacpp --requests 1000
    """
    if as_json and as_markdown:
        raise click.UsageError("--json and --markdown both write to standard output: leave one out")
    if engine is not None and paths:
        raise click.UsageError(f"--engine asks a server, {paths[0]} is a recording: leave one out")
    if engine is None and (option := first_server_option(click.get_current_context())):
        raise click.UsageError(f"{option} is about a running engine: name it with --engine {'|'.join(RUNNING)}")
    if engine is None and not paths:
        raise click.MissingParameter(
            "Give recordings, or a running engine with --engine.", param_type="argument", param_hint="'PATHS...'"
        )
    if as_json or as_markdown:
        for_programs()
    if engine is None:
        _validate_recordings(paths, as_json=as_json, as_markdown=as_markdown, is_verbose=verbose)
        return
    validate_engine(
        engine,
        base_url,
        served_model=served_model,
        api_key=api_key,
        n_requests=n_requests,
        seed=seed,
        min_agreement=min_agreement,
        timeout_seconds=timeout_seconds,
        options=options,
        as_json=as_json,
        as_markdown=as_markdown,
        is_verbose=verbose,
    )


def _validate_recordings(paths: tuple[str, ...], *, as_json: bool, as_markdown: bool, is_verbose: bool) -> None:
    from contextkit.importers.registry import check_any_read
    from contextkit.importers.source import Faults
    from contextkit.report.progress import watching

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
        print_faults(faults, is_verbose=is_verbose)
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
    return UNKNOWN if value is None else f"{value:.2%}".replace("%", " %")


def _signed(predicted: int, read: int) -> str:
    return f"{(predicted - read) / read:+.2%}".replace("%", " %") if read else UNKNOWN


def _words(heading: str, cell: Callable[[Any], Cell]) -> Column[Any]:
    return Column(heading, cell, is_number=False)


def _number(heading: str, cell: Callable[[Any], Cell], least: int = 0) -> Column[Any]:
    return Column(heading, cell, least=least, wraps=True)


_SOURCE = _words("recorded by", attrgetter("source"))
_SCORE = (
    _number("calls", attrgetter("calls")),
    _number("misses", attrgetter("misses")),
    _number("agreed", lambda score: _percent(score.agreement)),
    _number("trivial", lambda score: _percent(score.agreement_trivial)),
    _number("median error", lambda score: _percent(score.median_error)),
    _number("trivial", lambda score: _percent(score.median_error_trivial)),
    _number("tokens read", attrgetter("read_tokens"), WIDE),
    _number("predicted", lambda score: _signed(score.predicted_tokens, score.read_tokens), WIDE),
    _number("trivial", lambda score: _signed(score.predicted_tokens_trivial, score.read_tokens), WIDE),
)


def _tables(found: Scoreboard) -> Iterator[Table[Any]]:
    """Yield every table, in its order."""
    source = _words("recorded by", lambda score: "all" if score is found.total else score.source)
    total = [found.total] if len(found.sources) != 1 else []
    yield Table("By program or format", (source, *_SCORE), [*found.sources, *total])
    model, month = _words("model", attrgetter("model")), _words("month", attrgetter("month"))
    yield Table("By model and month", (_SOURCE, model, month, *_SCORE), found.scores)
    deviation = (
        _SOURCE,
        _words("what happened", attrgetter("kind")),
        _words("cause", attrgetter("cause")),
        _number("calls", attrgetter("calls")),
        _number("tokens", attrgetter("tokens")),
    )
    yield Table("Where bills and predictions differ", deviation, found.deviations)
    lifetime = (
        _SOURCE,
        _number("lifetime", lambda row: f"{row.ttl_seconds:,} s"),
        _words("pause since the end of the call before", _pause),
        _number("read", attrgetter("hits")),
        _number("missed", attrgetter("misses")),
    )
    yield Table("How long entries lived, where nothing else can have made a difference", lifetime, found.lifetimes)
    size = (
        model,
        _words("tools", lambda row: "yes" if row.has_tools else ""),
        _number("calls", attrgetter("calls")),
        _number("counted / billed", lambda row: f"{row.median_ratio:.2f}"),
        _number("counted − billed", lambda row: f"{row.median_difference:+,.0f}"),
    )
    if found.sizes:
        yield Table("Tokens of recorded requests, as counted here and as billed (medians)", size, found.sizes)


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
    if found.calls_silent:
        line += f"; {found.calls_silent:,} are of hosts that report no reads"
    return line


def _draw(found: Scoreboard, console: Console) -> None:
    print_line(console, _opening(found))
    if not found.total.calls:
        return
    for table in _tables(found):
        console.print()
        print_line(console, table.name, style="bold")
        console.print(drawn(replace(table, rows=table.rows[:MOST_ROWS]), console))
        if len(table.rows) > MOST_ROWS:
            print_line(console, f"and {len(table.rows) - MOST_ROWS:,} more: --json has them all")


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
    for table in _tables(found):
        headings = [column.heading for column in table.columns]
        lines += ["", f"## {table.name}", "", f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
        rows = ([text_of(cell) for cell in cells] for cells in table.cells())
        lines += [f"| {' | '.join(cell if cell[:1] in '+-' else escaped(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
