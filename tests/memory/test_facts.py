"""Facts have two times; what is known at one moment of another agrees with a plain search through all that was learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import LogCorrupt, LogLocked, NotSerialisable, UsageError
from contextkit.log.log import Log
from contextkit.memory.facts.fact import ALIAS, MOST_NAMED, Fact
from contextkit.memory.facts.facts import Facts
from contextkit.memory.recall import recall
from contextkit.memory.search.index import Index
from tests.scale import n_examples


@dataclass(frozen=True)
class Told:
    """One thing learned, or an end."""

    subject: str
    relation: str
    value: str | None
    begin: float
    end: float
    at: float
    is_beside: bool


MOMENTS = st.integers(0, 8).map(float)
SPANS = st.one_of(
    st.just((-math.inf, math.inf)),
    st.tuples(MOMENTS, st.sampled_from([1.0, 3.0, math.inf])).map(lambda span: (span[0], span[0] + span[1])),
)
TOLD = st.builds(
    lambda subject, relation, value, span, at, is_beside: Told(subject, relation, value, *span, at, is_beside),
    st.sampled_from(["Anna", "Bert"]),
    st.sampled_from(["lives in", "likes"]),
    st.sampled_from([None, "x", "y", "z"]),
    SPANS,
    MOMENTS,
    st.booleans(),
)


def keep(facts: Facts, told: Told, number: int) -> None:
    if told.value is None:
        facts.end(told.subject, told.relation, valid_to=max(told.begin, 0.0), episode=f"entry/{number}", at=told.at)
    else:
        facts.learn(
            told.subject,
            told.relation,
            told.value,
            valid_from=told.begin,
            valid_to=told.end,
            episode=f"entry/{number}",
            at=told.at,
            is_beside=told.is_beside,
        )


def oracle(learned: list[Told], moment: float, known_at: float) -> list[tuple[str, str, str, str]]:
    """Every statement against every other: it holds when it has begun and not ended, and nothing in its slot begins
    later."""

    def slot(told: Told) -> tuple[object, ...]:
        return told.subject, told.relation, told.value if told.is_beside and told.value is not None else None

    def begin(told: Told) -> float:
        return max(told.begin, 0.0) if told.value is None else told.begin

    known = [(number, told) for number, told in enumerate(learned) if told.at <= known_at and begin(told) <= moment]
    found = []
    for number, told in known:
        rivals = [(begin(other), other.at, n) for n, other in known if slot(other) == slot(told) and n != number]
        if (
            told.value is not None
            and moment < told.end
            and all(rival < (begin(told), told.at, number) for rival in rivals)
        ):
            found.append((told.subject, told.relation, told.value, f"entry/{number}"))
    return sorted(found)


@settings(max_examples=n_examples(40, 1_500), deadline=None)
@given(st.lists(TOLD, max_size=9))
def test_what_holds_is_what_a_search_through_everything_finds(learned: list[Told]) -> None:
    facts = Facts()
    for number, told in enumerate(learned):
        keep(facts, told, number)
    for moment in (-1.0, 0.0, 2.0, 3.0, 5.0, 8.0, 100.0):
        for known_at in (0.0, 3.0, 5.0, math.inf):
            held = facts.true_at(moment, known_at)
            assert sorted((one.subject, one.relation, one.value, one.episode) for one in held) == oracle(
                learned, moment, known_at
            )
            history = [
                one for subject in ("Anna", "Bert") for one in facts.about(subject, known_at) if one.holds_at(moment)
            ]
            assert sorted(history, key=lambda one: one.sequence) == sorted(held, key=lambda one: one.sequence)


@settings(max_examples=n_examples(20, 500), deadline=None)
@given(st.lists(TOLD, max_size=7), TOLD)
def test_learning_more_changes_nothing_that_was_known_before_and_deletes_nothing(
    learned: list[Told], more: Told
) -> None:
    facts = Facts()
    for number, told in enumerate(learned):
        keep(facts, told, number)
    later = Told(more.subject, more.relation, more.value, more.begin, more.end, 9.0, more.is_beside)
    before = [facts.true_at(moment, 8.0) for moment in range(9)], facts.about("Anna", 8.0)
    episodes = {one.episode for one in facts.about("Anna")}
    keep(facts, later, len(learned))
    assert ([facts.true_at(moment, 8.0) for moment in range(9)], facts.about("Anna", 8.0)) == before
    assert episodes <= {one.episode for one in facts.about("Anna")}


NAMES = ("Anna", "Annie", "A. Rossi", "Bob")


@st.composite
def aliases_of(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Entity and alias, each name the alias of one at most."""
    names = draw(st.permutations(NAMES))
    return [(names[draw(st.integers(0, n - 1))], names[n]) for n in range(1, draw(st.integers(1, len(names))))]


