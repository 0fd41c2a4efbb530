"""A report as CSV: a row a call as they come, in constant memory, or a row a group.

Takes judged calls or rows, writes lines (RFC 4180, each ended as the file ends lines). Unknown is an empty cell, never
0.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TextIO

from contextkit.ledger.misses import AnalyzedCall, Miss
from contextkit.ledger.summary import Row
from contextkit.terminal import sanitized_cells

Cell = str | int | float | None


def safe(text: str) -> str:
    """`text` as a spreadsheet shows it: what it would take for a formula gets an apostrophe in front.

    >>> safe("main"), safe("=1+1"), safe("-x")
    ('main', "'=1+1", "'-x")
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def when(at: float) -> str:
    """A time as ISO 8601 in UTC.

    >>> when(1775696615.96)
    '2026-04-09T01:03:35.960Z'
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _missed(take: Callable[[Miss], Cell]) -> Callable[[AnalyzedCall], Cell]:
    return lambda call: take(call.miss) if call.miss else None


CALLS: tuple[tuple[str, Callable[[AnalyzedCall], Cell]], ...] = (
    ("call", lambda call: call.index + 1),
    ("id", lambda analyzed: safe(analyzed.call.id)),
    ("session", lambda analyzed: safe(analyzed.call.session)),
    ("lane", lambda analyzed: safe(analyzed.call.lane)),
    ("agent", lambda call: safe(call.agent)),
    ("project", lambda call: safe(call.project)),
    ("at", lambda analyzed: when(analyzed.call.at)),
    ("provider", lambda analyzed: safe(analyzed.call.provider)),
    ("model", lambda analyzed: safe(analyzed.call.model)),
    ("read", lambda call: call.usage.read if call.usage else None),
    ("write_5m", lambda call: call.usage.write_5m if call.usage else None),
    ("write_1h", lambda call: call.usage.write_1h if call.usage else None),
    ("fresh", lambda call: call.usage.fresh if call.usage else None),
    ("output", lambda call: call.usage.output if call.usage else None),
    ("cost_usd", lambda call: call.cost_usd),
    ("cost_uncached_usd", lambda call: call.cost_uncached_usd),
    ("error", lambda analyzed: safe(analyzed.call.error or "")),
    ("cause", _missed(lambda miss: miss.cause)),
    ("where", _missed(lambda miss: safe(miss.where))),
    ("expected_tokens", _missed(lambda miss: miss.expected_tokens)),
    ("lost_tokens", _missed(lambda miss: miss.lost_tokens)),
    ("lost_usd", _missed(lambda miss: miss.cost_usd)),
    ("verdict", lambda call: safe(call.verdict)),
    ("billed_usd", lambda analyzed: analyzed.call.billed_usd),
    ("list_cost_usd", lambda call: call.list_cost_usd),
    ("output_estimate", lambda analyzed: analyzed.call.output_estimate),
)
"""(column, its cell of a call)."""
GROUPS: tuple[tuple[str, Callable[[Row], Cell]], ...] = (
    ("calls", lambda row: row.calls),
    ("calls_with_usage", lambda row: row.calls_with_usage),
    ("calls_with_price", lambda row: row.calls_with_price),
    ("read", lambda row: row.usage_or_unknown.read),
    ("write_5m", lambda row: row.usage_or_unknown.write_5m),
    ("write_1h", lambda row: row.usage_or_unknown.write_1h),
    ("fresh", lambda row: row.usage_or_unknown.fresh),
    ("output", lambda row: row.usage_or_unknown.output),
    ("hit_rate", lambda row: row.hit_rate),
    ("cost_usd", lambda row: row.cost_usd),
    ("cost_uncached_usd", lambda row: row.cost_uncached_usd),
    ("saved_usd", lambda row: row.saved_usd),
    ("misses", lambda row: None if row.has_no_usage else row.n_misses),
    ("list_cost_usd", lambda row: row.list_cost_usd),
    ("calls_recorded", lambda row: row.recorded.calls),
    ("recorded_usd", lambda row: row.recorded.usd),
    ("calls_with_placeholder_output", lambda row: row.placeholders.calls),
    ("placeholder_output_estimate", lambda row: row.placeholders.tokens_estimated),
)
"""(column, its cell of a group), behind the group's name."""


class Calls:
    """Writes a row a call, below a row of names."""

    def __init__(self, file: TextIO) -> None:
        self._out = csv.writer(file, lineterminator="\n")
        self._out.writerow([name for name, _ in CALLS])

    def __call__(self, call: AnalyzedCall) -> None:
        """One more."""
        self._out.writerow(sanitized_cells(cell(call) for _, cell in CALLS))


def write_groups(file: TextIO, by: str, rows: Sequence[Row]) -> None:
    """A row a group, the first column named for what they are groups by."""
    out = csv.writer(file, lineterminator="\n")
    out.writerow([by, *(name for name, _ in GROUPS)])
    out.writerows(sanitized_cells((safe(row.name), *(cell(row) for _, cell in GROUPS))) for row in rows)
