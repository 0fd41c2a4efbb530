"""`contextkit lint`: what breaks the prompt's prefix, in source code and in recorded requests."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.linting.options import FORMATS, Options
from contextkit.terminal import echo, echo_error, echo_file, echo_json

if TYPE_CHECKING:
    from contextkit.cli.linting.looking import Sift
    from contextkit.lint.output.forms import Told
    from contextkit.lint.output.text import Lines

"""Characters written at once: of more a reader who left may have taken a part, and nobody would be told
(PYTHONUNBUFFERED)."""


@click.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]...")
@click.option(
    "--requests",
    "recordings",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Recorded requests to look at, too.",
)
@click.option(
    "--stdin-filename",
    type=click.Path(dir_okay=False),
    metavar="NAME",
    help="What the Python source that comes as - is called.",
)
@click.option("--select", multiple=True, metavar="CODES", help="Only these, by code or its beginning: CKS,CKM04.")
@click.option("--ignore", multiple=True, metavar="CODES", help="All but these.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--fix", "is_fixing", is_flag=True, help="Make the safe changes.")
@click.option("--diff", "is_diff", is_flag=True, help="Show the safe changes, make none.")
@click.option("--statistics", "has_statistics", is_flag=True, help="Counts by code instead of findings.")
@click.option("--explain", metavar="CODE", help="The page of one hazard.")
@click.option("--baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Tell only what is not in it.")
@click.option(
    "--write-baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Write down what is found in code now."
)
@click.option("--exit-zero", is_flag=True, help="Leave with 0 whatever was found.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="A pyproject.toml other than the one above the paths.",
)
@click.option("--tests", is_flag=True, help="Look at tests in folders, too; by default only at those that are named.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes at most; by default one for each core, fewer for small trees.",
)
def command(**given: Any) -> None:
    """Find what breaks the prompt's prefix in PATHS: folders, Python files, recorded requests; by default this folder.

    Leaves with 0 when nothing was found, with 1 when something was, with 2 for what cannot be read or was typed wrong.
    The path - is standard input, a recording or Python source.

    \b
    contextkit lint src/
    contextkit lint src/ --requests runs/monday/ledger.jsonl
    contextkit lint --explain CKS01
    """
    options = Options(**given)
    options.check()
    if options.explain is not None:
        _explain(options.explain, options.told_in)
        return
    if _tell(_told(options), options) and not options.exit_zero:
        raise click.exceptions.Exit(1)


def _explain(code: str, form: str) -> None:
    from contextkit.lint.output.plain_json import dumped
    from contextkit.lint.pages import page, parts

    if form == "json":
        echo_json(dumped(parts(code)))
    else:
        echo(page(code).strip())


# Looking
# ------------------------------------------------------------------------------------------------------------------


def _told(options: Options) -> Told:
    """Everything found; with --fix what is left of it."""
    from contextkit.cli.linting.looking import Look, mend
    from contextkit.cli.linting.paths import given
    from contextkit.cli.linting.settings import config_for
    from contextkit.lint.catalogue import hazards
    from contextkit.lint.output.forms import Told
    from contextkit.lint.output.window import lines_of
    from contextkit.lint.pages import page

    what = given(options.paths, options.recordings, options.stdin_filename)
    _check(options, has_contents=bool(what.contents), has_recordings=bool(what.recordings))
    lines = partial(lines_of, contents=what.contents)
    look = Look(what, config_for(options, what.code), options.jobs, _sift(options.baseline, lines))
    left, n_fixed = mend(look.in_code) if options.is_fixing else (look.in_code(), 0)
    look.tell_left_out()
    found = [*left, *look.in_recordings()]
    return Told(found, {row.code: row for row in hazards()}, page, version("contextkit"), n_fixed, look.looked, lines)


def _sift(baseline: str | None, lines: Lines) -> Sift | None:
    """What leaves out the findings of a baseline."""
    from contextkit.lint.baseline import new, read_baseline

    return None if baseline is None else partial(new, path=baseline, baseline=read_baseline(baseline), lines=lines)


def _check(options: Options, *, has_contents: bool, has_recordings: bool) -> None:
    """Raises a usage error for what cannot be done with what is given."""
    if has_contents and (options.is_fixing or options.is_diff):
        raise click.UsageError("--fix and --diff change files, and standard input is none; give the file's path")
    if has_recordings and options.write_baseline is not None:
        raise click.UsageError("--write-baseline holds what is found in code; leave the recordings out")


# Telling
# ------------------------------------------------------------------------------------------------------------------


def _tell(told: Told, options: Options) -> bool:
    """Say it, or write it down; gives whether anything was found, or would change."""
    if options.is_diff:
        return _diff(told)
    if options.write_baseline is not None:
        return _write_baseline(told, options.write_baseline)
    from contextkit.lint.output.forms import FORMS, STATISTICS

    text = (STATISTICS if options.has_statistics else FORMS)[options.told_in](told)
    if text and options.told_in in ("json", "sarif"):
        echo_json(text)
    elif text:
        echo(text)
    return bool(told.findings)


def _diff(told: Told) -> bool:
    from contextkit.lint.output.mend import diff, mended

    changes = list(mended(told.findings))
    for change in changes:
        echo_file(diff(change).removesuffix("\n"))
    echo_error(f"{len(changes):,} file{'s' * (len(changes) != 1)} would change.")
    return bool(changes)


def _write_baseline(told: Told, path: str) -> bool:
    from contextkit.lint.baseline import write_baseline
    from contextkit.lint.output.counts import counted

    echo(f"{counted(write_baseline(path, told.findings, told.lines), 'hazard')} written to {path}.")
    return False
