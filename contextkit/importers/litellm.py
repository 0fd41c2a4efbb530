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
from typing import Any

import orjson

from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.rows import Row, bare, in_time, named, rows, table
from contextkit.importers.source import Source
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.providers.usage import billed_usd_of, usage_of

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
UNTIMED = "no time, or one of a clock that was never set; the time of the row before stands in"
TRUNCATED = b"litellm_truncated"
"""Stands in what LiteLLM shortened before it stored it."""
_HEAD = (
    (b'"request_id"', b'"startTime"'),
    (b'"standard_logging_object"',),
    (b'"custom_llm_provider"', b'"startTime"'),
    (b'"call_type"', b'"startTime"'),
    (b'"call_type"', b'"start_time"'),
)
_TABLE = (b"request_id", b"call_type", b"prompt_tokens")
_NEAR = 1 << 16


def is_litellm(head: bytes) -> bool:
    """Return whether a file that starts like this is such a log.

    >>> is_litellm(b'{"request_id":"a","call_type":"acompletion","startTime":"2026-01-01"}'), is_litellm(b'{"type":"session"}')
    (True, False)
    """
    start = bare(head)[:_NEAR]
    if start[:1] not in (b"{", b"["):
        names = start.split(b"\n", 1)[0]
        return all(name in names for name in _TABLE)
    return any(all(name in start for name in names) for names in _HEAD) and b'"contextkit_ledger"' not in start


def read(source: Source) -> Iterator[Record]:
    """The calls of a log by their times."""
    answered, n_known, projects = 0, 0, set[str]()
    for number, (line, (at, row)) in enumerate(in_time(source, _calls(source), lambda call: call[0], _size)):
        own = recorded_id(row.get("requestid")) or recorded_id(row.get("id"))
        name = own or f"{source.name}/{line}/{number} {at}"
        if not source.is_new(b"litellm", name.encode("utf-8", "surrogatepass")):
            n_known += 1
        elif str(row.get("cachehit", "")).lower() in _ANSWERED:
            answered += 1
        else:
            yield from _records_of_row(source, line, name, at, row, projects)
    if n_known:
        source.fault(0, f"{n_known:,} of its rows are of calls that were read before; counted once")
    if answered:
        source.fault(
            0,
            f"{answered:,} of its calls were answered by LiteLLM's own response cache, which no provider saw; not counted",
        )


def _size(call: tuple[float, dict[str, Any]]) -> int:
    body = call[1]["proxyserverrequest"]
    return 0 if body is None else len(body.request)


def _calls(source: Source) -> Iterator[tuple[int, tuple[float, dict[str, Any]]]]:
    """Each row that asks a model, with its time."""
    last = 0.0
    for line, row in _payloads(rows(source, WRAPPERS)):
        kind = str(row.get("calltype") or "completion").lower()
        if not {"starttime", "prompttokens"} & row.keys():
            source.fault(line, "no row of LiteLLM's; passed over")
        elif any(part in kind for part in ASKING):
            at = plausible(row.get("starttime"))
            if at is None:
                source.fault(line, UNTIMED)
            last = last if at is None else at
            yield line, (last, _without_texts(source, line, row))


def _without_texts(source: Source, line: int, row: dict[str, Any]) -> dict[str, Any]:
    """A row as it waits for its turn: of what was said only the request's bytes, so that many rows may wait."""
    kept = {name: row[name] for name in KEPT if name in row}
    kept["proxyserverrequest"] = (
        _body(source, line, row) if str(row.get("cachehit", "")).lower() not in _ANSWERED else None
    )
    response = table(row.get("response"))
    kept["response"] = {name: response[name] for name in ("usage", "service_tier") if name in response}
    return kept


