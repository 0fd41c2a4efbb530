"""Finds hazards in source files: reads, walks them on all cores, links, leaves out what was silenced.

Takes paths, a config and hazards, gives findings; never raises for what a file holds: a file that cannot be read is a
finding (CK000).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source import flows, link
from contextkit.lint.source.files import SourceFile, source_files
from contextkit.lint.source.reader import room_to_recurse
from contextkit.lint.source.rule import MARK_LAST, Flow, Pattern
from contextkit.lint.source.summary import Module, Site, Source
from contextkit.lint.source.tree import read_all
from contextkit.lint.source.workers import ended

_IN_FRONT = "TS"
"""Levels of hazards in front of all messages: tools, system."""


def find_in_code(
    paths: Iterable[str | Path],
    config: LintConfig,
    hazards: Iterable[Hazard],
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    left_out: Callable[[str], None] | None = None,
    closed: Callable[[str, str], None] | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> Iterator[Finding]:
    """Findings of the source detector under files and folders, sorted by place.

    `progress` gets (files done, files in all).

    Tests in folders are not looked at unless the config says so: `left_out` gets the path of each. `closed` gets the
    path of each folder that cannot be looked into, and why. `contents` maps paths among the files to what is read in
    place of them.

    A hazard's patterns are sent to other processes, so their `find` is a function of a module. Raises nothing for what
    a file holds.
    """
    with room_to_recurse(), ended():
        files = [_holding(file, contents or {}) for file in source_files(paths, config, left_out, closed)]
        found = _find(files, config, hazards, jobs, progress or _nobody)
    yield from found


def _holding(file: SourceFile, contents: Mapping[str, bytes]) -> SourceFile:
    source = contents.get(file.path)
    return file if source is None else replace(file, source=source, n_bytes=len(source))


def _find(
    files: list[SourceFile],
    config: LintConfig,
    hazards: Iterable[Hazard],
    jobs: int | None,
    progress: Callable[[int, int], None],
) -> list[Finding]:
    rows = [hazard for hazard in hazards if config.is_selected(hazard.code)]
    rules = [(row.code, rule) for row in rows for rule in row.source]
    patterns = tuple([(code, rule) for code, rule in rules if isinstance(rule, Pattern)])
    modules = read_all(files, config, patterns, jobs, progress)
    table = flows.Flows([(code, rule) for code, rule in rules if isinstance(rule, Flow)])
    found = [finding for module in modules for finding in module.findings]
    by_path = {module.path: module for module in modules}
    reached = [_mended(finding, by_path, rows) for finding in flows.findings(link.Program(modules), table)]
    ends = {(finding.code, _spot(finding.trail[-1])) for finding in reached}
    found = [
        _held_back(finding, reached) for finding in found if (finding.code, _spot(finding.place)) not in ends
    ] + reached
    kept = {
        (finding.code, finding.place, finding.message): finding
        for finding in found
        if not _is_silenced(finding, by_path, config)
    }
    return sorted(kept.values(), key=_order)


def _mended(finding: Finding, modules: dict[str, Module], rows: Sequence[Hazard]) -> Finding:
    """With the safe change that was offered at the source, or in its file where it arrives."""
    titles = {
        title
        for row in rows
        if row.code == finding.code
        for rule in row.source
        if isinstance(rule, Flow)
        for title in rule.mends
    }
    for place in (finding.place, finding.trail[-1]) if titles else ():
        if isinstance(place, CodePlace) and isinstance(finding.place, CodePlace) and place.file == finding.place.file:
            fix = modules[place.file].fixes.get((place.line, place.column, place.end_line, place.end_column))
            if fix is not None and fix.title in titles:
                return replace(finding, fix=fix)
    return finding


def _held_back(finding: Finding, reached: Sequence[Finding]) -> Finding:
    """Without its marker where something in front of that varies in the same call, and no change that is offered ends
    it.
    """
    if finding.fix is None or finding.fix.title != MARK_LAST or not isinstance(finding.place, CodePlace):
        return finding
    call = finding.place
    varying = (
        one.code for one in reached if one.code[2] in _IN_FRONT and one.fix is None and _is_inside(one.trail[-1], call)
    )
    first = min(varying, default="")
    return (
        replace(finding, message=f"{finding.message}: mend {first} first, or a marker only costs", fix=None)
        if first
        else finding
    )


def _is_inside(place: CodePlace, around: CodePlace) -> bool:
    return place.file == around.file and (around.line, around.column) <= (place.line, place.column) <= (
        around.end_line,
        around.end_column,
    )


def _spot(place: object) -> tuple[str, int, int]:
    """Where it stands: a flow that ends there says more than a pattern that begins there."""
    return (place.file, place.line, place.column) if isinstance(place, CodePlace) else ("", 0, 0)


def _nobody(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _order(finding: Finding) -> tuple[str, int, int, str]:
    place = finding.place
    return (
        (place.file, place.line, place.column, finding.code)
        if isinstance(place, CodePlace)
        else ("", 0, 0, finding.code)
    )


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
