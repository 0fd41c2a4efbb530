"""Findings as GitHub Actions shows them beside the line: workflow commands.

Takes findings and the catalogue's rows, gives one line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.output.group import Catalogue, Group, groups, name, severity

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
        return {"file": place.file.replace("\\", "/"), "line": place.line, "col": place.column, **ends}
    file, _, line = place.caller.rpartition(":")
    return {"file": file.replace("\\", "/"), "line": line} if file else {}


def _message(group: Group) -> str:
    place, message = group.first.place, group.first.message
    return message if isinstance(place, CodePlace) else f"{place.session} {group.turns} {place.path}: {message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
