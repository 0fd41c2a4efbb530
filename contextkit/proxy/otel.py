"""A call as OpenTelemetry's GenAI conventions say it: one span, and two or three numbers in histograms.

Takes calls of any ledger, gives attributes, or records them with a tracer and a meter. Needs the extra `otel` to
record, nothing to name. Source: opentelemetry.io/docs/specs/semconv/gen-ai (status Development), span `chat {model}`,
metrics `gen_ai.client.token.usage`, `gen_ai.client.operation.duration`, `gen_ai.server.time_to_first_token`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from contextkit.errors import MissingExtra, UsageError
from contextkit.ledger.calls import ModelCall

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

Attributes = Mapping[str, str | int]
_NAME = "contextkit"
_NANO = 1_000_000_000
_TOKEN_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
_SECOND_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
"""Bounds the conventions advise."""


def attributes_of(call: ModelCall) -> dict[str, str | int]:
    """The attributes of one call; what nobody reported is left out, never 0.

    >>> from contextkit.cache.usage import Usage
    >>> call = ModelCall("m", "s", "main", 0.0, None, 1.0, "anthropic", "claude-sonnet-5-5", None, Usage(1, 90, 9, 0, 5), None, None)
    >>> attributes_of(call)["gen_ai.usage.input_tokens"], attributes_of(call)["gen_ai.usage.cache_read.input_tokens"]
    (100, 90)
    """
    asked: dict[str, str | int | None] = {
        **_request_attributes(call),
        "gen_ai.conversation.id": call.session or None,
    }
    asked["gen_ai.response.id"] = call.id if call.usage is not None else None
    asked["error.type"] = call.error
    return {name: value for name, value in {**asked, **_counted(call)}.items() if value is not None}


class Telemetry:
    """Records calls with the providers given, else with the global ones."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        """Raises `MissingExtra` without OpenTelemetry."""
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise MissingExtra("OpenTelemetry", "otel") from None
        self._client = trace.SpanKind.CLIENT
        self._failed = trace.StatusCode.ERROR
        self._tracer = (tracers or trace.get_tracer_provider()).get_tracer(_NAME)
        meter = (meters or metrics.get_meter_provider()).get_meter(_NAME)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a call.",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "From the request to its end.",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )
        self._first = meter.create_histogram(
            "gen_ai.server.time_to_first_token",
            "s",
            "To the head of the response.",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )

    def record(self, call: ModelCall) -> None:
        """One call: its span, as long as it took, and its numbers."""
        named = _request_attributes(call)
        span = self._tracer.start_span(
            f"chat {call.model}".rstrip(),
            kind=self._client,
            attributes=attributes_of(call),
            start_time=round(call.at * _NANO),
        )
        if call.error is not None:
            span.set_status(self._failed)
        ended = call.ended_at if call.ended_at is not None else call.at
        span.end(round(ended * _NANO))
        failed = {"error.type": call.error} if call.error is not None else {}
        if call.ended_at is not None:
            self._duration.record(call.ended_at - call.at, {**named, **failed})
        if call.first_byte_at is not None:
            self._first.record(call.first_byte_at - call.at, named)
        self._count(call, named)

    def _count(self, call: ModelCall, named: Attributes) -> None:
        usage = call.usage
        for kind, tokens in (("input", usage.prompt), ("output", usage.output)) if usage else ():
            if tokens is not None:
                self._tokens.record(tokens, {**named, "gen_ai.token.type": kind})


def configured() -> tuple[TracerProvider, MeterProvider]:
    """Providers with the exporters that `OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` name, OTLP over HTTP where
    they say nothing.

    Raises `MissingExtra` without the SDK, `UsageError` for an exporter that is not installed.
    """
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtra("OpenTelemetry", "otel") from None
    tracers = TracerProvider()
    for exporter in _exporters("traces"):
        tracers.add_span_processor(BatchSpanProcessor(exporter))
    readers = [
        exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)
        for exporter in _exporters("metrics")
    ]
    return tracers, MeterProvider(readers)


def _exporters(kind: str) -> list[Any]:
    """Made by the entry points that exporters register (opentelemetry-sdk, `_configuration`)."""
    variable = f"OTEL_{kind.upper()}_EXPORTER"
    names = [name.strip() for name in os.environ.get(variable, "otlp").split(",")]
    known = {point.name: point for point in entry_points(group=f"opentelemetry_{kind}_exporter")}
    wanted = [_OTLP.get(name, name) for name in names if name not in ("", "none")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(
            f"{variable} names {unknown[0]!r}, which is not installed: choose among {', '.join(sorted(known))}, none"
        )
    return [known[name].load()() for name in wanted]


_OTLP = {"otlp": "otlp_proto_http"}


def _request_attributes(call: ModelCall) -> dict[str, str | int]:
    """Return the attributes of both spans and metrics."""
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
    }
    return {name: value for name, value in known.items() if value}


def _counted(call: ModelCall) -> dict[str, int | None]:
    """The bill: `input_tokens` holds what was read and written."""
    usage = call.usage
    if usage is None:
        return {}
    written = usage.written
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }
