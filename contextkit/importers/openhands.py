"""What OpenHands records: states of conversations (`base_state.json`), events, trajectories, results of evaluations.

Takes a source, gives calls. Prompts are not given: metrics stand apart from the messages.

* Full metrics list each call: `token_usages`, with `response_latencies` and `costs` of the same calls beside them.
* Snapshots (`llm_metrics` of an event, a state that was written with snapshots) say sums since the start: what they grew
  by is one row, which may be several calls, and is marked as a sum.
* `prompt_tokens` hold what was read and written, as LiteLLM counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contextkit.importers.field_maps import FieldMap, value_at, values_at
from contextkit.importers.format import has_names
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import STDIN, Source
from contextkit.importers.spans import Counts
from contextkit.importers.transcript import dollars, plausible
from contextkit.ledger.calls import Record

ADDED_UP = "what the sums of a conversation grew by"
WRAPPERS = {"history": 2, "events": 2, "trajectory": 2}
FIELDS = FieldMap(
    id="response_id",
    ended_at="cost.timestamp",
    model="model model_name",
    prompt="prompt_tokens",
    read="cache_read_tokens",
    write="cache_write_tokens",
    output="completion_tokens",
    reading="inclusive",
    billed_usd="cost.cost",
)
_METRICS = ("accumulated_token_usage", "token_usages", "usage_to_metrics", "llm_metrics", "accumulated_cost")
_EVENT = re.compile(rb'"source"\s*:\s*"(?:user|agent|environment)"')
Sums = tuple[int, int, int, int, float]
"""Sent, read, written, generated, dollars."""


def is_openhands(head: bytes) -> bool:
    """Return whether a file that starts like this holds such metrics, or is an event that may.

    >>> is_openhands(b'{"id":3,"source":"agent","llm_metrics":{"accumulated_cost":0.1}}'), is_openhands(b'{"source":"agent"}')
    (True, False)
    """
    start = bare(head)
    is_event = _EVENT.search(start) is not None and has_names(start, "timestamp id")
    is_known = has_names(start, *_METRICS) or (is_event and has_names(start, "action", "observation"))
    return start[:1] in (b"{", b"[") and is_known and not has_names(start, "contextkit_ledger")


def read(source: Source) -> Iterator[Record]:
    """The calls of a file in its order."""
    calls = SessionCalls(source, "openhands")
    for number, row in rows(source):
        yield from _records(calls, number, row)
    calls.finish()


def _records(calls: SessionCalls, number: int, row: dict[str, Any]) -> Iterator[Record]:
    name = row.get("instance_id") or row.get("conversation_id") or (row.get("id") if "stats" in row else None)
    session = str(name or _folder(calls.source))
    if isinstance(row.get("llm_metrics"), dict):
        yield from _grown(calls, number, session, row["llm_metrics"], plausible(row.get("timestamp")))
        return
    used = table(value_at(row, "stats.usage_to_metrics")) or {"main": row.get("metrics")}
    found = [(str(use), table(metrics)) for use, metrics in used.items() if isinstance(metrics, dict)]
    for use, metrics in found:
        lane = "main" if use in ("main", "agent", "default") else use
        if metrics.get("token_usages"):
            yield from _listed(calls, number, session, lane, metrics)
        else:
            yield from _grown(calls, number, session, metrics, None, lane)
    listed = next((row[key] for key in WRAPPERS if isinstance(row.get(key), list)), None)
    if not found and listed is not None:
        for event in listed:
            if isinstance(event, dict):
                yield from _records(calls, number, event)
    elif not found and "source" not in row:
        calls.source.fault(number, "neither metrics nor an event of OpenHands; passed over")


def _folder(source: Source) -> str:
    """The conversation a file belongs to: its folder, that of its events, or the file itself."""
    if source.name == STDIN:
        return source.label
    path = Path(source.name).absolute()
    if path.parent.name in ("events", "event_cache"):
        return path.parent.parent.name
    return path.parent.name if path.name.startswith("base_state") else source.label


def _listed(calls: SessionCalls, number: int, session: str, lane: str, metrics: dict[str, Any]) -> Iterator[Record]:
    """Each call that metrics list."""
    took = {str(one.get("response_id")): one.get("latency") for one in _objects(metrics.get("response_latencies"))}
    costs, said = _objects(metrics.get("costs")), _objects(metrics.get("token_usages"))
    is_paired = len(costs) == len(said)
    for place, one in enumerate(said):
        name = FIELDS.id_of(one) or f"{session}/{lane}/{place}"
        if not calls.is_new(name):
            continue
        cost = costs[place] if is_paired else {}
        ended, latency = plausible(cost.get("timestamp")), took.get(str(one.get("response_id")))
        started = ended - latency if ended is not None and isinstance(latency, int | float) and latency >= 0 else None
        row = {"model_name": metrics.get("model_name"), **one, "cost": cost}
        at = plausible(started) or 0.0
        call = FIELDS.call(calls.source, number, row, at=at, id=name, session=session, lane=lane)
        yield from calls.call(number, call)
    if costs and not is_paired:
        calls.source.fault(number, "as many costs as calls are not listed: their times and costs are unknown")


def _grown(
    calls: SessionCalls, number: int, session: str, metrics: dict[str, Any], at: float | None, lane: str = "main"
) -> Iterator[Record]:
    """What a snapshot says beyond the highest sums of its conversation so far."""
    said = table(metrics.get("accumulated_token_usage"))
    paths = FIELDS.prompt, FIELDS.read, FIELDS.write, FIELDS.output
    counts = [calls.source.count(number, next(values_at(said, path), 0)) for path in paths]
    cost = dollars(metrics.get("accumulated_cost")) or 0.0
    left, key = calls.source.faults.left, ("openhands", session, lane)
    before: Sums = left.get(key, (0, 0, 0, 0, 0.0))
    tops = [was if now is None else max(now, was) for now, was in zip(counts, before[:4], strict=True)]
    if tops[0] == before[0] and tops[3] == before[3]:
        return
    grown = (None if now is None else top - was for now, top, was in zip(counts, tops, before[:4], strict=True))
    left[key] = (*tops, max(cost, before[4]))
    yield from calls.remark("sum", f"{session}/{lane}", ADDED_UP)
    call = FIELDS.call(
        calls.source,
        number,
        {"model_name": metrics.get("model_name"), **said},
        billed=(Counts(*grown), "inclusive"),
        id=f"{session}/{lane}/{tops[0]}+{tops[3]}",
        session=session,
        lane=lane,
        ended_at=at,
        billed_usd=dollars(max(cost - before[4], 0.0)),
    )
    yield from calls.call(number, call)


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
