"""Which format a file is in, by its content, and the records it holds.

Takes names of files, folders and patterns, gives records. Every importer is one row here.
"""

from __future__ import annotations

import glob
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contextkit.errors import LogCorrupt, NewerFormat, UnreadableLog
from contextkit.importers.format import Format, ProgramRemarks, by_line, first_line, not_by_line
from contextkit.importers.source import STDIN, Faults, Source, damage, is_damage, is_newer_format
from contextkit.importers.transcript import LATEST
from contextkit.ledger.calls import ModelCall, Record
from contextkit.log.sqlite import is_of_another_program

if TYPE_CHECKING:
    from contextkit.ledger.ledger import Ledger


class _Ours:
    """Our own ledgers: a damaged row is left out and reported, and so is a last line that a crash left unfinished."""

    def __init__(self, source: Source) -> None:
        from contextkit.ledger.ledger import Rows  # most recordings are no ledgers

        self.source, self.has_head = source, False
        self._rows = Rows(source.name, self._damaged)
        self._last = b""

    def hear(self, number: int, line: bytes) -> Iterable[Record]:
        """The next line."""
        if not self.has_head:
            from contextkit.ledger.ledger import check_header

            check_header(line, self.source.name)
            self.has_head = True
            return ()
        if not line.endswith(b"\n"):
            self._last = line
        record = self._rows.read(number, line)
        if isinstance(record, ModelCall) and not 0 <= record.at <= LATEST:
            self.source.fault(number, "a time before 1970 or after 9999, which has no price; the row is left out")
            return ()
        return () if record is None else (record,)

    def _damaged(self, number: int, error: LogCorrupt, what: str) -> None:
        self.source.fault(number, "an unfinished line; every line before it is whole" if self._last else damage(what))

    def waiting(self) -> Iterable[Record]:
        """Nothing is held back."""
        return ()

    def finish(self) -> None:
        """Report nothing: no fault concerns the file as a whole."""


def _sqlite_records(source: Source) -> Iterator[Record]:
    """The calls of a SQLite file: of our sessions, or of opencode's."""
    from contextkit.importers import opencode, sqlite_sessions

    if sqlite_sessions.is_ours(source):
        return sqlite_sessions.read(source)
    return ProgramRemarks("opencode").added(opencode.read(source))


