"""Dollars against price lists worked out by hand."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel
from contextkit.models import built_in_models
from contextkit.prices import cost_uncached_usd, cost_usd, costs_usd, price_of

FACTS = Path(__file__).resolve().parents[1].parent / "shared" / "facts" / "providers.json"
AUTUMN = 1_795_132_800.0  # 2026-11-20
NO_PRICE = {"claude-mythos-5", "claude-mythos-5-1", "claude-mythos-preview", "gpt-6.2-astra-law", "gpt-5.3-codex-spark"}
"""Models of our table that the price data lacks: an error, never a guess."""
TIERS_DIFFER = {"gpt-5.6-cyber"}
"""Where the price data knows no dearer tier but the fact sheet does."""


def usage(**counters: int) -> Usage:
    return replace(ZERO, **counters)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("prices must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize(
    ("model", "counters", "dollars"),
    [
        # dollars for 1,000,000 tokens of one kind, as Anthropic's price page lists them
        ("claude-opus-4-5", {"fresh": 1_000_000}, 5.0),
        ("claude-opus-4-5", {"read": 1_000_000}, 0.5),
        ("claude-opus-4-5", {"write_1h": 1_000_000}, 10.0),
        ("claude-opus-4-5", {"output": 1_000_000}, 25.0),
        ("claude-opus-5-5", {"read": 1_000_000}, 0.2),
        ("claude-fable-5-1", {"write_1h": 1_000_000}, 20.0),
        ("claude-sonnet-5-5", {"read": 1_000_000}, 0.1),  # 0.05 of the input price
        ("claude-haiku-4-5-20251001", {"write_5m": 1_000_000}, 1.25),
        # Haiku 5.5: beyond 100,000 prompt tokens the whole request is five times as dear
        ("claude-haiku-5-5", {"fresh": 100_000}, 0.01),
        ("claude-haiku-5-5", {"fresh": 100_001}, 0.0500005),
        ("claude-haiku-5-5", {"write_5m": 200_000}, 0.125),
        # an ordinary agent turn: 10 x 5 + 90,000 x 0.5 + 2,000 x 6.25 + 500 x 25, per million
        ("claude-opus-4-5", {"fresh": 10, "read": 90_000, "write_5m": 2_000, "output": 500}, 0.07005),
    ],
)
def test_claude(model: str, counters: dict[str, int], dollars: float) -> None:
    assert cost_usd("anthropic", model, usage(**counters), AUTUMN) == pytest.approx(dollars, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "counters", "dollars"),
    [
        ("gpt-6-sol", {"write_5m": 100_000}, 0.25),  # 30 minutes: 1.25 of the input price
        ("gpt-6-sol", {"write_1h": 100_000}, 0.5),  # 12 hours: 2.5 of it
        ("gpt-5.6-luna", {"fresh": 100_000, "output": 100_000}, 0.02 + 0.12),
        # beyond 272,000 prompt tokens: input, reads and writes double, output costs half as much again
        ("gpt-6-sol", {"fresh": 272_000}, 0.544),
        ("gpt-6-sol", {"fresh": 272_001}, 1.088004),
        ("gpt-6-sol", {"write_5m": 300_000}, 1.5),
        ("gpt-5.5", {"read": 300_000}, 0.3),
    ],
)
def test_gpt(model: str, counters: dict[str, int], dollars: float) -> None:
    assert cost_usd("openai", model, usage(**counters), AUTUMN) == pytest.approx(dollars, rel=1e-12)


def test_uncached_means_every_input_token_at_the_plain_rate() -> None:
    turn = usage(fresh=10, read=90_000, write_5m=2_000, write_1h=1_000, output=500)
    assert cost_uncached_usd("anthropic", "claude-opus-4-5", turn, AUTUMN) == pytest.approx(
        (93_010 * 5 + 500 * 25) / 1e6, rel=1e-12
    )
    assert cost_uncached_usd("openai", "gpt-6-sol", usage(read=300_000), AUTUMN) == pytest.approx(
        300_000 * 4 / 1e6, rel=1e-12
    )


def test_prices_are_those_of_the_day() -> None:
    summer = 1_783_000_000  # 2026-07-02, before gpt-5.6-luna became cheaper
    assert cost_usd("openai", "gpt-5.6-luna", usage(fresh=100_000), summer) == pytest.approx(0.1)
    assert cost_usd("openai", "gpt-5.6-luna", usage(fresh=100_000), AUTUMN) == pytest.approx(0.02)
    assert cost_usd("openai", "gpt-4o", usage(fresh=100_000)) == pytest.approx(0.25)


@pytest.mark.parametrize("missing", ["fresh", "read", "write_5m", "write_1h", "output"])
def test_an_unknown_counter_makes_an_unknown_cost(missing: str) -> None:
    counters: dict[str, int | None] = {"fresh": 1, "read": 1, "write_5m": 1, "write_1h": 1, "output": 1, missing: None}
    assert cost_usd("anthropic", "claude-opus-4-5", Usage(**counters), AUTUMN) is None  # type: ignore[arg-type]


def test_writes_nobody_bills_need_not_be_known() -> None:
    told = Usage(fresh=100_000, read=0, output=0)
    assert cost_usd("openai", "gpt-5.5", told, AUTUMN) == pytest.approx(0.5)
    assert cost_uncached_usd("openai", "gpt-5.5", told, AUTUMN) == pytest.approx(0.5)
    assert cost_usd("openai", "gpt-5.6-sol", told, AUTUMN) is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-mythos-5-1"),
        ("openai", "nothing-like-it"),
        ("openai", ""),
        ("nobody", "gpt-5"),
    ],
)
def test_a_model_without_a_price_is_an_error(provider: str, model: str) -> None:
    with pytest.raises(UnknownModel) as told:
        cost_usd(provider, model, usage(fresh=1), AUTUMN)
    assert repr(model) in str(told.value)


def test_every_known_model_has_a_price_but_those_named_above() -> None:
    def is_priced(provider: str, model: str) -> bool:
        try:
            return cost_usd(provider, model, usage(fresh=1), AUTUMN) is not None
        except UnknownModel:
            return False

    named = [
        model for model in built_in_models() if not model.name.startswith(("us.", "eu.", "apac.", "global."))
    ]  # a profile is its model's price
    assert {model.name for model in named if not is_priced(model.provider, model.name)} == NO_PRICE


def test_every_rate_agrees_with_the_fact_sheet() -> None:
    if not FACTS.is_file():
        pytest.skip(f"needs the fact sheet {FACTS.name} in shared/facts beside the repository")
    for row in json.loads(FACTS.read_text(encoding="utf-8"))["rows"]:
        if row["provider"] not in ("anthropic", "openai") or row["model"] in NO_PRICE:
            continue
        tiers = (
            []
            if row["model"] in TIERS_DIFFER
            else [(tier["prompt_tokens_above"] + 1, tier) for tier in row["price_tiers"]]
        )
        for n, listed in [(1_000, row["price_per_mtok_usd"]), *tiers]:
            writes = dict(zip(("write_5m", "write_1h"), listed["write_by_ttl_seconds"].values(), strict=False))
            for counter, rate in {"fresh": listed["input"], "read": listed["read"], **writes}.items():
                cost = cost_usd(row["provider"], row["model"], usage(**{counter: n}), AUTUMN)
                assert cost == pytest.approx(rate * n / 1e6, rel=1e-9), (row["model"], n, counter)
            both = cost_usd(row["provider"], row["model"], usage(fresh=n, output=1_000_000), AUTUMN)
            assert both == pytest.approx(listed["input"] * n / 1e6 + listed["output"], rel=1e-9), (
                row["model"],
                n,
                "output",
            )


def test_a_tier_is_billed_as_genai_prices_bills_it() -> None:
    """Rates are worked out once a price.

    The library itself, asked call by call, is the oracle on either side of a tier's start.
    """
    from genai_prices import Usage as Asked
    from genai_prices.data_snapshot import get_snapshot

    model = get_snapshot().find_provider_model("claude-sonnet-4-5", None, "anthropic", None)[1]
    for read in (0, 199_000, 199_001, 400_000):
        counts = {
            "input_tokens": 1_000 + read,
            "cache_read_tokens": read,
            "cache_write_tokens": 400,
            "cache_write_1h_tokens": 100,
        }
        asked = Asked(**counts, output_tokens=50)
        expected = float(model.get_prices(datetime.fromtimestamp(AUTUMN, UTC)).calc_price(asked)["total_price"])
        sent = usage(fresh=600, read=read, write_5m=300, write_1h=100, output=50)
        assert cost_usd("anthropic", "claude-sonnet-4-5", sent, AUTUMN) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("provider", "model"), [("anthropic", "claude-haiku-5-5"), ("openai", "gpt-5.4")])
def test_several_bills_of_one_look_up_cost_what_each_costs_alone(provider: str, model: str) -> None:
    price = price_of(provider, model, AUTUMN)
    for n in (0, 7, 99_999, 300_000, 1_000_000):
        for bill in (
            Usage(n, 3 * n, n, n, n),
            Usage(n, n, None, None, n),
            Usage(n, n, n, None, n),
            Usage(None, n, 0, 0, n),
            Usage(n, n, 0, 0, None),
        ):
            alone = cost_usd(provider, model, bill, AUTUMN), cost_uncached_usd(provider, model, bill, AUTUMN)
            costs = costs_usd(provider, model, bill, AUTUMN, output_estimate=2 * n)
            assert (costs[:2] if costs else (None, None)) == alone
            if costs:
                more = Usage(bill.fresh, bill.read, output=2 * n, writes=bill.writes)
                assert costs.usd_at_estimate == cost_usd(provider, model, more, AUTUMN)
            assert price(bill) == alone[0]
