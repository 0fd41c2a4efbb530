"""Implements `contextkit report`: what recorded sessions read from cache, what they cost, and why each miss happened.

`--to` writes what was read as one ledger instead, in one pass and constant memory.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.terminal import UsageErrorWithDetails, check_file, for_programs
from contextkit.errors import UsageError
from contextkit.private_files import check_replaceable, replacing
from contextkit.terminal import echo, echo_error, echo_json

NO_CALLS = "the recordings hold no call"
"""Begins the error of a command that would write a file of none."""


def written(records: Iterable[Record], to: str) -> int:
    """Write `records` to the file `to`, request bodies too where they were recorded, secrets covered; return how many calls
    there are.

    Raises `UsageError` if that file is there already, or if there is no call; then no file is left.
    """
    from contextkit.ledger.calls import HEADER, Chain, ModelCall, encode

    n, end = 0, Chain()
    if os.path.lexists(to):
        raise UsageError(f"{to} is there already; name a new file, or remove it first")
    with replacing(to) as file:
        file.write(HEADER)
        for record in records:
            n += isinstance(record, ModelCall)
            line, end = end.add(encode(_redacted(record)))
            file.write(line)
        if not n:
            raise UsageError(f"{NO_CALLS}: {to} was not written")
    return n


def _redacted(record: Record) -> Record:
    """Cover the secrets in the body of a record."""
    from contextkit.ledger.calls import Bodies, ModelCall
    from contextkit.redact import redact

    if isinstance(record, ModelCall) and isinstance(record.prompt, Bodies):
        return replace(record, prompt=replace(record.prompt, request=redact(record.prompt.request)))
    return record


if TYPE_CHECKING:
    from contextkit.importers.source import Faults
    from contextkit.ledger.calls import Record
    from contextkit.ledger.misses import AnalyzedCall
    from contextkit.report.contents import Contents
    from contextkit.report.html.columns import Columns
    from contextkit.report.live import LiveCalls
    from contextkit.report.prefix_tree import PrefixTree
    from contextkit.report.progress import Watch
    from contextkit.whatif.what_if import WhatIf

    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType

EXAMPLE = Path(__file__).parents[1] / "report" / "example.jsonl"
"""Three made-up conversations (`docs/figures/example_session.py`)."""
_LAST_TITLE = "the session that ended last"
_LINGERS = 60.0
"""Seconds in which a program may go on writing its own log after `contextkit run` has ended."""
EXAMPLE_TITLE = "example: three made-up conversations with claude-sonnet-5-5"
GROUPINGS = ("day", "session", "model", "agent", "project")
"""What calls can be grouped by."""
DAYS = "7d"
"""The period of a report over the logs of this machine, where none is given."""
RECENT = 600
"""Seconds: of a folder that is followed, files written so long before the one written last belong to it, as sub-agents'
do."""
BYTES_A_RECORD = 8_000
"""About how much of a file one call takes; how far the progress bar is inside a file is guessed from it."""
_AGO = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class Typed(float):
    """Seconds since 1970, with what was typed for them."""

    text: str

    @classmethod
    def of(cls, at: float, text: str) -> Typed:
        """Join both."""
        typed = cls(at)
        typed.text = text
        return typed


class Moment(_ParamType):
    """A date, a date and time, or how long ago, in seconds since 1970; a date means its start, or its end."""

    name = "time"

    def __init__(self, *, is_end: bool = False) -> None:
        self.is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a time, in UTC unless a zone is given."""
        if isinstance(value, float):
            return value
        ago = re.fullmatch(r"(\d{1,6})([mhdw])", value)
        if ago:
            return Typed.of((datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _AGO[ago[2]])).timestamp(), value)
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time; write 2026-04-09, 2026-04-09T18:30, or how long ago: 90m, 36h, 7d, 2w",
                param,
                ctx,
            )
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        is_day = self.is_end and len(value) == len("2026-04-09")
        return Typed.of((at + timedelta(days=1) if is_day else at).timestamp(), value)


