"""Invariant 10: any mix of features keeps every other invariant, for every provider."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from contextkit.errors import UsageError
from tests.laws.compositions import COMPOSED, Composition, Setup, fault, operations, reduced, setups
from tests.laws.conversations import Operation

N_COMPOSITIONS = {False: 70, True: 5_000}
"""Whether `--full` was given → compositions, over all providers together."""
N_PARTS = {False: 1, True: 4}
"""Tests among which those of a provider are divided: one generates for less than half of the limit of a test."""
REDUCTION_SECONDS = 120.0
"""Longest that a failing composition is reduced. Hypothesis shrinks the values of an example too: it runs whole
compositions for 300 seconds, the limit of a test. To find a fault, fewer operations are enough."""
GENERATION = (Phase.explicit, Phase.reuse, Phase.generate)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", range(N_PARTS[metafunc.config.getoption("--full")]))


@pytest.mark.parametrize("name", COMPOSED)
def test_any_composition_keeps_the_invariants(name: str, part: int, request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    n_examples = -(-N_COMPOSITIONS[is_full] // (len(COMPOSED) * N_PARTS[is_full]))

    @given(st.data())
    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck), phases=GENERATION)
    def law(data: st.DataObject) -> None:
        setup = data.draw(setups(name))
        given_operations = data.draw(operations())  # first: a draw that is cut short would leave the folder behind
        try:
            Composition(setup).run(given_operations)
        except Exception:
            failing[:] = [(setup, given_operations)]
            raise

    failing: list[tuple[Setup, list[Operation]]] = []
    try:
        law()
    except Exception as error:
        for found in failing:
            setup, needed = reduced(*found, REDUCTION_SECONDS)
            error.add_note(f"reduced: Composition({setup}).run({needed})")
        raise


def test_a_failing_composition_is_reduced_to_what_its_fault_needs() -> None:
    found = (
        Setup("chat", has_policy=True, varies=True, residency="auto"),
        [
            ("user", 0, "Look."),
            ("turn", 0, [("text", "Yes.")], []),
            ("wait", 0, 40.0),
            ("enter", 0, "no such phase"),
            ("no such operation", 0),
            ("crash", 0),
        ],
    )
    assert reduced(*found, REDUCTION_SECONDS) == (Setup("chat"), [("no such operation", 0)])
    assert fault(Setup("chat"), [("user", 0, "Look.")]) is None
    assert reduced(*found, 0.0) == found


# Found by the generator


def test_a_phase_told_again_behind_an_epoch_withdraws_late_tools_that_are_defined_before_it() -> None:
    composition = Composition(Setup("anthropic-in-band", has_memory=False), is_thorough=True)
    composition.run([("turn", 0, [("text", "Yes.")], []), ("late", 0, 1, False), ("resystem", 0, "Another. ")])
    assert composition.n_sent >= 3


def test_a_model_that_the_rules_of_a_memory_do_not_fit_is_refused_before_anything_changes() -> None:
    composition = Composition(Setup("anthropic-reminder", plan_stays=False))
    context = composition.members[0].context
    n_entries, provider = len(context.log), context.provider
    with pytest.raises(UsageError, match="binds its thinking"):
        context.switch(COMPOSED["anthropic"]())
    assert (len(context.log), context.provider) == (n_entries, provider)
    composition.run([("fork", 0, 0), ("crash", 0)])


def test_what_an_agent_of_a_fork_sent_is_not_known_after_a_crash() -> None:
    composition = Composition(Setup("chat"))
    work = ("work", 2, [0], [("plain", "row")], False)
    composition.run([("fork", 0, 0), ("spawn", 1, "same", "Look. " * 80), work, ("crash", 0)])
    assert not composition.is_exact


def test_what_was_read_back_is_not_delegated() -> None:
    composition = Composition(Setup("anthropic", has_phases=False, residency="reference"))
    main = composition.members[0]
    composition._turn(main, [("call", main.context.toolbox.names.index("read_reference"), {"id": "0"})], [])
    [call] = main.context.calls
    with pytest.raises(UsageError, match="delegate takes a result"):
        main.context.delegate(call, "row\n" * 3_000)
    composition.run([])


def test_a_tool_that_comes_late_is_offered_only_where_the_phase_allows_it() -> None:
    composition = Composition(Setup("anthropic-in-band", has_memory=False))
    main = composition.members[0]
    composition._turn(main, [("text", "Yes.")], [])
    composition._late(main, 1, False)
    main.context.user("Go on.")
    body = main.context.request().body
    composition.close()
    assert not main.context._may_call("weather")
    assert b'"tool_removal","tool":{"name":"weather"' in body or body.count(b'"name":"weather"') > 1


def test_a_system_message_before_a_reply_of_thinking_alone_stays_where_it_may_stand() -> None:
    setup = Setup("anthropic", residency="pass", drops_reasoning=True)
    composition = Composition(setup, is_thorough=True)
    rows = "\n".join(f"row {number}" for number in range(900))
    composition.run(
        [
            ("work", 0, [0], [("plain", rows)], False),
            ("turn", 0, [("thinking", "Hm.", "c2ln")], []),
            ("user", 0, "And?"),
        ]
    )


def test_a_system_message_before_an_empty_reply_stays_where_it_may_stand() -> None:
    composition = Composition(Setup("anthropic", has_memory=False), is_thorough=True)
    composition.run([("turn", 0, [], []), ("user", 0, "And?")])
    assert composition.n_sent >= 3


def test_an_open_call_of_the_phase_before_is_still_open_after_a_crash() -> None:
    Composition(Setup("chat")).run([("turn", 0, [("call", 0, {})], []), ("enter", 0, "count"), ("crash", 0)])


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "bedrock", "gemini"])
def test_an_open_call_of_a_late_tool_is_still_open_after_a_switch_and_a_crash(name: str) -> None:
    composition = Composition(Setup("anthropic-in-band"))
    main = composition.members[0]
    composition._enter(main, "all")
    composition._late(main, 1, False)
    composition._switch(main, name)
    composition._turn(main, [("call", composition._names(main).index("weather"), {})], [])
    assert [(call.name, call.refusal) for call in main.context.calls] == [("weather", None)]
    composition.run([("crash", 0), ("run_calls", 0, [("plain", "rain")])])
    assert composition.ran == ["weather"]


def test_a_late_tool_that_a_new_endpoint_may_call_by_name_is_withdrawn_before_a_crash_too() -> None:
    setup = Setup("compatible-kimi", has_phases=True, has_memory=True, drops_reasoning=True, plan_stays=True)
    Composition(setup).run([("late", 0, 2, False), ("switch", 0, "responses-explicit"), ("crash", 4)])
