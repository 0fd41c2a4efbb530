"""Implements `contextkit fingerprint`: the calls of recordings without any text, as a ledger that can be published."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contextkit.cli.report import exit_if_incomplete, print_faults, records_of, written
from contextkit.errors import UsageError
from contextkit.ledger.calls import HEADER, Chain, Exchange, Record, encode
from contextkit.ledger.fingerprint import LEAST_SALT_BYTES, Fingerprinter
from contextkit.private_files import open_private
from contextkit.terminal import echo, echo_error

if TYPE_CHECKING:
    from contextkit.importers.source import Faults
    from contextkit.report.progress import Watch

STDOUT = "-"
"""Stands for standard output."""
SALT_BYTES = 32
"""Size of a salt that is made here."""
_MOST_NAMED = 5
"""Hidden models that are listed."""


@click.command("fingerprint")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Ledger to write, a new file; - for standard output.",
)
@click.option(
    "--salt-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Salt of the hashes, made where it is not there yet: files of one salt can be joined. Keep it secret.",
)
@click.option("--keep-models", is_flag=True, help="Keep the names of models that are in no table.")
def command(paths: tuple[str, ...], out: str, salt_file: str | None, keep_models: bool) -> None:
    """Write the calls of PATHS without any text: bills, times, models, and prompts as salted hashes.

    The result is a ledger: `contextkit report` says the same of it as of PATHS, names aside. PATHS are files, folders,
    patterns, or - for standard input, in any known format.

    \b
    contextkit fingerprint ~/.claude/projects --out fingerprint.jsonl
    contextkit fingerprint monday.jsonl --out monday-f.jsonl --salt-file salt
    contextkit fingerprint session.jsonl --out - | gzip > fingerprint.jsonl.gz
    """
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import files_at
    from contextkit.importers.source import Faults
    from contextkit.report.progress import watching

    if out != STDOUT and Path(out).exists():
        raise UsageError(f"{out} is there already; name a new file, or remove it first")
    faults = Faults()
    files = files_at(paths, faults)
    fingerprinter = Fingerprinter(_salt(salt_file), keep_models=keep_models)
    with watching() as watch, seldom_collecting():
        records = _checked(records_of(files, set(paths), faults, watch), fingerprinter, faults, watch)
        n = _print_ledger(records) if out == STDOUT else written(records, out)
        watch.finish()
    if out != STDOUT:
        echo(f"{n:,} calls written to {out}")
    _print_hidden(list(fingerprinter.names.hidden_models))
    print_faults(faults)
    exit_if_incomplete(faults)


def _checked(records: Iterable[Record], fingerprinter: Fingerprinter, faults: Faults, watch: Watch) -> Iterator[Record]:
    """The fingerprints of `records`; raises where Ctrl-C cut them short, or where no call was among them."""
    from contextkit.importers.registry import check_any_read

    n = 0
    for record in records:
        n += isinstance(record, Exchange)
        yield from fingerprinter.feed(record)
    if watch.is_stopped:
        watch.finish()
        echo_error("interrupted: no whole fingerprint was written")
        raise click.exceptions.Exit(130)
    check_any_read(faults)
    if not n:
        raise UsageError("no model call was found; name recordings that hold calls, as contextkit report shows them")


def _print_ledger(records: Iterator[Record]) -> int:
    """Print the records as a ledger; nothing where there is none."""
    n, end = 0, Chain()
    output = sys.stdout.buffer
    for record in records:
        line, end = end.add(encode(record))
        output.write(line if n else HEADER + line)
        n += 1
    output.flush()
    return n


def _salt(name: str | None) -> bytes:
    """The content of the salt file, random bytes that are kept nowhere without one.

    Raises `UsageError` for a file that is no salt.
    """
    if name is None:
        return secrets.token_bytes(SALT_BYTES)
    try:
        with os.fdopen(open_private(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        pass
    salt = Path(name).read_bytes()
    if len(salt) < LEAST_SALT_BYTES:
        raise UsageError(
            f"{name} holds {len(salt)} bytes, and a salt has {LEAST_SALT_BYTES} or more: "
            "name a file that does not exist yet to have one made"
        )
    return salt


def _print_hidden(models: Sequence[str]) -> None:
    """List the stand-ins of models that are in no table."""
    if models:
        more = f" and {len(models) - _MOST_NAMED:,} more" if len(models) > _MOST_NAMED else ""
        echo_error(
            f"models that are in no table are hashed, and may have no price: {', '.join(models[:_MOST_NAMED])}{more}; "
            "--keep-models writes their names"
        )
