"""Findings as SARIF 2.1.0, for code scanning and editors.

Columns count characters, so `columnKind` is `unicodeCodePoints`. A finding in requests has no file of its own: it names its
conversation, turn and block as a logical location, and where the guard saw who sent it, that line as the physical one.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path, PurePath
from urllib.parse import quote

from contextkit.canonical import Json
from contextkit.installation import DISTRIBUTION
from contextkit.lint.catalogue import page
from contextkit.lint.finding import CodePlace, Finding, Fix, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.output.results import LintResults, rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(results: LintResults) -> str:
    """Write one log with one run; only rules that were found are listed."""
    codes = sorted({finding.code for finding in results.findings})
    driver = {"name": "contextkit", "semanticVersion": version(DISTRIBUTION), "rules": [_rule(code) for code in codes]}
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in results.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=True, indent=2)


def _rule(code: str) -> Json:
    row, text = rules()[code], page(code).strip()
    title, description, *_ = (" ".join(part.split()) for part in text.split("\n\n") if not part.startswith("#"))
    hazard = {"tags": ["prompt-cache", row.level], "grade": row.grade} if isinstance(row, Hazard) else None
    return {
        "id": code,
        "name": row.name,
        "shortDescription": {"text": f"{row.name}: {title}"},
        "fullDescription": {"text": description},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": row.severity},
        "properties": hazard or {"tags": ["prompt-cache"]},
    }


def _result(finding: Finding, index: int) -> Json:
    facts: dict[str, Json] = {
        "costTokens": finding.cost_tokens,
        "costUsd": finding.cost_usd,
        "verdict": finding.verdict or None,
        "cause": finding.cause or None,
        "advice": finding.advice or None,
    }
    result: dict[str, Json] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": rules()[finding.code].severity,
        "message": {"text": finding.message},
        "locations": [_location(finding.place)],
        "properties": {"detector": finding.detector, **{key: fact for key, fact in facts.items() if fact is not None}},
    }
    if finding.trail:
        steps = [{"location": _location(step)} for step in finding.trail]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
        others = dict.fromkeys(step for step in finding.trail if str(step) != str(finding.place))
        if others:
            result["relatedLocations"] = [{"id": number, **_location(step)} for number, step in enumerate(others, 1)]
    if finding.fix is not None and isinstance(finding.place, CodePlace):
        result["fixes"] = [_fix(finding.fix, finding.place.file)]
    return result


def _location(place: CodePlace | RequestPlace) -> dict[str, Json]:
    if isinstance(place, CodePlace):
        region: dict[str, Json] = {"startLine": place.line, "startColumn": place.column}
        region |= {"endLine": place.end_line, "endColumn": place.end_column}
        note = {"message": {"text": place.note}} if place.note else {}
        return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.path)}, "region": region}, **note}
    full = f"{place.session}/turn {place.turn}/{place.path}"
    location: dict[str, Json] = {
        "logicalLocations": [{"name": place.path, "fullyQualifiedName": full, "kind": "request"}],
        "message": {"text": f"byte {place.offset}, was: {place.was}\nnow: {place.now}"},
    }
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
    return Path(file).as_uri() if Path(file).is_absolute() else quote(os.fsencode(PurePath(file).as_posix()))
