"""Findings for programs: one JSON object, every field of every finding.

Takes findings and the catalogue's rows, gives JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from contextkit.canonical import Json
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.output.counts import Looked, counts
from contextkit.lint.output.group import Catalogue, joined, name, severity

VERSION = 1
"""Of this shape; fields may come, none will go or change its meaning within a version."""


def as_json(findings: Sequence[Finding], catalogue: Catalogue, n_fixed: int = 0, looked: Looked | None = None) -> str:
    """`version`, `findings`, `joined`, `statistics`, `fixed` and `looked_at` of one run."""
    files, calls = (looked.n_files, looked.n_calls) if looked else (None, None)
    told: dict[str, Json] = {
        "version": VERSION,
        "findings": [_finding(finding, catalogue) for finding in findings],
        "joined": [{**asdict(one), "sentence": str(one)} for one in joined(findings, catalogue)],
        "statistics": [asdict(count) for count in counts(findings, catalogue)],
        "fixed": n_fixed,
        "looked_at": {"files": files, "calls": calls},
    }
    return dumped(told)


def statistics_as_json(findings: Sequence[Finding], catalogue: Catalogue) -> str:
    """One list of `code`, `name`, `count` and `fixable`, the most frequent first; empty where nothing was found."""
    told = counts(findings, catalogue)
    return dumped([{"code": one.code, "name": one.name, "count": one.n, "fixable": one.n_fixable} for one in told])


def dumped(value: Json) -> str:
    """JSON as every command of the lint writes it: ASCII, a field a line."""
    return json.dumps(value, ensure_ascii=True, indent=2)


def _finding(finding: Finding, catalogue: Catalogue) -> Json:
    kind = "code" if isinstance(finding.place, CodePlace) else "request"
    known: dict[str, Json] = {
        "code": finding.code,
        "name": name(finding.code, catalogue),
        "severity": severity(finding, catalogue),
    }
    row = catalogue.get(finding.code)
    known["grade"] = row.grade if row else None
    return {**known, **asdict(finding), "place": {"kind": kind, **asdict(finding.place)}}
