"""Implements `contextkit lint`: reports what breaks the prompt's prefix, in source code and in recorded requests.

The paths of the command line are code, recordings, or standard input; the options overlay the project's settings. A
combination of which one part would be ignored is a usage error, and so is a code that no hazard has.
"""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from contextkit.cli.terminal import counter
from contextkit.errors import UnreadableLog
from contextkit.installation import DISTRIBUTION
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import ALL, LintConfig, config_of, read_config
from contextkit.lint.finding import Finding
from contextkit.lint.output.groups import Looked, counted
from contextkit.lint.own import OWN
from contextkit.lint.source.detect import find_in_code
from contextkit.pyproject import read_table
from contextkit.terminal import echo, echo_error, echo_file, echo_json

FORMATS = ("text", "json", "sarif", "github")
"""What `--format` takes."""
_MODES: Mapping[str, tuple[str, ...]] = {
    "--explain": ("text", "json"),
    "--statistics": ("text", "json"),
    "--diff": ("text",),
    "--write-baseline": ("text",),
}
"""What is told instead of findings → the formats there are of it."""
_APART = (
    ("--fix", "--diff"),
    ("--fix", "--explain"),
    ("--baseline", "--write-baseline"),
    ("--baseline", "--explain"),
    ("--diff-base", "--baseline"),
    ("--diff-base", "--write-baseline"),
    ("--diff-base", "--explain"),
)
"""Pairs of which one would be ignored, besides two modes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed."""

    paths: tuple[str, ...]
    recordings: tuple[str, ...]
    stdin_filename: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    form: str
    as_json: bool
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
    def output_format(self) -> str:
        """The format that is wanted."""
        return "json" if self.as_json else self.form

    def check(self) -> None:
        """Raises a usage error for what does not go together."""
        options = {
            "--explain": self.explain is not None,
            "--statistics": self.has_statistics,
            "--diff": self.is_diff,
            "--fix": self.is_fixing,
            "--baseline": self.baseline is not None,
            "--write-baseline": self.write_baseline is not None,
            "--diff-base": self.diff_base is not None,
        }
        typed = {name for name, is_used in options.items() if is_used}
        modes = [name for name in _MODES if name in typed]
        pairs = [*([tuple(modes[:2])] if len(modes) > 1 else []), *(pair for pair in _APART if typed.issuperset(pair))]
        for one, other in pairs:
            raise click.UsageError(f"{one} and {other} do not go together; give one of them")
        if self.is_unsafe and not self.is_fixing:
            raise click.UsageError("--unsafe-fixes goes with --fix; --diff shows those changes in any case")
        if self.as_json and self.form not in ("text", "json"):
            raise click.UsageError(f"--json and --format {self.form} do not go together; give one of them")
        for mode in modes:
            if self.output_format not in _MODES[mode]:
                raise click.UsageError(
                    f"{mode} has no format {self.output_format}; it is told as {' or '.join(_MODES[mode])}"
                )


STDIN = "-"
"""Stands for standard input."""
UNNAMED = "stdin"
"""What source from standard input is called where nothing names it."""
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
    """Paths sorted; this folder where nothing was typed. Raises a usage error for a path or pattern that names nothing."""
    wanted = paths or (() if recordings else (".",))
    named = [findings for path in wanted for findings in _meant(path)]
    contents = _contents(stdin_filename, is_read=STDIN in named)
    named = [next(iter(contents), path) if path == STDIN else path for path in named]
    code = [path for path in named if path in contents or _is_code(path)]
    return LintInput(code, [*(path for path in named if path not in code), *recordings], contents)


def _is_code(path: str) -> bool:
    return Path(path).is_dir() or Path(path).suffix in SOURCE_SUFFIXES