@dataclass(frozen=True, slots=True)
class Options:
    """How the command was called."""

    by: str
    """Grouping; empty for none."""
    since: float | None
    """First second that counts."""
    until: float | None
    """The second before which calls count."""
    session: str
    """The start of the id of the session that counts; empty for all."""
    face: str
    """`terminal`, `json`, `csv` or `markdown`."""
    html: str | None
    """The page to write."""
    has_misses: bool
    """Whether the terminal lists the dearest misses."""
    is_verbose: bool
    """Whether the terminal shows what the figures are made of, and each fault of the recordings."""
    has_tree: bool = False
    """Whether the prefix tree is shown in place of the tables."""
    selection: str = ""
    """PATHS, --example or --last, as a shell takes them."""
    is_last: bool = False
    """Whether `session` is the whole id of the session that ended last."""


@click.command("report")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--example", "is_example", is_flag=True, help="Report on a recording that comes with contextkit.")
@click.option("--by", type=click.Choice(GROUPINGS), help="A row for each day (UTC), session, model, agent or project.")
@click.option(
    "--since", type=Moment(), metavar="TIME", help="Count calls from then on: 2026-04-09, 2026-04-09T18:30, 36h, 7d."
)
@click.option(
    "--until", type=Moment(is_end=True), metavar="TIME", help="Count calls up to then; a date counts to its end."
)
@click.option(
    "--session", default="", metavar="ID", help="Count calls of this session only; the start of its id is enough."
)
@click.option("--json", "faces", flag_value="json", multiple=True, help="Everything as one JSON object.")
@click.option("--csv", "faces", flag_value="csv", multiple=True, help="A row for each call; with --by, for each group.")
@click.option("--markdown", "faces", flag_value="markdown", multiple=True, help="For a pull request or a ticket.")
@click.option(
    "--html", type=click.Path(dir_okay=False), metavar="OUT", help="Write a page: one file that fetches nothing."
)
@click.option("--last", "is_last", is_flag=True, help="Count the session that ended last.")
@click.option("--misses", "has_misses", is_flag=True, help="List the dearest misses, each with the text that changed.")
@click.option(
    "--verbose", is_flag=True, help="Add projects, models, sessions and all actions, and each fault of the recordings."
)
@click.option(
    "--tree", "has_tree", is_flag=True, help="Show where prompts part, and what each parting cost, in place of tables."
)
@click.option(
    "--live",
    "--follow",
    "is_live",
    is_flag=True,
    help="Watch the sessions that are running, and when their caches go cold, until Ctrl-C.",
)
@click.option(
    "--to",
    type=click.Path(dir_okay=False),
    metavar="LEDGER",
    help="Write what was read as a ledger, and report nothing.",
)
@click.option(
    "--anonymize",
    type=click.Path(dir_okay=False),
    metavar="LEDGER",
    help="Write the calls as a ledger without texts, names, ids and paths, and report nothing.",
)
def command(
    paths: tuple[str, ...],
    is_example: bool,
    by: str | None,
    since: float | None,
    until: float | None,
    session: str,
    faces: tuple[str, ...],
    html: str | None,
    is_last: bool,
    has_misses: bool,
    has_tree: bool,
    verbose: bool,
    is_live: bool,
    to: str | None,
    anonymize: str | None,
) -> None:
    """Report over PATHS: files, folders, patterns, or - for standard input, in any known format (found by content).

    Without PATHS: over the session logs that agent programs left on this machine (Claude Code, Codex, Copilot CLI,
    Gemini CLI, opencode, pi, Qwen Code), of the last 7 days unless --since says otherwise.

    Dollars are what a log says that a call cost; where it does not, the list price of the day.

    \b
    contextkit report
    contextkit report --last
    contextkit report --live
    contextkit report runs/gpu-prices
    contextkit report ~/.claude/projects --since 7d --by project --html report.html
    contextkit report session.jsonl --json
    """
    if is_example and paths:
        raise click.UsageError("--example is a recording of its own: leave out the other files")
    selection = " ".join([*["--example"] * is_example, *["--last"] * is_last, *map(shlex.quote, paths)])
    selection = selection if len(selection) <= MOST_REPEATED else "…"
    paths = (str(EXAMPLE),) if is_example else paths
    page = writable_path("--html", html, paths) if html is not None else None
    options = Options(by or "", since, until, session, _face(faces), page, has_misses, verbose, has_tree, selection)
    if options.face != "terminal":
        for_programs()
    if to is not None and anonymize is not None:
        raise click.UsageError("--to and --anonymize both write a ledger: leave one out")
    if to is not None or anonymize is not None:
        _write_ledger(paths, options, to, anonymize, is_live=is_live)
        return
    if is_last and (is_live or session or "-" in paths):
        raise click.UsageError("--last chooses a session in files: leave out --live, --session and -")
    if is_live:
        _follow(paths, options)
        return
    if is_last:
        paths, options = _last_session(paths, options)
    if not paths and options.since is None:
        options = replace(options, since=Moment().convert(DAYS, None, None))
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.report.progress import watching

    with watching() as watch, seldom_collecting():
        columns, tree = _columns(options), _tree(options)
        also, title = _call_writers(options, columns), EXAMPLE_TITLE if is_example else _LAST_TITLE if is_last else ""
        also += [tree] if tree else []
        contents, faults = read(
            paths,
            options,
            watch,
            also,
            title=title,
            output=("--html", options.html),
            is_replayed=not tree or options.html is not None,
        )
        watch.finish()
        if not watch.is_stopped:
            check_not_empty(contents, faults, options)
        _show(contents, columns, options, tree)
        print_faults(faults, is_verbose=options.is_verbose)
        if watch.is_stopped:
            echo_error("partial: these are the figures of what was read before Ctrl-C")
            raise click.exceptions.Exit(130)
    exit_if_incomplete(faults)


