"""Facts with two times: when they are true, and when they were learned.

Takes what was learned, gives what was true at one moment as known at another. Nothing is changed and nothing deleted:
facts are entries of a log of their own, so they share its file format, lock, chain of digests and safety in a crash;
intervals are worked out from them.

A slot is what can have one value at a time: a subject's relation, or one value of it for facts learned `beside` others.
Of a slot, as known at k, only what was learned up to k counts. Of this, what began last by t, the last learned of
equals, is what holds at t, if it has not ended. So a fact ends where the next one begins, in time and not in the order
of learning: something learned late, which was true earlier, ends what began before it and is ended by what began after
it. What ended is not taken up again: who moved out has moved out.

An entity has several names where `ALIAS` facts say so. Names are resolved when facts are read, with the aliases known
at the time asked about, so what was told under any of its names falls into one slot, and an alias learned later changes
nothing that was known before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from threading import Lock
from types import TracebackType
from typing import Self

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt, UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.memory.facts.fact import ALIAS, Fact, Group

_ALWAYS = "-inf"
"""How it is written that a fact began with time: JSON has no infinity."""


class Facts:
    """What is known, and since when.

    >>> facts = Facts()
    >>> facts.learn("Anna", "lives in", "Paris", valid_from=100.0, episode="entry/1", at=100.0).sequence
    0
    >>> moved = facts.learn("Anna", "lives in", "Rome", valid_from=200.0, episode="entry/9", at=300.0)
    >>> [fact.value for fact in facts.true_at(250.0)], [fact.value for fact in facts.true_at(250.0, known_at=299.0)]
    (['Rome'], ['Paris'])
    >>> [(fact.value, fact.valid_to) for fact in facts.about("Anna")]
    [('Paris', 200.0), ('Rome', None)]
    >>> [fact.subject for fact in facts.about("Rome")]
    ['Anna']
    """

    def __init__(self, log: Log | None = None) -> None:
        """Facts in `log`, which holds nothing else.

        In memory without one. Raises `LogCorrupt` for a log of something else.
        """
        self.log = Log() if log is None else log
        """What was learned, in order."""
        self._lock = Lock()
        # By subject, relation, and for a fact beside others its value as JSON:
        self._slots: dict[str, dict[str, dict[str, list[Fact]]]] = {}
        # By text value and by alias: of whom it was told, in order.
        self._subjects: dict[str, dict[str, None]] = {}
        self._owners: dict[str, dict[str, None]] = {}
        for entry in self.log:
            self._take(entry)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The facts in a JSONL file, created when it is not there; raises what `Log.open` raises, and `LogCorrupt`."""
        log = Log.open(path)
        try:
            return cls(log)
        except BaseException:
            log.close()
            raise

    def learn(
        self,
        subject: str,
        relation: str,
        value: Json,
        *,
        valid_from: float | None = None,
        valid_to: float | None = None,
        episode: str,
        at: float,
        is_beside: bool = False,
    ) -> Fact:
        """Keep a fact, durably; gives it as it stands now, ended where something known begins later.

        `at` is when it was learned. Without `valid_from` it was always true. `is_beside`: it holds beside other values
        of the relation (who likes tea may like coffee), and contradicts only itself. With the relation `ALIAS`, `value`
        is another name of `subject`, beside others. Raises `UsageError` for times that are none and for a name that
        another entity has, and `NotSerialisable`.
        """
        if value is None:
            raise UsageError(
                f"{subject!r} {relation!r} null says nothing: to say that it is true no more, use facts.end(...)"
            )
        if relation == ALIAS:
            is_beside = True
            self._check_alias(subject, value)
        return self._keep(subject, relation, value, valid_from, valid_to, episode, at, is_beside)

    def end(self, subject: str, relation: str, value: Json = None, *, valid_to: float, episode: str, at: float) -> None:
        """Keep that from `valid_to` on nothing is known to be true in a relation.

        With `value`, of that one learned beside others.
        """
        self._keep(subject, relation, value, valid_to, None, episode, at, value is not None, is_end=True)

    def true_at(
        self, moment: float, known_at: float = math.inf, *, subject: str | None = None, relation: str | None = None
    ) -> list[Fact]:
        """What was true at `moment`, as far as was known at `known_at`; by subject, relation and sequence.

        `moment=math.inf` gives what is true with no end in sight.
        """
        with self._lock:
            subjects = [subject] if subject is not None else list(self._slots)
            entities = dict.fromkeys(self._entity(one, known_at) for one in subjects)
            facts = [fact for one in entities for fact in self._facts_of(one, known_at) if fact.holds_at(moment)]
        return sorted(
            (fact for fact in facts if relation in (None, fact.relation)),
            key=lambda fact: (fact.subject, fact.relation, fact.sequence),
        )

    def about(self, name: str, known_at: float = math.inf) -> list[Fact]:
        """All that was known of an entity at `known_at`, by any of its names, what has ended too.

        First the facts whose subject it is, then those whose value it is; by relation, then by the time they began.
        """
        with self._lock:
            names = self._names(name, known_at)
            others = dict.fromkeys(
                self._entity(subject, known_at) for one in names for subject in self._subjects.get(one, ())
            )
            found = [(False, fact) for fact in self._facts_of(names[0], known_at)]
            for other in others:
                if other != names[0]:
                    found += [(True, fact) for fact in self._facts_of(other, known_at) if fact.value in names]
        found.sort(key=lambda pair: (pair[0], pair[1].relation, *_order(pair[1])))
        return [fact for _, fact in found]

    def names(self, name: str, known_at: float = math.inf) -> list[str]:
        """Every name of the entity that goes by `name`, as known at `known_at`; first the one that is no alias."""
        with self._lock:
            return self._names(name, known_at)

    def groups(self, relation: str, moment: float = math.inf, known_at: float = math.inf) -> list[Group]:
        """The entities that had the same value in `relation` at `moment`, with a digest of what else was true of them.

        By name of the group.

        >>> facts = Facts()
        >>> for who, city in (("Anna", "Rome"), ("Bob", "Oslo"), ("Carl", "Rome")):
        ...     _ = facts.learn(who, "works at", "Acme", episode="e", at=0.0)
        ...     _ = facts.learn(who, "lives in", city, episode="e", at=86_400.0)
        >>> print(facts.groups("works at")[0].digest)
        works at Acme: Anna, Bob, Carl
        - lives in: Rome (2), Oslo
        learned 1970-01-01 to 1970-01-02
        """
        true = self.true_at(moment, known_at)
        of: dict[str, list[Fact]] = {}
        members: dict[str, set[str]] = {}
        with self._lock:
            for fact in true:
                entity = self._entity(fact.subject, known_at)
                of.setdefault(entity, []).append(replace(fact, subject=entity))
                if fact.relation == relation:
                    value = fact.value
                    name = (
                        self._entity(value, known_at)
                        if isinstance(value, str)
                        else canonical(value, sort=True).decode()
                    )
                    members.setdefault(name, set()).add(entity)
        return [
            Group.of(relation, name, sorted(found), [fact for one in found for fact in of[one]])
            for name, found in sorted(members.items())
        ]

    def __len__(self) -> int:
        """How much was learned, ends included."""
        return len(self.log)

    def close(self) -> None:
        """Let others write the file; reading goes on."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep(
        self,
        subject: str,
        relation: str,
        value: Json,
        valid_from: float | None,
        valid_to: float | None,
        episode: str,
        at: float,
        is_beside: bool,
        *,
        is_end: bool = False,
    ) -> Fact:
        _check_words(subject=subject, relation=relation, episode=episode)
        _check_times(-math.inf if valid_from is None else valid_from, math.inf if valid_to is None else valid_to, at)
        told = {
            "subject": subject,
            "relation": relation,
            "value": value,
            "valid_from": _ALWAYS if valid_from in (None, -math.inf) else valid_from,
            "valid_to": None if valid_to == math.inf else valid_to,
            "episode": episode,
            "is_beside": is_beside,
            "is_end": is_end,
        }
        with self._lock:
            fact = self._take(self.log.append("notice", {"text": f"{subject} {relation}", "fact": told}, at))
            entity = self._entity(subject, math.inf)
            return next(
                (known for known in self._facts_of(entity, math.inf, relation) if known.sequence == fact.sequence), fact
            )

    def _take(self, entry: Entry) -> Fact:
        """Put an entry where it is looked up."""
        beside, fact = _read(entry)
        learned = self._slots.setdefault(fact.subject, {}).setdefault(fact.relation, {}).setdefault(beside, [])
        learned.append(fact)
        learned.sort(key=_order)
        if isinstance(fact.value, str):
            for told_of in (self._subjects, self._owners) if fact.relation == ALIAS else (self._subjects,):
                told_of.setdefault(fact.value, {})[fact.subject] = None
        return fact

    def _facts_of(self, entity: str, known_at: float, relation: str | None = None) -> Iterator[Fact]:
        """Facts told under any name of an entity, each ended by what contradicts it."""
        merged: dict[tuple[str, str], list[Fact]] = {}
        for name in self._names(entity, known_at):
            for key, slots in self._slots.get(name, {}).items():
                if relation in (None, key):
                    for beside, learned in slots.items():
                        merged.setdefault((key, beside), []).extend(learned)
        for slot in merged.values():
            yield from _intervals(sorted((fact for fact in slot if fact.learned_at <= known_at), key=_order))

    def _aliases(self, subject: str, known_at: float) -> dict[str, None]:
        """Names told of `subject` that were not taken back: an end at its beginning says that it never was one."""
        slots = self._slots.get(subject, {}).get(ALIAS, {}).values()
        facts = (fact for slot in slots for fact in _intervals([one for one in slot if one.learned_at <= known_at]))
        return {fact.value: None for fact in facts if isinstance(fact.value, str) and fact.valid_to != fact.valid_from}

    def _entity(self, name: str, known_at: float) -> str:
        """The name that is no alias of the entity that goes by `name`; where two claim one name, the last told.

        Of names that are aliases of each other, as an alias told late can make them for a time, it is the first.
        """
        passed = list[str]()
        while name not in passed:
            passed.append(name)
            owners = reversed(self._owners.get(name, {}))
            name = next((owner for owner in owners if name in self._aliases(owner, known_at)), name)
        return min(passed[passed.index(name) :])

    def _names(self, name: str, known_at: float) -> list[str]:
        names = [self._entity(name, known_at)]
        for one in names:
            names += [alias for alias in self._aliases(one, known_at) if alias not in names]
        return names

    def _check_alias(self, subject: str, alias: Json) -> None:
        _check_words(subject=subject, value=alias)
        with self._lock:
            entity, owner = self._entity(subject, math.inf), self._entity(str(alias), math.inf)
        if entity == alias:
            raise UsageError(f"{subject!r} already is a name of {alias!r}: it cannot be the other way round, too"[:200])
        if owner not in (entity, alias):
            raise UsageError(
                f"{alias!r} already is a name of {owner!r}: end that before it becomes one of {subject!r}"[:200]
            )


def _check_words(**words: object) -> None:
    for name, word in words.items():
        if not isinstance(word, str) or not word.strip():
            raise UsageError(f"the {name} of a fact is text that says something, not {word!r}"[:200])


def _check_times(valid_from: float, valid_to: float, at: float) -> None:
    for name, moment in (("valid_from", valid_from), ("valid_to", valid_to), ("at", at)):
        if type(moment) not in (int, float) or math.isnan(moment):
            raise UsageError(f"{name} is seconds since 1970, not {moment!r}"[:200])
    if math.isinf(at):
        raise UsageError("at is the moment it was learned: give a finite number of seconds since 1970")
    if not valid_from < valid_to:
        raise UsageError(f"a fact that begins at {valid_from} cannot end at {valid_to}: it would be true at no moment")


def _order(fact: Fact) -> tuple[float, float, int]:
    return fact.valid_from, fact.learned_at, fact.sequence


def _intervals(slot: list[Fact]) -> Iterator[Fact]:
    """The facts of a slot, each ended where the next begins; ends, which have no value, are left out."""
    for fact, follower in zip_longest(slot, slot[1:]):
        if fact.value is None:
            continue
        if follower is None or (fact.valid_to is not None and fact.valid_to <= follower.valid_from):
            yield fact
        else:
            yield replace(fact, valid_to=follower.valid_from, ended_by=follower.sequence)


def _read(entry: Entry) -> tuple[str, Fact]:
    """Value beside others as JSON, else "", and fact of an entry; the fact of an end has no value."""
    try:
        told = parse(entry.body)["fact"]
        beside = canonical(told["value"], sort=True).decode() if told["is_beside"] else ""
        value = None if told["is_end"] else told["value"]
        fact = Fact(
            entry.sequence,
            told["subject"],
            told["relation"],
            value,
            float(told["valid_from"]),
            None if told["valid_to"] is None else float(told["valid_to"]),
            entry.at,
            told["episode"],
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise LogCorrupt(
            f"entry {entry.sequence} is no fact ({type(fault).__name__}: {fault}): facts have a log of their own"
        ) from fault
    return beside, fact
