"""A model without a price keeps its usage: tokens, hit rate, misses and causes are reported, dollars are a lower bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit import OpenAICompatible
from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.providers.usage import usage_of
from tests.cli.conftest import Run

PRICED, UNPRICED = ("anthropic", "claude-sonnet-5-5"), ("openai", "our-azure-deployment")


def call(n: int, who: tuple[str, str], usage: Usage | None, session: str = "s") -> ModelCall:
    return ModelCall(f"c{n}", session, "main", 1_795_132_800.0 + 30 * n, None, None, *who, None, usage, None, None)


def recorded(folder: Path, *calls: ModelCall) -> Path:
    path = folder / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for one in calls:
            ledger.append(one)
    return path


MIXED = (
    call(0, PRICED, Usage(fresh=100, read=0, write_5m=10_000, write_1h=0, output=50)),
    call(1, UNPRICED, Usage(fresh=20_000, read=0, output=50), "t"),
    call(2, UNPRICED, Usage(fresh=1_000, read=20_000, output=50), "t"),
    call(3, UNPRICED, Usage(fresh=22_000, read=0, output=50), "t"),
)
"""Writes are not reported by the unpriced model, and its third call missed."""


def test_tokens_hit_rate_and_misses_need_no_price(run: Run, tmp_path: Path) -> None:
    found = json.loads(run("report", recorded(tmp_path, *MIXED), "--json").out)
    assert found["models_without_price"] == ["our-azure-deployment"]
    (row,) = [row for row in found["models"] if row["name"] == "our-azure-deployment"]
    assert (row["calls"], row["calls_with_usage"], row["calls_with_price"], row["cost_usd"]) == (3, 3, 0, None)
    assert (row["usage"]["fresh"], row["usage"]["read"], row["usage"]["output"]) == (43_000, 20_000, 150)
    assert row["hit_rate"] == pytest.approx(20_000 / 63_000)
    assert row["n_misses"] == 1
    assert found["total"]["cost_is_lower_bound"] is True
    assert found["total"]["cost_usd"] == pytest.approx((100 * 2 + 10_000 * 2.5 + 50 * 10) / 1e6)
    (miss,) = [miss for miss in found["misses"] if miss["lost_tokens"]]
    assert (miss["lost_tokens"], miss["cost_usd"]) == (21_000, None)  # a read of 20,000 is no multiple of 128


def test_totals_are_marked_as_lower_bounds_and_one_line_says_how_to_give_a_price(run: Run, tmp_path: Path) -> None:
    path, page = recorded(tmp_path, *MIXED), tmp_path / "page.html"
    first = run("report", path).out
    assert "Calls not in these figures: 3 without a price" in " ".join(first.split())
    shown = run("report", path, "--html", page, "--verbose")
    assert "≥ $0.02" in shown.out or ">= $0.02" in shown.out
    assert "no price is known for our-azure-deployment" in " ".join(shown.out.split())
    assert "--models" in shown.out and "upgrade genai-prices" not in shown.out
    assert "≥ $0.02" in page.read_text("utf-8")


def test_a_missing_bill_is_not_a_missing_price() -> None:
    summary = summarise([call(0, UNPRICED, None), call(1, PRICED, MIXED[0].usage)])
    assert summary.models_without_price == ()
    assert summary.total.is_cost_lower_bound  # nobody knows what the first call cost
    assert "usage unknown for 1 of 2 calls" in str(summary) and "price unknown" not in str(summary)


def test_a_prompt_below_an_assumed_minimum_is_no_certain_cause() -> None:
    summary = summarise([call(0, ("openai", "gpt-7-foo"), Usage(fresh=900, read=0, write_5m=0, write_1h=0, output=5))])
    (miss,) = summary.misses
    assert (miss.cause, miss.certain) == ("below_minimum", False)
    assert "assumed after gpt-6.2-sol" in miss.where


def test_mistrals_own_count_of_cached_tokens_is_read() -> None:
    counts = {"prompt_tokens": 77, "completion_tokens": 12, "num_cached_tokens": 64, "total_tokens": 89}
    bill = OpenAICompatible("mistral-large-latest", host="mistral", session="s").usage({"usage": counts})
    assert (bill.fresh, bill.read, bill.output) == (13, 64, 12)
    recorded_bill = usage_of(counts, print)
    assert recorded_bill is not None and (recorded_bill.fresh, recorded_bill.read) == (13, 64)
