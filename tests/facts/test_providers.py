"""The table of providers: every row founded, every name of one provider, and what a host's models cost."""

from __future__ import annotations

import pytest

from contextkit import Usage
from contextkit.errors import UnknownModel
from contextkit.facts import load
from contextkit.prices import cost_usd, price_origin

MILLION = Usage(fresh=1_000_000, read=0, writes={}, output=0)
AT = 1_795_000_000.0


@pytest.mark.parametrize(
    ("name", "model", "usd"),
    [
        ("openai-codex", "gpt-5.2", 1.75),
        ("opencode", "claude-opus-4-8", 5.0),
        ("opencode-zen", "grok-code-fast-1", 0.2),
        ("github_copilot", "claude-opus-4-8", 5.0),  # its own price, under the name claude-opus-4.8
        ("github-copilot", "claude-opus-4.5", 5.0),  # no price of its own any more
    ],
)
def test_a_model_has_its_price_at_a_host_that_resells_it(name: str, model: str, usd: float) -> None:
    assert cost_usd(load.provider_id(name), model, MILLION, AT) == pytest.approx(usd)


def test_the_origin_says_whose_price_stands_in() -> None:
    origin = price_origin("opencode", "claude-opus-4-8", AT)
    assert origin.note.startswith("as anthropic asks") and origin.grade == "assumed" and origin.date


@pytest.mark.parametrize(("provider", "model"), [("opencode", "minimax-m2.1-free"), ("our-host", "gpt-5.2")])
def test_a_free_model_and_an_unknown_host_have_no_price(provider: str, model: str) -> None:
    with pytest.raises(UnknownModel, match="no price for model"):
        cost_usd(provider, model, MILLION, AT)


def test_fast_mode_of_opus_4_8_costs_twice_as_much() -> None:
    fast = Usage(fresh=1_000_000, read=0, writes={}, output=0, service_tier="fast")
    assert cost_usd("anthropic", "claude-opus-4-8", fast, AT) == pytest.approx(10.0)
    assert cost_usd("anthropic", "claude-opus-4-7", fast, AT) == pytest.approx(30.0)
    with pytest.raises(UnknownModel, match="service tier 'fast'"):
        cost_usd("anthropic", "claude-sonnet-4-5", fast, AT)


@pytest.mark.parametrize(
    ("provider", "model", "rates"),
    [
        ("openai", "gpt-daybreak-red-latest", (12.5, 1.25, 75.0)),
        ("openai", "gpt-daybreak-blue-latest", (4.0, 0.4, 20.0)),
        ("aws", "amazon.nova-2-lite-v1:0", (0.3, 0.075, 2.5)),
        ("aws", "us.amazon.nova-2-pro-preview-20251202-v1:0", (1.375, 0.34375, 11.0)),
        ("mistral", "mistral-large-latest", (0.5, 0.05, 1.5)),
        ("mistral", "codestral-latest", (0.3, 0.03, 0.9)),
    ],
)
def test_models_that_were_missing_or_doubtful_have_a_price(
    provider: str, model: str, rates: tuple[float, float, float]
) -> None:
    for at, usd in enumerate(rates):
        counts = [100_000 * (at == place) for place in range(3)]
        usage = Usage(fresh=counts[0], read=counts[1], writes={}, output=counts[2])
        assert cost_usd(provider, model, usage, AT) == pytest.approx(usd / 10)


def test_a_price_on_which_tables_differ_says_so() -> None:
    origin = price_origin("x-ai", "grok-code-fast-1", AT)
    assert origin.grade == "assumed" and "Doubtful" in origin.note