def _last_session(paths: tuple[str, ...], options: Options) -> tuple[tuple[str, ...], Options]:
    """Return the files and the options that choose the session that ended last, by the calls in the files written last.

    What `contextkit run` recorded is a session of its own, and stands before the log that the program wrote of it.
    """
    from contextkit.importers.places import log_files, run_files
    from contextkit.importers.source import Faults
    from contextkit.ledger.calls import ModelCall

    runs = [] if paths else run_files()
    if runs:
        others, _ = log_files(options.since, Faults())
        written = {file: (_status(file) or (0.0, 0))[0] for file in (*others, *runs)}
        newest = max(runs, key=written.__getitem__)
        if written[newest] >= max(written.values()) - _LINGERS:
            return (newest,), options
    files, _ = files_to_read(paths, options.since, Faults())
    written = {file: status[0] for file in files if (status := _status(file))}
    latest = max(written.values(), default=0.0) - RECENT
    recent = [file for file in files if written.get(file, 0.0) >= latest]
    session, last_at = "", -math.inf
    for record in records_of(recent, set(), Faults(), None):
        if isinstance(record, ModelCall) and (record.ended_at or record.at) >= last_at:
            session, last_at = record.session, record.ended_at or record.at
    chosen = [file for file in files if file in recent or (session and session in file)]
    return tuple(chosen), replace(options, session=session, is_last=True)


def check_not_empty(contents: Contents, faults: Faults, options: Options) -> None:
    """Raise where there is nothing to report: no file is a recording, or no call is among those chosen.

    Names what there is instead.
    """
    from contextkit.importers.registry import check_any_read

    check_any_read(faults)
    left = contents.left_out
    if contents.summary.calls or not left.calls:
        return
    filters = [
        *(["--last"] if options.is_last else [f"--session {options.session}"] if options.session else []),
        *([f"--since {_typed(options.since)}"] if options.since is not None else []),
        *([f"--until {_typed(options.until)}"] if options.until is not None else []),
    ]
    n, several = left.calls, "s" * (len(left.sessions) != 1)
    raise click.UsageError(
        f"no call matches {' and '.join(filters)}: the {n:,} {'call' if n == 1 else 'calls'} that were read started from "
        f"{_written(left.first_at)} to {_written(left.last_at)} (UTC), in the session{several} {', '.join(left.sessions)}"
        f"{' and others' if len(left.sessions) == MOST_NAMED else ''}; change or leave out the filter"
    )


