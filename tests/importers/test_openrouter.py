"""OpenRouter's generation records: native tokens, each generation once, the host that answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.openrouter import is_openrouter
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange
from contextkit.ledger.misses import analyzed_calls
from contextkit.report.contents import Gathering
from contextkit.report.html.columns import Columns
from contextkit.report.html.page import page
from contextkit.report.json import document
from contextkit.report.markdown import markdown
from contextkit.report.terminal import text

GENERATIONS = Path(__file__).parent / "fixtures" / "openrouter" / "generations.jsonl"


def calls(path: Path, faults: Faults | None = None) -> list[Exchange]:
    return [
        record
        for record in records_in([str(path)], Faults() if faults is None else faults)
        if isinstance(record, Exchange)
    ]


def test_native_tokens_are_the_bill_and_each_generation_counts_once() -> None:
    faults = Faults()
    found = calls(GENERATIONS, faults)
    said = {one["data"]["id"]: one["data"] for one in map(json.loads, GENERATIONS.read_text("utf-8").splitlines())}
    assert {call.id: ((call.usage or Usage()).fresh, (call.usage or Usage()).read) for call in found} == {
        name: (one["native_tokens_prompt"] - one["native_tokens_cached"], one["native_tokens_cached"])
        for name, one in said.items()
    }
    assert len(found) == len(said) == 4
    assert len(faults) == 1
    assert {(call.provider, call.session, call.lane) for call in found} == {("openrouter", "trip", "main")}
    assert [call.error for call in found] == [None, None, None, "aborted"]


def test_another_host_is_the_cause_of_the_miss() -> None:
    rows = {row.exchange.id: row.miss for row in analyzed_calls(records_in([str(GENERATIONS)], Faults()))}
    miss = rows["gen-made-up-2"]
    assert miss is not None
    assert (miss.cause, miss.where) == ("params_changed", "upstream OpenAI → Azure")


def test_one_value_an_array_or_a_line_each(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in GENERATIONS.read_text("utf-8").splitlines()]
    (tmp_path / "one.json").write_text(json.dumps(rows[0], indent=2), "utf-8")
    (tmp_path / "all.json").write_text(json.dumps([row["data"] for row in rows], indent=2), "utf-8")
    assert [call.id for call in calls(tmp_path / "one.json")] == ["gen-made-up-0"]
    assert len(calls(tmp_path / "all.json")) == 4
    assert records_at(str(tmp_path / "all.json"))[0].name == "OpenRouter records"


def test_responses_are_read_too_and_pairs_are_left_to_their_reader(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    response = {
        "id": "gen-1",
        "provider": "Novita",
        "model": "moonshotai/kimi-k3",
        "created": 1790000000,
        "choices": [],
        "usage": usage,
    }
    (tmp_path / "a.json").write_text(json.dumps(response, indent=1), "utf-8")
    assert [(call.model, call.usage) for call in calls(tmp_path / "a.json")] == [
        ("moonshotai/kimi-k3", Usage(10, 60, 30, 0, 2))
    ]
    assert not is_openrouter(b'{"request":{"model":"m"},"response":{"id":"gen-1","native_tokens_prompt":1}}')


def test_a_cut_line_is_said(tmp_path: Path) -> None:
    text, faults = GENERATIONS.read_text("utf-8"), Faults()
    (tmp_path / "a").write_text(text[:-900], "utf-8")
    assert len(calls(tmp_path / "a", faults)) == 3
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("model", "n_calls", "unlisted"),
    [
        ("anthropic/claude-sonnet-4.5", 4, []),
        ("a/model-nobody-lists", 0, ["a/model-nobody-lists"]),
        ("openai/gpt-4o", 0, []),
    ],
)
def test_why_a_bill_is_unknown_is_said_with_the_model_and_what_to_do(
    model: str, n_calls: int, unlisted: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "generations.jsonl"
    said_to_cost, unsaid = '"total_cost":0.0015,', ""
    path.write_text(
        GENERATIONS.read_text("utf-8").replace("openai/gpt-4o", model).replace(said_to_cost, unsaid), "utf-8"
    )
    gathering = Gathering()
    gathering.add_all(analyzed_calls(records_in([str(path)], Faults())))
    contents = gathering.contents("generations")
    unbilled = f"bill unknown in {n_calls} of the calls of {model}: they tell what was read from the cache, not what was written"
    unpriced = f"no price is known for {model} (4 calls): their tokens are counted, their dollars are not, so totals with ≥ are"
    for shown in (text(contents, 400), markdown(contents).replace("\\", ""), page(contents, Columns())):
        assert (unbilled in shown) == bool(n_calls)
        assert (unpriced in shown) == bool(unlisted)
    said = json.loads(document(contents))
    assert (
        said["calls_without_writes"] == ({model: n_calls} if n_calls else {})
        and said["models_without_price"] == unlisted
    )
    assert gathering.copied().contents("").calls_without_writes == contents.calls_without_writes
