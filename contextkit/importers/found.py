"""Which format a file is in, by its content, and the records it holds.

Takes names of files, folders and patterns, gives records. Every importer is one row here.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from contextkit.errors import LogCorrupt, UnreadableLog
from contextkit.importers import (
    agent_traces,
    block_trace,
    claude_code,
    codex,
    har,
    langfuse,
    litellm,
    openai_runs,
    openrouter,
    otel,
    pi,
    prometheus,
    raw_pairs,
)
from contextkit.importers.format import Format, by_line, first_line
from contextkit.importers.source import STDIN, Faults, Source
from contextkit.ledger.exchange import Exchange
from contextkit.ledger.ledger import Ledger, Rows, check_header
from contextkit.ledger.row import Record


class _Ours:
    """Our own ledgers: a damaged row is left out and reported, and so is a last line that a crash left unfinished."""

    def __init__(self, source: Source) -> None:
        self.source, self.has_head = source, False
        self._rows = Rows(source.name, self._damaged)
        self._number, self._last = 0, b""

    def hear(self, number: int, line: bytes) -> Iterable[Record]:
        """The next line."""
        if not self.has_head:
            check_header(line, self.source.name)
            self.has_head = True
            return ()
        if not line.endswith(b"\n"):
            self._last = line
        self._number = number
        record = self._rows.read(number, line)
        return () if record is None else (record,)

    def _damaged(self, error: LogCorrupt) -> None:
        if self._last:
            self.source.fault(self._number, "an unfinished line; every line before it is whole")
        else:
            self.source.fault(self._number, DAMAGED)

    def waiting(self) -> Iterable[Record]:
        """Nothing is held back."""
        return ()

    def told(self) -> None:
        """Nothing is to be said of the file as a whole."""


LEDGER = Format("contextkit ledger", lambda head: b'"contextkit_ledger"' in first_line(head), by_line(_Ours), _Ours)
FORMATS: tuple[Format, ...] = (
    LEDGER,
    Format("Claude Code transcript", claude_code.is_claude_code, claude_code.read, claude_code.Transcript),
    Format("Codex rollout", codex.is_codex, codex.read, codex.Rollout),
    Format("Prometheus scrapes", prometheus.is_scrape, prometheus.read),
    Format("pi session", lambda head: pi.is_pi(first_line(head)), pi.read, pi.PiLines),
    Format("block trace", block_trace.is_block_trace, block_trace.read),
    Format("OpenTelemetry spans", otel.is_otel, otel.read, otel.lines),
    Format("LiteLLM log", litellm.is_litellm, litellm.read),
    Format("Langfuse export", langfuse.is_langfuse, langfuse.read),
    Format("agent trace", agent_traces.is_agent_trace, agent_traces.read),
    Format("OpenAI-format runs", openai_runs.is_openai_runs, openai_runs.read),
    Format("HTTP archive", har.is_har, har.read),
    Format("OpenRouter records", openrouter.is_openrouter, openrouter.read),
    Format("request and response bodies", raw_pairs.is_raw_pairs, raw_pairs.read, raw_pairs.PairLines),
)
"""Asked from the top: the first that knows a file reads it."""
DAMAGED = "a damaged row is left out (restore it from a copy); prompts of later calls that continue it are unknown"
"""What is said of a row that cannot be read, or whose checksum is not that of its content."""
SUFFIXES = (".jsonl", ".json", ".ndjson", ".har", ".log", ".prom", ".txt", ".csv")
"""What is looked at in a folder, packed (.gz, .zst) or not."""
_PACKED = (".gz", ".zst")


def files_at(names: Iterable[str]) -> list[str]:
    """The files that paths, folders and patterns name, each once; of the folder of a `Context` its ledger.

    Raises `UnreadableLog` where one names nothing.
    """
    return list(dict.fromkeys(file for name in names for file in _named(str(name))))


def _named(name: str) -> list[str]:
    path = Path(name).expanduser()
    if name == STDIN or (path.exists() and not path.is_dir()):  # a pipe is read like a file
        return [name if name == STDIN else str(path)]
    if (path / "ledger.jsonl").is_file():
        return [str(path / "ledger.jsonl")]
    if path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if _is_looked_at(file)]
        what = f"no {', '.join(SUFFIXES)} in this folder"
    else:
        found, what = sorted(glob.glob(str(path), recursive=True)), "no such file"  # noqa: PTH207 - a pattern may be absolute
    if not found:
        raise UnreadableLog(f"{name}: {what}; give recordings, folders or patterns of them, or - for standard input")
    return found


def _is_looked_at(file: Path) -> bool:
    name = file.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return name.endswith(SUFFIXES) and file.is_file()


def format_of(source: Source) -> Format | None:
    """The format of a recording, None where it is of none; raises `UnreadableLog` for one that is empty or that nobody can open."""
    if not source.head.strip():
        raise UnreadableLog(f"{source.name}: the file is empty")
    line = first_line(source.head) + b"\n"  # what follows may be of another format: the first line's word comes first
    return next((known for head in (line, source.head) for known in FORMATS if known.is_it(head)), None)


def unknown(name: str) -> UnreadableLog:
    """The error for a file of no known format."""
    return UnreadableLog(f"{name} line 1: of no known format; known are {', '.join(known.name for known in FORMATS)}")


def records_at(name: str, faults: Faults | None = None) -> tuple[Format, Iterator[Record]]:
    """The format of one file and its records, read as they are asked for; raises `UnreadableLog` for what is of no known format."""
    source = Source(name, faults)
    known = format_of(source)
    if known is None:
        raise unknown(name)
    return known, known.read(source)


def records_in(names: Iterable[str], faults: Faults) -> Iterator[Record]:
    """The records of all files that `names` lead to, file by file.

    A file that was named itself and cannot be read raises `UnreadableLog`; one that was met in a folder or by a pattern is a fault.
    """
    named = [str(name) for name in names]
    for file in files_at(named):
        try:
            yield from records_at(file, faults)[1]
        except UnreadableLog as error:
            if file in named:
                raise
            faults.add(file, 0, str(error).removeprefix(f"{file} line 1: ").removeprefix(f"{file}: "))


def ledger_at(path: str | Path) -> tuple[str, Ledger]:
    """Name of the format and the ledger of a file, or of a context's folder, in memory.

    A packed file is read like the one inside. Raises `UnreadableLog` for what is not there, empty, or of no known format, `LogCorrupt`
    for a ledger with a damaged row.
    """
    path = Path(path)
    faults = Faults()
    known, records = records_at(str(path / "ledger.jsonl" if path.is_dir() else path), faults)
    ledger = Ledger()
    for record in records:
        ledger.append(record) if isinstance(record, Exchange) else ledger.remark(record)
    damaged = next((fault for fault in faults.kept if fault.what == DAMAGED), None)
    if damaged is not None:
        raise LogCorrupt(f"{damaged.file} line {damaged.line}: a damaged row; restore the file from a copy")
    return known.name, ledger


def is_ledger(path: str | Path) -> bool:
    """Whether a file is a contextkit ledger, plain or packed; raises `UnreadableLog` for one that nobody can read."""
    return LEDGER.is_it(Source(str(path)).head)