def _typed(at: float) -> str:
    return at.text if isinstance(at, Typed) else _written(at)


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


MOST_NAMED = 5
"""Sessions that an error names."""
MOST_REPEATED = 30
"""Characters of PATHS that the commands below a report repeat."""


def _face(faces: Sequence[str]) -> str:
    """Return what the report is written as; one thing at a time."""
    if len(set(faces)) > 1:
        raise click.UsageError(
            f"{' and '.join(f'--{face}' for face in faces)} both write to standard output: leave one out"
        )
    return faces[0] if faces else "terminal"


def writable_path(option: str, output: str, paths: Sequence[str]) -> str:
    """Return `output`; raises `click.UsageError`, before anything is read, if it cannot be written or is a recording."""
    check_file(option, output)
    if any(Path(path).exists() and Path(output).exists() and Path(path).samefile(output) for path in paths):
        raise _one_of_the_recordings(option, output)
    try:
        check_replaceable(output)
    except OSError as error:
        raise click.BadParameter(f"{output} cannot be written: {error.strerror}", param_hint=f"'{option}'") from error
    return output


def check_not_read(option: str, output: str | None, files: Sequence[str]) -> None:
    """Raise where the output would take the place of a recording that was met in a folder."""
    if output is not None and Path(output).exists():
        place = Path(output).resolve()
        if any(file != "-" and Path(file).resolve() == place for file in files):
            raise _one_of_the_recordings(option, output)


def _one_of_the_recordings(option: str, output: str) -> click.BadParameter:
    return click.BadParameter(f"{output} is one of the files to report: name another one", param_hint=f"'{option}'")


def _write_ledger(
    paths: tuple[str, ...], options: Options, to: str | None, anonymize: str | None, *, is_live: bool
) -> None:
    """Write the recordings as one ledger, as they are or anonymized."""
    from contextkit.importers.source import Faults
    from contextkit.ledger.anonymize import Anonymizer

    option, file = ("--to", to) if to is not None else ("--anonymize", anonymize or "")
    check_file(option, file)
    face = options.face if options.face != "terminal" else ""
    if used := [f"--{name}" for name in (face, options.by and "by") if name]:
        raise click.UsageError(f"{option} writes a ledger and reports nothing: leave out {' and '.join(used)}")
    if is_live or options.has_tree or options.html or options.since is not None or options.until or options.session:
        raise click.UsageError(
            f"{option} takes all calls: leave out --live, --tree, --html, --since, --until and --session"
        )
    faults = Faults()
    files, _ = files_to_read(paths, options.since, faults)
    records = _any_of(records_of(files, set(paths), faults, None), faults)
    if anonymize is not None:
        records = Anonymizer().feed_all(records)
    echo(f"{written(records, file):,} calls written to {file}")
    print_faults(faults, is_verbose=options.is_verbose)
    exit_if_incomplete(faults)


def _any_of(records: Iterator[Record], faults: Faults) -> Iterator[Record]:
    """Yield the records; raise `UnreadableLog` at the end where no file was a recording."""
    from contextkit.importers.registry import check_any_read

    yield from records
    check_any_read(faults)


def read(
    paths: Sequence[str],
    options: Options,
    watch: Watch | None,
    also: Sequence[Callable[[AnalyzedCall], None]] = (),
    *,
    on_call: Callable[[AnalyzedCall], None] | None = None,
    title: str = "",
    output: tuple[str, str | None] = ("", None),
    is_replayed: bool = True,
) -> tuple[Contents, Faults]:
    """Add up the calls that the options choose, and replay them; return the report and what was wrong with the files.

    `also` takes each chosen call, `on_call` each call that is read, before. `output` names an option and the file it
    writes, which is none of those read. Without a `watch` nothing is shown while files are read, and no file is refused,
    as it may yet fill.
    """
    from contextkit.importers.source import Faults
    from contextkit.ledger.misses import analyzed_calls
    from contextkit.report.contents import Chosen, Gathering
    from contextkit.whatif.what_if import Replays

    faults = Faults()
    files, name = files_to_read(paths, options.since, faults)
    check_not_read(*output, files)
    replays = Replays()
    chosen = Chosen(options.since, options.until, options.session, options.is_last)
    gathering = Gathering(options.by, chosen, (*also, replays.add) if is_replayed else also)
    records = records_of(files, set(paths) if watch else set(), faults, watch)
    for call in analyzed_calls(gathering.adding_remarks(records)):
        if on_call is not None:
            on_call(call)
        gathering.add(call)
    fault_rows = [(fault.file, fault.line, fault.what) for fault in faults.kept]
    is_partial = bool(watch and watch.is_stopped)
    found = replays.result() if is_replayed else None
    title = title or name
    return gathering.contents(
        title, is_partial=is_partial, faults=fault_rows, n_faults=len(faults), what_if=found
    ), faults


