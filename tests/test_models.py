"""The model table agrees, cell by cell, with facts gathered elsewhere, and says what to do about a name it lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.facts import load
from contextkit.models import MODELS, SOURCES, Model, built_in_models, model_named, register, unregister

FACTS = Path(__file__).resolve().parents[1].parent / "shared" / "facts" / "providers.json"

CELLS = {
    "min_tokens": "min_tokens",
    "granularity_tokens": "granularity_tokens",
    "default_ttl_seconds": "default_ttl_seconds",
    "accepts_prefill": "accepts_prefill",
    "accepts_forced_choice": "accepts_forced_tool_choice",
    "accepts_mid_system": "mid_conversation_system",
    "strips_thinking": "strips_old_thinking_on_new_user_turn",
    "binds_thinking": "thinking_prefix_bound",
}
"""Field of `Model` → key of the fact sheet."""
DEFAULTS = {
    "anthropic": {"accepts_forced_choice": False, "accepts_mid_system": False},
    "openai": {
        "accepts_prefill": False,
        "accepts_forced_choice": True,
        "accepts_mid_system": True,
        "strips_thinking": False,
        "binds_thinking": False,
    },
}
"""What stands where the fact sheet is silent."""


def facts() -> list[dict[str, Any]]:
    if not FACTS.is_file():
        pytest.skip(f"needs the fact sheet {FACTS.name} in shared/facts beside the repository")
    rows = json.loads(FACTS.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if row["provider"] in ("anthropic", "openai")]


def test_every_model_of_the_fact_sheet_has_a_row() -> None:
    assert {row["model"] for row in facts()} <= MODELS.keys()


def test_every_cell_agrees_with_the_fact_sheet() -> None:
    for row in facts():
        model = MODELS[row["model"]]
        for field, key in CELLS.items():
            wanted = row.get(key)
            wanted = DEFAULTS[row["provider"]][field] if wanted is None else wanted
            assert getattr(model, field) == wanted, (model.name, field)
        assert model.provider == row["provider"]
        assert list(model.ttls_seconds) == row["ttl_seconds"]
        assert model.cache == ("implicit" if row["cache_mode"] == "implicit" else "breakpoints"), model.name


def test_a_row_with_an_unsure_cell_says_so() -> None:
    for row in facts():
        is_silent = row["provider"] == "anthropic" and None in (row[key] for key in CELLS.values())
        if is_silent or "UNSURE" in row["min_tokens_confidence"]:
            assert MODELS[row["model"]].confidence == "UNSURE", row["model"]


HOSTS = {"google": "google", "bedrock": "aws"}
"""Provider in the fact sheet → the id its prices are under."""
PROFILES = ("us.", "eu.", "apac.", "global.")
"""How the name of an inference profile of Bedrock begins."""
NO_ROW = {"amazon.nova-2-lite-v1:0"}
"""Models without a price of their own: the price data lists routed ids only."""


def test_every_priced_model_of_a_host_that_publishes_its_minimum_has_that_minimum() -> None:
    if not FACTS.is_file():
        pytest.skip(f"needs the fact sheet {FACTS.name} in shared/facts beside the repository")
    rows = [row for row in json.loads(FACTS.read_text(encoding="utf-8"))["rows"] if row["provider"] in HOSTS]
    found = {row["model"]: (HOSTS[row["provider"]], row["min_tokens"]) for row in rows if row["model"] not in NO_ROW}
    hosted = [
        model for model in MODELS.values() if model.provider in HOSTS.values() and not model.name.startswith(PROFILES)
    ]
    assert found.items() <= {model.name: (model.provider, model.min_tokens) for model in hosted}.items()
    lifetimes = {row["model"]: tuple(row["ttl_seconds"]) for row in rows if row["provider"] == "bedrock"}
    assert all(model.ttls_seconds == lifetimes[model.name] for model in hosted if model.name in lifetimes)
    assert all("UNSURE" not in row["min_tokens_confidence"] for row in rows if row["provider"] == "google")


def test_a_model_on_another_host_keeps_its_rules() -> None:
    there = model_named("anthropic.claude-opus-4-8")
    here = model_named("claude-opus-4-8")
    assert replace(there, name=here.name, provider=here.provider, source=here.source) == here


def test_an_inference_profile_keeps_the_rules_of_its_model() -> None:
    for name, model in MODELS.items():
        for profile in PROFILES if model.provider == "aws" and not name.startswith(PROFILES) else ():
            there = model_named(profile + name)
            assert replace(there, name=name, source=model.source) == model


def test_windows_agree_with_the_price_data() -> None:
    from genai_prices.data_snapshot import get_snapshot

    n_compared = 0
    for model in MODELS.values():
        try:
            listed = get_snapshot().find_provider_model(model.name, None, model.provider, None)[1].context_window
        except LookupError:
            continue
        n_compared += listed is not None
        assert listed in (None, model.window_tokens), model.name
    assert n_compared > 30


def test_a_row_is_well_formed() -> None:
    for model in built_in_models():
        assert list(model.ttls_seconds) == sorted(model.ttls_seconds), model.name
        assert model.default_ttl_seconds in model.ttls_seconds, model.name
        assert model.confidence in ("DOC", "SDK", "ISSUE", "UNSURE"), model.name
        assert all(key in SOURCES for key in model.source.split()), model.name
        assert 1.0 < model.bytes_per_token < 6.0, model.name
        assert model.min_tokens < model.window_tokens, model.name
        assert model.cache in ("breakpoints", "implicit", "billed", "units"), model.name
        assert model.granularity_tokens == 1 or model.cache in ("implicit", "billed"), model.name


def test_the_built_in_rows_are_of_the_format_a_user_writes() -> None:
    table = load.built_in_table("models.toml")
    for name, row in [*table["families"].items(), *((row["name"], row) for row in table["models"])]:
        columns = {key: value for key, value in row.items() if key != "family"}
        load.checked_row(name, "models", {"name": name, **columns})


PUBLISHING = {"anthropic", "openai", "google", "aws"}
"""Who says how short a prefix is too short; of the others a row says so itself."""


def test_a_minimum_nobody_published_is_marked_as_a_guess() -> None:
    others = [model for model in built_in_models() if model.provider not in PUBLISHING]
    assert {model.provider for model in others} == {
        "deepseek",
        "moonshotai",
        "x-ai",
        "groq",
        "mistral",
        "zai",
        "fireworks",
        "dashscope",
    }
    assert {model.confidence for model in others} == {"UNSURE"}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("GPT-4O", "gpt-4o"),
        ("glm-5.3", "GLM-5.3"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-4.6-sonnet-20260217", "claude-sonnet-4-6"),
        ("azure/gpt-4o", "gpt-4o"),
        ("models/gemini-3.8-flash", "gemini-3.8-flash"),
        ("openrouter/openai/gpt-5.5:free", "gpt-5.5"),
        ("gemini-flash-latest", "gemini-3.8-flash"),
        ("gpt-5.6", "gpt-5.6-sol"),
        ("ft:gpt-4o-mini-2024-07-18:organisation::id", "gpt-4o-mini"),
        ("claude-opus-4-8[1m]", "claude-opus-4-8"),
        ("claude-3-5-sonnet-20240620", "claude-3-5-sonnet"),
        ("gpt-35-turbo", "gpt-3.5-turbo"),
        ("gpt-4-0613", "gpt-4"),
    ],
)
def test_another_spelling_of_a_known_model_has_its_rules_and_is_not_assumed(name: str, row: str) -> None:
    model, known = model_named(name), MODELS[row]
    assert (model.name, model.is_assumed) == (name, False)
    assert replace(model, name=row, provider=known.provider, retired_on=known.retired_on) == known


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("claude-opus-5-9", "claude-opus-5-5"),
        ("gpt-7-foo", "gpt-6.2-sol"),
        ("prod-gpt-4o-eu", "gpt-4o"),
        ("sonnet", "claude-sonnet-5-5"),
        ("opus", "claude-opus-5-5"),
        ("o5-foo", "gpt-6.2-sol"),
        ("deepseek-chat", "deepseek-flash"),
        ("mistral-medium-latest", "mistral-medium-3-5"),
        ("x-ai/grok-4", "grok-4.7"),
        ("qwen-3-coder-480b", "qwen3.8-max"),
        ("gemini-2.0-flash", "gemini-2.5-pro"),
        ("amazon.nova-canvas-chat-v1:0", "amazon.nova-2-pro-preview-20251202-v1:0"),
    ],
)
def test_an_unknown_model_gets_the_rules_of_its_nearest_relative(name: str, row: str) -> None:
    model, near = model_named(name), MODELS[row]
    assert (model.name, model.is_assumed, model.confidence, model.retired_on) == (name, True, "ASSUMED", "")
    assert row in model.source
    same = {"name": row, "confidence": near.confidence, "source": near.source, "retired_on": near.retired_on}
    assert replace(model, **same) == near


ODD = ["", " ", "-", "/", ":", "\x00\n", "é" * 9, "\ud800", "llama-3.3-70b", "our-deployment", "x" * 10_000_000]


def test_a_name_like_nothing_gets_cautious_rules() -> None:
    for name in ODD:
        model = model_named(name)
        assert (model.is_assumed, model.cache, model.name == name) == (True, "implicit", True)


@given(st.text(max_size=80))
def test_no_name_raises(name: str) -> None:
    assert model_named(name).name == name


def test_a_name_like_nothing_gets_the_rules_of_its_provider() -> None:
    assert model_named("our-deployment", "anthropic").cache == "breakpoints"
    assert model_named("our-deployment", "google").provider == "google"
    assert model_named("our-deployment", "openai").cache == "implicit"  # many hosts speak its formats


def test_the_last_day_of_a_model_is_a_date() -> None:
    assert MODELS["claude-opus-4-5"].retired_on == "2027-01-22"
    assert model_named("claude-3-5-haiku-20241022").retired_on == "2026-02-19"
    assert MODELS["claude-opus-5-5"].retired_on == ""
    assert all(date.fromisoformat(model.retired_on) for model in built_in_models() if model.retired_on)


def test_last_days_agree_with_the_installed_sdk() -> None:
    deprecated = pytest.importorskip("anthropic._data.deprecated_models").DEPRECATED_MODELS
    for name, day in deprecated.items():
        month, number, year = re.fullmatch(r"(\w+) (\d+)\w\w, (\d+)", day).groups()
        assert (
            model_named(name).retired_on
            == f"{datetime.strptime(f'{number} {month} {year} +0000', '%d %B %Y %z'):%Y-%m-%d}"
        ), name


@pytest.fixture
def own() -> Iterator[Model]:
    model = replace(model_named("gpt-5"), name="our-finetune", source="measured by us")
    register(model)
    yield model
    unregister(model.name)


def test_a_registered_row_is_found_and_can_be_replaced(own: Model) -> None:
    assert model_named("our-finetune") is own
    register(replace(own, min_tokens=512))
    assert model_named("our-finetune").min_tokens == 512


def test_the_table_cannot_be_written_past_register() -> None:
    with pytest.raises(TypeError):
        MODELS["x"] = model_named("gpt-5")  # type: ignore[index]


def test_what_a_host_registers_is_no_relative_of_other_models() -> None:
    from contextkit import OpenAICompatible

    before = model_named("qwen-3-coder-480b")
    OpenAICompatible("Qwen/Qwen3-Coder-30B", host="vllm", window_tokens=40_000, block_tokens=16)
    assert model_named("qwen-3-coder-480b") == before


@pytest.mark.parametrize(
    ("name", "window"), [("gpt-4-1106-preview", 128_000), ("gpt-4-32k-0613", 32_000), ("gpt-4-0613", 8_192)]
)
def test_a_later_model_is_not_an_earlier_one(name: str, window: int) -> None:
    assert model_named(name).window_tokens == window