@settings(max_examples=n_examples(40, 1_500), deadline=None)
@given(
    st.lists(st.tuples(TOLD, st.sampled_from(NAMES), st.sampled_from([*NAMES, "x"])), max_size=8),
    aliases_of(),
    st.lists(MOMENTS, min_size=3, max_size=3),
)
def test_facts_told_under_an_alias_are_those_of_the_entity(
    learned: list[tuple[Told, str, str]], aliases: list[tuple[str, str]], moments: list[float]
) -> None:
    """Oracle: the facts known at a moment, told again under the entity's first name; and a search through them all."""
    facts = Facts()
    for number, (told, subject, value) in enumerate(learned):
        keep(facts, replace(told, subject=subject, value=told.value and value), number)
    for (name, alias), at in zip(aliases, moments, strict=False):
        facts.learn(name, ALIAS, alias, episode="alias", at=at)
    for known_at in (0.0, 4.0, math.inf):
        owner = {alias: name for (name, alias), at in zip(aliases, moments, strict=False) if at <= known_at}

        def entity(name: str, owner: dict[str, str] = owner) -> str:
            return entity(owner[name]) if name in owner else name

        plain = Facts()
        for number, (told, subject, value) in enumerate(learned):
            if told.at <= known_at:
                keep(plain, replace(told, subject=entity(subject), value=told.value and value), number)
        everything = [fact for name in {*map(entity, NAMES)} for fact in plain.about(name) if fact.subject == name]
        for name in NAMES:
            same = {one for one in NAMES if entity(one) == entity(name)}
            assert set(facts.names(name, known_at)) == same and facts.names(name, known_at)[0] == entity(name)
            found = [fact for fact in facts.about(name, known_at) if fact.relation != ALIAS]
            assert sorted(map(told_as, found)) == sorted(
                told_as(fact) for fact in everything if fact.subject in same or fact.value in same
            )
            assert [entity(fact.subject) in same for fact in found] == sorted(
                (entity(fact.subject) in same for fact in found), reverse=True
            )
            for moment in (0.0, 3.0, math.inf):
                assert sorted(map(told_as, facts.true_at(moment, known_at, subject=name))) == sorted(
                    told_as(fact)
                    for fact in facts.about(name, known_at)
                    if entity(fact.subject) == entity(name) and fact.holds_at(moment)
                )


def told_as(fact: Fact) -> tuple[str, str, float, float]:
    """A fact without the name that its subject was given."""
    return fact.episode, str(fact.value), fact.valid_from, math.inf if fact.valid_to is None else fact.valid_to


def test_an_entity_is_found_as_subject_and_as_object_by_every_name() -> None:
    facts = Facts()
    facts.learn("Bob", "manages", "Annie", valid_from=5.0, episode="entry/1", at=5.0)
    facts.learn("Anna", "lives in", "Paris", valid_from=5.0, episode="entry/2", at=6.0)
    assert [fact.relation for fact in facts.about("Anna")] == ["lives in"]
    facts.learn("Anna", ALIAS, "Annie", episode="entry/3", at=7.0)
    facts.learn("Annie", "lives in", "Rome", valid_from=8.0, episode="entry/4", at=8.0)
    for name in ("Anna", "Annie"):
        assert [(fact.subject, fact.value) for fact in facts.about(name) if fact.relation != ALIAS] == [
            ("Anna", "Paris"),
            ("Annie", "Rome"),
            ("Bob", "Annie"),
        ]
        assert [fact.value for fact in facts.true_at(9.0, subject=name, relation="lives in")] == ["Rome"]
    assert [fact.relation for fact in facts.about("Anna", known_at=6.5)] == ["lives in"]
    assert "Bob manages" in recall(Index(), facts, "who is over Anna?")
    with pytest.raises(UsageError, match="already is a name of 'Anna'"):
        facts.learn("Carl", ALIAS, "Annie", episode="entry/5", at=9.0)
    with pytest.raises(UsageError, match="'Annie' already is a name of 'Anna'"):
        facts.learn("Annie", ALIAS, "Anna", episode="entry/5", at=9.0)
    facts.end("Anna", ALIAS, "Annie", valid_to=-math.inf, episode="entry/6", at=10.0)  # it never was
    assert facts.names("Annie") == ["Annie"] and facts.names("Annie", known_at=9.5) == ["Anna", "Annie"]
    facts.learn("Carl", ALIAS, "Annie", episode="entry/7", at=11.0)
    assert facts.names("Annie") == ["Carl", "Annie"]


