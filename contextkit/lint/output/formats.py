"""Renders findings in the format of `--format`: text, JSON, GitHub workflow commands, SARIF.

JSON is one object with every field of every finding; GitHub Actions shows one workflow command a line beside the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from contextkit.canonical import Json
from contextkit.lint.finding import CodePlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.output.results import Group, LintResults, counts, groups, rules
from contextkit.lint.output.sarif import as_sarif
from contextkit.lint.output.text import as_text, statistics

VERSION = 1
"""Of the JSON's shape; fields may come, none will go or change its meaning within a version."""
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def as_annotations(results: LintResults) -> Iterator[str]:
    """Yield `::error title=…,file=…,line=…::message`; a hazard of many turns once."""
    for group in groups(results.findings):
        finding, row = group.first, rules()[group.first.code]
        facts = {"title": f"{finding.code} {row.name}", **_place(group)}
        written = ",".join(f"{key}={_property(str(value))}" for key, value in facts.items())
        message = finding.message if isinstance(finding.place, CodePlace) else f"{group.where}: {finding.message}"
        yield f"::{_COMMANDS[row.severity]} {written}::{_data(message)}"


def _place(group: Group) -> dict[str, str | int]:
    place = group.first.place
    if isinstance(place, CodePlace):
        ends: dict[str, str | int] = {"endLine": place.end_line, "endColumn": place.end_column}
        return {"file": place.path.replace("\\", "/"), "line": place.line, "col": place.column, **ends}
    file, _, line = place.caller.rpartition(":")
    return {"file": file.replace("\\", "/"), "line": line} if file else {}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_json(results: LintResults) -> str:
    """Write `version`, `findings`, `statistics`, `fixed` and `looked_at` of one run."""
    findings: list[Json] = []
    for finding in results.findings:
        row = rules()[finding.code]
        place = {"kind": "code" if isinstance(finding.place, CodePlace) else "request", **asdict(finding.place)}
        grade = row.grade if isinstance(row, Hazard) else None
        facts = {"code": finding.code, "name": row.name, "severity": row.severity, "grade": grade}
        findings.append({**facts, **asdict(finding), "place": place})
    return dumped(
        {
            "version": VERSION,
            "findings": findings,
            "statistics": [asdict(count) for count in counts(results)],
            "fixed": results.n_fixed,
            "looked_at": {"files": results.n_files, "calls": results.n_calls},
        }
    )


def dumped(value: Json) -> str:
    """Write JSON as all of lint does: ASCII, a field a line."""
    return json.dumps(value, ensure_ascii=True, indent=2)


FORMS: Mapping[str, Callable[[LintResults], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": lambda results: "\n".join(as_annotations(results)),
}
"""Name of a format → its text."""
STATISTICS: Mapping[str, Callable[[LintResults], str]] = {
    "text": statistics,
    "json": lambda results: dumped([asdict(count) for count in counts(results)]),
}
"""Name of a format → counts instead of findings."""
