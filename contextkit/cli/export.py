"""Implements `contextkit export`: the calls of recordings as a Parquet file, a row a call, without their text.

A row holds what `contextkit report` counts of a call, so sums over the rows are the figures of the report.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

import click

from contextkit.cache.usage import COUNTERS, Usage
from contextkit.cli.report import (
    DAYS,
    NO_CALLS,
    Moment,
    Options,
    check_not_empty,
    exit_if_incomplete,
    print_faults,
    read,
    writable_path,
)
from contextkit.errors import MissingExtra
from contextkit.ledger.calls import Bodies
from contextkit.ledger.prompts import Growing
from contextkit.private_files import replacing
from contextkit.redact import redact_text
from contextkit.terminal import echo, echo_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetWriter  # type: ignore[import-untyped]

    from contextkit.cache.prompt import Prompt
    from contextkit.ledger.misses import AnalyzedCall

FORMAT_VERSION = b"1"
"""Of the columns; the file's metadata has it as `contextkit_export`."""
ROW_GROUP = 16_384
"""Rows that are written at once: what a recording takes in memory does not grow with its calls."""


@click.command("export")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Parquet file to write; one that is there is replaced.",
)
@click.option(
    "--since", type=Moment(), metavar="TIME", help="Write calls from then on: 2026-04-09, 2026-04-09T18:30, 36h, 7d."
)
@click.option(
    "--until", type=Moment(is_end=True), metavar="TIME", help="Write calls up to then; a date counts to its end."
)
@click.option(
    "--session", default="", metavar="ID", help="Write calls of this session only; the start of its id is enough."
)
@click.option("--verbose", is_flag=True, help="List each fault of the recordings, not only how many there are.")
def command(
    paths: tuple[str, ...], out: str, since: float | None, until: float | None, session: str, verbose: bool
) -> None:
    """Write the calls of PATHS as a Parquet file: a row a call, with its bill, cost and miss, and no text.

    PATHS are what `contextkit report` reads: files, folders, patterns, or - for standard input; without them, the
    session logs that agent programs left on this machine in the last 7 days. Sums over the rows are the report's.
    Exits with 1 where a file could not be read wholly. Needs the extra `export`.

    \b
    contextkit export --out calls.parquet
    contextkit export ~/.claude/projects gateway-logs/ --out calls.parquet
    duckdb -c "SELECT model, sum(cost_usd) FROM 'calls.parquet' GROUP BY model"
    """
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.report.progress import watching

    since = Moment().convert(DAYS, None, None) if not paths and since is None else since
    writable_path("--out", out, paths)
    options = Options("", since, until, session, "terminal", None, False, verbose)
    with watching() as watch, seldom_collecting(), replacing(out) as file:
        with _rows_written_to(file) as rows:
            contents, faults = read(
                paths, options, watch, [rows], on_call=rows.follow, output=("--out", out), is_replayed=False
            )
        watch.finish()
        if watch.is_stopped:
            echo_error(f"interrupted: {out} was not written")
            raise click.exceptions.Exit(130)
        check_not_empty(contents, faults, options)
        if not rows.n:
            raise click.UsageError(f"{NO_CALLS}: {out} was not written")
    echo(f"{rows.n:,} calls written to {out}")
    print_faults(faults, is_verbose=verbose)
    exit_if_incomplete(faults)


@contextmanager
def _rows_written_to(file: IO[bytes]) -> Iterator[_Rows]:
    """Open the Parquet file for rows; it is whole when the block ends."""
    try:
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise MissingExtra("contextkit export", "export") from None
    with ParquetWriter(file, _schema(), compression="zstd") as writer:
        rows = _Rows(writer)
        yield rows
        rows.flush()


class _Rows:
    """Writes calls as rows, a row group at a time."""

    def __init__(self, writer: ParquetWriter) -> None:
        self.n = 0
        """Calls so far."""
        self._writer, self._growing = writer, Growing()
        self._prompt: Prompt | None = None
        """Of the call followed last."""
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def follow(self, analyzed: AnalyzedCall) -> None:
        """Rebuild the prompt of the next call, written or not: outlines of later calls continue it."""
        self._prompt = self._growing.prompt(analyzed.call)

    def __call__(self, call: AnalyzedCall) -> None:
        """Add the call that was followed last."""
        for column, value in zip(self._columns.values(), _row(call, self._prompt_digest(call)), strict=True):
            column.append(value)
        self.n += 1
        if self.n % ROW_GROUP == 0:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        import pyarrow as pa

        if self._columns["session"]:
            self._writer.write_table(pa.table(self._columns, schema=self._writer.schema))
            for values in self._columns.values():
                values.clear()

    def _prompt_digest(self, analyzed: AnalyzedCall) -> str | None:
        """Return a digest that is equal for equal prompts of one format; None if neither body nor blocks were recorded."""
        recorded, prompt = analyzed.call.prompt, self._prompt
        if isinstance(recorded, Bodies):
            return sha256(recorded.request).hexdigest()
        if prompt is None or not prompt.n:
            return None
        return sha256(b"".join((*prompt.namespaces, prompt.digests[prompt.n - 1]))).hexdigest()


