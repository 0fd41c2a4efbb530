"""A recording judged session by session: what engines that spread work over processes or machines call for each group
of rows.

Takes the lines of one session in their order, gives a plain row a call: columns of numbers and text, no objects of
ours. Calls of different sessions never meet, so what the sessions say one by one is what the whole recording says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from contextkit.ledger.judged import Judged, judged
from contextkit.ledger.row import Record, decode

COLUMNS: dict[str, str] = {
    "id": "string",
    "session": "string",
    "lane": "string",
    "agent": "string",
    "project": "string",
    "at": "double",
    "provider": "string",
    "model": "string",
    "fresh": "bigint",
    "read": "bigint",
    "write_5m": "bigint",
    "write_1h": "bigint",
    "output": "bigint",
    "cost_usd": "double",
    "cost_uncached_usd": "double",
    "verdict": "string",
    "cause": "string",
    "lost_tokens": "bigint",
    "lost_usd": "double",
    "where": "string",
}
"""Column of a row → its type, in the words of Spark and Arrow. Unknown is null."""


def judged_rows(lines: Iterable[bytes | str]) -> Iterator[dict[str, Any]]:
    """A row for each call of one session, `lines` its exchanges and what was remarked of it, in the order of the
    ledger.

    Raises `LogCorrupt` for what is no line of a ledger.
    """
    return map(_row, judged(_records(lines)))


def _records(lines: Iterable[bytes | str]) -> Iterator[Record]:
    return (decode(line.encode("utf-8") if isinstance(line, str) else line) for line in lines)


def _row(call: Judged) -> dict[str, Any]:
    exchange, miss = call.exchange, call.miss
    usage = asdict(call.usage) if call.usage else {}
    values = {
        "id": exchange.id,
        "session": exchange.session,
        "lane": exchange.lane,
        "agent": call.agent,
        "project": call.project,
        "at": exchange.at,
        "provider": exchange.provider,
        "model": exchange.model,
        **{name: usage.get(name) for name in ("fresh", "read", "write_5m", "write_1h", "output")},
        "cost_usd": call.cost_usd,
        "cost_uncached_usd": call.cost_uncached_usd,
        "verdict": call.verdict,
        "cause": miss.cause if miss else None,
        "lost_tokens": miss.lost_tokens if miss else None,
        "lost_usd": miss.cost_usd if miss else None,
        "where": miss.where if miss else None,
    }
    return {name: values[name] for name in COLUMNS}
