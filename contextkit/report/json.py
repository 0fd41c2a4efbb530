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
from contextkit.report.partings import Line, lines_of, lost_usd
from contextkit.report.prefix_tree import PrefixTree
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
    waits = summary.first_tokens
    return {
        "format": 1,
        "total": _rows([summary.total])[0],
        "models": _rows(summary.models),
        "lanes": _rows(summary.lanes),
        "misses": [asdict(miss) for miss in summary.misses],
        "hit_rates": list(summary.hit_rates),
        "models_without_price": list(summary.models_without_price),
        "groups": _rows(summary.groups),
        "first_tokens": asdict(waits) | {"difference_seconds": waits.difference_seconds} if waits else None,
    }


def _rows(rows: Sequence[Row]) -> list[Json]:
    return _objects(all_sums("name", rows))


def _objects(table: Table[Any]) -> list[Json]:
    """Return an object for each row."""
    visible = table.in_format("json")
    names = [column.name for column in visible.columns]
    return [dict(zip(names, map(value_of, cells), strict=True)) for cells in visible.cells()]


MOST_IN_JSON = 20_000
"""Lines of a prefix tree."""


def tree_document(tree: PrefixTree) -> str:
    """Return the tree as one JSON object, the cheap lines left out where there are too many."""
    room = [MOST_IN_JSON]
    return canonical(
        {
            "format": 1,
            "calls": tree.n_calls,
            "calls_without_prompt": tree.n_without_prompt,
            "starts": _as_json(lines_of(tree), room),
            "left_out": max(0, -room[0]),
        }
    ).decode()


def _as_json(lines: Sequence[Line], room: list[int]) -> list[Json]:
    rows: list[Json] = []
    for line in lines:
        room[0] -= 1
        if room[0] >= 0:
            sums, usd = line.sums, lost_usd(line.sums)
            rows.append(
                {
                    "kind": line.kind,
                    "label": line.label,
                    "detail": line.detail,
                    "whose": line.whose,
                    "calls": sums.calls,
                    "first_call": sums.first + 1,
                    "tokens": line.tokens or None,
                    "partings": line.n_runs,
                    "input": None if sums.n_unbilled else sums.input,
                    "read": None if sums.n_unbilled else sums.read,
                    "written": None if sums.n_unbilled else sums.written,
                    "written_unread": sums.unread,
                    "lost_tokens": sums.lost,
                    "lost_usd": usd.value,
                    "lost_here_tokens": line.lost.lost,
                    "lost_here_usd": lost_usd(line.lost).value,
                    "gap": asdict(line.gap) if line.gap else None,
                    "lines": _as_json(line.lines, room),
                }
            )
    return rows
