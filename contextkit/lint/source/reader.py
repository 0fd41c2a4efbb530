"""How one file is read: parsed and walked.

Takes files, gives the `Module` of each; never raises for what a file holds: a file that cannot be read is a finding
(CK000).
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.files import SourceFile
from contextkit.lint.source.patterns import CodedPattern
from contextkit.lint.source.summary import Module
from contextkit.lint.source.walk import Walk

UNREADABLE = "CK000"
"""Code of a file that cannot be read."""
MAX_BYTES = 8_000_000
"""A longer file is data, and is not parsed."""
_PLACE = re.compile(rb"\{\{.*?\}\}|\{%.*?%\}")
"""Of a template of Jinja: what is filled in, and what says which lines there are."""
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
        except SyntaxError as error:
            _fault(module, f"not Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}", error.lineno or 1)
        except (RecursionError, MemoryError):
            _fault(module, "nested too deeply to be read")
        except OSError as error:
            _fault(module, f"cannot be read: {error.strerror or type(error).__name__}")
        except ValueError as error:
            _fault(module, f"not Python: {error}")
        return module

    def _read(self, file: SourceFile, module: Module) -> None:
        if file.n_bytes > MAX_BYTES:
            _fault(module, f"{file.n_bytes:,} bytes: longer than the {MAX_BYTES:,} a source file is read up to")
            return
        source = _source(file)
        if b"\0" in source:
            _fault(module, "not Python: it holds null bytes", source.count(b"\n", 0, source.index(b"\0")) + 1)
            return
        try:
            tree = ast.parse(source, file.path)
        except SyntaxError:
            if _is_template(source):
                return
            raise
        text = as_utf8(source)
        self.walk.read(module, text, tree, self.roots, file.package, file.meant)
        if text != source:  # offsets count in the text, and a change is made in the file
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


def _is_template(source: bytes) -> bool:
    """Whether it is Python once its places are filled in: `from {{folder}}.crew import {{name}}Crew` is there to be
    written anew.
    """
    filled = _PLACE.sub(lambda found: b"x" if found[0].startswith(b"{{") else b"", source)
    try:
        return filled != source and bool(ast.parse(filled))
    except SyntaxError:
        return False


def as_utf8(source: bytes) -> bytes:
    """The text the offsets of the syntax tree count in: the file itself, or its text in UTF-8 where a cookie names
    another encoding.
    """
    found = re.match(rb"(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", source)
    if found is None or found[1].lower() in {b"utf-8", b"utf8"}:
        return source
    return source.decode(found[1].decode("ascii"), "replace").encode()


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
