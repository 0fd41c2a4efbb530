"""Findings as SARIF 2.1.0, for code scanning and editors.

Takes findings, the catalogue's rows and its pages, gives JSON. Columns count characters, so `columnKind` is
`unicodeCodePoints`. A finding in requests has no file of its own: it names its conversation, turn and block as a
logical location, and where the guard saw who sent it, that line as the physical one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import quote

from contextkit.canonical import Json
from contextkit.lint.finding import CodePlace, Finding, Fix, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.output.groups import Catalogue, severity
from contextkit.lint.own import OWN

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RELATED = 10
"""Places in code that a finding in requests points back to, at most."""
Page = Callable[[str], str]
"""Code → the page of its hazard, Markdown."""


def as_sarif(findings: Sequence[Finding], catalogue: Catalogue, page: Page, version: str) -> str:
    """One log with one run; only rules that were found are listed."""
    index = {code: number for number, code in enumerate(sorted({finding.code for finding in findings}))}
    rules = [_rule(code, catalogue.get(code), page) for code in index]
    driver = {"name": "contextkit", "semanticVersion": version, "rules": rules}
    predicted = _predicted(findings)
    results = [
        _result(finding, index[finding.code], predicted.get(finding.code, []), catalogue) for finding in findings
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=True, indent=2)


def _rule(code: str, row: Hazard | None, page: Page) -> Json:
    listed = row or OWN.get(code)
    if listed is None:
        return {"id": code, "name": code, "defaultConfiguration": {"level": "error"}}
    text = page(code).strip()
    title, description, *_ = _paragraphs(text)
    return {
        "id": code,
        "name": listed.name,
        "shortDescription": {"text": f"{listed.name}: {title}"},
        "fullDescription": {"text": description},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": listed.severity},
        "properties": {"tags": ["prompt-cache", row.level], "grade": row.grade} if row else {"tags": ["prompt-cache"]},
    }


def _paragraphs(text: str) -> list[str]:
    """The paragraphs of a page, headings left out, each on one line."""
    return [" ".join(part.split()) for part in text.split("\n\n") if not part.startswith("#")]


def _predicted(findings: Sequence[Finding]) -> Mapping[str, list[CodePlace]]:
    """Code → where the source shows it."""
    places: dict[str, list[CodePlace]] = {}
    for finding in findings:
        if isinstance(finding.place, CodePlace):
            places.setdefault(finding.code, []).append(finding.place)
    return places


def _result(finding: Finding, index: int, predicted: Sequence[CodePlace], catalogue: Catalogue) -> Json:
    result: dict[str, Json] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": severity(finding, catalogue),
        "message": {"text": finding.message},
        "locations": [_location(finding.place)],
    }
    if finding.trail:
        steps = [{"location": _location(step)} for step in finding.trail]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    related = _related(finding, predicted)
    if related:
        result["relatedLocations"] = related
    if finding.fix is not None and isinstance(finding.place, CodePlace):
        result["fixes"] = [_fix(finding.fix, finding.place.file)]
    result["properties"] = {"detector": finding.detector, **_costs(finding)}
    return result


def _related(finding: Finding, predicted: Sequence[CodePlace]) -> list[Json]:
    """Where the value comes from; and for what was seen in requests, the code that the same hazard was predicted at."""
    is_code = isinstance(finding.place, CodePlace)
    places = [step for step in finding.trail if str(step) != str(finding.place)] if is_code else predicted[:RELATED]
    return [{"id": number, **_location(place)} for number, place in enumerate(dict.fromkeys(places), 1)]


def _costs(finding: Finding) -> Mapping[str, Json]:
    listed: dict[str, Json] = {
        "costTokens": finding.cost_tokens,
        "costUsd": finding.cost_usd,
        "verdict": finding.verdict or None,
    }
    return {name: value for name, value in listed.items() if value is not None}


def _location(place: CodePlace | RequestPlace) -> dict[str, Json]:
    return _in_code(place) if isinstance(place, CodePlace) else _in_request(place)


def _in_code(place: CodePlace) -> dict[str, Json]:
    region: dict[str, Json] = {"startLine": place.line, "startColumn": place.column}
    region |= {"endLine": place.end_line, "endColumn": place.end_column}
    note = {"message": {"text": place.note}} if place.note else {}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.path)}, "region": region}, **note}


def _in_request(place: RequestPlace) -> dict[str, Json]:
    full = f"{place.session}/turn {place.turn}/{place.path}"
    logical = {"name": place.path, "fullyQualifiedName": full, "kind": "request"}
    windows = f"byte {place.offset}, was: {place.was}\nnow: {place.now}"
    location: dict[str, Json] = {"logicalLocations": [logical], "message": {"text": windows}}
    file, _, line = place.caller.rpartition(":")
    if file and line.isdigit() and int(line):
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": int(line)}}
    return location


def _fix(fix: Fix, file: str) -> Json:
    replacements = [
        {
            "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.end - edit.start},
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": {"uri": _uri(file)}, "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}


def _uri(file: str) -> str:
    """Relative paths stay relative, for the reader to resolve against the checkout."""
    return Path(file).as_uri() if Path(file).is_absolute() else quote(PurePath(file).as_posix())