def _call_writers(options: Options, columns: Columns | None) -> list[Callable[[AnalyzedCall], None]]:
    """Return what takes each call: the columns of a page, the rows of a CSV."""
    also: list[Callable[[AnalyzedCall], None]] = [columns] if columns else []
    if options.face == "csv" and not options.by:
        from contextkit.report.csv import Calls

        also.append(Calls(sys.stdout))
    return also


def files_to_read(paths: Sequence[str], since: float | None, faults: Faults) -> tuple[list[str], str]:
    """Return the files that PATHS name, without PATHS the logs of this machine written since then; and their title."""
    from contextkit.importers.registry import files_at

    if paths:
        files = files_at(paths, faults)
        return files, files[0] if len(files) == 1 else f"{len(files):,} files"
    from contextkit.importers.places import log_files

    files, n_older = log_files(since, faults)
    if not files:
        raise _no_logs(since, n_older)
    if since is None:
        return files, f"all session logs of this machine, {len(files):,} files"
    text = _typed(since)
    period = f"the last {text[:-1]} days" if text.endswith("d") and text != "1d" else f"since {text}"
    return files, f"session logs of this machine, {period}: {len(files):,} {'file' if len(files) == 1 else 'files'}"


def _no_logs(since: float | None, n_older: int) -> click.UsageError:
    """Return the error of a machine without a log to report on."""
    from contextkit.importers.places import PLACES, looked_at

    if n_older and since is not None:
        return click.UsageError(
            f"no session log of this machine was written since {_written(since)} (UTC); {n_older:,} older ones are "
            "there: give an earlier time, as in contextkit report --since 30d"
        )
    patterns: dict[str, list[str]] = defaultdict(list)
    variables: dict[str, list[str]] = defaultdict(list)
    for program, pattern in looked_at():
        patterns[program].append(pattern)
    for place in PLACES:
        variables[place.program].extend(place.variables)
    return UsageErrorWithDetails(
        "no session log was found on this machine",
        [
            "Name your own file: contextkit report FILE",
            "Record one: contextkit run -- claude",
            "See a recording that comes with contextkit: contextkit report --example",
            "Looked for:",
            *(
                f"  {program}: {', '.join(found)} (another folder: {' or '.join(dict.fromkeys(variables[program]))})"
                for program, found in patterns.items()
                if variables[program]
            ),
        ],
    )


def _columns(options: Options) -> Columns | None:
    if not options.html:
        return None
    from contextkit.report.html.columns import Columns

    return Columns()


def _tree(options: Options) -> PrefixTree | None:
    """Return what takes the calls for the prefix tree, if that is asked for."""
    if not options.has_tree:
        return None
    if options.face not in ("terminal", "json"):
        raise click.UsageError(f"--tree is drawn on the terminal, or with --json: leave out --{options.face}")
    from contextkit.report.prefix_tree import PrefixTree

    return PrefixTree()


def records_of(files: Sequence[str], named: set[str], faults: Faults, watch: Watch | None) -> Iterator[Record]:
    """Yield the records of all files; one that cannot be read is a fault, unless it is all that was named."""
    from contextkit.importers.parallel import reading

    with reading(files, faults) as read:
        for file in watch.parts(files) if watch else files:
            rows = _of(file, read, named, faults)
            yield from watch.share(rows, _about(file)) if watch else rows


