"""Finds hazards in source files: parses, collects what is sent, applies the rules, leaves out what was silenced.

Takes paths, a config and hazards, gives findings; never raises for what a file holds: what cannot be read is a note
(CK000).
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.own import UNREADABLE
from contextkit.lint.source import knowledge
from contextkit.lint.source.analysis import Analysis, Hit
from contextkit.lint.source.files import SourceFile, source_files
from contextkit.lint.source.parse import Parsed, parse, unread
from contextkit.lint.source.program import Program
from contextkit.lint.source.rules import RULES
from contextkit.lint.source.scopes import Module, read_module
from contextkit.lint.source.trace import Tracer

_RECURSION = 6_000
"""Depth of Python calls while a file is read: an expression of some thousand levels is still read."""
_FROZEN = re.compile(rb"#\s*contextkit:\s*frozen\b")
_NOQA = re.compile(rb"#\s*noqa(?::\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)


def find_in_code(
    paths: Iterable[str | Path],
    config: LintConfig,
    hazards: Iterable[Hazard],
    *,
    progress: Callable[[int, int], None] | None = None,
    closed: Callable[[str, str], None] | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> Iterator[Finding]:
    """Findings of the source detector under files and folders, sorted by place.

    `progress` gets (files done, files in all).

    `closed` gets the path of each folder that cannot be looked into, and why. `contents` maps paths among the files to what is read in
    place of them. Raises nothing for what a file holds.
    """
    supplied = contents or {}
    files = [
        replace(file, source=supplied[file.path]) if file.path in supplied else file
        for file in source_files(paths, config, closed)
    ]
    codes = frozenset(hazard.code for hazard in hazards if hazard.in_source and config.is_selected(hazard.code))
    with _room_to_recurse():
        yield from sorted(_Run(files, config, codes).findings(progress), key=_order)


class _Run:
    """The files that are linted in one go."""

    def __init__(self, files: list[SourceFile], config: LintConfig, codes: frozenset[str]) -> None:
        self.files = files
        self.config, self.codes = config, codes
        self.by_name = {file.name: file for file in files}
        self.parsed: dict[str, Parsed] = {}
        self.program = Program(self.load)
        self.known = knowledge.load(tuple(str(Path(config.path).parent / file) for file in config.knowledge))
        self.words = self.known.words_of_interest()

    def load(self, name: str) -> Module | None:
        """Read the module of a full name, for the program; None for one that is not among the files."""
        file = self.by_name.get(name)
        return self.module(file) if file is not None else None

    def module(self, file: SourceFile) -> Module:
        """Read one file."""
        parsed = self.parsed.get(file.path) or self.parse(file)
        try:
            module = read_module(file.path, file.name, file.package, parsed)
        except RecursionError:
            module = read_module(file.path, file.name, file.package, unread("nested too deeply to be read"))
        if b"noqa" in parsed.text or b"NOQA" in parsed.text:
            module.silenced = _silenced(parsed)
        if b"contextkit:" in parsed.text:
            module.frozen = _frozen(parsed)
        return module

    def parse(self, file: SourceFile) -> Parsed:
        """Parse one file."""
        try:
            parsed = parse(_source(file), file.path)
        except OSError as error:
            parsed = unread(f"cannot be read: {error.strerror or type(error).__name__}")
        self.parsed[file.path] = parsed
        return parsed

    def findings(self, progress: Callable[[int, int], None] | None) -> list[Finding]:
        """Read all files, then look at those that send something or count it."""
        found: list[Finding] = []
        relevant: list[Module] = []
        marks = self.known.words("mark", "words")
        for index, file in enumerate(self.files, 1):
            parsed = self.parse(file)
            self.program.marked[file.name.partition(".")[0]] |= {word for word in marks if word.encode() in parsed.text}
            if parsed.fault:
                found += self.note(file, parsed)
            elif self.words.search(parsed.text):
                module = self.program.module(file.name) if self.by_name[file.name] is file else self.module(file)
                relevant += [module] if module is not None else []
            else:
                del self.parsed[file.path]
            if progress is not None and (index % 50 == 0 or index == len(self.files)):
                progress(index, len(self.files))
        tracer = Tracer(self.program, self.known)
        for module in relevant:
            found += self.of_module(module, tracer)
        return list({(one.code, one.place): one for one in found}.values())

    def note(self, file: SourceFile, parsed: Parsed) -> Iterator[Finding]:
        """The note on a file that cannot be read."""
        if self.config.is_selected(UNREADABLE, file.path):
            line = parsed.fault_line
            yield Finding(UNREADABLE, parsed.fault, CodePlace(file.path, line, 1, line, 1), "source")

    def of_module(self, module: Module, tracer: Tracer) -> Iterator[Finding]:
        """The findings in one module, one for each sink and one for each place."""
        analysis = Analysis(module, tracer)
        visited: set[tuple[str, int]] = set()
        for rule in RULES:
            for hit in rule(analysis):
                keys = {("place", id(hit.node)), *([("sink", id(hit.sink))] if hit.sink is not None else [])}
                if hit.code not in self.codes or not visited.isdisjoint(keys) or self.is_silenced(hit):
                    continue
                visited |= keys
                yield _finding(hit)

    def is_silenced(self, hit: Hit) -> bool:
        """Return whether the settings or a comment on one of its lines leave a finding out."""
        line = getattr(hit.node, "lineno", 1)
        last = getattr(hit.node, "end_lineno", line)
        if not self.config.is_selected(hit.code, hit.module.path):
            return True
        return any(
            (codes := hit.module.silenced.get(number)) is not None and (not codes or hit.code in codes)
            for number in range(line, last + 1)
        )


def _silenced(parsed: Parsed) -> dict[int, frozenset[str]]:
    """Line → codes that a comment silences there; one behind a text of several lines is about each of them."""
    silenced: dict[int, frozenset[str]] = {}
    for number, line in enumerate(parsed.text.split(b"\n"), 1):
        if (comment := _NOQA.search(line)) is not None:
            codes = comment["codes"]
            silenced[number] = frozenset(re.split(r"[\s,]+", codes.decode().upper())) if codes else frozenset()
    for node in ast.walk(parsed.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno in silenced:
            for number in range(node.lineno, node.end_lineno or node.lineno):
                silenced.setdefault(number, silenced[node.end_lineno])
    return silenced


def _frozen(parsed: Parsed) -> frozenset[int]:
    """Lines whose values are declared to be made once; declared of a `def`, all of its lines."""
    frozen = {number for number, line in enumerate(parsed.text.split(b"\n"), 1) if _FROZEN.search(line)}
    for node in ast.walk(parsed.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            head = range(node.lineno, max(node.lineno + 1, node.body[0].lineno))
            if not frozen.isdisjoint(head):
                frozen.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(frozen)


def _source(file: SourceFile) -> bytes:
    if file.source is not None:
        return file.source
    if not os.path.isfile(file.path):  # noqa: PTH113 - pipes would be waited for
        os.stat(file.path)  # noqa: PTH116 - what is not there says so
        raise OSError(None, "not a file; give what comes by a pipe as -, with --stdin-filename")
    with open(file.path, "rb", 0) as stream:  # noqa: PTH123
        return stream.read()


def _finding(hit: Hit) -> Finding:
    trail = tuple(_place(module, node, note) for module, node, note in hit.trail if getattr(node, "lineno", 0))
    return Finding(
        hit.code, hit.message, _place(hit.module, hit.node), "source", trail if len(trail) > 1 else (), hit.fix
    )


def _place(module: Module, node: ast.AST, note: str = "") -> CodePlace:
    line, end_line = getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or getattr(node, "lineno", 1)
    lines = module.lines()

    def characters(number: int, n_bytes: int) -> int:
        text = lines[number - 1] if number <= len(lines) else b""
        return n_bytes + 1 if text.isascii() else len(text[:n_bytes].decode("utf-8", "replace")) + 1

    first, last = (
        characters(line, getattr(node, "col_offset", 0)),
        characters(end_line, getattr(node, "end_col_offset", 0)),
    )
    place = CodePlace(module.path, line, first, end_line, last, note)
    cell = module.parsed.cell_of(line)
    if cell is None:
        return place
    number, line_in_cell = cell
    return replace(place, file=f"{place.file}#cell{number}", line=line_in_cell, end_line=line_in_cell + end_line - line)


def _order(finding: Finding) -> tuple[str, int, int, str]:
    place = finding.place
    at = (place.file, place.line, place.column) if isinstance(place, CodePlace) else ("", 0, 0)
    return *at, finding.code


@contextmanager
def _room_to_recurse() -> Iterator[None]:
    """Let expressions nest deeply, and keep the collector out of the way while trees are made."""
    limit, is_collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _RECURSION))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if is_collecting:
            gc.enable()
