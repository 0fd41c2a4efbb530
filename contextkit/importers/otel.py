"""OpenTelemetry spans of model calls: OTLP as JSON, one export or one a line, and spans as console exporters print
them.

Takes a source, gives one call for each call with what its spans say beside it. Prompts are not given:
`gen_ai.input.messages` are a tracer's words for the messages, not the request that was sent, which had tools and
settings too.

* Every attribute is found by its meaning, through one table of all names in use; none of them is stable yet.
* Input tokens include what was read and written, as the conventions ask for; a total that says otherwise is believed.
* A call is a span with a model and one of the operations that ask a model. Spans of agents, tools and workflows around
  it say whose lane it
  is; what they add up over their calls is not counted again (`spans.py`).
* The AI SDK writes its own names (`ai.*`) beside the conventions'. Since version 6 its input includes what was cached
  (`inputTokenDetails` says so); before, it is the provider's own count, which at Anthropic and Bedrock leaves it out, and
  what was written stands in `ai.response.providerMetadata` only.
* pydantic-ai leaves counts of 0 out: where it says one of the two cache counts, the other one is 0.
* An event `pydantic_ai.cache.collapse`, and the attributes that go with it, are a verdict on the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.cache.usage import natural, served
from contextkit.importers.field_maps import text_at, value_at
from contextkit.importers.format import has_names
from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.rows import bare, is_by_line, named, rows, rows_of, table
from contextkit.importers.source import MOST_DIGITS, Source
from contextkit.importers.spans import Counts, Reading, Span, Traces, counted_usage, reading_by_total
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record, RemarkKind
from contextkit.models import find_model

ATTRIBUTES = {
    meaning: tuple(names.split())
    for meaning, names in {
        "operation": """
            gen_ai.operation.name
            ai.operationId
            llm.request.type
            openinference.span.kind
            traceloop.span.kind
        """,
        "provider": "gen_ai.provider.name gen_ai.system llm.provider llm.system ai.model.provider",
        "model": "gen_ai.request.model llm.request.model llm.model_name ai.model.id",
        "answering_model": "gen_ai.response.model llm.response.model ai.response.model",
        "id": "gen_ai.response.id llm.response.id ai.response.id",
        "session": """
            gen_ai.conversation.id
            session.id
            langfuse.session.id
            traceloop.association.properties.session_id
            traceloop.association.properties.thread_id
            gen_ai.thread.id
            ai.telemetry.metadata.sessionId
        """,
        "agent": "gen_ai.agent.name agent_name agent.name traceloop.entity.name gen_ai.agent.id",
        "prompt": """
            gen_ai.usage.input_tokens
            gen_ai.usage.prompt_tokens
            llm.usage.prompt_tokens
            llm.token_count.prompt
            ai.usage.inputTokens
            ai.usage.promptTokens
        """,
        "uncached": "ai.usage.inputTokenDetails.noCacheTokens",
        "output": """
            gen_ai.usage.output_tokens
            gen_ai.usage.completion_tokens
            llm.usage.completion_tokens
            llm.token_count.completion
            ai.usage.outputTokens
            ai.usage.completionTokens
        """,
        "total": "gen_ai.usage.total_tokens llm.usage.total_tokens llm.token_count.total ai.usage.totalTokens",
        "read": """
            gen_ai.usage.cache_read.input_tokens
            gen_ai.usage.cache_read_input_tokens
            gen_ai.usage.cache_read_tokens
            gen_ai.usage.details.cache_read_tokens
            gen_ai.usage.details.cache_read_input_tokens
            gen_ai.usage.input_tokens.cached
            gen_ai.usage.input_cached_tokens
            llm.usage.cache_read_input_tokens
            llm.token_count.prompt_details.cache_read
            ai.usage.inputTokenDetails.cacheReadTokens
            ai.usage.cachedInputTokens
        """,
        "write": """
            gen_ai.usage.cache_creation.input_tokens
            gen_ai.usage.cache_write.input_tokens
            gen_ai.usage.cache_creation_input_tokens
            gen_ai.usage.cache_write_input_tokens
            gen_ai.usage.cache_write_tokens
            gen_ai.usage.details.cache_write_tokens
            gen_ai.usage.details.cache_creation_input_tokens
            gen_ai.usage.input_tokens.cache_write
            llm.usage.cache_creation_input_tokens
            llm.token_count.prompt_details.cache_write
            ai.usage.inputTokenDetails.cacheWriteTokens
        """,
        "project": "service.name",
        "ai_sdk": "ai.response.providerMetadata",
        "tier": "openai.response.service_tier gen_ai.openai.response.service_tier gen_ai.response.service_tier",
        "usd": "gen_ai.usage.cost operation.cost llm.cost.total",
        "first": "gen_ai.response.time_to_first_chunk gen_ai.server.time_to_first_token",
        "error": "error.type exception.type",
        "collapse": "pydantic_ai.cache.collapse_reason",
        "missed": "pydantic_ai.cache.missed_tokens pydantic_ai.cache.wasted_tokens",
    }.items()
}
"""Meaning → its attributes, the conventions' own name first, then those of OpenLLMetry, Strands, pydantic-ai, Sentry,
OpenInference, the AI SDK (npm ai 4 to 7)."""
ASKING = {
    "chat",
    "text_completion",
    "generate_content",
    "completion",
    "responses",
    "llm",
    "inference",
    "message",
    "messages",
    "ai.generatetext.dogenerate",
    "ai.streamtext.dostream",
    "ai.generateobject.dogenerate",
    "ai.streamobject.dostream",
}
"""Operations that ask a model, in small letters."""
AGENTS = {"invoke_agent", "agent"}
"""Operations that stand for the work of an agent."""
_WRITTEN = "ai_sdk.anthropic.cacheCreationInputTokens ai_sdk.bedrock.usage.cacheWriteInputTokens"
"""What Anthropic or Bedrock wrote, as the AI SDK passes their own counts on."""
OMITS_ZEROS = ("pydantic-ai", "logfire")
"""Scopes of instrumentations that write no count of 0 (pydantic-ai, `RequestUsage.opentelemetry_attributes`)."""
COLLAPSE = "pydantic_ai.cache.collapse"
WRAPPERS = {"resourceSpans": 6, "resource_spans": 6}
_SCOPES, _FAILED = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"), ("2", "error", "status_code_error")
_SPAN = tuple(
    re.compile(part)
    for part in (
        rb'"trace_?[iI]d"',
        rb'"span_?[iI]d"',
        rb'"start_?[tT]ime(?:UnixNano)?"',
        rb'"kind"|"parent_?(?:[sS]pan_?)?[iI]d"',
    )
)
"""What a span has that is printed alone."""
_NEAR = 4_096


def is_otel(head: bytes) -> bool:
    """Return whether a file that starts like this holds spans.

    >>> is_otel(b'{"resourceSpans":[{"resource":{}}]}'), is_otel(b'{"traceId":"a","type":"GENERATION"}')
    (True, False)
    """
    start = bare(head)[:_NEAR]
    is_export = has_names(start, *WRAPPERS)
    return (
        start[:1] in (b"{", b"[")
        and (is_export or all(part.search(start) for part in _SPAN))
        and b'"contextkit_ledger"' not in start
    )


@dataclass(slots=True)
class _NormalizedSpan:
    """A span in one spelling."""

    line: int
    trace: str
    id: str
    parent: str
    start: float | None
    end: float | None
    has_failed: bool
    raw: Mapping[str, Any]
    """Meaning → value."""
    events: tuple[str, ...]
    scope: str
    project: str


class SpanLines(Traces):
    """Holds the spans of a file until their traces can be told."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, "otel", "spans were")

    def hear(self, number: int, line: bytes) -> Iterator[Record]:
        """The next line; gives the calls of the oldest traces where too many spans are held."""
        for row in rows_of(self.source, number, line, WRAPPERS):
            yield from self.row(*row)

    def row(self, line: int, row: dict[str, Any]) -> Iterator[Record]:
        """The next object, wherever it stands."""
        for normalized in _spans(self.source, line, row):
            if self.is_new(f"{normalized.trace} {normalized.id}"):
                yield from self.put(_span(self.source, normalized))

    def waiting(self) -> Iterator[Record]:
        """The calls of the traces still held, as if no more of their spans came."""
        return self.copied().rest()


