"""Records in, findings out: the code and place of what a call lost, its tokens and dollars, the provider's diagnosis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import BlockIds, ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.detect import RequestDetector, find_in_requests
from contextkit.lint.requests.findings import agreement
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, text, tool, user

Json = Any
FIRST = [user("a " * 400), assistant("b " * 400), user("c " * 400)]
MORE = [assistant("d"), user("e")]
CATALOGUE = {row.code: row for row in hazards()}


def found(*bodies: Json) -> list[Finding]:
    return found_in(call(body, number) for number, body in enumerate(bodies))


def found_in(records: Iterable[Record]) -> list[Finding]:
    return list(find_in_requests(records, hazards()))


def place(finding: Finding) -> RequestPlace:
    assert isinstance(finding.place, RequestPlace)
    return finding.place


def clock(minute: int, *more: Json) -> Json:
    return anthropic(*FIRST, *more, system=f"{WORDS} It is 10:0{minute}.")


def billed(sent: ModelCall, fresh: int, read: int, written: int) -> ModelCall:
    return replace(sent, usage=Usage(fresh, read, written, 0, 9))


# Codes and places
# ----------------------------------------------------------------------------------------------------------------------


def test_a_conversation_that_only_grows_has_no_findings() -> None:
    assert found(anthropic(*FIRST[:1]), anthropic(*FIRST), anthropic(*FIRST, *MORE)) == []


def test_a_change_is_named_where_it_begins() -> None:
    (finding,) = found(clock(1), clock(2, *MORE))
    at = place(finding)
    assert (finding.code, finding.detector) == ("CKS01", "requests")
    assert (at.session, at.turn, at.request, at.level, at.path) == ("s", 2, "r1", "system", "system")
    assert at.offset == len(f'"{WORDS} It is 10:0')
    assert "10:01" in at.was
    assert "10:02" in at.now


def test_the_offset_of_a_change_is_one_in_the_texts_around_it() -> None:
    (finding,) = found(*(anthropic(*FIRST, system=f"It is 10:0{minute}. {WORDS}") for minute in (1, 2)))
    at = place(finding)
    assert (at.path, at.offset) == ("system", len('"It is 10:0'))
    assert (at.was[at.offset], at.now[at.offset]) == ("1", "2")


def test_what_the_catalogue_does_not_have_is_not_told() -> None:
    calls = [call(clock(1)), call(clock(2, *MORE), 1)]
    assert list(find_in_requests(calls, [])) == []
    assert [one.code for one in find_in_requests(calls, [CATALOGUE["CKS01"], CATALOGUE["CKB08"]])] == ["CKS01"]


@pytest.mark.parametrize("padding", [0, 14])
def test_secrets_around_a_difference_are_covered_wherever_the_window_cuts_them(padding: int) -> None:
    bodies = [
        anthropic(user("hi"), system=f"{WORDS} key sk-ant-api03-{'Zq' * 20} {'x' * padding} at 10:0{n}") for n in (1, 2)
    ]
    (finding,) = found(*bodies)
    for shown, end in ((place(finding).was, "10:01"), (place(finding).now, "10:02")):
        assert end in shown and "***" in shown and "Zq" not in shown


def test_a_change_behind_the_last_marker_is_no_break() -> None:
    system = [{**text(WORDS * 2), "cache_control": {"type": "ephemeral"}}]
    todos = (user("todo: look it up"), user("todo: answer"))
    assert found(*(anthropic(todo, system=system, mark=False) for todo in todos)) == []


def test_a_setting_is_named_at_the_level_of_parameters() -> None:
    (finding,) = found(anthropic(*FIRST), anthropic(*FIRST, *MORE, tool_choice={"type": "any"}))
    at = place(finding)
    assert (finding.code, at.turn, at.level, at.path) == ("CKP04", 2, "parameters", "tool_choice.type")
    assert "tool_choice" in finding.message
    assert (finding.cost_tokens or 0) > 500


def test_a_check_of_one_request_has_no_price() -> None:
    marked = [{**text(f"part {n}"), "cache_control": {"type": "ephemeral"}} for n in range(5)]
    (finding,) = found(anthropic(*FIRST, system=marked, mark=False))
    assert (finding.code, place(finding).turn, finding.cost_tokens, finding.cost_usd) == ("CKB08", 1, None, None)
    assert place(finding).path == "system[4].cache_control"


def test_calls_are_counted_in_their_lane() -> None:
    """A sub-agent's call between two of the main agent is no change, and a conversation of its own."""
    calls = [
        call(clock(1)),
        call(anthropic(*FIRST, system=f"You review. {WORDS}"), 1, lane="reviewer"),
        call(clock(2, *MORE), 2),
        call(anthropic(*FIRST, *MORE, system=f"You check. {WORDS}"), 3, lane="reviewer"),
    ]
    places = [place(finding) for finding in found_in(calls)]
    assert [(at.session, at.turn, at.request) for at in places] == [("s", 2, "r2"), ("s/reviewer", 2, "r3")]


def test_one_question_a_call_is_compared_with_the_call_of_another_conversation() -> None:
    bodies = [anthropic(user(f"ticket {n}"), system=f"{WORDS} It is 10:0{n}.", mark=False) for n in (1, 2)]
    for body in bodies:
        body["system"] = [{**text(body["system"]), "cache_control": {"type": "ephemeral"}}]
    (finding,) = found_in(call(body, n, session=f"s#{n}") for n, body in enumerate(bodies))
    at = place(finding)
    assert (finding.code, at.session, at.turn, at.path) == ("CKS01", "s#1", 1, "system[0]")
    assert (finding.cost_tokens or 0) > 2_000