def _meant(path: str) -> list[str]:
    """The path, or what a pattern stands for, as a shell would have it.

    One that stands for recordings alone is one recording.
    """
    if path == STDIN or Path(path).exists():
        return [path]
    matches = sorted(one for one in glob.glob(str(Path(path).expanduser()), recursive=True) if Path(one).exists())  # noqa: PTH207 - may be absolute
    if not glob.has_magic(path) or not matches:
        lacking = "no such file or folder" + (", and as a pattern it fits none" if glob.has_magic(path) else "")
        if Path(path).is_symlink():
            lacking = "a link to a file that is not there"
        raise click.UsageError(f"{path}: {lacking}; give Python files, folders of them, or recordings of requests")
    return matches if any(map(_is_code, matches)) else [path]


def _contents(name: str | None, *, is_read: bool) -> Mapping[str, bytes]:
    """Python source that comes by standard input, by its name; nothing where a recording comes, or nothing is read."""
    if name is not None and not is_read:
        raise click.UsageError("--stdin-filename names what comes by standard input; give - as a path, too")
    if not is_read:
        return {}
    if sys.stdin is None:
        raise click.UsageError("standard input is closed; give paths instead of -")
    if name is None:  # looked at, not taken away: a recording may be larger than memory, and is read later
        head: bytes = cast(Any, sys.stdin.buffer).peek(1).lstrip()
        if not head or head.startswith(_RECORDED):
            return {}
    return {str(Path(name or UNNAMED)): sys.stdin.buffer.read()}


def config_for(options: Options, paths: Sequence[str]) -> LintConfig:
    """What the project says, and what was typed on top of it: a selection instead of its own, more to ignore."""
    codes = [*OWN, *(row.code for row in hazards())]
    select, ignore = _prefixes(options.select, codes), _prefixes(options.ignore, codes)
    config = read_config(paths[0] if paths else ".") if not options.config else _config_in(options.config)
    where = f"{config.path}: [tool.contextkit.lint]"  # where a word typed wrong would silence everything
    if not config.select:
        raise click.UsageError(f"{where} select is empty, so nothing would be looked for; without it everything is")
    ignores = {f"per-file-ignores {glob!r}": names for glob, names in config.per_file_ignores.items()}
    for key, names in {"select": config.select, "ignore": config.ignore, **ignores}.items():
        for name in names:
            if name != ALL and not any(code.startswith(name) for code in codes):
                raise click.UsageError(
                    f"{where} {key}: no hazard's code begins with {name!r}; codes look like CKS01, levels like CKS"
                )
    tests = config.tests or options.tests
    return replace(config, select=select or config.select, ignore=(*config.ignore, *ignore), tests=tests)


def _config_in(file: str) -> LintConfig:
    return config_of(read_table(Path(file), "lint") or {}, file)


def _prefixes(lint_input: Sequence[str], codes: Sequence[str]) -> tuple[str, ...]:
    """`("cks,CKM04",)` → `("CKS", "CKM04")`; raises a usage error for what no code begins with."""
    prefixes = tuple(word.strip().upper() for words in lint_input for word in words.split(",") if word.strip())
    for prefix in prefixes:
        if prefix != ALL and not any(code.startswith(prefix) for code in codes):
            raise click.UsageError(f"no hazard's code begins with {prefix!r}; codes look like CKS01, levels like CKS")
    return prefixes


if TYPE_CHECKING:
    from contextkit.importers.source import Faults

MOST_NAMED = 5
"""Folders that are named before the rest is counted."""
ROUNDS = 5
"""A change may make room for the next; after so many rounds the rest is left for another run."""
Sift = Callable[[Sequence[Finding]], list[Finding]]
"""Findings in code → those that are to be told."""