def read(source: Source) -> Iterator[Record]:
    """The model calls of a file, trace by trace."""
    spans = SpanLines(source)
    for row in rows(source, WRAPPERS):
        yield from spans.row(*row)
    yield from spans.waiting()
    spans.finish()


def lines(source: Source) -> SpanLines | None:
    """A reader of its lines, where each holds whole objects, as the collector's file exporter writes them."""
    return SpanLines(source) if is_by_line(source.head) else None


def _spans(source: Source, line: int, row: dict[str, Any]) -> Iterator[_NormalizedSpan]:
    """The spans of a row: those of one resource, or the one it is."""
    project = text_at(meanings(value_at(row, "resource.attributes")), "project")
    groups = next((row[name] for name in _SCOPES if isinstance(row.get(name), list)), None)
    if groups is None:
        spans = [(row.get("instrumentation_scope"), row)]
    else:
        spans = [
            (group.get("scope") or group.get("instrumentationLibrary"), span)
            for group in groups
            if isinstance(group, dict) and isinstance(group.get("spans"), list)
            for span in group["spans"]
        ]
    for scope, span in spans:
        name = str(table(scope).get("name") or "")
        normalized = _normalized(line, span, name, project) if isinstance(span, dict) else None
        if normalized is None:
            source.fault(line, "no span; passed over")
        else:
            yield normalized


