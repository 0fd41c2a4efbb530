"""Finds hazards in source files: reads, walks them on all cores, links, leaves out what was silenced.

Takes paths, a config and hazards, gives findings; never raises for what a file holds: a file that cannot be read is a finding (CK000).
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source import flows, link
from contextkit.lint.source.files import SourceFile, source_files
from contextkit.lint.source.rule import Flow, Pattern
from contextkit.lint.source.summary import Module, Site, Source
from contextkit.lint.source.tables import sanitizers, sinks
from contextkit.lint.source.walk.statements import Walk
from contextkit.lint.source.watch.watching import CodedPattern

UNREADABLE = "CK000"
"""Code of a file that cannot be read."""
MAX_BYTES = 8_000_000
"""A longer file is data, and is not parsed."""
_SMALL, _SMALL_TO_FORK = 1_500_000, 350_000
"""Bytes of source below which one process is faster than several: new ones that import everything, and forked ones."""
_CHUNK = 1_000_000
"""Bytes of source one worker takes at a time, at most."""
_TURNS = 4
"""Chunks for each worker at least, so that none waits long for the last."""
_RECURSION = 12_000
"""Depth of Python calls while a file is walked: an expression of some thousand levels is still read."""
_SOURCE_WORDS = re.compile(
    rb"datetime|\btime\b|uuid|secrets|random|getcwd|environ|getenv|platform|subprocess|hostname|glob|listdir|iterdir|pendulum|arrow|\bset\(|fetchall|git"
)


def find_in_code(
    paths: Iterable[str | Path],
    config: LintConfig,
    hazards: Iterable[Hazard],
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """Findings of the source detector under files and folders, sorted by place; `progress` gets (files done, files in all).

    A hazard's patterns are sent to other processes, so their `find` is a function of a module. Raises nothing for what a file holds.
    """
    with _room_to_recurse():
        found = _find(paths, config, hazards, jobs, progress or _nobody)
    yield from found


def _find(
    paths: Iterable[str | Path], config: LintConfig, hazards: Iterable[Hazard], jobs: int | None, progress: Callable[[int, int], None]
) -> list[Finding]:
    rows = [hazard for hazard in hazards if config.is_selected(hazard.code)]
    modules = _read_all(list(source_files(paths, config)), config, rows, jobs, progress)
    table = flows.Flows((row.code, rule) for row in rows for rule in row.source if isinstance(rule, Flow))
    found = [finding for module in modules for finding in module.findings]
    by_path = {module.path: module for module in modules}
    reached = [_mended(finding, by_path, rows) for finding in flows.findings(link.Program(modules), table)]
    ends = {(finding.code, _spot(finding.trail[-1])) for finding in reached}
    found = [finding for finding in found if (finding.code, _spot(finding.place)) not in ends] + reached
    kept = {(finding.code, finding.place, finding.message): finding for finding in found if not _is_silenced(finding, by_path, config)}
    return sorted(kept.values(), key=_order)


def _mended(finding: Finding, modules: dict[str, Module], rows: Sequence[Hazard]) -> Finding:
    """With the safe change that was offered at the source, or in its file where it arrives."""
    titles = {title for row in rows if row.code == finding.code for rule in row.source if isinstance(rule, Flow) for title in rule.mends}
    for place in (finding.place, finding.trail[-1]) if titles else ():
        if isinstance(place, CodePlace) and isinstance(finding.place, CodePlace) and place.file == finding.place.file:
            fix = modules[place.file].fixes.get((place.line, place.column, place.end_line, place.end_column))
            if fix is not None and fix.title in titles:
                return replace(finding, fix=fix)
    return finding


def _spot(place: object) -> tuple[str, int, int]:
    """Where it stands: a flow that ends there says more than a pattern that begins there."""
    return (place.file, place.line, place.column) if isinstance(place, CodePlace) else ("", 0, 0)


def _nobody(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _order(finding: Finding) -> tuple[str, int, int, str]:
    place = finding.place
    return (place.file, place.line, place.column, finding.code) if isinstance(place, CodePlace) else ("", 0, 0, finding.code)


def _is_silenced(finding: Finding, modules: dict[str, Module], config: LintConfig) -> bool:
    place = finding.place
    module = modules.get(place.file) if isinstance(place, CodePlace) else None
    if not isinstance(place, CodePlace) or module is None:
        return False
    if not config.is_selected(finding.code, place.file):
        return True
    lines = {place.line, place.end_line}
    if module.silenced and (site := _site_of(place, module)):
        lines.add(site.statement_end)
    named = [module.silenced[line] for line in lines if line in module.silenced]
    return any(not codes or finding.code in codes for codes in named)


def _site_of(place: CodePlace, module: Module) -> Site | None:
    """The site of the source that stands at a place, None where none does."""
    spot = place.line, place.column, place.end_line, place.end_column
    sites = (origin.site for origin in module.origins if isinstance(origin, Source))
    return next((site for site in sites if site[:4] == spot), None)


# Workers ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    """What every worker is told once."""

    patterns: tuple[CodedPattern, ...]
    config: LintConfig
    roots: frozenset[str]


class _Reader:
    """Reads files, one after the other."""

    def __init__(self, task: _Task) -> None:
        self.task, config = task, task.config
        met: dict[str, sinks.Arguments] = {name: {argument: sink} for name, (argument, sink) in config.call_sinks.items()}
        mends = dict.fromkeys(config.sanitizers, sanitizers.EVERYTHING)
        self.walk = Walk(task.patterns, dict(config.sources), mends, met, dict(config.named_sinks))
        self.roots = task.roots
        words = [*config.sources, *config.named_sinks, *config.call_sinks]
        tails = sorted({re.escape(word.rpartition(".")[2] if "." in word else word) for word in words})
        self.words = re.compile("|".join(tails).encode()) if tails else None

    def read(self, file: SourceFile, *, is_wanted: bool) -> Module:
        """What a file says; a file that cannot be read says one finding."""
        module = Module(file.path, file.name)
        try:
            self._read(file, module, is_wanted=is_wanted)
        except SyntaxError as error:
            _fault(module, f"not Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}", error.lineno or 1)
        except (RecursionError, MemoryError):
            _fault(module, "nested too deeply to be read")
        except OSError as error:
            _fault(module, f"cannot be read: {error.strerror or type(error).__name__}")
        except ValueError as error:
            _fault(module, f"not Python: {error}")
        return module

    def _read(self, file: SourceFile, module: Module, *, is_wanted: bool) -> None:
        if file.n_bytes > MAX_BYTES:
            _fault(module, f"{file.n_bytes:,} bytes: longer than the {MAX_BYTES:,} a source file is read up to")
            return
        with open(file.path, "rb", 0) as stream:  # noqa: PTH123
            source = stream.read()
        if b"\0" in source:
            _fault(module, "not Python: it holds null bytes", source.count(b"\n", 0, source.index(b"\0")) + 1)
            return
        if not is_wanted and not file.is_named and not self._may_matter(source):
            module.is_unread = b"def " in source
            return
        tree = ast.parse(source, file.path)
        text = as_utf8(source)
        self.walk.read(module, text, tree, self.roots, file.package)
        if text != source:  # offsets count in the text, and a change is made in the file
            module.fixes.clear()
            module.findings[:] = [replace(finding, fix=None) for finding in module.findings]

    def _may_matter(self, source: bytes) -> bool:
        if any(word in source for word in sinks.FREQUENT):
            return True
        is_named = self.words and self.words.search(source)
        return bool(is_named or sinks.WORDS.search(source) or _SOURCE_WORDS.search(source) or self.walk.has_a_word(source))


def as_utf8(source: bytes) -> bytes:
    """The text the offsets of the syntax tree count in: the file itself, or its text in UTF-8 where a cookie names another encoding."""
    found = re.match(rb"(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", source)
    if found is None or found[1].lower() in {b"utf-8", b"utf8"}:
        return source
    return source.decode(found[1].decode("ascii"), "replace").encode()


def _fault(module: Module, text: str, line: int = 1) -> None:
    module.findings.append(Finding(UNREADABLE, text, CodePlace(module.path, line, 1, line, 1), "source"))


@contextmanager
def _room_to_recurse() -> Iterator[None]:
    """Deep recursion allowed, and no garbage collection: syntax trees hold no circles."""
    limit, collects = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _RECURSION))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()


_reader: list[_Reader] = []
"""The reader of this process."""
_MOST_WORKERS = 61
"""More processes than Windows can wait for are of no use."""


def _begin(task: _Task) -> None:
    """A reader for a task; a process that was forked has it already."""
    if not _reader or _reader[0].task is not task:
        _reader[:] = [_Reader(task)]


def _read_chunk(chunk: tuple[Sequence[SourceFile], bool]) -> list[Module]:
    files, is_wanted = chunk
    with _room_to_recurse(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_reader[0].read(file, is_wanted=is_wanted) for file in files]


def _chunks(files: Sequence[SourceFile], workers: int) -> Iterator[list[SourceFile]]:
    chunk: list[SourceFile] = []
    n_bytes, most = 0, min(_CHUNK, sum(file.n_bytes for file in files) // (_TURNS * workers))
    for file in files:
        chunk.append(file)
        n_bytes += min(file.n_bytes, MAX_BYTES)
        if n_bytes >= most:
            yield chunk
            chunk, n_bytes = [], 0
    if chunk:
        yield chunk


def _read_all(files: Sequence[SourceFile], config: LintConfig, rows: Sequence[Hazard], jobs: int | None,
              progress: Callable[[int, int], None]) -> list[Module]:  # fmt: skip
    """The module of each file, in order, read here or by several processes.

    A file without a word of ours is passed over at first; it is read when one that was read imports it, for what it wraps.
    """
    patterns = tuple((row.code, rule) for row in rows for rule in row.source if isinstance(rule, Pattern))
    task = _Task(patterns, config, frozenset(file.name.partition(".")[0] for file in files))
    workers = min(jobs or os.cpu_count() or 1, _MOST_WORKERS)
    by_path: dict[str, Module] = {}
    wanted: Sequence[SourceFile] = files
    while wanted:
        for modules in _work(task, wanted, workers, is_wanted=bool(by_path)):
            by_path.update((module.path, module) for module in modules)
            progress(len(by_path), len(files))
        wanted = _imported_unread(files, by_path)
    return [by_path[file.path] for file in files]


def _imported_unread(files: Sequence[SourceFile], modules: dict[str, Module]) -> list[SourceFile]:
    """Files passed over so far that a file that was read imports."""
    unread = {module.name for module in modules.values() if module.is_unread}
    if not unread:
        return []
    imported = {name for module in modules.values() for full in module.names.values() for name in (full, full.rpartition(".")[0])}
    found = unread & imported
    return [file for file in files if file.name in found and modules[file.path].is_unread]


def _work(task: _Task, files: Sequence[SourceFile], workers: int, *, is_wanted: bool) -> Iterator[list[Module]]:
    small = min(_SMALL, _SMALL_TO_FORK) if get_context().get_start_method() == "fork" else _SMALL
    is_alone = workers == 1 or sum(file.n_bytes for file in files) <= small
    chunks = list(_chunks(files, 1 if is_alone else workers))
    _begin(task)
    if is_alone:
        yield from (_read_chunk((chunk, is_wanted)) for chunk in chunks)
        return
    with ProcessPoolExecutor(min(workers, len(chunks)), initializer=_begin, initargs=(task,)) as pool:
        yield from pool.map(_read_chunk, [(chunk, is_wanted) for chunk in chunks])
