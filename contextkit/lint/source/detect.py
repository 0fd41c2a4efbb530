"""Finds hazards in source files: parses, builds the value graph, links it, applies the rules, leaves out what was silenced.

Takes paths, a config and hazards, gives findings; never raises for what a file holds: what cannot be read is a note
(CK000).
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source import flows, knowledge
from contextkit.lint.source.analysis import Analysis, Hit, text_of, trail_of
from contextkit.lint.source.files import SourceFile, source_files
from contextkit.lint.source.graph import Module, Node, Position
from contextkit.lint.source.lower import lower
from contextkit.lint.source.parse import Parsed, parse
from contextkit.lint.source.repair import Note
from contextkit.lint.source.rules import RULES
from contextkit.lint.source.rules.edits import fix_for

UNREADABLE = "CK000"
"""Code of what cannot be read."""
_RECURSION = 12_000
"""Depth of Python calls while a file is read: an expression of some thousand levels is still read."""
_FROZEN = re.compile(rb"#\s*contextkit:\s*frozen\b")
_NOQA = re.compile(rb"#\s*noqa(?::\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)


def find_in_code(
    paths: Iterable[str | Path],
    config: LintConfig,
    hazards: Iterable[Hazard],
    *,
    progress: Callable[[int, int], None] | None = None,
    left_out: Callable[[str], None] | None = None,
    closed: Callable[[str, str], None] | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> Iterator[Finding]:
    """Findings of the source detector under files and folders, sorted by place.

    `progress` gets (files done, files in all).

    Tests in folders are not looked at unless the config says so: `left_out` gets the path of each. `closed` gets the
    path of each folder that cannot be looked into, and why. `contents` maps paths among the files to what is read in
    place of them. Raises nothing for what a file holds.
    """
    supplied = contents or {}
    files = [
        replace(file, source=supplied[file.path], n_bytes=len(supplied[file.path])) if file.path in supplied else file
        for file in source_files(paths, config, left_out, closed)
    ]
    codes = frozenset(hazard.code for hazard in hazards if config.is_selected(hazard.code))
    with room_to_recurse():
        modules, notes = _read(files, config, progress)
        findings = [*notes, *_findings(modules, config, codes)]
    kept = {(finding.code, finding.place, finding.message): finding for finding in findings}
    yield from sorted(kept.values(), key=_order)


def _read(
    files: list[SourceFile], config: LintConfig, progress: Callable[[int, int], None] | None
) -> tuple[list[Module], list[Finding]]:
    modules: list[Module] = []
    notes: list[Finding] = []
    for index, file in enumerate(files, 1):
        parsed = _parsed(file)
        module = _module(file, parsed)
        modules.append(module)
        notes += [
            _note(file.path, parsed, note)
            for note in parsed.notes
            if not _is_silenced(UNREADABLE, module, note.line, note.line, config)
        ]
        if progress is not None and (index % 50 == 0 or index == len(files)):
            progress(index, len(files))
    return modules, notes


def _module(file: SourceFile, parsed: Parsed) -> Module:
    try:
        module = lower(parsed.tree, file.path, file.name, file.package, parsed.text)
    except RecursionError:
        module = lower(parse(b"", file.path).tree, file.path, file.name, file.package, b"")
    module.parsed = parsed
    module.meant = file.meant
    if b"noqa" in parsed.text or b"NOQA" in parsed.text:
        module.silenced = _silenced(parsed)
    if b"contextkit:" in parsed.text:
        module.frozen = _frozen(parsed)
    return module


def _silenced(parsed: Parsed) -> dict[int, frozenset[str]]:
    """Line → codes that a comment silences there; one behind a text of several lines is about each of them."""
    silenced: dict[int, frozenset[str]] = {}
    for number, line in enumerate(parsed.text.split(b"\n"), 1):
        if (results := _NOQA.search(line)) is not None:
            codes = results["codes"]
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
            frozen.update(
                range(node.lineno, (node.end_lineno or node.lineno) + 1) if not frozen.isdisjoint(head) else ()
            )
    return frozenset(frozen)


def _parsed(file: SourceFile) -> Parsed:
    try:
        return parse(_source(file), file.path)
    except OSError as error:
        note = Note(1, f"cannot be read: {error.strerror or type(error).__name__}")
        return replace(parse(b"", file.path), notes=(note,))


def _source(file: SourceFile) -> bytes:
    if file.source is not None:
        return file.source
    if not file.n_bytes and not os.path.isfile(file.path):  # noqa: PTH113 - pipes have no size, and would be waited for
        os.stat(file.path)  # noqa: PTH116 - what is not there says so
        raise OSError(None, "not a file; give what comes by a pipe as -, with --stdin-filename")
    with open(file.path, "rb", 0) as stream:  # noqa: PTH123
        return stream.read()


def _note(path: str, parsed: Parsed, note: Note) -> Finding:
    return Finding(UNREADABLE, note.message, _cell(CodePlace(path, note.line, 1, note.line, 1), parsed), "source")


def _findings(modules: list[Module], config: LintConfig, codes: frozenset[str]) -> Iterator[Finding]:
    analysis = Analysis.of(modules, _knowledge_of(config))
    visited: set[tuple[str, int]] = set()  # one finding for each place that a prompt is sent from, and for each source
    hits = [*_flow_hits(analysis, codes), *flows.injections(analysis, codes)]
    for rule_codes, rule in RULES:
        if codes & rule_codes:
            hits += [hit for hit in rule(analysis) if hit.code in codes]
    for hit in sorted(hits, key=lambda hit: hit.code):
        if hit.code == "CKS02" and ("CKS01", id(hit.node)) in visited:
            continue  # the time of day says the date, too
        keys = (
            {(hit.code, id(hit.sink)), (hit.code, id(hit.node))} if hit.sink is not None else {(hit.code, id(hit.node))}
        )
        position = hit.node.position
        if position is None or _is_silenced(hit.code, hit.node.module, position.line, position.end_line, config):
            continue
        if visited.isdisjoint(keys):
            visited |= keys
            yield _finding(hit)


def _knowledge_of(config: LintConfig) -> knowledge.Knowledge:
    """What is known of libraries, with the files of the project's settings."""
    return knowledge.load(tuple(str(Path(config.path).parent / file) for file in config.knowledge))


