"""Langfuse exports of observations: JSON, JSONL and CSV, of its page, its API (`{"data": […]}`) and its blob storage.

Takes a source, gives one call for each observation of type GENERATION. Prompts are not given: `input` is what an
integration chose to show, not the request.

* What `usageDetails.input` holds is up to the integration: Langfuse's own convention is counts that do not overlap, but
  several write an
  input that holds the cached tokens. The total tells: `input + output` is the one, the sum of all counts the other.
  Where it tells nothing and less was cached than was put in, what was neither read nor written is unknown, and that is
  reported.
* A total that Langfuse added up itself is the sum of all counts whatever they mean; no export says who wrote the total.
* `sessionId` is the trace's; an export without it has a session for each trace. Observations of type AGENT around a
  call say whose lane it
  is.
* `costDetails.total`, `calculatedTotalCost` or `totalCost` are dollars, as the integration sent them or as Langfuse
  worked them out by its own prices; 0 says that it knows no price.
* Whose model it is stands in no column: the model's name tells, or LangChain's `ls_provider`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from contextkit.cache.usage import NO_COUNT, Usage, natural
from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.rows import bare, in_time, named, rows, table
from contextkit.importers.source import Source
from contextkit.importers.spans import Counts, Reading, Span, Traces, counted_usage
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record
from contextkit.providers.usage import Report, ignore

WRAPPERS = {"data": 2, "observations": 2}
COUNTS: dict[str, tuple[str, ...]] = {
    "prompt": ("input", "input_tokens", "prompt_tokens"),
    "read": (
        "input_cached_tokens",
        "cache_read_input_tokens",
        "input_cache_read",
        "cache_read_tokens",
        "input_tokens_cached",
    ),
    "write": (
        "input_cache_creation",
        "cache_creation_input_tokens",
        "input_cache_write",
        "cache_write_tokens",
        "cache_write_input_tokens",
        "input_cache_creation_tokens",
    ),
    "write_5m": ("input_cache_creation_5m", "ephemeral_5m_input_tokens"),
    "write_1h": ("input_cache_creation_1h", "ephemeral_1h_input_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "total": ("total", "total_tokens"),
}
"""Meaning → its names in `usageDetails`, Langfuse's own first, then those of Anthropic, OpenAI and their integrations.
"""
GENERATION, AGENT = "GENERATION", "AGENT"
_KNOWN = {name for names in COUNTS.values() for name in names}
_HEAD = (
    (b'"traceId"', b'"startTime"', b'"type"'),
    (b'"trace_id"', b'"start_time"', b'"type"'),
    (b'"usageDetails"',),
    (b'"usage_details"',),
)
_TABLE = ((b"traceId", b"startTime", b"type"), (b"trace_id", b"start_time", b"type"))


def is_langfuse(head: bytes) -> bool:
    """Return whether a file that starts like this is such an export.

    >>> is_langfuse(b'[{"id":"a","traceId":"t","type":"GENERATION","startTime":"2026-01-01"}]'), is_langfuse(b'{"type":"session"}')
    (True, False)
    """
    start = bare(head)
    if start[:1] not in (b"{", b"["):
        line = start.split(b"\n", 1)[0]
        return any(all(name in line for name in names) for names in _TABLE)
    is_one = any(all(name in start for name in names) for names in _HEAD)
    return is_one and b'"spanId"' not in start and b'"span_id"' not in start and b'"contextkit_ledger"' not in start


def read(source: Source) -> Iterator[Record]:
    """The generations of an export, trace by trace."""
    traces, n_known = Traces(source), 0
    for number, (line, (at, row)) in enumerate(in_time(source, _timed(source), lambda timed: timed[0])):
        name = recorded_id(row.get("id")) or f"{source.name}/{line}/{number} {at}"
        if source.is_new(b"langfuse", name.encode("utf-8", "surrogatepass")):
            yield from traces.put(_span(source, line, name, at, row))
        else:
            n_known += 1
    yield from traces.rest(n_known)
    if n_known:
        source.fault(0, f"{n_known:,} of its observations were read before; counted once")


KEPT = (
    "id",
    "traceid",
    "parentobservationid",
    "type",
    "name",
    "starttime",
    "endtime",
    "completionstarttime",
    "model",
    "providedmodelname",
    "usagedetails",
    "usage",
    "sessionid",
    "level",
    "metadata",
    "prompttokens",
    "completiontokens",
    "inputusage",
    "outputusage",
    "totalusage",
    "costdetails",
    "calculatedtotalcost",
    "totalcost",
)
"""Columns that are looked at."""


def _timed(source: Source) -> Iterator[tuple[int, tuple[float, dict[str, Any]]]]:
    """Each observation with its time, without what was said."""
    last = 0.0
    for line, row in rows(source, WRAPPERS):
        said = named(row)
        if "type" not in said and "usagedetails" not in said:
            source.fault(line, "no observation; passed over")
        else:
            at = plausible(said.get("starttime")) or plausible(said.get("endtime"))
            if at is None:
                source.fault(
                    line, "no time, or one of a clock that was never set; the time of the row before stands in"
                )
            last = last if at is None else at
            yield line, (last, {name: said[name] for name in KEPT if name in said})


def _span(source: Source, line: int, name: str, at: float, row: Mapping[str, Any]) -> Span:
    kind = str(row.get("type", GENERATION)).upper()
    trace, is_agent = str(row.get("traceid") or name), kind == AGENT
    return Span(
        name,
        str(row.get("parentobservationid") or ""),
        trace,
        str(row.get("name") or "") if is_agent else "",
        is_agent,
        str(row.get("sessionid") or ""),
        "",
        _call(source, line, name, at, row) if kind == GENERATION else None,
    )


def _call(source: Source, line: int, name: str, at: float, row: Mapping[str, Any]) -> ModelCall:
    metadata = table(row.get("metadata"))
    provider, model = provider_and_model(
        str(metadata.get("ls_provider") or ""), str(row.get("providedmodelname") or row.get("model") or "")
    )
    first, ended = (plausible(row.get(moment)) for moment in ("completionstarttime", "endtime"))
    if ended is not None and ended < at:
        source.fault(line, "ends before it starts: a wrong clock; its end is unknown")
        ended = None
    return ModelCall(
        id=name,
        lane="",
        at=at,
        first_byte_at=first if first is not None and first >= at else None,
        ended_at=ended,
        provider=provider,
        model=model,
        usage=_usage(source, line, row),
        error="error" if str(row.get("level", "")).upper() == "ERROR" else None,
        billed_usd=_usd(row),
    )


def _usd(row: Mapping[str, Any]) -> float | None:
    """What an observation cost; where its details have no total, their sum, as Langfuse adds them up."""
    details = table(row.get("costdetails"))
    total = details.get("total", row.get("calculatedtotalcost", row.get("totalcost")))
    if total is not None:
        return dollars(total)
    parts = [dollars(part) for part in details.values()]
    return sum(part for part in parts if part is not None) or None


def _usage(source: Source, line: int, row: Mapping[str, Any]) -> Usage | None:
    said = table(row.get("usagedetails"))
    if not said:  # exports of older versions have one count for each direction
        said = table(row.get("usage")) or {
            "input": row.get("prompttokens", row.get("inputusage")),
            "output": row.get("completiontokens", row.get("outputusage")),
            "total": row.get("totalusage"),
        }
    counts, reading = settled(said, lambda what: source.fault(line, what))
    return counted_usage(source, line, counts, reading)


def settled(said: Mapping[str, Any], report: Report = ignore) -> tuple[Counts, Reading]:
    """The counts of a `usageDetails`, and what its total says of them: whether its input holds the cached tokens, its
    output the others.

    >>> settled({"input": 117231, "output": 225, "total": 117456, "cache_read_input_tokens": 115584})[1]
    'inclusive'
    >>> settled({"input": 191, "output": 291, "total": 2786, "input_cached_tokens": 2304})[1]
    'exclusive'
    """
    found = {meaning: _first(said, names, report) for meaning, names in COUNTS.items()}
    if found["write"] is None and (found["write_5m"] is not None or found["write_1h"] is not None):
        found["write"] = (found["write_5m"] or 0) + (found["write_1h"] or 0)
    counts = Counts(**found)
    prompt, output, total = counts.prompt, counts.output or 0, counts.total
    if prompt is None or total is None:
        return counts, "unsaid"
    whole = prompt + counts.cached + _others(said, "input", report)
    fits = [
        (reading, size, out)
        for reading, size in _readings(prompt, whole)
        for out in (output, output + _others(said, "output", report))
        if size + out == total
    ]
    if len({reading for reading, _, _ in fits}) != 1:
        return counts, "unsaid"
    reading, size, out = fits[0]
    found["prompt"] = size - counts.cached if reading == "exclusive" else size
    found["output"] = None if counts.output is None else out
    return Counts(**found), reading


def _readings(prompt: int, whole: int) -> tuple[tuple[Reading, int], ...]:
    """How large the prompt is by each reading; where nothing else was counted both are one."""
    return (("inclusive", prompt), ("exclusive", whole)) if whole != prompt else (("exclusive", prompt),)


def _first(said: Mapping[str, Any], names: tuple[str, ...], report: Report) -> int | None:
    count = next((said[name] for name in names if said.get(name) is not None), None)
    if count is not None and natural(count) is None:
        report(NO_COUNT)
    return natural(count)


def _others(said: Mapping[str, Any], side: str, report: Report) -> int:
    """Tokens of that side that have no meaning of their own here: audio, images, reasoning."""
    names = (name for name in said if name not in _KNOWN and name.startswith(f"{side}_"))
    return sum(_first(said, (name,), report) or 0 for name in names)