def test_names_that_were_aliases_of_each_other_for_a_time_were_one_entity() -> None:
    facts = Facts()
    facts.learn("Anna", ALIAS, "Annie", episode="entry/1", at=1.0)
    facts.end("Anna", ALIAS, "Annie", valid_to=-math.inf, episode="entry/2", at=10.0)
    facts.learn("Annie", ALIAS, "Anna", episode="entry/3", at=5.0)  # told late
    facts.learn("Anna", "likes", {"b": 1, "a": 2}, episode="entry/4", at=6.0)
    facts.learn("Bob", "likes", {"a": 2, "b": 1}, episode="entry/5", at=6.0)
    assert facts.names("Anna", 7.0) == facts.names("Annie", 7.0) == ["Anna", "Annie"]
    assert [fact.subject for fact in facts.true_at(7.0, 7.0, relation="likes")] == ["Anna", "Bob"]
    [group] = facts.groups("likes", 7.0, 7.0)
    assert group.members == ("Anna", "Bob")
    assert facts.names("Anna") == facts.names("Annie") == ["Annie", "Anna"]


@settings(max_examples=n_examples(20, 500), deadline=None)
@given(st.lists(TOLD, max_size=9), st.randoms())
def test_groups_are_who_has_the_value_and_equal_facts_give_equal_digests(learned: list[Told], random: Random) -> None:
    facts = Facts()
    for number, told in enumerate(learned):
        keep(facts, told, number)
    for moment, known_at in ((3.0, 5.0), (math.inf, math.inf)):
        groups = facts.groups("lives in", moment, known_at)
        true = facts.true_at(moment, known_at)
        members = {(fact.value, fact.subject) for fact in true if fact.relation == "lives in"}
        assert {(group.name, member) for group in groups for member in group.members} == members
        again = Facts()
        for number, fact in enumerate(random.sample(true, len(true))):
            again.learn(
                fact.subject, fact.relation, fact.value, episode=f"entry/{number}", at=fact.learned_at, is_beside=True
            )
        assert [group.digest for group in again.groups("lives in")] == [group.digest for group in groups]


