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
from dataclasses import replace
from typing import Any

from contextkit.cache.usage import NO_COUNT, Usage, natural
from contextkit.importers.field_maps import FieldMap, first_at, text_at, value_at
from contextkit.importers.format import has_columns, has_names
from contextkit.importers.rows import Row, bare, named, rows, table
from contextkit.importers.source import Source
from contextkit.importers.spans import Counts, Reading, Span, Traces, counted_usage
from contextkit.importers.transcript import dollars
from contextkit.ledger.calls import ModelCall, Record
from contextkit.providers.usage import Report, ignore

FIELDS = FieldMap(
    id="id",
    session="sessionid",
    at="starttime endtime",
    first_byte_at="completionstarttime",
    ended_at="endtime",
    provider="metadata.ls_provider",
    model="providedmodelname model",
    billed_usd="costdetails.total calculatedtotalcost totalcost",
)
OLD_COUNTS = {
    "input": "prompttokens inputusage",
    "output": "completiontokens outputusage",
    "total": "totalusage",
}
"""Counts in exports of older versions, one for each direction."""
COLUMNS = FIELDS.columns(
    "traceid parentobservationid type name level usagedetails usage " + " ".join(OLD_COUNTS.values())
)
"""Columns that are looked at."""
WRAPPERS = {"data": 2, "observations": 2}
COUNTS = {
    "prompt": "input input_tokens prompt_tokens",
    "read": "input_cached_tokens cache_read_input_tokens input_cache_read cache_read_tokens input_tokens_cached",
    "write": "input_cache_creation cache_creation_input_tokens input_cache_write cache_write_tokens "
    "cache_write_input_tokens input_cache_creation_tokens",
    "write_5m": "input_cache_creation_5m ephemeral_5m_input_tokens",
    "write_1h": "input_cache_creation_1h ephemeral_1h_input_tokens",
    "output": "output output_tokens completion_tokens",
    "total": "total total_tokens",
}
"""Meaning → its names in `usageDetails`, Langfuse's own first, then those of Anthropic, OpenAI and their integrations.
"""
GENERATION, AGENT = "GENERATION", "AGENT"
_KNOWN = " ".join(COUNTS.values()).split()
_HEAD = ("traceId startTime type", "trace_id start_time type")


def is_langfuse(head: bytes) -> bool:
    """Return whether a file that starts like this is such an export.

    >>> is_langfuse(b'[{"id":"a","traceId":"t","type":"GENERATION","startTime":"2026-01-01"}]'), is_langfuse(b'{"type":"session"}')
    (True, False)
    """
    start = bare(head)
    is_row = start[:1] in (b"{", b"[") and has_names(start, *_HEAD, "usageDetails", "usage_details")
    return (is_row and not has_names(start, "spanId", "span_id", "contextkit_ledger")) or has_columns(start, *_HEAD)


def read(source: Source) -> Iterator[Record]:
    """The generations of an export, trace by trace."""
    traces = Traces(source, "langfuse", "observations were")
    for line, name, at, row in FIELDS.in_time(source, traces, _rows(source)):
        yield from traces.put(_span(source, line, name, at, row))
    yield from traces.rest()
    traces.finish()


def _rows(source: Source) -> Iterator[Row]:
    """Each observation, without what was said."""
    for line, given in rows(source, WRAPPERS):
        row = named(given)
        if "type" in row or "usagedetails" in row:
            yield line, {name: row[name] for name in COLUMNS if name in row}
        else:
            source.fault(line, "no observation; passed over")


def _span(source: Source, line: int, name: str, at: float, row: Mapping[str, Any]) -> Span:
    kind = str(row.get("type", GENERATION)).upper()
    is_agent = kind == AGENT
    return Span(
        name,
        text_at(row, "parentobservationid"),
        text_at(row, "traceid") or name,
        text_at(row, "name") if is_agent else "",
        is_agent,
        text_at(row, FIELDS.session),
        "",
        _call(source, line, name, at, row) if kind == GENERATION else None,
    )


def _call(source: Source, line: int, name: str, at: float, row: Mapping[str, Any]) -> ModelCall:
    error = "error" if text_at(row, "level").upper() == "ERROR" else None
    call = FIELDS.call(
        source,
        line,
        row,
        id=name,
        session="",
        lane="",
        at=at,
        usage=_usage(source, line, row),
        error=error,
    )
    if call.billed_usd is not None:
        return call
    parts = map(dollars, table(row.get("costdetails")).values())  # Langfuse adds them up
    return replace(call, billed_usd=sum(filter(None, parts)) or None)


def _usage(source: Source, line: int, row: Mapping[str, Any]) -> Usage | None:
    old = {name: value_at(row, paths) for name, paths in OLD_COUNTS.items()}
    said = first_at(row, "usagedetails usage", table) or old
    return counted_usage(source, line, *settled(said, lambda what: source.fault(line, what)))


def settled(said: Mapping[str, Any], report: Report = ignore) -> tuple[Counts, Reading]:
    """The counts of a `usageDetails`, and what its total says of them: whether its input holds the cached tokens, its
    output the others.

    >>> settled({"input": 117231, "output": 225, "total": 117456, "cache_read_input_tokens": 115584})[1]
    'inclusive'
    >>> settled({"input": 191, "output": 291, "total": 2786, "input_cached_tokens": 2304})[1]
    'exclusive'
    """
    found = {meaning: _natural(value_at(said, names), report) for meaning, names in COUNTS.items()}
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


def _natural(count: object, report: Report) -> int | None:
    if count is not None and natural(count) is None:
        report(NO_COUNT)
    return natural(count)


def _others(said: Mapping[str, Any], side: str, report: Report) -> int:
    """Tokens of that side that have no meaning of their own here: audio, images, reasoning."""
    others = (said[name] for name in said if name not in _KNOWN and name.startswith(f"{side}_"))
    return sum(_natural(value, report) or 0 for value in others)
