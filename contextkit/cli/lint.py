"""Implements `contextkit lint`: reports what breaks the prompt's prefix, in source code and in recorded requests.

The paths of the command line are code, recordings, or standard input; the options overlay the project's settings. A
combination of which one part would be ignored is a usage error, and so is a code that no hazard has.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from contextkit.cli.terminal import counter
from contextkit.errors import UnreadableLog
from contextkit.ledger.figures import counted
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig, check_codes, config_of, read_config
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.own import UNREADABLE
from contextkit.lint.source.detect import find_in_code
from contextkit.pyproject import read_table
from contextkit.terminal import echo, echo_error, echo_file, echo_json

if TYPE_CHECKING:
    from contextkit.lint.output.results import LintResults

FORMATS = ("text", "json", "sarif", "github")
"""What `--format` takes."""
_EXCLUSIVE = {
    "--explain": "--statistics --diff --write-baseline --fix --baseline --diff-base --format=sarif --format=github",
    "--statistics": "--diff --write-baseline --format=sarif --format=github",
    "--diff": "--write-baseline --fix --format=json --format=sarif --format=github",
    "--write-baseline": "--baseline --diff-base --format=json --format=sarif --format=github",
    "--baseline": "--diff-base",
    "--format=json": "--format=text --format=sarif --format=github",
    "--format=sarif": "--format=text --format=github",
    "--format=github": "--format=text",
}
"""Option → those that it would ignore, or that would ignore it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed."""

    paths: tuple[str, ...]
    recordings: tuple[str, ...]
    stdin_filename: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    forms: tuple[str, ...]
    is_fixing: bool
    is_unsafe: bool
    is_diff: bool
    has_statistics: bool
    explain: str | None
    baseline: str | None
    write_baseline: str | None
    diff_base: str | None
    exit_zero: bool
    config: str | None
    tests: bool

    @property
    def form(self) -> str:
        """The format that is wanted."""
        return self.forms[0] if self.forms else "text"

    def check(self) -> None:
        """Raise a usage error for what does not go together."""
        options = {
            "--explain": self.explain,
            "--statistics": self.has_statistics,
            "--diff": self.is_diff,
            "--write-baseline": self.write_baseline,
            "--baseline": self.baseline,
            "--diff-base": self.diff_base,
            "--fix": self.is_fixing,
            **{f"--format={form}": True for form in self.forms},
        }
        used = {name for name, value in options.items() if value not in (None, False)}
        for one, others in _EXCLUSIVE.items():
            for other in others.split():
                if used >= {one, other}:
                    raise click.UsageError(f"{one} and {other} do not go together; give one of them")
        if self.is_unsafe and not self.is_fixing:
            raise click.UsageError("--unsafe-fixes goes with --fix; --diff shows those changes in any case")


# Paths
# ------------------------------------------------------------------------------------------------------------------

STDIN = "-"
"""Stands for standard input."""
SOURCE_SUFFIXES = {".py", ".pyi", ".pyw", ".ipynb"}
"""What is read as code; any other file is a recording, whatever it is called."""
_RECORDED = (b"{", b"[", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How a recording begins, plain or packed; what begins otherwise is Python."""