# Columns
# ---------------------------------------------------------------------------------------------------------------------

COLUMNS = {
    "program": "string",
    "project": "string",
    "session": "string",
    "lane": "string",
    "agent": "string",
    "call_id": "string",
    "started_at": "timestamp[us]",
    "first_byte_at": "timestamp[us]",
    "ended_at": "timestamp[us]",
    "provider": "string",
    "model": "string",
    "account": "string",
    "host": "string",
    "service_tier": "string",
    "input_tokens": "int64",
    "uncached_input_tokens": "int64",
    "cache_read_tokens": "int64",
    "cache_write_tokens": "int64",
    "cache_write_5m_tokens": "int64",
    "cache_write_1h_tokens": "int64",
    "cache_write_other_tokens": "int64",
    "output_tokens": "int64",
    "output_tokens_estimate": "int64",
    "uncached_input_quality": "string",
    "cache_read_quality": "string",
    "cache_write_quality": "string",
    "output_quality": "string",
    "cost_usd": "double",
    "recorded_cost_usd": "double",
    "list_cost_usd": "double",
    "uncached_cost_usd": "double",
    "is_cost_lower_bound": "bool",
    "error": "string",
    "is_refused": "bool",
    "prompt_digest": "string",
    "miss_cause": "string",
    "miss_basis": "string",
    "miss_whose": "string",
    "is_loss": "bool",
    "expected_tokens": "int64",
    "lost_tokens": "int64",
    "lost_usd": "double",
    "provider_verdict": "string",
}
"""Column → its Arrow type. Unknown is null, never 0."""


def _schema() -> pa.Schema:
    import pyarrow as pa

    fields = [(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    return pa.schema(fields, metadata={"contextkit_export": FORMAT_VERSION})


def _row(analyzed: AnalyzedCall, prompt_digest: str | None) -> tuple[Any, ...]:
    """Return the values of `COLUMNS`, in their order."""
    call, miss, usage = analyzed.call, analyzed.miss, analyzed.usage or Usage()
    is_list_price = call.billed_usd is None
    return (
        _text(analyzed.program),
        _text(analyzed.project),
        _text(call.session),
        _text(call.lane),
        _text(analyzed.agent),
        _text(call.id),
        _time(call.at),
        _time(call.first_byte_at),
        _time(call.ended_at),
        _text(call.provider),
        _text(call.model),
        _text(call.account),
        _text(call.host),
        (usage.service_tier or "standard") if analyzed.usage else None,
        usage.prompt,
        usage.fresh,
        usage.read,
        usage.written,
        *_writes(usage),
        usage.output,
        call.output_estimate,
        *(usage.quality(counter) for counter in COUNTERS),
        analyzed.cost_usd,
        call.billed_usd,
        analyzed.list_cost_usd,
        analyzed.cost_uncached_usd,
        None if analyzed.cost_usd is None else analyzed.is_list_cost_partial and is_list_price,
        _text(redact_text(call.error or "")),
        call.is_refused,
        prompt_digest,
        miss.cause if miss else None,
        (miss.basis or None) if miss else None,
        miss.whose if miss else None,
        miss.is_loss if miss else None,
        miss.expected_tokens if miss else None,
        miss.lost_tokens if miss else None,
        miss.cost_usd if miss else None,
        _text(analyzed.diagnosis),
    )


def _writes(usage: Usage) -> tuple[int | None, int | None, int | None]:
    """Return the tokens written for five minutes, for an hour, and for any other time."""
    written = usage.written
    if written is None:
        return None, None, None
    by_ttl = dict(usage.writes or ())
    short, long = by_ttl.get(300) or 0, by_ttl.get(3600) or 0
    return short, long, written - short - long


def _text(text: str) -> str | None:
    """Return `text` as UTF-8 can hold it; None for none."""
    return text.encode("utf-8", "replace").decode() or None


def _time(at: float | None) -> datetime | None:
    """Convert to UTC without a zone: a day is the same whatever zone a query engine is set to."""
    try:
        return None if at is None else datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):  # no time that can be written
        return None
