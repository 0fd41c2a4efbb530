"""OpenRouter's generation records: native tokens, each generation once, the host that answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.openrouter import is_openrouter
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.misses import analyzed_calls
from contextkit.report.contents import Gathering
from contextkit.report.html.columns import Columns
from contextkit.report.html.page import page
from contextkit.report.json import document
from contextkit.report.markdown import markdown
from contextkit.report.terminal import text

GENERATIONS = Path(__file__).parent / "fixtures" / "openrouter" / "generations.jsonl"


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    return [
        record
        for record in records_in([str(path)], Faults() if faults is None else faults)
        if isinstance(record, ModelCall)
    ]


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


@pytest.mark.parametrize(
    ("model", "n_calls", "unlisted"),
    [
        ("anthropic/claude-sonnet-4.5", 0, []),  # the input count includes what was written
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
    for shown in (
        text(contents, 400, is_verbose=True),
        markdown(contents).replace("\\", ""),
        page(contents, Columns()),
    ):
        assert (unbilled in shown) == bool(n_calls)
        assert (unpriced in shown) == bool(unlisted)
    said = json.loads(document(contents))
    assert (
        said["calls_without_writes"] == ({model: n_calls} if n_calls else {})
        and said["models_without_price"] == unlisted
    )
    assert gathering.copied().contents("").calls_without_writes == contents.calls_without_writes