@dataclass(frozen=True, slots=True)
class LintInput:
    """What is to be looked at."""

    code: Sequence[str]
    """Folders, Python files and notebooks."""
    recordings: Sequence[str]
    """Files, patterns of them, or standard input."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """File among the code → what it holds, where that came by standard input."""


def lint_input(paths: Sequence[str], recordings: Sequence[str], stdin_filename: str | None) -> LintInput:
    """Sort paths into code and recordings; this folder where nothing was typed. Raise a usage error for a path or pattern
    that names nothing.
    """
    named = [one for path in paths or (() if recordings else (".",)) for one in _expanded(path)]
    contents = _contents(stdin_filename, is_read=STDIN in named)
    named = [next(iter(contents), path) if path == STDIN else path for path in named]
    code = [path for path in named if path in contents or _is_code(path)]
    return LintInput(code, [*(path for path in named if path not in code), *recordings], contents)


def _is_code(path: str) -> bool:
    return Path(path).is_dir() or Path(path).suffix in SOURCE_SUFFIXES


def _expanded(path: str) -> list[str]:
    """Return the path, or what a pattern stands for, as a shell would; one that stands for recordings alone is one recording."""
    if path == STDIN or Path(path).exists():
        return [path]
    matches = sorted(one for one in glob.glob(os.path.expanduser(path), recursive=True) if Path(one).exists())  # noqa: PTH111, PTH207 - may be absolute, may name nobody
    if not matches:
        raise click.UsageError(
            f"{path}: no such file or folder; give Python files, folders of them, or recordings of requests"
        )
    return matches if any(map(_is_code, matches)) else [path]


def _contents(name: str | None, *, is_read: bool) -> Mapping[str, bytes]:
    """Return Python source that comes by standard input, by its name; nothing where a recording comes, or nothing is read."""
    if not is_read:
        if name is not None:
            raise click.UsageError("--stdin-filename names what comes by standard input; give - as a path, too")
        return {}
    if sys.stdin is None:
        raise click.UsageError("standard input is closed; give paths instead of -")
    if name is None:  # looked at, not taken away: a recording may be larger than memory, and is read later
        head: bytes = cast(Any, sys.stdin.buffer).peek(1).lstrip()
        if not head or head.startswith(_RECORDED):
            return {}
    return {str(Path(name or "stdin")): sys.stdin.buffer.read()}


def config_for(options: Options, paths: Sequence[str]) -> LintConfig:
    """Return what the project says, and what was typed on top of it: a selection instead of its own, more to ignore."""
    file = options.config
    config = config_of(read_table(Path(file), "lint") or {}, file) if file else read_config(paths[0] if paths else ".")
    select, ignore = _codes("--select", options.select), _codes("--ignore", options.ignore)
    tests = config.tests or options.tests
    return replace(config, select=select or config.select, ignore=(*config.ignore, *ignore), tests=tests)


def _codes(option: str, words: Sequence[str]) -> tuple[str, ...]:
    return check_codes(option, [word.strip().upper() for one in words for word in one.split(",") if word.strip()])


# Detectors
# ------------------------------------------------------------------------------------------------------------------

Sift = Callable[[Sequence[Finding]], list[Finding]]
"""Findings in code → those that are to be reported."""


class Look:
    """One run of the detectors over what is given; `sift` chooses the findings in code that are reported."""

    def __init__(self, lint_input: LintInput, config: LintConfig, sift: Sift = list) -> None:
        self._input, self._config, self._sift = lint_input, config, sift
        self.n_files = 0 if lint_input.code else None
        self.n_calls = 0 if lint_input.recordings else None
        self.is_incomplete = False
        """Whether a recording was not read, or not to its end."""

    def in_code(self) -> list[Finding]:
        """Return the findings of the source detector; a folder that cannot be looked into is one."""
        if not self._input.code:
            return []
        closed: dict[str, str] = {}
        with counter() as progress:

            def count(done: int, total: int) -> None:
                self.n_files = total
                progress(f"{done:,} of {total:,} files read")

            findings = find_in_code(
                self._input.code,
                self._config,
                hazards(),
                progress=count,
                closed=closed.__setitem__,
                contents=self._input.contents,
            )
            everything = [*findings]
        for path in {str(Path(path)) for path in self._input.code} & closed.keys():
            raise click.UsageError(f"{path}: {closed[path]}")
        for path in sorted(closed) if self._config.is_selected(UNREADABLE) else ():
            place, text = CodePlace(path, 1, 1, 1, 1), f"folder cannot be read: {closed[path]}"
            everything.append(Finding(UNREADABLE, text, place, "source"))
        return self._sift(everything)

    def in_recordings(self) -> Iterator[Finding]:
        """Yield the findings of recordings, record by record: a recording may be larger than memory."""
        names = self._input.recordings
        if not names:
            return
        from contextkit.cli.report import print_faults
        from contextkit.importers.registry import check_any_read, records_in
        from contextkit.importers.source import Faults
        from contextkit.lint.requests.detect import RequestDetector

        faults, detector = Faults(), RequestDetector(hazards())
        with counter() as progress:
            try:
                for record in records_in(names, faults, has_programs=True):
                    yield from detector.feed(record)
                    progress(f"{detector.n_calls:,} calls judged")
                check_any_read(faults)
            except UnreadableLog as error:
                if not self._input.code:
                    raise UnreadableLog(re.sub(r"^-( line 1)?: ", "standard input: ", str(error))) from None
                faults.refuse(names[0], error, [*self._input.code, *names])
            yield from detector.close()
        self.n_calls, self.is_incomplete = detector.n_calls, faults.is_incomplete
        print_faults(faults)


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
@click.option("--format", "forms", type=click.Choice(FORMATS), multiple=True, help="By default text.")
@click.option("--json", "forms", flag_value="json", multiple=True, help="The same as --format json.")
@click.option("--fix", "is_fixing", is_flag=True, help="Make the safe changes.")
@click.option(
    "--unsafe-fixes", "is_unsafe", is_flag=True, help="With --fix: make the changes to what the model reads, too."
)
@click.option("--diff", "is_diff", is_flag=True, help="Show the changes, those for --unsafe-fixes too, make none.")
@click.option("--statistics", "has_statistics", is_flag=True, help="Counts by code instead of findings.")
@click.option("--explain", metavar="CODE", help="The page of one hazard.")
@click.option(
    "--baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Report only findings that are not in it."
)
@click.option(
    "--write-baseline",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the current findings in code to it.",
)
@click.option("--diff-base", metavar="REV", help="Report only findings in code that are new since a git revision.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="A pyproject.toml other than the one above the paths.",
)
@click.option("--tests", is_flag=True, help="Look at tests in folders, too; by default only at those that are named.")
def command(**lint_input: Any) -> None:
    """Find what breaks the prompt's prefix in PATHS: folders, Python files, notebooks, recorded requests; by default this
    folder.

    Exits with 0 when nothing was found, with 1 when a hazard was or a file among others was not read, with 2 when
    nothing could be read or something was typed wrong.
    The path - is standard input, a recording or Python source.

    \b
    contextkit lint src/
    contextkit lint src/ --requests runs/monday/ledger.jsonl
    contextkit lint src/ --diff-base origin/main
    contextkit lint --explain CKS01
    """
    options = Options(**lint_input)
    options.check()
    if options.explain is not None:
        from contextkit.lint.explain import parts, terminal_text
        from contextkit.lint.output.formats import dumped

        if options.form == "json":
            echo_json(dumped(parts(options.explain)))
        else:
            echo(terminal_text(options.explain))
    elif _print_results(_results(options), options) and not options.exit_zero:
        raise click.exceptions.Exit(1)


def _results(options: Options) -> LintResults:
    """Return everything found; with --fix what is left of it."""
    from contextkit.lint.output.fixes import fix
    from contextkit.lint.output.results import LintResults, lines_of

    what = lint_input(options.paths, options.recordings, options.stdin_filename)
    if what.contents and (options.is_fixing or options.is_diff):
        raise click.UsageError("--fix and --diff change files, and standard input is none; give the file's path")
    if what.recordings and options.write_baseline is not None:
        raise click.UsageError("--write-baseline holds what is found in code; leave the recordings out")
    if options.diff_base is not None and not what.code:
        raise click.UsageError("--diff-base compares code; give folders or files of code, too")
    lines = partial(lines_of, contents=what.contents)
    config = config_for(options, what.code)
    look = Look(what, config, _sift(options, what, config, lines))
    left, n_fixed = fix(look.in_code, is_unsafe=options.is_unsafe) if options.is_fixing else (look.in_code(), 0)
    findings = [*left, *(finding for finding in look.in_recordings() if config.is_selected(finding.code))]
    return LintResults(findings, n_fixed, look.n_files, look.n_calls, lines, look.is_incomplete)


def _sift(options: Options, what: LintInput, config: LintConfig, lines: Callable[[str], Sequence[str]]) -> Sift:
    """Return what leaves out the findings of a baseline or a revision."""
    from contextkit.lint.baseline import finding_counts, naming, new, read_baseline
    from contextkit.lint.output.results import lines_of

    if options.baseline is not None:
        counts, name = read_baseline(options.baseline), naming(options.baseline)
    elif options.diff_base is not None:
        from contextkit.lint.revision import files_of

        with files_of(options.diff_base, what.code, SOURCE_SUFFIXES) as then:
            counts = finding_counts(find_in_code(then.paths, config, hazards()), then.name_then, lines_of)
        name = then.name_now
    else:
        return list
    return partial(new, then=counts, name=name, lines=lines)


def _print_results(results: LintResults, options: Options) -> bool:
    """Print the results or write them down; return whether something was found or not read, or a file would change."""
    if options.is_diff:
        from contextkit.lint.output.fixes import diff, mended

        changes = list(mended(results.findings, is_unsafe=True))
        for change in changes:
            echo_file(diff(change).removesuffix("\n"))
        echo_error(f"{counted(len(changes), 'file')} would change.")
        return bool(changes)
    if options.write_baseline is not None:
        from contextkit.lint.baseline import write_baseline

        n = write_baseline(options.write_baseline, results.findings, results.lines)
        echo(f"{counted(n, 'hazard')} written to {options.write_baseline}.")
        return False
    from contextkit.lint.output.formats import FORMS, STATISTICS

    text = (STATISTICS if options.has_statistics else FORMS)[options.form](results)
    if text:
        (echo_json if options.form in ("json", "sarif") else echo)(text)
    return bool(results.findings) or results.is_incomplete