def _of(file: str, read: Callable[[str], Iterator[Record]], named: set[str], faults: Faults) -> Iterator[Record]:
    from contextkit.errors import UnreadableLog

    try:
        yield from read(file)
    except UnreadableLog as error:
        faults.refuse(file, error, named)


def _about(file: str) -> int:
    """Estimate how many records a file holds."""
    path = Path(file)
    return max(1, path.stat().st_size // BYTES_A_RECORD) if path.is_file() else BYTES_A_RECORD


def _show(contents: Contents, columns: Columns | None, options: Options, tree: PrefixTree | None = None) -> None:
    if options.html and columns:
        from contextkit.report.html.page import page

        with replacing(options.html) as file:
            file.write(page(contents, columns).encode())
    if tree is not None:
        _show_tree(tree, contents, options)
    elif options.face == "json":
        from contextkit.report.json import document

        echo_json(document(contents))
    elif options.face == "markdown":
        from contextkit.report.markdown import markdown

        echo(markdown(contents), nl=False)
    elif options.face == "csv" and options.by:
        from contextkit.report.csv import write_groups

        write_groups(sys.stdout, options.by, contents.summary.groups)
    elif options.face == "terminal":
        from contextkit.report.terminal import show

        show(contents, has_misses=options.has_misses, is_verbose=options.is_verbose)
        if not (options.html or options.has_misses or options.is_verbose or options.by):
            echo("\n" + "\n".join(_commands(contents, options.selection)))
    if options.html and options.face == "terminal":
        echo(f"\nthe page is {options.html}")


def _commands(contents: Contents, selection: str) -> Iterator[str]:
    """Yield the commands that tell more of the same recordings."""
    command = f"contextkit report{f' {selection}' if selection else ''}"
    if contents.summary.losses:
        yield f"{command} --misses   each one{', with the changed text' if contents.changed else ' with its place'}"
    if contents.has_prompts:
        yield f"{command} --tree     where prompts part"
    else:
        yield f"{command} --verbose  all actions and sums"
    yield f"{command} --html report.html"


def _show_tree(tree: PrefixTree, contents: Contents, options: Options) -> None:
    if options.face == "json":
        from contextkit.report.json import tree_document

        echo_json(tree_document(tree))
    else:
        from contextkit.report.tree_terminal import show_tree

        show_tree(tree, contents)


def print_faults(faults: Faults, *, is_verbose: bool = True) -> None:
    """Print what was wrong with the recordings, apart from the report: each of it, or in one line."""
    if len(faults) > 1 and not is_verbose:
        from contextkit.report.faults import summary_of

        echo_error(f"in the recordings: {summary_of(faults.counts)}; --verbose lists them")
        return
    for fault in faults.kept:
        echo_error(str(fault))
    if len(faults) > len(faults.kept):
        echo_error(f"and {len(faults) - len(faults.kept)} more of the same")


def exit_if_incomplete(faults: Faults) -> None:
    """End with exit code 1 where a source was not read, or not to its end: what was printed lacks it."""
    if faults.is_incomplete:
        raise click.exceptions.Exit(1)


# A live session
# ---------------------------------------------------------------------------------------------------------------


def _follow(paths: tuple[str, ...], options: Options) -> None:
    """Report on what is being written as it grows, with what its readers hold back to the end."""
    from contextkit.importers.live import GrowingSums
    from contextkit.report.follow import follow
    from contextkit.report.live import picture

    if options.has_tree:
        raise click.UsageError("--tree shows what was recorded, --live what is being recorded: leave one out")
    if options.face != "terminal" or "-" in paths:
        raise click.UsageError(
            "--live (or --follow) draws on the terminal what grows in files: leave out --json, --csv, --markdown and -"
        )
    files = FollowedFiles("--live", paths, options.since, ("--html", options.html))
    growing = GrowingSums(lambda: files.names, lambda: _LiveSums(options))

    def contents(sums: _LiveSums, what_if: WhatIf | None = None) -> Contents:
        faults = growing.faults
        rows = [(fault.file, fault.line, fault.what) for fault in faults.kept]
        return sums.gathering.contents(files.title, faults=rows, n_faults=len(faults), what_if=what_if)

    def read_growing() -> tuple[Contents, LiveCalls]:
        sums = growing.read()
        return contents(sums), sums.calls

    def lines(seen: tuple[Contents, LiveCalls], now: float) -> dict[Hashable, str]:
        return {str(seen[0].summary): str(seen[0].summary)}

    ended_by = follow(read_growing, files.look, lines, lambda seen, console, now: picture(*seen, console, now))
    if ended_by:
        raise click.exceptions.Exit(128 + ended_by)  # as a shell calls it
    if options.html:  # the page shows every call, of which nothing was kept
        columns = _columns(options)
        whole, faults = read(files.names, options, None, _call_writers(options, columns), title=files.title)
    else:
        columns = None  # nothing was kept for a page
        sums = growing.rest()
        whole, faults = contents(sums, sums.replays.result()), growing.faults
    _show(whole, columns, options)
    print_faults(faults, is_verbose=options.is_verbose)


class _LiveSums:
    """The sums of a live report."""

    def __init__(self, options: Options) -> None:
        from contextkit.ledger.misses import LedgerAnalyzer
        from contextkit.report.contents import Chosen, Gathering
        from contextkit.report.live import LiveCalls
        from contextkit.whatif.what_if import Replays

        chosen = Chosen(options.since, options.until, options.session)
        self._options, self.analyzer, self.calls, self.replays = options, LedgerAnalyzer(), LiveCalls(), Replays()
        self.gathering = Gathering(options.by, chosen, [self.calls, self.replays.add])

    def add(self, records: Iterable[Record]) -> None:
        """Add the next records."""
        with_remarks = self.gathering.adding_remarks(records)
        self.gathering.add_all(call for record in with_remarks if (call := self.analyzer.feed(record)) is not None)

    def copied(self) -> _LiveSums:
        """Another one with the same sums but for those of the replays, that goes on by itself."""
        ahead = _LiveSums(self._options)
        ahead.analyzer, ahead.calls = self.analyzer.copy(), self.calls.copied()
        ahead.gathering = self.gathering.copied([ahead.calls])
        return ahead


class FollowedFiles:
    """The files of what is being written now: those named, or of a folder, a pattern or this machine's logs the one
    written last and its neighbours in time.
    """

    def __init__(
        self, option: str, paths: Sequence[str], since: float | None, output: tuple[str, str | None] = ("", None)
    ) -> None:
        """`option`, if any, follows them; `output` names an option and the file it writes, which is none of them.

        Raises `click.UsageError` for a path that is no file and no folder.
        """
        other = next((path for path in map(Path, paths) if path.exists() and not path.is_file() | path.is_dir()), None)
        if other is not None:
            leave = f"leave out {option}, or " if option else ""
            raise click.UsageError(f"{other}: files are read again as they grow, and this is none: {leave}give a file")
        self._paths, self._named = paths, {path for path in paths if Path(path).is_file()}
        self._since, self._output = since, output
        self.names: list[str] = []
        """Once a file is among them it stays."""
        self.look()

    @property
    def title(self) -> str:
        """Return what is followed, in words."""
        return self.names[0] if len(self.names) == 1 else f"{len(self.names):,} files being written"

    def look(self) -> Hashable:
        """Return a value that changes when any of them grows, or one comes."""
        from contextkit.importers.source import Faults

        files, _ = files_to_read(self._paths, self._since, Faults())
        check_not_read(*self._output, files)
        written = {file: status for file in files if (status := _status(file))}
        latest = max((at for at, _ in written.values()), default=0.0)
        followed = {*self.names, *self._named}
        self.names = [file for file, (at, _) in written.items() if file in followed or at >= latest - RECENT]
        return tuple((file, *written[file]) for file in self.names)


def _status(file: str) -> tuple[float, int] | None:
    """Return when a file was written last and its size; None for one that has gone."""
    try:
        status = Path(file).stat()
    except FileNotFoundError:
        return None
    return status.st_mtime, status.st_size