def test_a_billing_header_breaks_the_prefix_on_a_local_engine_and_not_at_claude_s_hosts() -> None:
    def calls(model: str) -> list[ModelCall]:
        bodies = [
            {
                **anthropic(*FIRST, *MORE * n, system=[text(f"x-anthropic-billing-header: cch={n};"), text(WORDS)]),
                "model": model,
            }
            for n in (1, 2)
        ]
        return [replace(call(body, n), model=model) for n, body in enumerate(bodies)]

    (finding,) = found_in(calls("gemma-4-26b"))
    assert place(finding).path == "system[0]" and (finding.cost_tokens or 0) > 2_000
    assert found_in(calls("claude-sonnet-4-6")) == []


# Tokens and dollars
# ----------------------------------------------------------------------------------------------------------------------


def _edited() -> list[Record]:
    """Changed tools, system text and history at once."""
    bodies = [
        anthropic(user(word), *FIRST[1:], *more, system=f"{WORDS} It is 10:0{n}.", tools=[tool(name) for name in names])
        for n, (word, names, more) in enumerate((("one", "a", ()), ("two", "ab", MORE)))
    ]
    return [billed(call(body, n), 0, 0, 3_500 + n) for n, body in enumerate(bodies)]


def _paused() -> list[Record]:
    """Ten minutes with a lifetime of five, and the bill for it."""
    return [billed(call(clock(1)), 0, 0, 8_000), billed(call(clock(1, *MORE), 60), 0, 0, 8_010)]


def _clock_on_a_bill() -> list[Record]:
    return [billed(call(clock(1)), 0, 0, 8_000), billed(call(clock(2, *MORE), 1), 0, 0, 8_010)]


def _evicted() -> list[Record]:
    system = [{**text(WORDS * 3), "cache_control": {"type": "ephemeral"}}]
    bodies = [anthropic(user(f"ticket {n}"), system=system, mark=False) for n in range(2)]
    return [billed(call(body, n), 9, 0, 6_000) for n, body in enumerate(bodies)]


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        (_edited(), ["CKT02", "CKS01", "CKM22"]),
        (_paused(), ["CKL01"]),
        (_clock_on_a_bill(), ["CKS01"]),
        (_evicted(), ["CKL05"]),
    ],
    ids=["edits", "pause", "clock", "eviction"],
)
def test_the_findings_of_a_call_cost_what_report_says_that_it_lost(records: list[Record], codes: list[str]) -> None:
    findings = found_in(records)
    assert [finding.code for finding in findings] == codes
    (miss,) = [one.miss for one in analyzed_calls(records) if one.miss and one.miss.is_loss]
    assert sum(finding.cost_tokens or 0 for finding in findings) == miss.lost_tokens > 2_000
    assert sum(finding.cost_usd or 0.0 for finding in findings) == pytest.approx(miss.cost_usd)


def test_later_changes_of_a_call_cost_nothing_more() -> None:
    first, *later = found_in(_edited())
    assert (first.cost_tokens or 0) > 2_000
    assert [(one.cost_tokens, one.cost_usd) for one in later] == [(0, 0.0), (0, 0.0)]


def test_a_switch_of_the_model_is_the_loss_and_a_change_beside_it_is_told() -> None:
    one, other = (anthropic(*FIRST, *more, system=f"{WORDS * 2} It is 10:0{n}.") for n, more in ((1, ()), (2, MORE)))
    calls = [call(one), replace(call({**other, "model": "claude-haiku-4-5"}, 1), model="claude-haiku-4-5")]
    tokens = {finding.code: finding.cost_tokens for finding in found_in(calls)}
    assert tokens.keys() == {"CKP01", "CKS01"}
    assert (tokens["CKP01"] or 0) > 4_000 and tokens["CKS01"] == 0


def test_a_finding_of_a_model_without_a_price_has_its_tokens() -> None:
    bodies = [{**body, "model": "somebodys-model"} for body in (clock(1), clock(2, *MORE))]
    (finding,) = found_in(replace(call(body, n), model="somebodys-model") for n, body in enumerate(bodies))
    assert finding.cost_tokens
    assert finding.cost_usd is None


def test_what_the_bill_says_was_read_is_no_finding() -> None:
    assert found_in([billed(call(clock(1)), 0, 0, 4_000), billed(call(clock(2, *MORE), 1), 0, 4_000, 10)]) == []


def test_a_declared_rewrite_of_the_history_is_no_finding() -> None:
    calls = [call(anthropic(*FIRST)), call(anthropic(user("In short: " + "a " * 300), *FIRST[1:], *MORE), 1)]
    assert [finding.code for finding in found_in(calls)] == ["CKM06"]
    assert found_in([calls[0], Remark("compaction", "r1", "/compact"), calls[1]]) == []


# Beside the findings
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("diagnosis", "expected"),
    [("system_changed", "confirmed"), ("tools_changed", "contradicted"), ("unavailable", "silent"), ("", "silent")],
)
def test_the_diagnosis_of_the_provider_stands_in_a_finding(diagnosis: str, expected: str) -> None:
    remarks = [Remark("verdict", "r1", diagnosis)] if diagnosis else []
    (finding,) = found_in([call(clock(1)), *remarks, call(clock(2, *MORE), 1)])
    assert finding.verdict == diagnosis
    assert agreement(finding, CATALOGUE["CKS01"]) == expected


def test_what_holds_no_body_is_counted_and_passed_over() -> None:
    detector = RequestDetector(hazards())
    calls = [
        replace(call(clock(1)), prompt=None),
        replace(call(clock(1), 1), prompt=BlockIds(16, (1,))),
        call(clock(1), 2),
    ]
    assert [finding for one in calls for finding in detector.feed(one)] == []
    assert (detector.n_calls, detector.n_skipped, detector.n_unreadable) == (1, 2, 0)
