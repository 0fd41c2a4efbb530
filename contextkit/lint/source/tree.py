"""All files of a tree, on all cores.

Takes files, gives the `Module` of each; knows nothing of what is looked for in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from contextkit.lint.config import LintConfig
from contextkit.lint.source.files import SourceFile
from contextkit.lint.source.parse import MAX_BYTES
from contextkit.lint.source.patterns import CodedPattern
from contextkit.lint.source.reader import Reader, Task, room_to_recurse
from contextkit.lint.source.summary import Module
from contextkit.lint.source.workers import MOST_CHUNKS, can_fork, n_processors, shared

_STARTED, _FORKED = 750_000, 25_000
"""Bytes of source, the longest file left out, that are worth another process: a new one that imports everything, a copy
of this one."""
_CHUNK = 1_000_000
"""Bytes of source one process takes at a time, at most."""
_TURNS = 6
"""Chunks for each process at least, so that none waits long for the last."""

_reader: list[Reader] = []
"""The reader of this process."""


def read_all(
    files: Sequence[SourceFile],
    config: LintConfig,
    patterns: tuple[CodedPattern, ...],
    jobs: int | None,
    progress: Callable[[int, int], None],
) -> list[Module]:
    """The module of each file, in order, read here and by up to `jobs` processes in all.

    `progress` gets (files done, files in all).

    Each is read, whatever it holds: of agents 99 % of the bytes are in files with a word of ours, or imported by one.
    """
    _begin(Task(patterns, config, frozenset(file.name.partition(".")[0] for file in files)))
    try:
        return _read_all(files, jobs or n_processors(), progress)
    finally:
        _reader.pop().walk.close()


def _read_all(files: Sequence[SourceFile], jobs: int, progress: Callable[[int, int], None]) -> list[Module]:
    by_path: dict[str, Module] = {}
    for modules in _read_chunks(files, jobs):
        by_path.update((module.path, module) for module in modules)
        progress(len(by_path), len(files))
    return [by_path[file.path] for file in files]


def _read_chunks(files: Sequence[SourceFile], jobs: int) -> Iterator[list[Module]]:
    n_bytes, longest = _size(files), max((_size([file]) for file in files), default=0)
    n_processes = min(jobs, 1 + (n_bytes - longest) // (_FORKED if can_fork() else _STARTED))
    chunks = sorted(
        _chunks(files, n_bytes, n_processes), key=_size, reverse=True
    )  # what takes longest is not begun last
    return shared(_read_chunk, chunks, n_processes, _begin, _reader[0].task)


def _size(files: Iterable[SourceFile]) -> int:
    return sum(min(file.n_bytes, MAX_BYTES) for file in files)


def _chunks(files: Sequence[SourceFile], n_bytes: int, n_processes: int) -> Iterator[list[SourceFile]]:
    """Files that follow one another.

    A long one has its process to itself, so that the others can take what stands around it.
    """
    most = max(min(_CHUNK, n_bytes // (_TURNS * n_processes)), n_bytes // MOST_CHUNKS) if n_processes > 1 else _CHUNK
    chunk: list[SourceFile] = []
    size = 0
    for file in files:
        if chunk and file.n_bytes >= most:
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += min(file.n_bytes, MAX_BYTES)
        if size >= most:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _begin(task: Task) -> None:
    """A reader for a task."""
    _reader[:] = [Reader(task)]


def _read_chunk(chunk: Sequence[SourceFile]) -> list[Module]:
    with room_to_recurse(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_reader[0].read(file) for file in chunk]
