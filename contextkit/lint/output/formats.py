"""Renders findings in the format of `--format`: text, JSON, GitHub workflow commands, SARIF.

JSON is one object with every field of every finding; GitHub Actions shows one workflow command a line beside the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from contextkit.canonical import Json
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.output.groups import Catalogue, Group, Looked, as_table, counts, groups, joined, name, severity
from contextkit.lint.output.sarif import Page, as_sarif
from contextkit.lint.output.text import Lines, as_text, lines_of, summary

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def as_annotations(findings: Iterable[Finding], catalogue: Catalogue) -> Iterator[str]:
    """`::error title=…,file=…,line=…::message`; a hazard of many turns once."""
    for group in groups(findings):
        finding = group.first
        title = " ".join(filter(None, (finding.code, name(finding.code, catalogue))))
        facts = {"title": title, **_place(group)}
        written = ",".join(f"{key}={_property(str(value))}" for key, value in facts.items())
        yield f"::{_COMMANDS[severity(finding, catalogue)]} {written}::{_data(_message(group))}"


def _place(group: Group) -> dict[str, str | int]:
    place = group.first.place
    if isinstance(place, CodePlace):
        ends: dict[str, str | int] = {"endLine": place.end_line, "endColumn": place.end_column}
        return {"file": place.path.replace("\\", "/"), "line": place.line, "col": place.column, **ends}
    file, _, line = place.caller.rpartition(":")
    return {"file": file.replace("\\", "/"), "line": line} if file else {}


def _message(group: Group) -> str:
    place, message = group.first.place, group.first.message
    return message if isinstance(place, CodePlace) else f"{place.session} {group.turns} {place.path}: {message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


VERSION = 1
"""Of this shape; fields may come, none will go or change its meaning within a version."""


def as_json(findings: Sequence[Finding], catalogue: Catalogue, n_fixed: int = 0, looked: Looked | None = None) -> str:
    """`version`, `findings`, `joined`, `statistics`, `fixed` and `looked_at` of one run."""
    files, calls = (looked.n_files, looked.n_calls) if looked else (None, None)
    results: dict[str, Json] = {
        "version": VERSION,
        "findings": [_finding(finding, catalogue) for finding in findings],
        "joined": [{**asdict(one), "sentence": str(one)} for one in joined(findings, catalogue)],
        "statistics": [asdict(count) for count in counts(findings, catalogue)],
        "fixed": n_fixed,
        "looked_at": {"files": files, "calls": calls},
    }
    return dumped(results)


def statistics_as_json(findings: Sequence[Finding], catalogue: Catalogue) -> str:
    """One list of `code`, `name`, `count` and `fixable`, the most frequent first; empty where nothing was found."""
    results = counts(findings, catalogue)
    return dumped([{"code": one.code, "name": one.name, "count": one.n, "fixable": one.n_fixable} for one in results])


def dumped(value: Json) -> str:
    """JSON as every command of the lint writes it: ASCII, a field a line."""
    return json.dumps(value, ensure_ascii=True, indent=2)


def _finding(finding: Finding, catalogue: Catalogue) -> Json:
    kind = "code" if isinstance(finding.place, CodePlace) else "request"
    counted: dict[str, Json] = {
        "code": finding.code,
        "name": name(finding.code, catalogue),
        "severity": severity(finding, catalogue),
    }
    row = catalogue.get(finding.code)
    counted["grade"] = row.grade if row else None
    return {**counted, **asdict(finding), "place": {"kind": kind, **asdict(finding.place)}}


@dataclass(frozen=True, slots=True)
class LintResults:
    """What there is to tell."""

    findings: Sequence[Finding]
    """All of them."""
    catalogue: Catalogue
    """Code → row."""
    page: Page
    """Code → page."""
    version: str
    """Of contextkit."""
    n_fixed: int = 0
    """Findings that were mended and are not among these."""
    looked: Looked = field(default_factory=Looked)
    """How much was looked at."""
    lines: Lines = lines_of
    """File → its lines, for what is shown around a place."""
    is_incomplete: bool = False
    """Whether a recording was not read, or not to its end."""


def _text(results: LintResults) -> str:
    return "\n".join(as_text(results.findings, results.catalogue, results.n_fixed, results.looked, results.lines))


FORMS: Mapping[str, Callable[[LintResults], str]] = {
    "text": _text,
    "json": lambda told: as_json(told.findings, told.catalogue, told.n_fixed, told.looked),
    "sarif": lambda told: as_sarif(told.findings, told.catalogue, told.page, told.version),
    "github": lambda told: "\n".join(as_annotations(told.findings, told.catalogue)),
}
"""Name of a format → its text."""


def statistics(results: LintResults) -> str:
    """Counts instead of findings."""
    return "\n".join(
        [*as_table(results.findings, results.catalogue), summary(results.findings, results.n_fixed, results.looked)]
    )


STATISTICS: Mapping[str, Callable[[LintResults], str]] = {
    "text": statistics,
    "json": lambda told: statistics_as_json(told.findings, told.catalogue),
}
"""Name of a format → counts instead of findings."""
