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

_TOO_DEEP = "nested too deeply to be looked at"
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

    `progress` gets (files done, files in all), `closed` the path of each folder that cannot be looked into, and why.
    `contents` maps paths among the files to what is read in place of them. Raises nothing for what a file holds.
    """
    files = list(source_files(paths, config, closed))
    codes = frozenset(hazard.code for hazard in hazards if hazard.in_source and config.is_selected(hazard.code))
    with _room_to_recurse():
        findings = _Run(files, config, codes, contents or {}).findings(progress)
    yield from sorted(findings, key=lambda one: (str(one.place.file), one.place.line, one.place.column, one.code))  # type: ignore[union-attr]


class _Run:
    """The files that are linted in one go."""

    def __init__(
        self, files: list[SourceFile], config: LintConfig, codes: frozenset[str], contents: Mapping[str, bytes]
    ) -> None:
        self.files, self.config, self.codes, self.contents = files, config, codes, contents
        self.by_name = {file.name: file for file in reversed(files)}
        self.parsed: dict[str, Parsed] = {}
        self.program = Program(self.load)
        self.known = knowledge.load(tuple(str(Path(config.path).parent / file) for file in config.knowledge))

    def load(self, name: str) -> Module | None:
        """Read the module of a full name, for the program; None for one that is not among the files."""
        return self.module(self.by_name[name]) if name in self.by_name else None

    def module(self, file: SourceFile) -> Module:
        """Read one file."""
        parsed = self.parsed.get(file.path) or self.parse(file)
        module = read_module(file.path, file.name, file.package, parsed)
        if _FROZEN.search(parsed.text):
            module.frozen = _frozen(module)
        return module

    def parse(self, file: SourceFile) -> Parsed:
        """Parse one file."""
        try:
            if file.path not in self.contents and not os.path.isfile(file.path):  # noqa: PTH113 - a pipe would be waited for
                os.stat(file.path)  # noqa: PTH116 - what is not there says so
                raise OSError(None, "not a file; give what comes by a pipe as -, with --stdin-filename")
            source = self.contents.get(file.path)
            parsed = parse(Path(file.path).read_bytes() if source is None else source, file.path)
        except OSError as error:
            parsed = unread(f"cannot be read: {error.strerror or type(error).__name__}")
        return parsed

    def findings(self, progress: Callable[[int, int], None] | None) -> Iterable[Finding]:
        """Read all files, then look at those that send something or count it."""
        found: list[Finding] = []
        relevant: list[Module] = []
        keywords, words = self.known.words("breakpoint", "words"), self.known.words_of_interest()
        for index, file in enumerate(self.files, 1):
            parsed = self.parse(file)
            self.program.texts.append(parsed.text)
            self.program.sizes[file.package.partition(".")[0]] += bool(file.package)
            self.program.breakpoint_words[file.name.partition(".")[0]] |= {
                word for word in keywords if word.encode() in parsed.text
            }
            if parsed.fault:
                found += self.note(file.path, parsed.fault, parsed.fault_line)
            elif words.search(parsed.text):
                self.parsed[file.path] = parsed
                try:
                    is_first = self.by_name[file.name] is file
                    module = self.program.module(file.name) if is_first else self.program.add(self.module(file))
                    relevant += [module] if module is not None else []
                except RecursionError:
                    found += self.note(file.path, _TOO_DEEP)
            if progress is not None and (index % 50 == 0 or index == len(self.files)):
                progress(index, len(self.files))
        tracer = Tracer(self.program, self.known)
        for module in relevant:
            try:
                found += self.of_module(module, tracer)
            except RecursionError:
                found += self.note(module.path, _TOO_DEEP)
        return {(one.code, one.place): one for one in reversed(found)}.values()

    def note(self, path: str, fault: str, line: int = 1) -> list[Finding]:
        """Return the note on a file that cannot be read."""
        is_wanted = self.config.is_selected(UNREADABLE, path)
        return [Finding(UNREADABLE, fault, CodePlace(path, line, 1, line, 1), "source")] if is_wanted else []

    def of_module(self, module: Module, tracer: Tracer) -> Iterator[Finding]:
        """Yield the findings in one module, one for each sink and one for each place."""
        analysis = Analysis(module, tracer)
        visited: set[int] = set()
        for hit in (hit for rule in RULES for hit in rule(analysis)):
            keys = {id(one) for one in (hit.node, hit.sink) if one is not None}
            if hit.code in self.codes and visited.isdisjoint(keys) and not self.is_silenced(hit):
                visited |= keys
                trail = tuple(_place(*mark) for mark in hit.trail if getattr(mark[1], "lineno", 0))
                place = _place(hit.module, hit.node)
                yield Finding(hit.code, hit.message, place, "source", trail if len(trail) > 1 else (), hit.fix)

    def is_silenced(self, hit: Hit) -> bool:
        """Return whether the settings, or a comment on one of the lines of its statement, leave a finding out."""
        for line in _statement(hit.module, hit.node) if b"noqa" in hit.module.text.lower() else ():
            comment = _NOQA.search(hit.module.lines()[line - 1]) if line not in hit.module.texts else None
            codes = (comment["codes"] or b"").decode().upper() if comment is not None else ""
            if comment is not None and (not codes or hit.code in re.split(r"[\s,]+", codes)):
                return True
        return not self.config.is_selected(hit.code, hit.module.path)


def _statement(module: Module, node: ast.AST) -> range:
    """Return the lines of the innermost statement around an expression; where that is a compound one, those of the
    expression.
    """
    if not module.statements:
        for one in ast.walk(module.parsed.tree):
            if isinstance(one, ast.Constant | ast.JoinedStr):
                module.texts.update(range(one.lineno, one.end_lineno or one.lineno))
            if isinstance(one, ast.stmt) and not hasattr(one, "body"):
                lines = range(one.lineno, (one.end_lineno or one.lineno) + 1)
                module.statements.update(dict.fromkeys(lines, lines))
    line = getattr(node, "lineno", 1)
    return module.statements.get(line, range(line, getattr(node, "end_lineno", line) + 1))


def _frozen(module: Module) -> frozenset[int]:
    """Lines whose values are declared to be made once; declared of a `def`, all of its lines."""
    frozen = {number for number, line in enumerate(module.lines(), 1) if _FROZEN.search(line)}
    for scope in module.scopes[1:]:
        first, last = getattr(scope.node, "lineno", 1), getattr(scope.node, "end_lineno", 1)
        if not frozen.isdisjoint(range(first, max(first + 1, scope.node.body[0].lineno))):
            frozen.update(range(first, last + 1))
    return frozenset(frozen)


def _place(module: Module, node: ast.AST, note: str = "") -> CodePlace:
    line, end_line = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    lines = module.lines()

    def characters(number: int, n_bytes: int) -> int:
        return len(lines[number - 1][:n_bytes].decode("utf-8", "replace")) + 1 if number <= len(lines) else 1

    first = characters(line, getattr(node, "col_offset", 0))
    last = characters(end_line, getattr(node, "end_col_offset", 0))
    number, line_in_cell = module.parsed.cell_of(line) or (0, line)
    path = f"{module.path}#cell{number}" if number else module.path
    return CodePlace(path, line_in_cell, first, line_in_cell + end_line - line, last, note)


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