KEPT = (
    "requestid",
    "id",
    "cachehit",
    "metadata",
    "sessionid",
    "traceid",
    "customllmprovider",
    "model",
    "modelgroup",
    "completionstarttime",
    "endtime",
    "agentid",
    "status",
    "errorinformation",
    "usageobject",
    "usage",
    "prompttokens",
    "completiontokens",
    "spend",
    "responsecost",
)
"""Columns that are looked at later."""


_ANSWERED = ("true", "t", "1")


def _payloads(found: Iterator[Row]) -> Iterator[Row]:
    for line, row in found:
        said = named(row)
        inner = table(said.get(PAYLOAD)) or table(table(said.get("kwargs")).get("standard_logging_object"))
        yield line, named(inner) if inner else said


def _records_of_row(
    source: Source, line: int, name: str, at: float, row: dict[str, Any], projects: set[str]
) -> Iterator[Record]:
    metadata = table(row.get("metadata"))
    session = str(row.get("sessionid") or metadata.get("session_id") or row.get("traceid") or name)
    project = metadata.get("user_api_key_team_alias") or metadata.get("user_api_key_alias")
    if isinstance(project, str) and project and session not in projects:
        projects.add(session)
        yield Remark("project", session, project)
    yield _call(source, line, name, session, at, row, metadata)


def _call(
    source: Source, line: int, name: str, session: str, at: float, row: dict[str, Any], metadata: dict[str, Any]
) -> ModelCall:
    provider, model = provider_and_model(
        str(row.get("customllmprovider") or ""), str(row.get("model") or row.get("modelgroup") or "")
    )
    first, ended = (plausible(row.get(moment)) for moment in ("completionstarttime", "endtime"))
    if ended is not None and ended < at:
        source.fault(line, "ends before it starts: a wrong clock; its end is unknown")
        first, ended = None, None
    counts = _counts(row, metadata)
    costs = dollars(row.get("responsecost")), dollars(row.get("spend")), billed_usd_of(counts)
    return ModelCall(
        id=name,
        session=session,
        lane=str(row.get("agentid") or "main"),
        at=at,
        first_byte_at=first if first is not None and ended is not None and at <= first < ended else None,
        ended_at=ended,
        provider=provider,
        model=model,
        prompt=row["proxyserverrequest"],
        usage=usage_of(counts, lambda what: source.fault(line, what)),
        error=_error(row, metadata),
        billed_usd=next((usd for usd in costs if usd is not None), None),
    )


def _error(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """The class of what went wrong, without its words, which may quote the prompt."""
    failed = str(row.get("status") or metadata.get("status") or "").lower() == "failure"
    said = table(row.get("errorinformation")) or table(metadata.get("error_information"))
    return str(said.get("error_class") or "error") if failed else None


def _counts(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The bill's counters, of the fullest usage that was kept; the row's own counts stand for what that leaves out."""
    places = (
        metadata.get("usage_object"),
        table(row.get("response")).get("usage"),
        row.get("usageobject"),
        row.get("usage"),
    )
    said = next((place for place in map(table, places) if place), {})
    own = {"prompt_tokens": row.get("prompttokens"), "completion_tokens": row.get("completiontokens")}
    tier = {"service_tier": table(row.get("response")).get("service_tier")}  # OpenAI's, beside its usage
    parts = (own, tier, table(metadata.get("additional_usage_values")), said)
    return {name: count for part in parts for name, count in _without_nulls(part).items()}


def _without_nulls(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: count for name, count in counts.items() if count is not None}


def _body(source: Source, line: int, row: Mapping[str, Any]) -> Bodies | None:
    """The request that came to the proxy, where all of it was kept."""
    said = table(row.get("proxyserverrequest"))
    body = table(said.get("body")) or said
    if not isinstance(body.get("messages") or body.get("input") or body.get("contents"), list):
        return None
    request = orjson.dumps({key: value for key, value in body.items() if key not in SECRET})
    if TRUNCATED in request:
        source.fault(line, "LiteLLM shortened the request before it stored it; it is taken as unknown")
        return None
    return Bodies(request)
