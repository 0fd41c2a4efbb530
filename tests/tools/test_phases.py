"""The table of phases: what it refuses, where calls lead, its diagram, and random walks over it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Phase, Phases, Toolbox
from contextkit.errors import UsageError
from contextkit.tools.mask import MOST_BYTES, Permit, families, notice
from tests.context.masked import FAMILIES, NAMES, TOOLS, phases
from tests.scale import n_examples

BOX = Toolbox(TOOLS)


@pytest.mark.parametrize(
    ("table", "start", "message"),
    [
        ({}, "a", "one phase at least"),
        ({"a": Phase()}, "b", "start='b' is no phase"),
        ({"a": Phase(then={"x": "b"})}, "a", "leads to 'b', and there is no such phase"),
        ({"a": Phase(), "b": Phase()}, "a", "nothing leads to phase 'b'.*by_hand"),
        ({"a": Phase(), "b": Phase(then={"x": "c"}), "c": Phase(then={"x": "b"})}, "a", "nothing leads to phase 'b'"),
        ({"a b": Phase()}, "a b", "1 to 32"),
        ({"a": {"allow": []}}, "a", r"is a Phase\(…\), not dict"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_where_it_is_made(table: Any, start: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Phases(table, start)


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase(deny=["mail_*"], then={"mail_send": "a"}), "waits for 'mail_send', a call it does not allow"),
        (Phase(allow=["mail_*"], deny=["mail_s*"], then={"mail_send*": "a"}), "a call it does not allow"),
        (Phase(allow=["notes_*"], then={"browser_open": "a"}), "a call it does not allow"),
        (Phase(allow=["notes_*"], then={"browser_*:ok": "a"}), "a call it does not allow"),
    ],
)
def test_a_rule_on_a_call_its_phase_forbids_is_refused(phase: Phase, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Permit(Phases({"a": phase}, "a"), BOX)


def test_a_table_may_speak_of_tools_that_come_later() -> None:
    phase = Phase(allow=["mail_*", "clock"], deny=["mail_s*"], then={"mail_read:ok": "a", "m*": "a", "clock": "a"})
    permit = Permit(Phases({"a": phase}, "a"), BOX)
    assert permit.mask("a").allowed == () and permit.allows("a", "mail_read") and not permit.allows("a", "mail_send")


def test_where_calls_lead() -> None:
    table = phases()
    assert table.next("browse", "browser_close") == "report"
    assert table.next("browse", "browser_close", is_error=True) == "browse"
    assert table.next("browse", "browser_read", is_error=True) == "stuck"
    assert table.next("browse", "report_send") == "browse"  # not allowed there, so refused: it leads nowhere
    assert table.next("stuck", "browser_open", is_error=True) == "browse"
    with pytest.raises(UsageError, match="no phase 'nowhere'"):
        table.next("nowhere", "x")


def test_what_is_refused_counts_for_nothing_in_a_turn_of_many_calls() -> None:
    permit = Permit(phases(), BOX)
    assert permit.step("browse", [("report_send", True), ("browser_close", False), ("report_send", False)]) == "report"
    assert permit.step("browse", [("browser_read", True), ("browser_open", False)]) == "browse"
    assert permit.step("browse", [("no_such_tool", True)]) == "browse"
    assert permit.step("browse", []) == "browse"


@pytest.mark.parametrize(
    ("name", "mode", "allowed", "is_all"),
    [
        ("browse", "auto", ("browser_open", "browser_read", "browser_close", "notes_read"), False),
        ("stuck", "specified", ("browser_open",), False),
        ("done", "none", (), False),
        ("free", "auto", NAMES, True),
    ],
)
def test_the_mode_of_a_phase(name: str, mode: str, allowed: tuple[str, ...], is_all: bool) -> None:
    mask = Permit(phases(), BOX).mask(name)
    assert (mask.mode, mask.allowed, mask.is_all) == (mode, allowed, is_all)
    assert Permit(Phases({"a": Phase(require=True)}, "a"), BOX).mask("a").mode == "required"


def test_a_refusal_says_what_is_allowed_now() -> None:
    permit = Permit(phases(), BOX)
    assert permit.refusal("browse", "browser_open") is None
    assert (
        permit.refusal("browse", "report_send")
        == "'report_send' may not be called in phase 'browse'; allowed now: browser_*, notes_read"
    )
    assert permit.refusal("browse", "rm") == "there is no tool named 'rm'; allowed now: browser_*, notes_read"
    assert (
        permit.refusal("done", "notes_read")
        == "'notes_read' may not be called in phase 'done'; no tool may be called now: answer in words"
    )


def test_the_diagram() -> None:
    assert phases().mermaid().splitlines() == [
        "stateDiagram-v2",
        '    state "browse: browser_*, notes_read" as browse',
        '    state "stuck: browser_open; a call is required" as stuck',
        '    state "report: report_*, notes_write" as report',
        '    state "done: nothing" as done',
        '    state "free: *" as free',
        "    [*] --> browse",
        "    [*] --> done: by hand",
        "    [*] --> free: by hand",
        "    browse --> report: browser_close ok",
        "    browse --> stuck: browser_read error",
        "    stuck --> browse: browser_open",
        "    report --> done: report_send",
    ]


@settings(max_examples=n_examples(40, 2_000), deadline=None)
@given(st.data())
def test_a_notice_is_short_whatever_the_table(data: st.DataObject) -> None:
    words = st.text("abcdefghij_", min_size=1, max_size=60)
    names = data.draw(st.lists(words, min_size=1, max_size=70, unique=True))
    box = Toolbox([{"name": name} for name in names])
    allow = data.draw(st.lists(st.sampled_from(names), unique=True))
    phase = Phase(allow=allow, require=bool(allow) and data.draw(st.booleans()))
    permit = Permit(Phases({"p" * 32: phase}, "p" * 32), box)
    said = notice(permit.mask("p" * 32), box)
    assert len(said.encode()) <= MOST_BYTES
    whole = [
        name
        for group in (
            box.families[listed[:-2]] if listed.endswith("_*") else (listed,) for listed in families(allow, box)
        )
        for name in group
    ]
    assert sorted(whole) == sorted(allow)


def test_in_band_changes_say_exactly_what_moved() -> None:
    """Over any walk, the tools withdrawn and given back add up to what the phase forbids."""
    table = Phases(
        {"a": Phase(allow=NAMES[:5], then={NAMES[0]: "b"}), "b": Phase(allow=NAMES[3:], by_hand=True, force=True)}, "a"
    )
    permit, removed, random = Permit(table, BOX), frozenset[str](), Random(1)
    assert permit.is_in_band
    for _ in range(50):
        phase = random.choice(["a", "b"])
        told = permit.notice_of(phase, removed, is_first=False)
        assert removed.isdisjoint(told.removed) and removed.issuperset(told.added) and told.is_told
        removed = (removed | set(told.removed)) - set(told.added)
        assert set(BOX.names) - removed == set(permit.mask(phase).allowed)


def test_in_band_is_for_tables_whose_changes_are_small_unless_it_is_asked_for() -> None:
    many = Toolbox([{"name": f"tool_{number}"} for number in range(60)])
    few = Phases({"a": Phase(then={"tool_1": "b"}), "b": Phase(allow=[f"tool_{n}" for n in range(58)])}, "a")
    wide = Phases({"a": Phase(then={"tool_1": "b"}), "b": Phase(allow=["tool_1"])}, "a")
    forced = Phases({"a": Phase(then={"tool_1": "b"}), "b": Phase(allow=["tool_1"], force=True)}, "a")
    assert [Permit(table, many).is_in_band for table in (few, wide, forced)] == [True, False, True]
    assert Permit(wide, many).notice_of("b", frozenset(), is_first=False).removed == ()


class Slow:
    """The same machine, written from the documentation: look every rule up in the order of the page."""

    def __init__(self, table: dict[str, tuple[list[str], dict[str, str]]]) -> None:
        self.table = table

    def next(self, phase: str, call: str, outcome: str) -> str:
        allow, then = self.table[phase]
        if not any(pattern == call or (pattern[-1] == "*" and call.startswith(pattern[:-1])) for pattern in allow):
            return phase
        stems = sorted(
            (key.split(":")[0][:-1] for key in then if "*" in key and call.startswith(key.split(":")[0][:-1])), key=len
        )
        order = [f"{call}:{outcome}", call]
        for stem in reversed(stems):
            order += [f"{stem}*:{outcome}", f"{stem}*"]
        return next((then[rule] for rule in order if rule in then), phase)


@settings(max_examples=n_examples(30, 1_000), deadline=None)
@given(st.data())
def test_the_machine_equals_a_slow_one_on_random_walks(data: st.DataObject) -> None:
    patterns = st.sampled_from([*NAMES, *(f"{family}_*" for family in FAMILIES), "*", "b*", "r*"])
    rules = st.builds(lambda name, end: name + end, patterns, st.sampled_from(["", ":ok", ":error"]))
    states = ["a", "b", "c"]
    row = st.tuples(st.lists(patterns), st.dictionaries(rules, st.sampled_from(states), max_size=6))
    table = {name: data.draw(row) for name in states}
    fast = Phases({name: Phase(allow, then=then, by_hand=True) for name, (allow, then) in table.items()}, "a")
    slow, here = Slow(table), "a"
    for call, is_error in data.draw(st.lists(st.tuples(st.sampled_from([*NAMES, "rm"]), st.booleans()), max_size=30)):
        there = fast.next(here, call, is_error)
        assert there == slow.next(here, call, "error" if is_error else "ok")
        here = there