@cache
def _part(module: str, name: str) -> Callable[..., Any]:
    return getattr(import_module(f"contextkit.importers.{module}"), name)  # type: ignore[no-any-return]


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of an importer, whose module is imported when the function is called: a report reads one format or two,
    and all importers together take longer to import than a session takes to read.
    """

    def call(given: Any) -> Any:
        return _part(module, name)(given)

    return call


def _format(name: str, module: str, is_it: str, lines: str = "", program: str = "") -> Format:
    """The row of an importer that has a function `is_it`, a function `read` and maybe a reader of `lines`."""
    read_lines = _later(module, lines) if lines else not_by_line
    return Format(name, _later(module, is_it), _later(module, "read"), read_lines, program)


LEDGER = Format("contextkit ledger", lambda head: b'"contextkit_ledger"' in first_line(head), by_line(_Ours), _Ours)
FORMATS: tuple[Format, ...] = (
    LEDGER,
    Format("contextkit SQLite file", _later("sqlite_sessions", "is_sqlite"), _sqlite_records),
    _format("Qwen Code chat", "qwen_code", "is_qwen_code", program="Qwen Code"),
    _format("Claude Code transcript", "claude_code", "is_claude_code", "Transcript", program="Claude Code"),
    _format("Codex rollout", "codex", "is_codex", "Rollout", program="Codex"),
    _format("Copilot CLI events", "copilot", "is_copilot", program="Copilot CLI"),
    _format("Gemini CLI session", "gemini_cli", "is_gemini_cli", program="Gemini CLI"),
    _format("opencode sessions", "opencode", "is_opencode", program="opencode"),
    _format("Cline task", "cline", "is_cline", program="Cline or Roo Code"),
    _format("Cline session", "cline_sessions", "is_cline_session", program="Cline"),
    _format("SWE-agent trajectory", "swe_agents", "is_swe_agent", program="SWE-agent"),
    _format("Inspect log", "inspect_logs", "is_inspect", program="Inspect"),
    _format("aider analytics", "aider", "is_aider", program="aider"),
    _format("Prometheus scrapes", "prometheus", "is_scrape"),
    Format(
        "pi session",
        lambda head: bool(_part("pi", "is_pi")(first_line(head))),
        _later("pi", "read"),
        _later("pi", "PiLines"),
        program="pi",
    ),
    _format("block trace", "block_trace", "is_block_trace"),
    _format("OpenTelemetry spans", "otel", "is_otel", "lines"),
    _format("LiteLLM log", "litellm", "is_litellm"),
    _format("Langfuse export", "langfuse", "is_langfuse"),
    _format("agent trace", "agent_traces", "is_agent_trace"),
    _format("OpenHands metrics", "openhands", "is_openhands", program="OpenHands"),
    _format("OpenAI-format runs", "openai_runs", "is_openai_runs"),
    _format("HTTP archive", "har", "is_har"),
    _format("OpenRouter records", "openrouter", "is_openrouter"),
    _format("request and response bodies", "raw_pairs", "is_raw_pairs", "PairLines"),
)
"""Asked from the top: the first that knows a file reads it."""
SUFFIXES = (
    *(".jsonl", ".json", ".ndjson", ".har", ".log", ".prom", ".txt", ".csv"),
    *(".db", ".sqlite", ".sqlite3", ".eval", ".traj"),
)
"""What is looked at in a folder, packed (.gz, .zst) or not; SQLite files of other programs are passed over there."""
_PACKED = (".gz", ".zst")


def files_at(names: Iterable[str], faults: Faults | None = None) -> list[str]:
    """The files that paths, folders and patterns name, each once; of the folder of a `Context` its ledger.

    What is met in a folder or by a pattern and is no file (a pipe, a socket, a link to nothing) is a fault, and is
    passed over: a pipe would be waited for, and what is read of it is gone for its reader. Raises `UnreadableLog` where
    a name stands for nothing.
    """
    faults = Faults() if faults is None else faults
    return list(dict.fromkeys(file for name in names for file in _named(str(name), faults)))


def _named(name: str, faults: Faults) -> list[str]:
    path, n_faults = Path(name).expanduser(), len(faults)
    if name == STDIN or (path.exists() and not path.is_dir()):  # a pipe is read like a file
        return [name if name == STDIN else str(path)]
    if (path / "ledger.jsonl").is_file():
        return [str(path / "ledger.jsonl")]
    if path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if _is_recording(file, faults)]
        what = f"no {', '.join(SUFFIXES)} in this folder"
    else:
        found, what = [str(file) for file in _fitting(path) if file.is_dir() or _is_file(file, faults)], "no such file"
    if len(faults) > n_faults:
        what += f" that can be read; {len(faults) - n_faults:,} pipes and the like were passed over: name one to have it read"
    if not found:
        raise UnreadableLog(f"{name}: {what}; give recordings, folders or patterns of them, or - for standard input")
    return found


def _fitting(pattern: Path) -> list[Path]:
    """What a pattern stands for, in order.

    `**` enters no folder through a link: links that lead upwards would have no end.
    """
    parts = pattern.parts
    if "**" not in parts:
        return sorted(map(Path, glob.glob(str(pattern), recursive=True)))  # noqa: PTH207 - a pattern may be absolute
    at = parts.index("**")
    tops = sorted(map(Path, glob.glob(str(Path(*parts[:at]))))) if at else [Path()]  # noqa: PTH207
    rest = str(Path(*parts[at:]))
    found = {file for top in tops for file in top.glob(rest) if not _is_hidden(file.relative_to(top), rest)}
    return sorted(found)


def _is_hidden(file: Path, pattern: str) -> bool:
    """Return whether a name on the way begins with a dot, which a pattern means only where it says so."""
    return (
        not pattern.startswith(".")
        and "/." not in Path(pattern).as_posix()
        and any(part.startswith(".") for part in file.parts)
    )


def _is_recording(file: Path, faults: Faults) -> bool:
    """Return whether a file of a folder is looked at; one that nobody can open is, and says so when it is read."""
    if not _has_suffix(file.name) or not _is_file(file, faults):
        return False
    try:
        return "opencode" in file.name or not is_of_another_program(file)
    except OSError:
        return True


def _has_suffix(name: str) -> bool:
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return name.endswith(SUFFIXES)


def _is_file(file: Path, faults: Faults) -> bool:
    """Return whether it is a file; what is neither that nor a folder is a fault."""
    try:
        mode = file.stat().st_mode
    except OSError:
        mode = 0
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return stat.S_ISREG(mode)
    kind = next(
        (kind for is_it, kind in _KINDS if is_it(mode)), "a link to nothing, or a file that cannot be looked at"
    )
    faults.add(str(file), 0, f"{kind}, passed over; name it to have it read")
    return False


_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
"""(what tells it, what it is called)."""


def format_of(source: Source) -> Format | None:
    """The format of a recording, None where it is of none.

    Raises `UnreadableLog` for one that is empty or that nobody can open.
    """
    if not source.head.strip():
        raise UnreadableLog(f"{source.name}: the file is empty")
    line = first_line(source.head) + b"\n"  # what follows may be of another format: the first line's word comes first
    return next((known for head in (line, source.head) for known in FORMATS if known.is_it(head)), None)


def unknown(name: str) -> UnreadableLog:
    """The error for a file of no known format."""
    return UnreadableLog(f"{name} line 1: of no known format; give one of {', '.join(known.name for known in FORMATS)}")


def records_at(name: str, faults: Faults | None = None) -> tuple[Format, Iterator[Record]]:
    """The format of one file and its records, read as they are asked for.

    Raises `UnreadableLog` for what is of no known format.
    """
    source = Source(name, faults)
    source.faults.n_files += 1
    try:
        known = format_of(source)
        if known is None:
            raise unknown(name)
    except UnreadableLog:
        source.close()
        raise
    return known, known.read(source)


def remarked_records_at(name: str, faults: Faults | None = None) -> Iterator[Record]:
    """The records of one file, each session's program remarked before its first call."""
    known, records = records_at(name, faults)
    return ProgramRemarks(known.program).added(records)


