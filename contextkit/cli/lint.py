"""`contextkit lint`: what breaks the prompt's prefix, in source code and in recorded requests."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.terminal.counter import counter

if TYPE_CHECKING:
    from contextkit.importers.source import Faults
    from contextkit.ledger.exchange import Exchange
    from contextkit.lint.config import LintConfig
    from contextkit.lint.finding import Finding
    from contextkit.lint.output.forms import Told

SOURCE_SUFFIXES = {".py", ".pyi", ".pyw"}
"""What is read as code; any other file is a recording, whatever it is called."""
ROUNDS = 5
"""A change may make room for the next; after so many rounds the rest is left for another run."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed."""

    paths: tuple[str, ...]
    recordings: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    form: str
    as_json: bool
    is_fixing: bool
    is_diff: bool
    has_statistics: bool
    explain: str | None
    exit_zero: bool
    config: str | None
    tests: bool
    jobs: int | None


@click.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]...")
@click.option("--requests", "recordings", multiple=True, type=click.Path(), metavar="FILE", help="Recorded requests to look at, too.")
@click.option("--select", multiple=True, metavar="CODES", help="Only these, by code or its beginning: CKS,CKM04.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All but these.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--fix", "is_fixing", is_flag=True, help="Make the safe changes.")
@click.option("--diff", "is_diff", is_flag=True, help="Show the safe changes, make none.")
@click.option("--statistics", "has_statistics", is_flag=True, help="Counts by code instead of findings.")
@click.option("--explain", metavar="CODE", help="The page of one hazard.")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 whatever was found.")
@click.option("--config", type=click.Path(dir_okay=False), metavar="FILE", help="A pyproject.toml other than the one above the paths.")
@click.option("--tests", is_flag=True, help="Look at tests in folders, too; by default only at those that are named.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes at most; by default one for each core, fewer for small trees.")
def command(**given: Any) -> None:
    """Find what breaks the prompt's prefix in PATHS: folders, Python files, recorded requests (by default this folder).

    Leaves with 0 when nothing was found, with 1 when something was, with 2 for what cannot be read or was typed wrong.

    \b
    contextkit lint src/
    contextkit lint src/ --requests runs/monday/ledger.jsonl
    contextkit lint --explain CKS01
    """
    options = Options(**given)
    if options.explain is not None:
        _explain(options.explain)
        return
    told = _told(options)
    changes = _diff(told) if options.is_diff else _show(told, options)
    if changes and not options.exit_zero:
        raise click.exceptions.Exit(1)


def _explain(code: str) -> None:
    from contextkit.lint.catalogue import page

    _say(page(code).strip())


def _told(options: Options) -> Told:
    """Everything found; with --fix what is left of it."""
    from contextkit.lint.catalogue import hazards, page
    from contextkit.lint.output.forms import Told

    code, recordings = _sorted(options)
    config = _config(options, code)
    tests = set[str]()
    look = partial(_in_code, code, config, options.jobs, tests.add)
    left, n_fixed = _mended(look) if options.is_fixing else (look(), 0)
    if tests:
        click.echo(f"{len(tests):,} file{'s' * (len(tests) != 1)} of tests left out: name them, or add --tests", err=True)
    found = [*left, *_in_recordings(recordings, config)]
    return Told(found, {row.code: row for row in hazards()}, page, version("contextkit"), n_fixed)


