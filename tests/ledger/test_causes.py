"""Causes that logs without prompts support: reasoning that was stripped, other servers, events of the client."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.facts.observed import EventRates, ReadStep, event_rates, read_steps
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.ledger.causes import MOST_EARLIER, LaneState, predicted_read
from contextkit.ledger.misses import LedgerAnalyzer, Miss, Prediction

ROW: dict[str, Any] = {
    "session": "s",
    "lane": "main",
    "first_byte_at": None,
    "prompt": None,
    "predicted": None,
    "error": None,
}


class Session:
    """Calls of one lane, ten seconds apart, each with the remarks on it."""

    def __init__(self, provider: str, model: str) -> None:
        self.provider, self.model = provider, model
        self.records: list[Record] = []
        self.n, self.at = 0, 1_780_000_000.0

    def call(self, usage: Usage, *remarks: tuple[str, str], gap: float = 10.0, lasts: float = 2.0) -> Session:
        self.n, self.at = self.n + 1, self.at + gap
        name = f"call {self.n}"
        self.records += [Remark(kind, name, text) for kind, text in remarks]  # type: ignore[arg-type]
        call = {**ROW, "id": name, "at": self.at, "ended_at": self.at + lasts, "usage": usage}
        self.records.append(ModelCall(**call, provider=self.provider, model=self.model))
        return self

    @property
    def misses(self) -> list[Miss]:
        analyzer = LedgerAnalyzer()
        calls = [analyzer.feed(record) for record in self.records]
        return [call.miss for call in calls if call and call.miss and call.miss.lost_tokens]


def codex() -> Session:
    """A turn of three calls of gpt-5.5, whose reads are 384 above a multiple of 512."""
    session = Session("openai", "gpt-5.5").call(Usage(fresh=20_000, read=2_432, output=900), ("turn", "0"))
    session.call(Usage(fresh=2_976, read=22_400, output=2_000))
    return session.call(Usage(fresh=5_032, read=24_968 // 512 * 512 + 384 - 512, output=2_000))


def claude(*calls: tuple[Usage, tuple[str, str]]) -> Session:
    session = Session("anthropic", "claude-opus-4-5").call(Usage(10, 16_000, 60_000, 0, 5))
    for usage, remark in calls:
        session.call(usage, remark)
    return session


HEAD_ONLY = Usage(10, 16_000, 62_000, 0, 5)
"""A call that found the tools and the system prompt, and none of the messages."""


def test_reads_are_rounded_as_documented_until_a_bill_contradicts_it() -> None:
    session = Session("openai", "gpt-5.5").call(Usage(fresh=20_000, read=0, output=1))
    session.call(Usage(fresh=2_000, read=18_432, output=1))
    assert session.misses == []
    session.call(Usage(fresh=18_000, read=2_432, output=1))
    session.call(Usage(fresh=18_000, read=2_432, output=1))
    assert [miss.expected_tokens for miss in session.misses] == [18_432, ReadStep(512, 384).down(20_432)]


def test_reasoning_leaves_the_prompt_at_a_user_turn() -> None:
    (miss,) = codex().call(Usage(fresh=6_000, read=22_400, output=10), ("turn", "4900")).misses
    assert (miss.cause, miss.basis, miss.certain) == ("reasoning_stripped", "documented", False)
    assert miss.where == "4,900 tokens of reasoning left the prompt at a user turn; 22,432 tokens stand before them"


def test_reasoning_that_explains_little_of_a_miss_is_not_its_cause() -> None:
    (miss,) = codex().call(Usage(fresh=26_000, read=2_432, output=10), ("turn", "4900")).misses
    assert miss.cause == "other_server"
    assert miss.where == "read 2,432 tokens, no more than the first call sent"


def test_a_turn_without_reasoning_strips_nothing_and_newer_models_keep_it() -> None:
    (miss,) = codex().call(Usage(fresh=9_000, read=22_912, output=10), ("turn", "0")).misses
    assert miss.cause == "unknown"
    session = Session("openai", "gpt-6.1-sol").call(Usage(0, 0, writes={1800: 40_000}, output=1))
    session.call(Usage(0, 0, writes={1800: 41_000}, output=1), ("turn", "4900"))
    assert [miss.cause for miss in session.misses] == ["unknown"]


@pytest.mark.parametrize("text", ["", "-5", "٣"])
def test_a_turn_in_other_words_than_ours_is_no_error(text: str) -> None:
    (miss,) = codex().call(Usage(fresh=9_000, read=22_912, output=10), ("turn", text)).misses
    assert miss.cause == "unknown"


def test_what_a_call_left_is_remembered_for_some_thousand_calls() -> None:
    lane = LaneState()
    for number in range(10_000):
        lane.note_cached(number, is_cut=False)
    assert (lane.calls_since(9_999), lane.calls_since(9_000), lane.calls_since(0)) == (1, 1_000, None)
    assert len(lane.earlier) <= MOST_EARLIER
    lane.note_cached(5, is_cut=True)
    assert (lane.calls_since(5), lane.calls_since(9_999)) == (1, None)


def test_a_read_that_an_older_call_had_left_is_of_another_server() -> None:
    session = codex().call(Usage(fresh=1_600, read=29_568, output=9)).call(Usage(fresh=9_000, read=22_400, output=9))
    (miss,) = session.misses
    assert miss.cause == "other_server"
    assert miss.where == "read 22,400 tokens, exactly what the call 4 calls before had left"


def test_a_read_that_no_call_had_left_is_not() -> None:
    session = codex().call(Usage(fresh=1_600, read=29_568, output=9)).call(Usage(fresh=9_000, read=22_912, output=9))
    assert [miss.cause for miss in session.misses] == ["unknown"]


def test_a_prompt_that_shrank_was_cut() -> None:
    (miss,) = claude((Usage(10, 16_000, 30_000, 0, 5), ("project", "p"))).misses
    assert (miss.cause, miss.basis) == ("messages_changed", "recorded")
    assert miss.where == "the prompt shrank from 76,010 to 46,010 tokens: something in it was cut or rewritten"


@pytest.mark.parametrize(
    ("event", "cause", "basis"),
    [
        ("thinking: none → maxThinkingTokens:31999", "params_changed", "documented"),
        ("resume: after /exit", "session_resumed", "measured"),
    ],
)
def test_an_event_is_a_cause_where_it_is_documented_or_was_measured(event: str, cause: str, basis: str) -> None:
    (miss,) = claude((HEAD_ONLY, ("event", event))).misses
    rates = event_rates(event.partition(":")[0])
    assert rates is not None
    assert (miss.cause, miss.basis, miss.certain) == (cause, basis, False)
    assert miss.where == f"{event.replace(': ', ' ').rstrip()}; {rates.figures}"


@pytest.mark.parametrize("event", ["permission mode: default → plan", "image: "])
def test_other_events_are_only_associated(event: str) -> None:
    (miss,) = claude((HEAD_ONLY, ("event", event))).misses
    assert (miss.cause, miss.basis) == ("unknown", "associated")
    assert miss.where.startswith(f"associated with {event.partition(':')[0]}")
    assert " calls behind one missed, 7% behind other prompts" in miss.where


@pytest.mark.parametrize("event", ["full moon: ", "skill: commit"])
def test_an_event_that_was_not_measured_or_is_no_more_than_chance_says_nothing(event: str) -> None:
    (miss,) = claude((HEAD_ONLY, ("event", event))).misses
    assert (miss.cause, miss.basis) == ("unknown", "")
    assert miss.where == "the prompt was not recorded, and grew; gap 10 s ≤ 300 s"


@pytest.mark.parametrize(
    ("verdict", "cause"), [("system_changed", "system_changed"), ("input_changed", "messages_changed")]
)
def test_the_providers_diagnosis_is_the_cause_where_nothing_recorded_is(verdict: str, cause: str) -> None:
    session = Session("anthropic", "claude-opus-4-5").call(Usage(10, 16_000, 60_000, 0, 5))
    (miss,) = session.call(HEAD_ONLY, ("event", "resume: "), ("verdict", verdict)).misses
    assert (miss.cause, miss.basis, miss.where) == (cause, "recorded", f"the provider's diagnosis: {verdict}")
    expired = Session("anthropic", "claude-opus-4-5").call(Usage(10, 16_000, 60_000, 0, 5))
    (miss,) = expired.call(HEAD_ONLY, ("verdict", verdict), gap=900).misses
    assert miss.cause == "ttl_expired"


def test_a_diagnosis_that_names_no_cause_says_nothing() -> None:
    (miss,) = claude((HEAD_ONLY, ("verdict", "unavailable"))).misses
    assert (miss.cause, miss.basis) == ("unknown", "")


def test_more_blocks_than_a_lookup_goes_back_are_out_of_reach_and_not_predicted() -> None:
    session = claude((HEAD_ONLY, ("event", "many blocks: 24")))
    assert [(miss.cause, miss.basis) for miss in session.misses] == [("out_of_reach", "documented")]
    assert list(predictions(session)) == [(76_000, None)]


def test_a_measured_lifetime_is_shorter_than_the_documented_one() -> None:
    session = Session("openai", "gpt-5.5").call(Usage(fresh=20_000, read=2_432, output=9))
    (miss,) = session.call(Usage(fresh=20_000, read=2_432, output=9), gap=3_700).misses
    assert (miss.cause, miss.basis) == ("ttl_expired", "measured")
    assert miss.where == "gap 3700 s; 18 of 18 calls after more than 3600 s missed"


@pytest.mark.parametrize("model", ["big-pickle", "grok-4.7", "gemini-3.8-flash"])
def test_a_pause_is_no_cause_where_no_lifetime_is_documented(model: str) -> None:
    session = Session("opencode", model).call(Usage(fresh=40_000, read=39_936, output=5))
    for gap in (9_008, 90_000):
        session.call(Usage(fresh=81_000, read=0, output=5), gap=gap)
    assert [cause for _, cause in predictions(session)] == [None, "cold_start"]
    analyzer = LedgerAnalyzer()
    misses = [call.miss.cause for record in session.records if (call := analyzer.feed(record)) and call.miss]
    assert misses == ["unknown", "cold_start"]


def test_a_cause_says_what_it_leaves_open() -> None:
    (miss,) = codex().call(Usage(fresh=12_000, read=19_840, output=10), ("turn", "4900")).misses
    assert miss.cause == "reasoning_stripped"
    assert miss.where.endswith("; 22,432 tokens stand before them; read 19,840")


def test_a_read_that_an_older_call_of_claude_had_left_is_told() -> None:
    session = claude(
        (Usage(10, 76_000, 900, 0, 5), ("project", "p")), (Usage(10, 76_900, 9_000, 0, 5), ("project", "p"))
    )
    (miss,) = session.call(Usage(10, 76_000, 12_000, 0, 5)).misses
    assert (miss.cause, miss.basis) == ("unknown", "")
    assert miss.where.startswith("read 76,000 tokens, exactly what the call 3 calls before had left; ")


def test_an_event_before_a_call_that_read_everything_is_forgotten() -> None:
    session = claude((Usage(10, 76_000, 900, 0, 5), ("event", "resume: ")))
    session.call(HEAD_ONLY)
    assert [miss.cause for miss in session.misses] == ["unknown"]


def test_a_lifetime_that_a_bill_tells_is_recorded() -> None:
    session = Session("anthropic", "claude-opus-4-5").call(Usage(10, 0, 60_000, 0, 5))
    (miss,) = session.call(Usage(10, 0, 62_000, 0, 5), gap=400).misses
    assert (miss.cause, miss.basis, miss.certain, miss.where) == ("ttl_expired", "recorded", True, "gap 400 s > 300 s")


# Predictions
# ---------------------------------------------------------------------------------------------------------------------


def predictions(session: Session) -> Iterator[tuple[int, str | None]]:
    found: list[tuple[int, str | None]] = []

    def examine(prediction: Prediction) -> None:
        pair, expected = prediction.pair, prediction.expected_tokens
        assert pair is not None
        blind = replace(pair, now=replace(pair.now, usage=Usage()))
        assert predicted_read(blind, expected) == predicted_read(pair, expected)
        found.append((prediction.read_tokens, prediction.cause))

    analyzer = LedgerAnalyzer(examine)
    for record in session.records:
        analyzer.feed(record)
    return iter(found)


def test_a_call_is_predicted_without_its_bill() -> None:
    session = codex().call(Usage(fresh=6_000, read=22_400, output=10), ("turn", "4900"))
    assert list(predictions(session)) == [
        (22_400, None),
        (24_960 // 512 * 512 + 384, None),
        (22_432, "reasoning_stripped"),
    ]


def test_what_was_measured_to_miss_seldom_is_not_predicted_to() -> None:
    session = claude((HEAD_ONLY, ("event", "resume: ")), (HEAD_ONLY, ("event", "skill: commit")))
    session.call(Usage(10, 16_000, 30_000, 0, 5))
    assert list(predictions(session)) == [(16_000, "session_resumed"), (78_000, None), (46_010, None)]


def test_a_lifetime_is_predicted_to_end_only_after_it_has_run_from_the_end_of_a_call() -> None:
    session = Session("anthropic", "claude-opus-4-5").call(Usage(10, 0, 60_000, 0, 5), lasts=20)
    session.call(Usage(10, 60_000, 900, 0, 5), gap=310).call(Usage(10, 60_900, 900, 0, 5), gap=330)
    assert list(predictions(session)) == [(60_000, None), (0, "ttl_expired")]


# Facts
# ---------------------------------------------------------------------------------------------------------------------


def test_every_measured_row_names_its_recordings_and_counts_add_up() -> None:
    table = tomllib.loads((files("contextkit.facts") / "observed.toml").read_text(encoding="utf-8"))
    recordings = {row["name"] for row in table["recordings"]}
    for row in table["events"]:
        rates = event_rates(row["name"])
        assert rates is not None and 0 <= rates.missed <= rates.calls and rates.base_missed <= rates.base_calls
        assert any(name in rates.evidence for name in recordings), row
    for row in [*table["lifetimes"], *table["shares"]]:
        assert any(name in row["evidence"] for name in recordings) and 0 <= row["missed"] <= row["calls"]
    assert all(row["evidence"] and row["step"] > row["offset"] for row in table["read_steps"])
    assert read_steps("gpt-5.5") == (ReadStep(512, 384),)


def test_what_is_little_above_chance_explains_nothing() -> None:
    rates = EventRates("e", "unknown", "", 10, 5, 100, 3, True, "", "2026-11-26")
    assert rates.explains and rates.attributable == pytest.approx(0.94)
    assert not replace(rates, base_missed=20).explains
    assert not replace(rates, calls=8, missed=4).explains
    assert not replace(rates, held_out=False).explains
    assert replace(rates, base_missed=20, documented="a rule").explains
