"""LiteLLM's own log: rows of `LiteLLM_SpendLogs` (JSON, JSONL, CSV), and what a callback is given
(`standard_logging_object`).

Takes a source, gives one call for each call that reached a provider.

* `cache_hit` and `cache_key` are LiteLLM's own response cache: such a reply was sent by no provider and billed by none,
  so it is no call
  here. What a provider read from its prompt cache stands in `metadata.usage_object`, or in the usage of the response.
* `prompt_tokens` includes what was read and written; a row where that cannot be has an unknown bill.
* `proxy_server_request` is the request as it came to the proxy: it is given as the prompt, without keys, where it is
  whole. PostgreSQL
  sorts the keys of what it stores as `jsonb`, in all calls alike.
* `spend`, and `response_cost` of what a callback is given, are dollars as LiteLLM worked them out; 0 says that it knows
  no price. A router's own `usage.cost` stands where LiteLLM has none.
* A session is `session_id`, else `trace_id`, which LiteLLM gives to the retries of one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from contextkit.importers.field_maps import FieldMap, first_at, text_at
from contextkit.importers.format import has_columns, has_names
from contextkit.importers.read_once import ReadOnce
from contextkit.importers.rows import Row, bare, named, rows, table
from contextkit.importers.source import Source
from contextkit.ledger.calls import Bodies, Record
from contextkit.providers.usage import billed_usd_of, usage_of

FIELDS = FieldMap(
    id="requestid id",
    session="sessionid metadata.session_id traceid",
    lane="agentid",
    at="starttime",
    first_byte_at="completionstarttime",
    ended_at="endtime",
    provider="customllmprovider",
    model="model modelgroup",
    billed_usd="responsecost spend",
)
USAGES = "metadata.usage_object response.usage usageobject usage"
ERRORS = "errorinformation.error_class metadata.error_information.error_class"
COLUMNS = FIELDS.columns(f"{USAGES} {ERRORS} cachehit status prompttokens completiontokens")
"""Columns that are looked at when a row's turn comes, besides the request."""
WRAPPERS = {"data": 2, "spend_logs": 2, "logs": 2}
PAYLOAD = "standardloggingobject"
ASKING = ("completion", "responses", "anthropic_messages", "generate_content", "pass_through", "acreate_response")
"""Parts of the call types that ask a model something; all others (embeddings, images, speech, …) have no prompt cache.
"""
SECRET = (
    "api_key",
    "secret_fields",
    "proxy_server_request",
    "headers",
    "extra_headers",
    "litellm_logging_obj",
    "api_base",
)
"""Fields of a request to the proxy that no provider is sent, or that nobody may keep."""
TRUNCATED = b"litellm_truncated"
"""Stands in what LiteLLM shortened before it stored it."""
_HEAD = (
    "request_id startTime",
    "standard_logging_object",
    "custom_llm_provider startTime",
    "call_type startTime",
    "call_type start_time",
)


def is_litellm(head: bytes) -> bool:
    """Return whether a file that starts like this is such a log.

    >>> is_litellm(b'{"request_id":"a","call_type":"acompletion","startTime":"2026-01-01"}'), is_litellm(b'{"type":"session"}')
    (True, False)
    """
    start = bare(head)
    is_row = start[:1] in (b"{", b"[") and has_names(start, *_HEAD) and not has_names(start, "contextkit_ledger")
    return is_row or has_columns(start, "request_id call_type prompt_tokens")


def read(source: Source) -> Iterator[Record]:
    """The calls of a log by their times."""
    once, n_answered = ReadOnce(source, "litellm", "rows are of calls that were"), 0
    for line, name, at, row in FIELDS.in_time(source, once, _rows(source), _size):
        if _is_answered(row):
            n_answered += 1
        else:
            yield from _records(source, once, line, name, at, row)
    once.finish()
    if n_answered:
        source.fault(
            0,
            f"{n_answered:,} of its calls were answered by LiteLLM's own response cache, which no provider saw; not counted",
        )


def _size(row: dict[str, Any]) -> int:
    body = row["proxyserverrequest"]
    return 0 if body is None else len(body.request)


def _is_answered(row: Mapping[str, Any]) -> bool:
    return str(row.get("cachehit", "")).lower() in ("true", "t", "1")


def _rows(source: Source) -> Iterator[Row]:
    """Each row that asks a model, as it waits for its turn: of what was said only the request's bytes, so that many may
    wait.
    """
    for line, given in rows(source, WRAPPERS):
        row = named(given)
        row = named(first_at(row, f"{PAYLOAD} kwargs.standard_logging_object", table) or {}) or row
        kind = str(row.get("calltype") or "completion").lower()
        if not {"starttime", "prompttokens"} & row.keys():
            source.fault(line, "no row of LiteLLM's; passed over")
        elif any(part in kind for part in ASKING):
            narrow = {name: row[name] for name in COLUMNS if name in row}
            narrow["proxyserverrequest"] = None if _is_answered(row) else _body(source, line, row)
            response = table(row.get("response"))
            narrow["response"] = {name: response[name] for name in ("usage", "service_tier") if name in response}
            yield line, narrow


def _records(source: Source, once: ReadOnce, line: int, name: str, at: float, row: dict[str, Any]) -> Iterator[Record]:
    metadata = table(row.get("metadata"))
    session = text_at(row, FIELDS.session) or name
    counts = _counts(row, metadata)
    usage = usage_of(counts, lambda what: source.fault(line, what))
    error = (text_at(row, ERRORS) or "error") if text_at(row, "status metadata.status").lower() == "failure" else None
    call = FIELDS.call(
        source,
        line,
        row,
        id=name,
        session=session,
        at=at,
        prompt=row["proxyserverrequest"],
        usage=usage,
        error=error,  # its class, without its words, which may quote the prompt
    )
    yield from once.remark(
        "project", session, metadata.get("user_api_key_team_alias") or metadata.get("user_api_key_alias")
    )
    if call.billed_usd is None:
        call = replace(call, billed_usd=billed_usd_of(counts))
    is_streamed = (call.first_byte_at or 0.0) < (call.ended_at or 0.0)  # of others LiteLLM says that both are one
    yield call if is_streamed else replace(call, first_byte_at=None)


def _counts(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The bill's counters, of the fullest usage that was kept; the row's own counts stand for what that leaves out."""
    parts = (
        {"prompt_tokens": row.get("prompttokens"), "completion_tokens": row.get("completiontokens")},
        {"service_tier": row["response"].get("service_tier")},  # OpenAI's, beside its usage
        table(metadata.get("additional_usage_values")),
        first_at(row, USAGES, table) or {},
    )
    return {name: count for part in parts for name, count in part.items() if count is not None}


def _body(source: Source, line: int, row: Mapping[str, Any]) -> Bodies | None:
    """The request that came to the proxy, where all of it was kept."""
    body = first_at(row, "proxyserverrequest.body proxyserverrequest", table) or {}
    if not isinstance(body.get("messages") or body.get("input") or body.get("contents"), list):
        return None
    request = orjson.dumps({key: value for key, value in body.items() if key not in SECRET})
    if TRUNCATED in request:
        source.fault(line, "LiteLLM shortened the request before it stored it; it is taken as unknown")
        return None
    return Bodies(request)