class Look:
    """One run of the detectors over what is given.

    `sift` says which findings in code are told, all where there is none, and `known` where the others stand.
    """

    def __init__(self, lint_input: LintInput, config: LintConfig, sift: Sift | None = None, known: str = "") -> None:
        self._input, self._config, self._sift, self._known = lint_input, config, sift, known
        self._n_files, self._n_calls, self._n_sifted = 0, 0, 0
        self._tests: set[str] = set()
        self._closed: dict[str, str] = {}
        self.is_incomplete = False
        """Whether a recording was not read, or not to its end."""

    @property
    def looked(self) -> Looked:
        """How much was looked at, so far."""
        return Looked(self._n_files if self._input.code else None, self._n_calls if self._input.recordings else None)

    def in_code(self) -> list[Finding]:
        """Findings of the source detector; raises a usage error for a named folder that cannot be looked into."""
        if not self._input.code:
            return []
        with _counter() as tell:

            def count(done: int, total: int) -> None:
                self._n_files = total
                tell(f"{done:,} of {total:,} files read")

            findings = find_in_code(
                self._input.code,
                self._config,
                hazards(),
                progress=count,
                left_out=self._tests.add,
                closed=self._closed.__setitem__,
                contents=self._input.contents,
            )
            everything = list(findings)
        for path in {str(Path(path)) for path in self._input.code} & self._closed.keys():
            raise click.UsageError(f"{path}: {self._closed[path]}")
        results = self._sift(everything) if self._sift else everything
        self._n_sifted = len(everything) - len(results)
        return results

    def print_left_out(self) -> None:
        """Say which files and folders nobody looked at, and how many findings are not told, once for all looks."""
        if self._n_sifted:
            echo_error(f"{counted(self._n_sifted, 'hazard')} left out: {self._known}")
        if self._tests:
            echo_error(f"{counted(len(self._tests), 'file')} of tests left out: name them, or add --tests")
        for path, reason in sorted(self._closed.items())[:MOST_NAMED]:
            echo_error(f"{path}: left out, the folder cannot be looked into: {reason}")
        if len(self._closed) > MOST_NAMED:
            echo_error(f"and {len(self._closed) - MOST_NAMED:,} more of these")

    def in_recordings(self) -> Iterator[Finding]:
        """Findings of recordings, record by record: a recording may be larger than memory."""
        from contextkit.importers.source import Faults

        faults = Faults()
        with _counter() as progress:
            for file in self._input.recordings:
                try:
                    yield from self._in_recording(file, faults, progress)
                except UnreadableLog as error:
                    named = UnreadableLog(re.sub(r"^-( line 1)?: ", "standard input: ", str(error)))
                    sources = [*self._input.code, *self._input.recordings]
                    faults.refuse(file, named if file == STDIN else error, sources)
        self.is_incomplete = faults.is_incomplete
        for fault in faults.kept:
            echo_error(str(fault))
        if len(faults) > len(faults.kept):
            echo_error(f"and {len(faults) - len(faults.kept):,} more of these")

    def _in_recording(self, file: str, faults: Faults, progress: Callable[[str], None]) -> Iterator[Finding]:
        from contextkit.importers.registry import check_any_read, records_in
        from contextkit.lint.requests.detect import RequestDetector

        detector = RequestDetector(hazards())
        before = faults.n_files, faults.n_refused
        try:
            for record in records_in([file], faults):
                yield from self._selected(detector.feed(record))
                progress(f"{detector.n_calls:,} calls judged")
        except UnreadableLog:
            yield from self._selected(detector.close())
            raise
        yield from self._selected(detector.close())
        check_any_read(faults, *before)
        for text in detector.unlisted_fields:
            echo_error(f"{file}: {text}")
        self._n_calls += detector.n_calls
        n_skipped, n_all = detector.n_skipped, detector.n_skipped + detector.n_calls + detector.n_unreadable
        if n_skipped or not n_all:
            what = f"{n_skipped:,} of {n_all:,} calls were recorded without their bodies" if n_all else "no calls in it"
            echo_error(f"{file}: {what}; nothing to look at")

    def _selected(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        return (finding for finding in findings if self._config.is_selected(finding.code))


def _counter() -> AbstractContextManager[Callable[[str], None]]:
    return counter(is_shown=sys.stderr is not None)  # closed, as by `2>&-`


def mend(look: Callable[[], Sequence[Finding]], *, is_unsafe: bool = False) -> tuple[Sequence[Finding], int]:
    """Make the safe changes, the others too if `is_unsafe`; gives what is left, and how many findings were mended."""
    from contextkit.lint.output.fixes import mended, write

    left, n_fixed = look(), 0
    for _ in range(ROUNDS):
        changes = list(mended(left, is_unsafe=is_unsafe))
        if not changes:
            break
        for change in changes:
            write(change)
            n_fixed += len(change.findings)
        left = look()
    return left, n_fixed


if TYPE_CHECKING:
    from contextkit.lint.output.formats import LintResults
    from contextkit.lint.output.text import Lines


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
@click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    help="Only these, by code or its beginning: CKS,CKM04. ALL, or a whole code, also finds what is off by default.",
)
@click.option("--ignore", multiple=True, metavar="CODES", help="All but these.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
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

        if options.output_format == "json":
            echo_json(dumped(parts(options.explain)))
        else:
            echo(terminal_text(options.explain))
        return
    if _print_results(_results(options), options) and not options.exit_zero:
        raise click.exceptions.Exit(1)


# Looking
# ------------------------------------------------------------------------------------------------------------------


def _results(options: Options) -> LintResults:
    """Everything found; with --fix what is left of it."""
    from importlib.metadata import version

    from contextkit.lint.catalogue import page
    from contextkit.lint.output.formats import LintResults
    from contextkit.lint.output.text import lines_of

    what = lint_input(options.paths, options.recordings, options.stdin_filename)
    if what.contents and (options.is_fixing or options.is_diff):
        raise click.UsageError("--fix and --diff change files, and standard input is none; give the file's path")
    if what.recordings and options.write_baseline is not None:
        raise click.UsageError("--write-baseline holds what is found in code; leave the recordings out")
    if options.diff_base is not None and not what.code:
        raise click.UsageError("--diff-base compares code; give folders or files of code, too")
    lines = partial(lines_of, contents=what.contents)
    config = config_for(options, what.code)
    sift, known = _sift(options, what, config, lines)
    look = Look(what, config, sift, known)
    left, n_fixed = mend(look.in_code, is_unsafe=options.is_unsafe) if options.is_fixing else (look.in_code(), 0)
    look.print_left_out()
    findings = [*left, *look.in_recordings()]
    catalogue = {row.code: row for row in hazards()}
    return LintResults(
        findings, catalogue, page, version(DISTRIBUTION), n_fixed, look.looked, lines, look.is_incomplete
    )


def _sift(options: Options, what: LintInput, config: LintConfig, lines: Lines) -> tuple[Sift | None, str]:
    """What leaves out the findings of a baseline or a revision, and where these stand."""
    from contextkit.lint.baseline import finding_counts, naming, new, read_baseline
    from contextkit.lint.output.text import lines_of

    if options.baseline is not None:
        counts = read_baseline(options.baseline)
        return partial(new, then=counts, name=naming(options.baseline), lines=lines), "in the baseline"
    if options.diff_base is None:
        return None, ""
    from contextkit.lint.revision import files_of

    with files_of(options.diff_base, what.code, SOURCE_SUFFIXES) as then:
        found = find_in_code(then.paths, config, hazards()) if then.paths else ()
        counts = finding_counts(found, then.name_then, lines_of)
    return partial(new, then=counts, name=then.name_now, lines=lines), f"in {options.diff_base}, too"


# Telling
# ------------------------------------------------------------------------------------------------------------------


def _print_results(results: LintResults, options: Options) -> bool:
    """Say it, or write it down; gives whether something was found or not read, or a file would change."""
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

    text = (STATISTICS if options.has_statistics else FORMS)[options.output_format](results)
    if text and options.output_format in ("json", "sarif"):
        echo_json(text)
    elif text:
        echo(text)
    return bool(results.findings) or results.is_incomplete
