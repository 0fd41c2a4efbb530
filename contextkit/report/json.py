"""A report as one JSON object: all that `Summary` holds, each miss with its fix, and what was wrong with the recordings.

Takes `Contents`, gives text. The fields are listed in docs/reference/report-json.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.ledger.summary import Row, Summary
from contextkit.report.contents import Contents
from contextkit.report.tables import Table, actions, all_sessions, all_sums, causes, misses, projects, value_of
from contextkit.whatif.what_if import what_if_json


def document(contents: Contents) -> str:
    """The object, as one line; unknown is null."""
    payload = summary_json(contents.summary) | {
        "misses": _objects(misses(contents)),
        "projects": _objects(projects(contents.parts)),
        "sessions": _objects(all_sessions(contents)),
        "causes": _objects(causes(contents)),
        "by": contents.by or None,
        "actions": _objects(actions(contents)),
        "what_if": what_if_json(contents.what_if) if contents.what_if else None,
        "partial": contents.is_partial,
        "n_faults": contents.n_faults,
        "calls_without_writes": dict(contents.calls_without_writes),
        "calls_without_usage": dict(contents.calls_without_usage),
        "faults": [{"file": file, "line": line or None, "what": what} for file, line, what in contents.faults],
    }
    return canonical(payload).decode()


def summary_json(summary: Summary) -> dict[str, Json]:
    """Return a summary as JSON, its misses without their fixes; unknown is null."""
    return {
        "format": 1,
        "total": _rows([summary.total])[0],
        "models": _rows(summary.models),
        "lanes": _rows(summary.lanes),
        "misses": [asdict(miss) for miss in summary.misses],
        "hit_rates": list(summary.hit_rates),
        "models_without_price": list(summary.models_without_price),
        "groups": _rows(summary.groups),
    }


def _rows(rows: Sequence[Row]) -> list[Json]:
    return _objects(all_sums("name", rows))


def _objects(table: Table[Any]) -> list[Json]:
    """Return an object for each row."""
    visible = table.in_format("json")
    names = [column.name for column in visible.columns]
    return [dict(zip(names, map(value_of, cells), strict=True)) for cells in visible.cells()]
