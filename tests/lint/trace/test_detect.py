"""Calls in, findings out: who names a change, where it stands, what it cost, what the provider says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import BlockIds, ModelCall
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.lint.finding import RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.detect import Calls, Detector, agreement, find_in_requests, grouped
from contextkit.lint.requests.rule import Change, Evidence, Step
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.providers.endpoints import PARSERS
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, hazard, named, text, tool, user

Json = Any
FIRST = [user("a " * 400), assistant("b " * 400), user("c " * 400)]
MORE = [assistant("d"), user("e")]


def found(*bodies: Json, hazards: tuple[Hazard, ...] = (), **more: Json) -> Any:
    return list(find_in_requests([call(body, number) for number, body in enumerate(bodies)], hazards, **more))


def place(finding: Any) -> RequestPlace:
    assert isinstance(finding.place, RequestPlace)
    return finding.place


def clock(number: int, *more: Json) -> Json:
    return anthropic(*FIRST, *more, system=f"{WORDS} It is 10:0{number}.")


def test_a_conversation_that_only_grows_has_no_findings() -> None:
    assert found(anthropic(*FIRST[:1]), anthropic(*FIRST), anthropic(*FIRST, *MORE)) == []


def test_a_break_that_no_rule_knows_is_reported_all_the_same() -> None:
    (finding,) = found(clock(1), clock(2, *MORE))
    at = place(finding)
    assert (finding.code, at.session, at.turn, at.request, at.level, at.path) == (
        "CK001",
        "s",
        2,
        "r1",
        "system",
        "system",
    )
    assert at.offset == len(f'"{WORDS} It is 10:0')
    assert "10:01" in at.was
    assert "10:02" in at.now
    assert finding.detector == "requests"


@pytest.mark.parametrize("padding", [0, 14])
def test_secrets_around_a_difference_are_covered_wherever_the_window_cuts_them(padding: int) -> None:
    one, other = (
        anthropic(user("hi"), system=f"{WORDS} key sk-ant-api03-{'Zq' * 20} {'x' * padding} at 10:0{n}") for n in (1, 2)
    )
    (found,) = find_in_requests([call(one, 0), call(other, 1)], [])
    assert isinstance(found.place, RequestPlace)
    for shown, end in ((found.place.was, "10:01"), (found.place.now, "10:02")):
        assert end in shown and "***" in shown and "Zq" not in shown


def test_the_narrowest_rule_names_a_change() -> None:
    ranked = (("CKS02", "system", 90), ("CKS01", "system", 10), ("CKT01", "tools", 1))
    rules = tuple(hazard(code, "change", named(level), rank) for code, level, rank in ranked)
    (finding,) = found(clock(1), clock(2, *MORE), hazards=rules)
    assert (finding.code, finding.message) == ("CKS01", "system changed")


def test_a_change_behind_the_last_marker_is_no_break() -> None:
    def marked(*last: Json) -> Json:
        body = anthropic(*FIRST, system=[{**text(WORDS), "cache_control": {"type": "ephemeral"}}], mark=False)
        return {**body, "messages": [*body["messages"], *last]}

    assert found(marked(user("todo 1")), marked(*MORE), hazards=(hazard("CKM09", "change", named("messages")),)) == []


def test_a_step_is_asked_about_even_where_nothing_changed() -> None:
    def choice(step: Step) -> Evidence | None:
        was, now = step.before.params.get("tool_choice"), step.after.params.get("tool_choice")
        return None if was == now else Evidence("tool_choice changed", "tool_choice", str(was), str(now))

    bodies = anthropic(*FIRST), anthropic(*FIRST, *MORE, tool_choice={"type": "any"})
    (finding,) = found(*bodies, hazards=(hazard("CKP04", "step", choice),))
    at = place(finding)
    assert (finding.code, at.turn, at.level, at.path) == ("CKP04", 2, "parameters", "tool_choice")
    assert (at.was, at.now) == ("None", "{'type': 'any'}")
    assert finding.cost_tokens
    assert finding.cost_tokens > 500


def test_a_call_is_asked_about_alone_and_a_session_at_the_end() -> None:
    def unmarked(sent: ParsedCall) -> Evidence | None:
        return None if any(block.marker for block in sent.blocks) else Evidence("no marker")

    def many(calls: Calls) -> list[Evidence]:
        return [Evidence(f"{len(calls)} calls in {len(calls.conversations)}", sent=calls[0])]

    rules = hazard("CKB01", "call", unmarked), hazard("CKR05", "session", many)
    findings = found(anthropic(*FIRST, mark=False), anthropic(*FIRST, *MORE), hazards=rules)
    assert [(one.code, one.message, place(one).turn) for one in findings] == [
        ("CKB01", "no marker", 1),
        ("CKR05", "2 calls in 1", 1),
    ]


def test_earlier_calls_are_there_and_light() -> None:
    seen: list[tuple[int, list[int]]] = []

    def look(step: Step) -> None:
        seen.append((step.turn, [len(sent.raw) for sent in step.earlier]))
        assert all(sent.blocks for sent in step.earlier)
        assert step.earlier[-1] is step.before

    bodies = [anthropic(*FIRST, *MORE * n) for n in range(4)]
    found(*bodies, hazards=(hazard("CKL01", "step", look),))
    assert [(turn, [bool(size) for size in sizes]) for turn, sizes in seen] == [
        (2, [True]),
        (3, [False, True]),
        (4, [False, False, True]),
    ]


def test_a_rule_that_cannot_read_a_request_says_so() -> None:
    def broken(step: Step, change: Change) -> Evidence | None:
        return step.after.params["nowhere"]["at all"]  # type: ignore[no-any-return]

    (finding,) = found(clock(1), clock(2, *MORE), hazards=(hazard("CKS01", "change", broken),))
    assert finding.code == "CK000"
    assert "CKS01" in finding.message


def test_a_changed_system_prompt_costs_what_the_call_before_had_written() -> None:
    one, two = clock(1), clock(2, *MORE)
    (finding,) = found(one, two)
    written = PARSERS["anthropic_messages"](one).prompt.n_tokens
    assert finding.cost_tokens == written
    row = model_named("claude-sonnet-4-6")
    bills = [Usage(0, 0, written, 0, 0), Usage(0, written, 0, 0, 0)]
    paid, read = (cost_usd(row.provider, row.name, usage, 1_760_000_000.0) or 0.0 for usage in bills)
    assert finding.cost_usd == pytest.approx(paid - read)


def test_later_changes_of_a_step_cost_nothing_more() -> None:
    other = anthropic(user("A"), *FIRST[1:], *MORE, system="It is " + WORDS, tools=[tool("x")])
    rules = tuple(
        hazard(f"CK{level[0].upper()}01", "change", named(level)) for level in ("tools", "system", "messages")
    )
    findings = found(anthropic(*FIRST, system="It was " + WORDS), other, hazards=rules)
    assert [one.code for one in findings] == ["CKT01", "CKS01", "CKM01"]
    assert findings[0].cost_tokens > 0
    assert [one.cost_tokens for one in findings[1:]] == [0, 0]


def test_a_change_in_the_tail_costs_less_than_one_in_front() -> None:
    """The writes of the calls before the last are still readable."""
    bodies = [
        anthropic(*FIRST),
        anthropic(*FIRST, *MORE),
        anthropic(*FIRST, assistant("d"), user("E"), assistant("f"), user("g")),
    ]
    (finding,) = found(*bodies)
    assert place(finding).path == "messages[4].content[0]"
    assert finding.cost_tokens < 20


def test_a_finding_of_a_model_without_a_price_has_its_tokens() -> None:
    body = {**clock(1), "model": "somebodys-model"}, {**clock(2, *MORE), "model": "somebodys-model"}
    calls = [replace(call(each, number), model="somebodys-model") for number, each in enumerate(body)]
    (finding,) = find_in_requests(calls, [])
    assert finding.cost_tokens
    assert finding.cost_usd is None


def test_the_verdict_of_the_provider_stands_beside_a_finding() -> None:
    rule = hazard("CKS01", "change", named("system"), confirmed_by=("system_changed",))
    said = {"system_changed": "confirmed", "tools_changed": "contradicted", "": "silent", "unavailable": "silent"}
    for verdict, expected in said.items():
        (finding,) = found(clock(1), clock(2, *MORE), hazards=(rule,), verdicts={"r1": verdict})
        assert finding.verdict == verdict
        assert agreement(finding, rule) == expected


def test_findings_of_one_place_are_one_group_with_its_turns() -> None:
    bodies = [clock(n, *MORE * n) for n in (1, 2, 3, 3, 4)]
    (group,) = grouped(found(*bodies))
    assert (group.code, group.path, group.spans) == ("CK001", "system", ((2, 3), (5, 5)))
    assert str(group) == "CK001 s system turns 2-3, 5"


def test_what_holds_no_body_is_counted_and_passed_over() -> None:
    detector = Detector([])
    recorded_calls = [
        replace(call(clock(1)), prompt=None),
        replace(call(clock(1)), prompt=BlockIds(16, (1,))),
        call(clock(1)),
    ]
    assert [finding for recorded in recorded_calls for finding in detector.feed(recorded)] == []
    assert (detector.n_calls, detector.n_skipped, detector.n_unreadable) == (1, 2, 0)


def test_one_question_a_call_is_compared_with_the_call_of_another_conversation() -> None:
    bodies = [anthropic(user(f"ticket {n}"), system=f"{WORDS} It is 10:0{n}.", mark=False) for n in (1, 2)]
    for body in bodies:
        body["system"] = [{**text(body["system"]), "cache_control": {"type": "ephemeral"}}]
    calls = [call(body, n, session=f"s#{n}") for n, body in enumerate(bodies)]
    (finding,) = find_in_requests(calls, [])
    assert (place(finding).session, place(finding).turn, place(finding).path) == ("s#1", 1, "system[0]")
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

    (finding,) = find_in_requests(calls("gemma-4-26b"), [])
    assert place(finding).path == "system[0]" and (finding.cost_tokens or 0) > 2_000
    assert list(find_in_requests(calls("claude-sonnet-4-6"), [])) == []