def _flow_hits(analysis: Analysis, codes: frozenset[str]) -> Iterator[Hit]:
    rules = [rule for rule in flows.rules() if rule.code in codes]
    for flow in flows.flows(analysis.sinks, analysis.search, rules):
        node = flow.node
        if node.position is None:
            continue
        message = flow.rule.message.format(source=f"`{text_of(node)}`", sink=flow.sink.label)
        trail = trail_of(flow.origin.state, flow.sink.label, flow.sink.place)
        yield Hit(flow.rule.code, message, node, trail, fix_for(flow, analysis), flow.sink.place)


def _finding(hit: Hit) -> Finding:
    place = _place(hit.node)
    trail = tuple(_place(node, note) for node, note in hit.trail if node.position is not None)
    return Finding(hit.code, hit.message, place, "source", trail if len(trail) > 1 else (), hit.fix)


def _place(node: Node, note: str = "") -> CodePlace:
    module = node.module
    line, column, end_line, end_column = node.position or Position(1, 0, 1, 0)
    lines = module.lines()

    def characters(number: int, n_bytes: int) -> int:
        text = lines[number - 1] if number <= len(lines) else b""
        return n_bytes + 1 if text.isascii() else len(text[:n_bytes].decode("utf-8", "replace")) + 1

    place = CodePlace(module.path, line, characters(line, column), end_line, characters(end_line, end_column), note)
    return _cell(place, module.parsed)


def _cell(place: CodePlace, parsed: Parsed) -> CodePlace:
    """The place in the cell of a notebook; any other place as it is."""
    results = parsed.cell_of(place.line)
    if results is None:
        return place
    cell, line = results
    return replace(place, file=f"{place.file}#cell{cell}", line=line, end_line=line + place.end_line - place.line)


def _order(finding: Finding) -> tuple[str, int, int, str]:
    place = finding.place
    at = (place.file, place.line, place.column) if isinstance(place, CodePlace) else ("", 0, 0)
    return *at, finding.code


def _is_silenced(code: str, module: Module, line: int, end_line: int, config: LintConfig) -> bool:
    """Return whether the settings or a comment on one of some lines of a file leave a code out there."""
    if not config.is_selected(code, module.path):
        return True
    named = [module.silenced[number] for number in range(line, end_line + 1) if number in module.silenced]
    return any(not codes or code in codes for codes in named)


@contextmanager
def room_to_recurse() -> Iterator[None]:
    """Deep recursion allowed, and no garbage collection while the graph grows."""
    limit, collects = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _RECURSION))
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()