def records_in(names: Iterable[str], faults: Faults, *, has_programs: bool = False) -> Iterator[Record]:
    """The records of all files that `names` lead to, file by file; with `has_programs` as of `remarked_records_at`.

    A file that cannot be read is a fault; where it is all that was named, it raises `UnreadableLog`.
    """
    named = [str(name) for name in names]
    for file in files_at(named, faults):
        try:
            yield from remarked_records_at(file, faults) if has_programs else records_at(file, faults)[1]
        except UnreadableLog as error:
            faults.refuse(file, error, named)


def check_any_read(faults: Faults, n_files_before: int = 0, n_refused_before: int = 0) -> None:
    """Raises `UnreadableLog` where none of the files that were opened is a recording: figures over nothing would say
    nothing.

    Files counted before are left out, for a command that looks at one argument after the other.
    """
    n = faults.n_files - n_files_before
    if not n or faults.n_refused - n_refused_before < n:
        return
    first = faults.kept[-1]
    which = (
        "the one file that was looked at is no recording"
        if n == 1
        else f"none of the {n:,} files that were looked at is a recording"
    )
    what_to_do = "give recordings of these formats, or write one with contextkit proxy --record"
    raise UnreadableLog(f"{which}: {first.file}: {first.what}; {what_to_do}")


def ledger_at(path: str | Path) -> tuple[str, Ledger]:
    """Name of the format and the ledger of a file, or of a context's folder, in memory.

    A packed file is read like the one inside. Raises `UnreadableLog` for what is not there, empty, or of no known
    format, `LogCorrupt` for a ledger with a damaged row, `NewerFormat` for one that a newer contextkit wrote.
    """
    from contextkit.ledger.ledger import Ledger

    path = Path(path)
    faults = Faults()
    known, records = records_at(str(path / "ledger.jsonl" if path.is_dir() else path), faults)
    ledger = Ledger()
    for record in records:
        ledger.append(record) if isinstance(record, ModelCall) else ledger.remark(record)
    damaged = next((fault for fault in faults.kept if is_damage(fault.what)), None)
    if damaged is not None:
        kind = NewerFormat if is_newer_format(damaged.what) else LogCorrupt
        raise kind(f"{damaged.file} line {damaged.line}: {damaged.what}")
    return known.name, ledger


def is_ledger(path: str | Path) -> bool:
    """Return whether a file is a contextkit ledger, plain or packed; raises `UnreadableLog` for one that nobody can
    read.
    """
    return LEDGER.is_it(Source(str(path)).head)