def _say(text: str) -> None:
    """What the output cannot spell (a terminal that is not UTF-8, half a surrogate pair) is written as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))


def _show(told: Told, options: Options) -> bool:
    from contextkit.lint.output.forms import FORMS, statistics

    tell = statistics if options.has_statistics else FORMS["json" if options.as_json else options.form]
    text = tell(told)
    if text:
        _say(text)
    return bool(told.findings)


def _diff(told: Told) -> bool:
    from contextkit.lint.output.mend import diff, mended

    changes = list(mended(told.findings))
    for change in changes:
        _say(diff(change).removesuffix("\n"))
    click.echo(f"{len(changes)} file{'s' * (len(changes) != 1)} would change.", err=True)
    return bool(changes)


def _sorted(options: Options) -> tuple[list[str], list[str]]:
    """Paths of code, and recordings; raises `UnreadableLog` for a file that is neither, or not there."""
    given = options.paths or (() if options.recordings else (".",))
    code = [path for path in given if Path(path).is_dir() or Path(path).suffix in SOURCE_SUFFIXES]
    for path in given:
        if path != "-" and not has_magic(path) and not Path(path).exists():
            raise click.UsageError(f"{path}: no such file or folder; give Python files, folders of them, or recordings of requests")
    return code, [*(path for path in given if path not in code), *options.recordings]


# Detecting ----------------------------------------------------------------------------------------------------------------


def _in_code(paths: Sequence[str], config: LintConfig, jobs: int | None, left_out: Callable[[str], None]) -> list[Finding]:
    from contextkit.lint.catalogue import hazards
    from contextkit.lint.source.detect import find_in_code

    def told(done: int, total: int) -> None:
        tell(f"{done:,} of {total:,} files read")

    with counter() as tell:
        return list(find_in_code(paths, config, hazards(), jobs=jobs, progress=told, left_out=left_out)) if paths else []


def _mended(look: Callable[[], list[Finding]]) -> tuple[list[Finding], int]:
    """What is left, and how many findings were mended."""
    from contextkit.lint.output.mend import mended, write

    left, n_fixed = look(), 0
    for _ in range(ROUNDS):
        changes = list(mended(left))
        if not changes:
            break
        for change in changes:
            write(change)
            n_fixed += len(change.findings)
        left = look()
    return left, n_fixed


def _in_recordings(files: Sequence[str], config: LintConfig) -> Iterator[Finding]:
    """Findings of recordings, record by record: a recording may be larger than memory."""
    from contextkit.importers.source import Faults

    faults = Faults()
    with counter() as tell:
        for file in files:
            yield from _in_recording(file, config, faults, tell)
    for fault in faults.kept:
        click.echo(str(fault), err=True)
    if len(faults) > len(faults.kept):
        click.echo(f"and {len(faults) - len(faults.kept):,} more of these", err=True)


def _in_recording(file: str, config: LintConfig, faults: Faults, tell: Callable[[str], None]) -> Iterator[Finding]:
    from contextkit.importers.found import records_in
    from contextkit.ledger.exchange import Remark
    from contextkit.lint.catalogue import hazards
    from contextkit.lint.trace.detect import Detector

    verdicts: dict[str, str] = {}
    detector = Detector(hazards(), verdicts=verdicts)
    waiting: list[Exchange] = []
    for record in records_in([file], faults):
        if isinstance(record, Remark):
            verdicts.update({record.about: record.text} if record.kind == "verdict" else {})
            continue
        for exchange in waiting:  # what is said of a call may stand right behind it
            yield from _selected(detector.feed(exchange), config)
        tell(f"{detector.n_calls:,} calls compared")
        waiting = [record]
    for exchange in waiting:
        yield from _selected(detector.feed(exchange), config)
    yield from _selected(detector.finish(), config)
    n_all = detector.n_skipped + detector.n_calls + detector.n_unreadable
    if detector.n_skipped or not n_all:
        what = f"{detector.n_skipped} of {n_all} calls were recorded without their bodies" if n_all else "no calls in it"
        click.echo(f"{file}: {what}; nothing to look at", err=True)


def _selected(found: Iterator[Finding], config: LintConfig) -> Iterator[Finding]:
    return (finding for finding in found if config.is_selected(finding.code))


# Settings -----------------------------------------------------------------------------------------------------------------


def _config(options: Options, paths: Sequence[str]) -> LintConfig:
    """What the project says, and what was typed on top of it: a selection instead of its own, more to ignore."""
    from contextkit.lint.catalogue import hazards
    from contextkit.lint.config import read_config
    from contextkit.lint.output.group import UNPAGED

    codes = [*UNPAGED, *(row.code for row in hazards())]
    select, ignore = _prefixes(options.select, codes), _prefixes(options.ignore, codes)
    config = _config_in(options.config) if options.config else read_config(paths[0] if paths else ".")
    _check(config, codes)
    tests = config.tests or options.tests
    return replace(config, select=select or config.select, ignore=(*config.ignore, *ignore), tests=tests)


def _check(config: LintConfig, codes: Sequence[str]) -> None:
    """Raises a usage error for codes of a project's settings that no hazard has: a word typed wrong would silence everything."""
    where = f"{config.path}: [tool.contextkit.lint]"
    if not config.select:
        raise click.UsageError(f"{where} select is empty, so nothing would be looked for; without it everything is")
    ignores = {f"per-file-ignores {glob!r}": names for glob, names in config.per_file_ignores.items()}
    for key, names in {"select": config.select, "ignore": config.ignore, **ignores}.items():
        for name in names:
            if not any(code.startswith(name) for code in codes):
                raise click.UsageError(f"{where} {key}: no hazard's code begins with {name!r}; codes look like CKS01, levels like CKS")


def _config_in(file: str) -> LintConfig:
    from contextkit.lint.config import config_of

    try:
        table: Any = tomllib.loads(Path(file).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise click.UsageError(f"{file}: not TOML: {fault}") from None
    for name in ("tool", "contextkit", "lint"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise click.UsageError(f"{file}: {name!r} on the way to [tool.contextkit.lint] is no table")
    return config_of(table, file)


def _prefixes(given: Sequence[str], codes: Sequence[str]) -> tuple[str, ...]:
    """`("cks,CKM04",)` → `("CKS", "CKM04")`; raises a usage error for what no code begins with."""
    wanted = [word.strip().upper() for words in given for word in words.split(",") if word.strip()]
    prefixes = tuple("CK" if word == "ALL" else word for word in wanted)
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in codes):
            raise click.UsageError(f"no hazard's code begins with {prefix!r}; codes look like CKS01, levels like CKS")
    return prefixes
