"""What is marked, and for how long: as before where nothing is known, within a percent of every other way where the
habits are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context
from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import Usage
from contextkit.economics.lifetime import Chances, Coverage, Rates, chances, pays, rates_at
from contextkit.economics.rhythm import Prior, Rhythm
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.planner import CachedEntries, PlanningState, choose
from contextkit.prompt.prompt import PromptColumns, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR
from contextkit.providers.openai.shared import plan_of
from tests.prompt.planned.cost import Planner, expected, no_marks
from tests.prompt.planned.exhaustive import tried
from tests.prompt.planned.oracle import Oracle
from tests.prompt.planned.placements import RESTATED, restated
from tests.prompt.planned.sessions import Session, generated
from tests.prompt.test_breakpoints import BLOCK, message

laws = settings.get_profile("laws")
NUMBERS = (1, 4, 6, 7, 13, 15)
OPUS = model_named("claude-opus-4-5")


def opus(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage)


@pytest.fixture(scope="module")
def sessions(request: pytest.FixtureRequest) -> list[Session]:
    return [generated(seed) for seed in (range(60) if request.config.getoption("--full") else NUMBERS)]


def test_the_planner_costs_what_the_best_of_all_sets_of_marks_costs(sessions: list[Session]) -> None:
    best = [Oracle(session, n_places=8).best() for session in sessions]
    ours = [expected(session, Planner(is_told=True)) for session in sessions]
    assert sum(best) <= sum(ours) * (1 + 1e-9) and sum(ours) <= 1.01 * sum(best)


@pytest.mark.parametrize(("seed", "n_places"), [(28, 6), (208, 3)])
def test_the_search_finds_what_trying_every_set_of_marks_on_the_cache_itself_finds(seed: int, n_places: int) -> None:
    session = generated(seed)
    assert Oracle(session, n_places=n_places).best() == pytest.approx(tried(session, n_places), rel=1e-12)


@pytest.mark.parametrize("name", ["no markers", *RESTATED])
def test_the_planner_is_in_no_session_dearer_than(name: str, sessions: list[Session]) -> None:
    other = no_marks if name == "no markers" else restated(sessions, RESTATED[name])
    for session in sessions:
        assert expected(session, Planner(is_told=True)) <= expected(session, other) + 1e-9, session.name


def test_lifetimes_of_its_own_choice_cost_what_the_best_ones_cost() -> None:
    chosen = generated(43)  # a third of its gaps ends within five minutes
    ours, best = expected(chosen, Planner(True, True)), Oracle(chosen, is_auto=True, n_places=4).best()
    assert ours <= 1.01 * best and ours < 0.8 * expected(chosen, Planner(False, True))


@given(
    turns=st.lists(st.lists(BLOCK, min_size=1, max_size=30), min_size=1, max_size=6),
    shared=st.integers(0, 40),
    min_tokens=st.sampled_from([0, 512, 4096]),
    head=st.integers(0, 9000),
    known=st.sampled_from([None, 0.0, 0.2, 1.0]),
    is_auto=st.booleans(),
)
@laws
def test_any_choice_keeps_the_providers_rules(
    turns: list[list[tuple[str, str, bool, int]]],
    shared: int,
    min_tokens: int,
    head: int,
    known: float | None,
    is_auto: bool,
) -> None:
    columns, previous, left = PromptColumns(GRAMMAR), 0, None
    columns.append(RenderedBlock("system", "", b"{}", head))
    rules = Plan(min_tokens=min_tokens, long_ttl_seconds=3600 if is_auto else 0)
    for at, turn in enumerate(turns):
        columns.extend(message(columns, block) for block in turn)
        told = PlanningState(price=opus, now=400.0 * at, calls_to_come=known, **({"cached": left} if left else {}))
        choice = choose(columns, len(columns), previous, rules, told, shared)
        places, lifetimes = [mark.segment for mark in choice.marks], [mark.ttl_seconds for mark in choice.marks]
        assert len(places) <= 4 and places == sorted(set(places)) and lifetimes == sorted(lifetimes, reverse=True)
        assert all(
            columns.breakpoint_offsets[place] >= 0 and columns.ends_tokens[place] >= min_tokens for place in places
        )
        assert choice.marks == choose(columns, len(columns), previous, rules, told, shared).marks
        if known is None and not is_auto and left is None:
            assert choice.marks == plan(columns, len(columns), previous, rules, shared)
        previous, left = len(columns), CachedEntries(choice.marks, 400.0 * at)


def test_writing_pays_from_one_call_in_five_on() -> None:
    rates = rates_at(10_000, opus)
    assert rates is not None and not pays(0.21, rates) and pays(0.22, rates)
    forever = [
        1.25 + sum(0.1 * 0.22**n for n in range(1, 50)),
        sum(0.22**n for n in range(50)),
    ]  # always written, never written
    assert forever[0] < forever[1]
    assert rates_at(10, lambda usage: None) is None


def test_what_is_left_uncovered_costs_what_a_search_says() -> None:
    """Every way to cover two later calls, against the table."""
    rates, known = Rates(5.0, 0.5, 6.25, 10.0), Chances(0.9, 0.08, 0.02)
    table = Coverage(((1.0, 1_000.0),), known, rates)

    def loss(uncovered: float, calls: int) -> float:
        if not calls:
            return 0.0
        on, covered = loss(uncovered + 1_000, calls - 1), loss(0, calls - 1)
        warm, lapsed = min(on, 3_750 + covered), min(on, 3.75 * (uncovered + 1_000) + covered)
        return 0.9 * warm + 0.08 * (5.75 * uncovered + lapsed)

    for uncovered in (500.0, 5_000.0, 50_000.0):
        assert table.loss(uncovered) == pytest.approx(loss(uncovered, 14) - loss(0, 14), rel=0.06)


def test_where_warm_calls_cannot_cover_it_is_sooner_worth_covering_now() -> None:
    rates, likely = Rates(2.0, 0.1, 2.5, 5.0), Chances(0.8, 0.15, 0.05)
    usual = Coverage(((1.0, 1_000.0),), likely, rates)
    implicit = Coverage(((1.0, 1_000.0),), likely, rates, can_cover_warm=False)
    premium = (rates.long - rates.short) * 20_000
    assert usual.loss(20_000) < premium < implicit.loss(20_000)


def test_known_calls_to_come_decide() -> None:
    assert chances(Rhythm(), 300, 3600, 0.0).warm == 0 and chances(Rhythm(), 300, 3600, 3.0).warm == pytest.approx(
        0.9446
    )


def grown(n: int = 40, size: int = 300) -> PromptColumns:
    columns = PromptColumns(GRAMMAR)
    columns.append(RenderedBlock("system", "", b"{}", 9_000))
    for _ in range(n):
        columns.append(message(columns, ("user", "", True, size)))
    return columns


def test_a_side_call_reads_and_writes_nothing_of_its_own() -> None:
    columns = grown()
    left = CachedEntries((Breakpoint(0, 300), Breakpoint(37, 300)), 0.0)
    choice = choose(columns, 41, 38, Plan(), PlanningState(price=opus, now=20.0, cached=left, calls_to_come=0.0))
    assert [mark.segment for mark in choice.marks] == [0, 37] and dict(choice.rejected)["tail"].startswith(
        "a call that reads it in time"
    )


def test_habitual_long_gaps_leave_the_end_unwritten_and_ask_for_an_hour_where_they_may() -> None:
    prior = Prior(((0.0, 1.0), (300.0, 0.9), (3600.0, 0.02)))
    rhythm, columns = Rhythm(prior), grown()
    assert [
        mark.segment for mark in choose(columns, 41, 38, Plan(), PlanningState(rhythm, opus, head_reuse=0.0)).marks
    ] == [
        0,
        37,
    ]
    free = choose(columns, 41, 0, Plan(long_ttl_seconds=3600), PlanningState(rhythm, opus))
    assert [(mark.segment, mark.ttl_seconds) for mark in free.marks] == [(0, 3600), (40, 3600)]


def test_the_end_of_an_earlier_lane_is_bridged_to_when_the_conversation_comes_back() -> None:
    """Another model answered in between: what this one left stands further back than the last request ended."""
    columns = grown(80)
    left = CachedEntries((Breakpoint(0, 300), Breakpoint(20, 300)), 0.0)
    assert [
        mark.segment for mark in choose(columns, 81, 70, Plan(), PlanningState(price=opus, now=60.0, cached=left)).marks
    ][:2] == [0, 20]


def test_an_implicit_mark_that_no_longer_reaches_is_bridged() -> None:
    model = model_named("gpt-6.1-sol")
    rules = plan_of(model, "30m", {})
    columns = PromptColumns(AnthropicMessages("claude-opus-4-5", max_tokens=1).grammar)
    for _ in range(60):
        columns.append(message(columns, ("user", "", True, 50)))
    assert [mark.segment for mark in plan(columns, 60, 30, rules)] == [29] and plan(columns, 40, 30, rules) == ()
    assert (
        plan_of(model, "auto", {}).long_ttl_seconds == 43_200
        and plan_of(model_named("gpt-5.4"), "auto", {}).long_ttl_seconds == 0
    )


def reply(number: int, usage: dict[str, int]) -> dict[str, object]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Yes."}],
        "usage": {"output_tokens": 2, **usage},
    }


def billed(request: object, *, reads: bool = True) -> dict[str, int]:
    usage = request.predicted  # type: ignore[attr-defined]
    read = usage.read if reads else 0
    return {
        "input_tokens": usage.fresh + usage.read - read,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": usage.write_5m + usage.write_1h,
    }


class Talk:
    """A conversation whose clock we hold."""

    def __init__(self, **options: str) -> None:
        self.now = 1_790_000_000.0
        self.context = Context(
            AnthropicMessages("claude-opus-4-5", max_tokens=64, **options),
            system="You are terse. " * 4_000,
            clock=lambda: self.now,
        )

    def ask(self, text: str = "Is it so?", gap: float = 20.0, *, reads: bool = True) -> list[tuple[str, int]]:
        self.context.user(text)
        marks = [(mark.name, mark.ttl_seconds) for mark in self.context.plan.marks]
        request = self.context.request()
        assert request.body == self.context.request().body
        self.context.receive(reply(len(self.context.log), billed(request, reads=reads)), request)
        self.now += gap
        return marks


def test_a_lifetime_given_is_kept() -> None:
    talk = Talk()
    assert {mark for _ in range(12) for mark in talk.ask(gap=900.0)} == {("head", 300), ("tail", 300), ("bridge", 300)}


def test_auto_writes_for_an_hour_where_little_is_added_and_finds_it_after_a_gap() -> None:
    talk = Talk(ttl="auto")
    assert talk.ask("word " * 3_000) == [("head", 300), ("tail", 300)]
    assert talk.ask() == [("head", 3600), ("tail", 3600)]
    assert talk.ask("word " * 9_000, gap=900.0) == [("head", 3600), ("anchor", 3600), ("tail", 300)]
    talk.context.user("And now?")
    said = talk.context.plan.explain()
    request = talk.context.request()
    assert request.predicted.read == talk.context.plan.choice.n_tokens(talk.context.plan.choice.read_end) > 15_000
    assert "chosen: " in said and "rejected: " in said and "prewarm: " in said and str(talk.context.plan) == said


def test_auto_stops_mixing_lifetimes_once_a_bill_says_they_are_kept_apart() -> None:
    talk = Talk(ttl="auto")
    talk.ask("word " * 3_000)
    talk.ask(reads=False)  # the first one for an hour: it read nothing of what was written for five minutes
    assert {ttl for _ in range(8) for _, ttl in talk.ask("word " * 300)} == {3600}


def test_a_long_entry_that_is_gone_after_a_pause_contradicts_the_rule_too() -> None:
    """Another reading of the docs: the long entry loses the short one that it was written behind."""
    talk = Talk(ttl="auto")
    talk.ask("word " * 3_000)
    talk.ask(gap=900.0)
    assert talk.context.plan.choice.state.is_mixed
    talk.ask(reads=False)
    assert not talk.context.plan.choice.state.is_mixed
    given = Talk()
    given.ask(gap=900.0)
    given.ask(reads=False)
    assert given.context.plan.choice.state.is_mixed, "a lifetime that was given contradicts nothing"


def test_the_plan_is_the_same_after_the_conversation_is_opened_again(tmp_path: object) -> None:
    now = 1_790_000_000.0
    provider = AnthropicMessages("claude-opus-4-5", max_tokens=64, ttl="auto")
    with Context.open(
        f"{tmp_path}/run", provider=provider, system="You are terse. " * 4_000, clock=lambda: now
    ) as context:
        for number in range(5):
            context.user("word " * (10 + 900 * (number % 2)))
            request = context.request()
            context.receive(reply(number, billed(request)), request)
            now += 30
        context.user("Go on.")
        body, said = context.request().body, context.plan.explain()
    with Context.open(f"{tmp_path}/run", provider=provider, clock=lambda: now + 7) as context:
        assert context.request().body == body and context.plan.explain() == said
