"""OpenTelemetry spans: exports made here, field by field.

The counts to equal are taken from the same JSON by other means.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import NO_COUNT, Usage
from contextkit.importers.otel import ATTRIBUTES
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise
from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "otel"


read = partial(read_as, "OpenTelemetry spans")


def span(number: int, counts: dict[str, Any], *, parent: str = "", **more: Any) -> dict[str, Any]:
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "claude-sonnet-5-5",
        "gen_ai.provider.name": "anthropic",
        **counts,
    }
    start, end = (f"{at + number}000000000" for at in (1775696615, 1775696616))
    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        "parentSpanId": parent,
        "name": "chat",
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "attributes": [
            {"key": key, "value": {"intValue": str(value)} if type(value) is int else {"stringValue": value}}
            for key, value in said.items()
        ],
        **more,
    }


def export(*spans: dict[str, Any], scope: str = "any") -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}]}


def write(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    return path


def test_every_alias_of_a_count_is_understood(tmp_path: Path) -> None:
    for meaning, alias in ((one, alias) for one in ("read", "write") for alias in ATTRIBUTES[one][:8]):
        named = {one: ATTRIBUTES[one][0] for one in ("prompt", "output", "read", "write")} | {meaning: alias}
        said = {named["prompt"]: 100, named["output"]: 7, named["read"]: 60, named["write"]: 30}
        calls, _, faults = read(write(tmp_path / "a.json", export(span(1, said))))
        assert calls[0].usage == Usage(10, 60, 30, 0, 7) and not len(faults), alias


def test_more_cached_than_sent_is_a_fault_and_the_bill_unknown(tmp_path: Path) -> None:
    said = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 90}
    calls, _, faults = read(write(tmp_path / "a.jsonl", export(span(1, {})), export(span(2, said))))
    assert calls[1].usage is None
    assert [(fault.line, fault.what) for fault in faults.kept] == [
        (2, "more read and written than was sent; its bill is unknown")
    ]


def test_a_total_that_leaves_the_cached_tokens_out_of_the_input_is_believed(tmp_path: Path) -> None:
    said = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 90}
    calls, _, _ = read(write(tmp_path / "a.json", export(span(1, {**said, "gen_ai.usage.total_tokens": 102}))))
    assert calls[0].usage == Usage(5, 90, None, None, 7)


def test_a_call_told_by_a_framework_and_by_its_client_is_counted_once(tmp_path: Path) -> None:
    said = {"gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 7}
    outer, inner = span(1, said), span(2, said, parent="s1")
    same = [span(number, {**said, "gen_ai.response.id": "r"}) for number in (3, 4)]
    calls, _, faults = read(write(tmp_path / "a.json", export(inner, outer, *same)))
    assert [call.id for call in calls] == ["s2", "r"]
    assert [fault.what for fault in faults.kept] == [
        "2 of its spans tell of calls that other spans tell of too; counted once"
    ]


def test_an_export_that_was_cut_gives_the_spans_before_the_cut(tmp_path: Path) -> None:
    text = (FIXTURES / "collector.json").read_text("utf-8")
    for name, whole in (("pretty", text), ("line", json.dumps(json.loads(text)))):
        path = tmp_path / f"{name}.json"
        path.write_text(whole[: whole.index("msg_01C")], "utf-8")
        calls, _, faults = read(path)
        assert [call.id for call in calls] == ["msg_01A", "msg_01B"]
        assert [fault.what for fault in faults.kept] == [
            "the file ends inside a value; every whole row before it was read"
        ]


def test_a_wrong_clock_is_reported(tmp_path: Path) -> None:
    never, backwards = span(1, {}, startTimeUnixNano="0"), span(5, {}, endTimeUnixNano="1775696600000000000")
    calls, _, faults = read(write(tmp_path / "a.json", export(never, backwards)))
    assert [call.ended_at is None for call in calls] == [False, True] and len(faults) == 2


def test_a_cost_under_every_name_is_kept(tmp_path: Path) -> None:
    for name in ATTRIBUTES["usd"]:
        made = span(1, {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 1})
        made["attributes"].append({"key": name, "value": {"doubleValue": 0.25}})
        (call,) = read(write(tmp_path / "a.json", export(made)))[0]
        assert (call.billed_usd, summarise([call]).cost_usd) == (0.25, 0.25), name


@pytest.mark.parametrize("digits", ["9" * 5_000])
def test_a_number_of_hundreds_of_digits_is_no_time_and_no_count(tmp_path: Path, digits: str) -> None:
    span = {
        "traceId": "a1",
        "spanId": "b1",
        "startTimeUnixNano": digits,
        "endTimeUnixNano": "1775696615000000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.request.model", "value": {"stringValue": "gpt-5.1"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": digits}},
        ],
    }
    path, faults = tmp_path / "spans.jsonl", Faults()
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n", "utf-8")
    (call,) = (record for record in records_at(str(path), faults)[1] if isinstance(record, ModelCall))
    assert call.at == 1775696615.0 and (call.usage is None or call.usage.output is None)
    assert {(fault.line, fault.what) for fault in faults.kept} >= {(1, NO_COUNT)}