def test_a_digest_is_short_and_counts_what_it_leaves_out() -> None:
    facts = Facts()
    for number in range(100):
        facts.learn(f"{number:02}", "works at", "Acme", episode="e", at=float(number))
        facts.learn(f"{number:02}", "has", {"cards": number // 60}, episode="e", at=float(number))
        facts.learn(f"{number:02}", f"likes {number % 20}", number, episode="e", at=float(number))
    [group] = facts.groups("works at")
    lines = group.digest.splitlines()
    assert lines[:2] == [
        f"works at Acme: 00, 01, 02, 03, 04, 05, 06, 07 and {100 - MOST_NAMED} more",
        '- has: {"cards":0} (60), {"cards":1} (40)',
    ]
    assert lines[-2:] == ["- and 13 more relations", "learned 1970-01-01 to 1970-01-01"] and len(lines) == 11


def test_a_contradiction_ends_the_older_fact_and_says_which_ended_it() -> None:
    facts = Facts()
    facts.learn("Anna", "lives in", "Paris", valid_from=10.0, episode="entry/1", at=11.0)
    rome = facts.learn("Anna", "lives in", "Rome", valid_from=20.0, episode="entry/2", at=25.0)
    paris = facts.about("Anna")[0]
    assert (paris.value, paris.valid_to, paris.ended_by, paris.episode) == ("Paris", 20.0, rome.sequence, "entry/1")
    assert [one.value for one in facts.true_at(22.0, known_at=24.0)] == ["Paris"]
    assert [one.value for one in facts.true_at(22.0)] == ["Rome"]


def test_late_knowledge_of_an_earlier_time_ends_the_right_fact() -> None:
    facts = Facts()
    facts.learn("Anna", "lives in", "Paris", valid_from=10.0, episode="e", at=11.0)
    facts.learn("Anna", "lives in", "Rome", valid_from=30.0, episode="e", at=31.0)
    oslo = facts.learn("Anna", "lives in", "Oslo", valid_from=20.0, episode="e", at=40.0)
    assert oslo.valid_to == 30.0
    assert [(one.value, one.valid_from, one.valid_to) for one in facts.about("Anna")] == [
        ("Paris", 10.0, 20.0),
        ("Oslo", 20.0, 30.0),
        ("Rome", 30.0, None),
    ]
    assert [one.value for one in facts.true_at(math.inf)] == ["Rome"]
    earlier = facts.learn("Anna", "lives in", "Bern", valid_from=1.0, valid_to=5.0, episode="e", at=50.0)
    assert earlier.valid_to == 5.0 and earlier.ended_by is None and facts.true_at(7.0) == []


def test_a_correction_leaves_what_was_believed_to_be_asked_for() -> None:
    facts = Facts()
    facts.learn("build", "takes", 4, valid_from=10.0, episode="e", at=11.0)
    facts.learn("build", "takes", 40, valid_from=10.0, episode="e", at=12.0)
    assert [one.value for one in facts.true_at(15.0)] == [40]
    assert [(one.value, one.valid_to) for one in facts.about("build")] == [(4, 10.0), (40, None)]
    assert [one.value for one in facts.true_at(15.0, known_at=11.5)] == [4]


def test_values_may_stand_beside_each_other_and_end_one_by_one() -> None:
    facts = Facts()
    for value in ("tea", "coffee"):
        facts.learn("Anna", "likes", value, valid_from=1.0, episode="e", at=1.0, is_beside=True)
    facts.end("Anna", "likes", "tea", valid_to=5.0, episode="e", at=6.0)
    assert [one.value for one in facts.true_at(4.0)] == ["tea", "coffee"]
    assert [one.value for one in facts.true_at(5.0, relation="likes", subject="Anna")] == ["coffee"]


def test_facts_survive_on_disk_with_one_writer(tmp_path: Path) -> None:
    with Facts.open(tmp_path / "facts.jsonl") as facts:
        facts.learn("Anna", "age", {"years": 30}, episode="entry/1", at=5.0)
        facts.end("Anna", "age", valid_to=9.0, episode="entry/2", at=9.0)
        expected = facts.about("Anna")
        with pytest.raises(LogLocked):
            Facts.open(tmp_path / "facts.jsonl")
    with Facts.open(tmp_path / "facts.jsonl") as again:
        assert again.about("Anna") == expected and len(again) == 2 and expected[0].valid_from == -math.inf


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log.jsonl")
    log.append("user", {"content": []})
    log.close()
    with pytest.raises(LogCorrupt, match="no fact"):
        Facts.open(tmp_path / "log.jsonl")
    Log.open(tmp_path / "log.jsonl").close()  # the lock was given back


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"value": None}, UsageError),
        ({"subject": " "}, UsageError),
        ({"episode": ""}, UsageError),
        ({"relation": 3}, UsageError),
        ({"valid_from": math.nan}, UsageError),
        ({"valid_from": 5.0, "valid_to": 5.0}, UsageError),
        ({"valid_from": math.inf}, UsageError),
        ({"at": math.inf}, UsageError),
        ({"at": "now"}, UsageError),
        ({"value": {1, 2}}, NotSerialisable),
        ({"value": math.nan}, NotSerialisable),
    ],
)
def test_what_says_nothing_is_refused_and_not_kept(changed: dict[str, Any], error: type[Exception]) -> None:
    facts = Facts()
    given_: dict[str, Any] = {"subject": "Anna", "relation": "age", "value": 30, "episode": "e", "at": 1.0, **changed}
    with pytest.raises(error):
        facts.learn(given_.pop("subject"), given_.pop("relation"), given_.pop("value"), **given_)
    assert len(facts) == 0


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ("what do H100s cost", ["H100"]),
        ("which queries are slow", ["query"]),
        ("北京天气", ["北京"]),
        ("京", ["京都", "东京", "北京"]),
        ("काम", ["काम"]),
        ("is a", []),
    ],
)
def test_facts_are_recalled_by_their_words(query: str, subjects: list[str]) -> None:
    facts = Facts()
    for subject in ("H100", "query", "北京", "东京", "京都", "काम", "कलम"):
        facts.learn(subject, "is a", "thing", episode="entry/1", at=1.0)
    lines = recall(Index(), facts, query).splitlines()[1:]
    assert [line.split(" is a ")[0].removeprefix("- ") for line in lines] == subjects


def test_facts_learned_later_are_not_recalled() -> None:
    facts = Facts()
    facts.learn("H100", "costs", "2.10", episode="entry/1", at=1.0)
    facts.learn("H100", "costs", "1.80", episode="entry/2", at=9.0)
    assert "2.10" in recall(Index(), facts, "H100", at=5.0) and "1.80" in recall(Index(), facts, "H100", at=9.0)
    assert "1.80" not in recall(Index(), facts, "H100", at=5.0) and "1.80" in recall(Index(), facts, "H100")
