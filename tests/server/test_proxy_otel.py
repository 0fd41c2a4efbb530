"""Spans and metrics of calls, through the SDK of OpenTelemetry."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.proxy import otel
from contextkit.proxy.otel import Telemetry, attributes_of

CALL = ModelCall(
    "msg_1",
    "proxy-1",
    "main",
    1000.0,
    1000.4,
    1002.0,
    "anthropic",
    "claude-sonnet-5-5",
    None,
    Usage(10, 900, 80, 10, 50),
    None,
    None,
)


@pytest.fixture
def sdk() -> Any:
    return pytest.importorskip("opentelemetry.sdk", reason="the extra `otel`")


def test_a_call_is_a_span_and_numbers(sdk: Any) -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracers, meters)
    telemetry.record(CALL)
    telemetry.record(replace(CALL, usage=None, error="cut", first_byte_at=None))

    whole, cut = spans.get_finished_spans()
    assert (whole.name, whole.kind.name) == ("chat claude-sonnet-5-5", "CLIENT")
    assert (whole.start_time, whole.end_time) == (1000 * 10**9, 1002 * 10**9)
    assert dict(whole.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-5-5",
        "gen_ai.conversation.id": "proxy-1",
        "gen_ai.response.id": "msg_1",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.cache_read.input_tokens": 900,
        "gen_ai.usage.cache_creation.input_tokens": 90,
    }
    assert (
        whole.status.is_unset
        and cut.status.status_code.name == "ERROR"
        and (cut.attributes or {})["error.type"] == "cut"
    )

    data = reader.get_metrics_data()
    assert data is not None
    found = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in found["gen_ai.client.token.usage"].data.data_points
    }
    assert tokens == {"input": 1000, "output": 50} and found["gen_ai.client.token.usage"].unit == "{token}"
    assert sum(point.sum for point in found["gen_ai.client.operation.duration"].data.data_points) == 4.0
    assert [point.count for point in found["gen_ai.server.time_to_first_token"].data.data_points] == [1]


def test_an_exporter_that_is_asked_for_its_numbers_is_a_reader_itself(
    sdk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()  # as that of opentelemetry-exporter-prometheus is
    point = SimpleNamespace(name="prometheus", load=lambda: lambda: reader)
    monkeypatch.setattr(otel, "entry_points", lambda group: [point])
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    Telemetry(*otel.configured()).record(CALL)
    assert reader.get_metrics_data() is not None


def test_names_are_those_of_the_conventions(sdk: Any) -> None:
    names = pytest.importorskip(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes", reason="comes with the SDK"
    )
    known = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert {name for name in attributes_of(CALL) if name.startswith("gen_ai.")} <= known


def test_what_nobody_reported_is_left_out() -> None:
    assert "gen_ai.usage.input_tokens" not in attributes_of(replace(CALL, usage=Usage(output=3)))
    assert not any("usage" in name for name in attributes_of(replace(CALL, usage=None)))