def _normalized(line: int, span: dict[str, Any], scope: str, project: str) -> _NormalizedSpan | None:
    raw = span if "traceId" in span and "spanId" in span else {**named(span), **named(table(span.get("context")))}
    names = _OTLP if raw is span else _PLAIN
    trace, own, parent, other, start, started, end, ended = map(raw.get, names)
    if not trace or not own:
        return None
    status, events = table(raw.get("status")), raw.get("events")
    code = text_at(named(status), "code statuscode") if status else ""
    return _NormalizedSpan(
        line,
        _name(trace),
        _name(own),
        _name(parent or other),
        _time(started if start is None else start),
        _time(ended if end is None else end),
        code.rpartition(".")[2].lower() in _FAILED,
        meanings(raw.get("attributes")),
        tuple([str(event.get("name")) for event in events if isinstance(event, dict)])
        if events and isinstance(events, list)
        else (),
        scope,
        project,
    )


_OTLP = (
    "traceId",
    "spanId",
    "parentSpanId",
    "parentId",
    "startTimeUnixNano",
    "startTime",
    "endTimeUnixNano",
    "endTime",
)
_PLAIN = tuple(map(str.lower, _OTLP))
"""Names of a span's fields, in OTLP's spelling and in the one that all spellings come to."""


def _span(source: Source, normalized: _NormalizedSpan) -> Span:
    raw = normalized.raw
    operation = str(raw.get("operation", "")).lower()
    is_asking = operation in ASKING or (not operation and ("prompt" in raw or "output" in raw))
    is_call = is_asking and ("model" in raw or "answering_model" in raw)
    is_agent = operation in AGENTS or (not operation and not is_call and "agent" in raw)
    return Span(
        normalized.id,
        normalized.parent,
        normalized.trace,
        str(raw.get("agent", "")) if is_agent or is_call else "",
        is_agent,
        str(raw.get("session", "")),
        normalized.project,
        _call(source, normalized) if is_call else None,
        tuple(_remarks(normalized)) if is_call else (),
    )


def _call(source: Source, normalized: _NormalizedSpan) -> ModelCall:
    raw = normalized.raw
    asked, answering = str(raw.get("model", "")), str(raw.get("answering_model", ""))
    named = (
        answering if not asked or (not find_model(asked) and find_model(answering)) else asked
    )  # a deployment may have any name
    vendor = str(raw.get("provider", ""))
    if vendor == "gateway" and str(raw.get("operation", "")).startswith("ai."):
        vendor = "vercel-ai-gateway"  # as the AI SDK calls it; of other programs it may be anybody's
    provider, model = provider_and_model(vendor, named)
    at, ended = _times(source, normalized)
    first, wait = None, raw.get("first")
    if isinstance(wait, int | float) and ended is not None and 0 <= wait <= ended - at + 1:
        first = at + wait
    error = str(raw.get("error") or "error") if normalized.has_failed or "error" in raw else None
    counts = _counts(source, normalized)
    usage = counted_usage(source, normalized.line, counts, _reading(raw, counts, provider))
    if usage is not None:
        usage = served(usage, {"service_tier": raw.get("tier")})
    return ModelCall(
        id=recorded_id(raw.get("id")) or normalized.id,
        lane="",
        at=at,
        first_byte_at=first,
        ended_at=ended,
        provider=provider,
        model=model,
        usage=usage,
        error=error,
        billed_usd=dollars(raw.get("usd")),
    )


def _reading(raw: Mapping[str, Any], counts: Counts, provider: str) -> Reading:
    """Return how to read the input of a span: `inclusive` of what was cached, or `exclusive`."""
    if "uncached" in raw:
        return "exclusive"  # `_counts` took the uncached tokens for the prompt
    if str(raw.get("operation", "")).startswith("ai."):
        is_claude = ".anthropic." in str(raw.get("provider", ""))  # `googleVertex.anthropic.messages`
        return "exclusive" if is_claude or provider in ("anthropic", "aws") else "inclusive"
    return "exclusive" if reading_by_total(counts) == "exclusive" else "inclusive"


def _counts(source: Source, normalized: _NormalizedSpan) -> Counts:
    counts = {name: _number(normalized.raw.get(name)) for name in ("prompt", "read", "write", "output", "total")}
    if "uncached" in normalized.raw:
        counts["prompt"] = _number(normalized.raw["uncached"])
    if counts["write"] is None and "ai_sdk" in normalized.raw:
        counts["write"] = value_at(normalized.raw, _WRITTEN)
    if normalized.scope.startswith(OMITS_ZEROS) and (counts["read"] is not None or counts["write"] is not None):
        counts.update({name: counts[name] or 0 for name in ("read", "write")})
    return Counts(**{name: source.count(normalized.line, value) for name, value in counts.items()})


def _times(source: Source, normalized: _NormalizedSpan) -> tuple[float, float | None]:
    if normalized.start is None:
        source.fault(
            normalized.line, "a span without a time, or with one of a clock that was never set; its end stands in"
        )
        return normalized.end or 0.0, normalized.end
    if normalized.end is not None and normalized.end < normalized.start:
        source.fault(normalized.line, "a span that ends before it starts: a wrong clock; its end is unknown")
        return normalized.start, None
    return normalized.start, normalized.end


def _remarks(normalized: _NormalizedSpan) -> Iterator[tuple[RemarkKind, str]]:
    """What pydantic-ai says of the cache."""
    reason = str(normalized.raw.get("collapse") or ("unexpected" if COLLAPSE in normalized.events else ""))
    if reason:
        missed = natural(_number(normalized.raw.get("missed")))
        yield "verdict", f"cache_collapse {reason}" + ("" if missed is None else f", {missed} tokens missed")
    if reason == "compacted":
        yield "compaction", "the provider compacted the history"


def meanings(raw: object) -> dict[str, Any]:
    """What the attributes of a span mean, those that are in no table left out.

    They are a dictionary, or OTLP's list of keys and typed values. Of several names the first of the table counts.

    >>> meanings([{"key": "llm.usage.prompt_tokens", "value": {"intValue": "5"}}]), meanings({"session.id": "a"})
    ({'prompt': 5}, {'session': 'a'})
    """
    found, ranks = dict[str, Any](), dict[str, int]()
    for (meaning, rank), value in _meant(raw):
        if value is not None and value != "" and (meaning not in ranks or ranks[meaning] >= rank):
            found[meaning], ranks[meaning] = value, rank
    return found


def _meant(raw: object) -> list[tuple[tuple[str, int], Any]]:
    """Meaning and place in its table, and value, of each attribute that has a meaning."""
    if isinstance(raw, dict):
        return [(_PLACES[key], value) for key, value in raw.items() if key in _PLACES]
    pairs = raw if isinstance(raw, list) else []
    try:
        return [(_PLACES[key], _typed(pair["value"])) for pair in pairs if (key := pair["key"]) in _PLACES]
    except (KeyError, TypeError):  # what is no pair of key and value among them
        pairs = [pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("key"), str)]
        return [(_PLACES[pair["key"]], _typed(pair.get("value"))) for pair in pairs if pair["key"] in _PLACES]


_PLACES = {name: (meaning, rank) for meaning, names in ATTRIBUTES.items() for rank, name in enumerate(names)}
"""Attribute → what it means, and how early in its table it stands."""


def _typed(value: object) -> Any:
    """The value inside `{"intValue": "5"}`; lists and objects are not asked for."""
    if isinstance(value, dict):
        if (text := value.get("stringValue")) is not None:
            return text
        if (whole := value.get("intValue")) is not None:
            return _number(whole)
    held = named(table(value))
    return (
        _number(held["intvalue"]) if "intvalue" in held else next((held[kind] for kind in _KINDS if kind in held), None)
    )


_KINDS = ("stringvalue", "doublevalue", "boolvalue")


def _number(value: object) -> object:
    """A whole number of 64 bits, which OTLP writes as text, and some as a float; what is none as it stands."""
    if isinstance(value, str) and len(value) <= MOST_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _time(value: object) -> float | None:
    return plausible(_number(value) if isinstance(value, str) else value)


def _name(value: object) -> str:
    return str(value or "").removeprefix("0x")
