"""What is counted of calls: in Prometheus' words, read by its own parser's rules, and in OpenTelemetry's, through its
SDK."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.ledger.calls import Exchange, encode
from contextkit.proxy.metrics.otel import Telemetry, attributes_of
from contextkit.proxy.metrics.prometheus import Metrics
from contextkit.proxy.proxy import Page
from tests.server.proxied import client, passing

CALL = Exchange(
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
SAMPLE = re.compile(r'^(?P<name>[a-z_]+)\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (?P<value>[0-9.e+-]+)$')
"""A line of the text format (prometheus.io/docs/instrumenting/exposition_formats)."""


def report(exchange: Exchange = CALL, **more: Any) -> Any:
    said = {"cost_usd": 0.01, "cause": None, "lost_tokens": 0, "repairs": [], "findings": []}
    return {"exchange": parse(encode(exchange)), **said, **more}


def samples(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    found = [SAMPLE.match(line) for line in lines]
    assert all(found), lines
    return {f"{one['name']}{{{one['labels']}}}": float(one["value"]) for one in found if one}


def test_tokens_are_counted_by_model_and_kind_and_unknown_is_not_zero() -> None:
    metrics = Metrics()
    for exchange in (
        CALL,
        CALL,
        replace(CALL, usage=None, error="overloaded_error"),
        replace(CALL, usage=Usage(5, 7, None, None, 3)),
    ):
        metrics.take(report(exchange))
    metrics.take({"summary": {}})
    found = samples(metrics)
    kinds = ("input", "read", "write", "output")
    tokens = {kind: found[f'contextkit_tokens_total{{model="claude-sonnet-5-5",kind="{kind}"}}'] for kind in kinds}
    assert tokens == {"input": 2000, "read": 1807, "write": 180, "output": 103}
    assert found['contextkit_calls_total{model="claude-sonnet-5-5"}'] == 4
    assert found['contextkit_unbilled_calls_total{model="claude-sonnet-5-5"}'] == 2
    assert found['contextkit_failures_total{model="claude-sonnet-5-5",error="overloaded_error"}'] == 1


def test_misses_are_counted_by_cause_and_first_bytes_fall_into_buckets() -> None:
    metrics = Metrics()
    metrics.take(report(cause="system_changed", lost_tokens=700, findings=[{"code": "CKS01"}], repairs=["sort-tools"]))
    metrics.take(report(replace(CALL, first_byte_at=1090.0)))
    metrics.take(report(replace(CALL, first_byte_at=None)))
    found = samples(metrics)
    named = 'model="claude-sonnet-5-5"'
    assert found[f'contextkit_misses_total{{{named},cause="system_changed"}}'] == 1
    assert found[f'contextkit_lost_tokens_total{{{named},cause="system_changed"}}'] == 700
    assert (
        found[f'contextkit_findings_total{{{named},code="CKS01"}}']
        == found['contextkit_repairs_total{repair="sort-tools"}']
        == 1
    )
    buckets = [
        found[f'contextkit_first_byte_seconds_bucket{{{named},le="{bound}"}}']
        for bound in ("0.25", "0.5", "60", "+Inf")
    ]
    assert buckets == [0, 1, 1, 2]
    assert found[f"contextkit_first_byte_seconds_count{{{named}}}"] == 2
    assert found[f"contextkit_first_byte_seconds_sum{{{named}}}"] == pytest.approx(90.4)


def test_names_from_requests_are_escaped_and_bounded() -> None:
    metrics = Metrics()
    for number in range(300):
        metrics.take(report(replace(CALL, model=f'a"\\\n{number}')))
    found = [name for name in samples(metrics) if name.startswith("contextkit_calls_total")]
    assert len(found) == 201 and 'contextkit_calls_total{model="other"}' in found


def test_the_page_is_answered_by_the_proxy() -> None:
    metrics = Metrics()
    metrics.take(report())
    with (
        passing("http://127.0.0.1:9", pages={"/-/metrics": Page(Metrics.CONTENT_TYPE, metrics.text)}) as url,
        client(url) as wire,
    ):
        for _ in range(2):
            wire.say(b"GET /-/metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            head = wire.head()
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert b" 200 " in head and b"version=0.0.4" in head and wire.exactly(size) == metrics.text()


# OpenTelemetry
# ------------------------------------------------------------------------------------------------------------


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


def test_names_are_those_of_the_conventions(sdk: Any) -> None:
    names = pytest.importorskip(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes", reason="comes with the SDK"
    )
    known = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert {name for name in attributes_of(CALL) if name.startswith("gen_ai.")} <= known


def test_what_nobody_reported_is_left_out() -> None:
    assert "gen_ai.usage.input_tokens" not in attributes_of(replace(CALL, usage=Usage(output=3)))
    assert not any("usage" in name for name in attributes_of(replace(CALL, usage=None)))
