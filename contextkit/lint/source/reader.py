"""How one file is read: parsed and walked.

Takes files, gives the `Module` of each; never raises for what a file holds: a file that cannot be read is a finding
(CK000).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.own import UNREADABLE
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.files import SourceFile
from contextkit.lint.source.parse import MAX_BYTES, parse
from contextkit.lint.source.patterns import CodedPattern
from contextkit.lint.source.summary import Module
from contextkit.lint.source.walk import Walk

_RECURSION = 12_000
"""Depth of Python calls while a file is walked: an expression of some thousand levels is still read."""


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker is told once."""

    patterns: tuple[CodedPattern, ...]
    config: LintConfig
    roots: frozenset[str]


class Reader:
    """Reads files, one after the other."""

    def __init__(self, task: Task) -> None:
        self.task, config = task, task.config
        met: dict[str, sinks.Arguments] = {
            name: {argument: sink} for name, (argument, sink) in config.call_sinks.items()
        }
        mends = dict.fromkeys(config.sanitizers, sanitizers.EVERYTHING)
        self.walk = Walk(task.patterns, dict(config.sources), mends, met, dict(config.named_sinks))
        self.roots = task.roots

    def read(self, file: SourceFile) -> Module:
        """What a file says; a file that cannot be read says one finding."""
        module = Module(file.path, file.name)
        try:
            self._read(file, module)
        except (RecursionError, MemoryError):
            _fault(module, "nested too deeply to be read")
        except OSError as error:
            _fault(module, f"cannot be read: {error.strerror or type(error).__name__}")
        return module

    def _read(self, file: SourceFile, module: Module) -> None:
        if file.n_bytes > MAX_BYTES:
            _fault(module, f"{file.n_bytes:,} bytes: longer than the {MAX_BYTES:,} a source file is read up to")
            return
        parsed = parse(_source(file), file.path)
        for note in parsed.notes:
            _fault(module, note.message, note.line)
        self.walk.read(module, parsed.text, parsed.tree, self.roots, file.package, file.meant)
        if not parsed.is_exact:  # offsets count in the text, and a change is made in the file
            module.fixes.clear()
            module.findings[:] = [replace(finding, fix=None) for finding in module.findings]


def _source(file: SourceFile) -> bytes:
    if file.source is not None:
        return file.source
    if not file.n_bytes and not os.path.isfile(file.path):  # noqa: PTH113 - pipes have no size, and would be waited for
        os.stat(file.path)  # noqa: PTH116 - what is not there says so
        raise OSError(None, "not a file; give what comes by a pipe as -, with --stdin-filename")
    with open(file.path, "rb", 0) as stream:  # noqa: PTH123
        return stream.read()


def _fault(module: Module, text: str, line: int = 1) -> None:
    module.findings.append(Finding(UNREADABLE, text, CodePlace(module.path, line, 1, line, 1), "source"))


@contextmanager
def room_to_recurse() -> Iterator[None]:
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
