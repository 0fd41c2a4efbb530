"""Facts with two times: when they are true, and when they were learned.

Takes what was learned, gives what was true at one moment as known at another. Nothing is changed and nothing deleted:
facts are entries of a log of their own, so they share its file format, lock, chain of digests and safety in a crash;
intervals are worked out from them.

A slot is what can have one value at a time: a subject's relation, or one value of it for facts learned `beside` others.
Of a slot, as known at k, only what was learned up to k counts. Of this, what began last by t, the last learned of
equals, is what holds at t, if it has not ended. So a fact ends where the next one begins, in time and not in the order
of learning: something learned late, which was true earlier, ends what began before it and is ended by what began after
it. What ended is not taken up again: who moved out has moved out.
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
from contextkit.memory.facts.fact import Fact

_Slot = tuple[str, str, str]
"""Subject, relation, and for a fact beside others its value as JSON."""
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
    """

    def __init__(self, log: Log | None = None) -> None:
        """Facts in `log`, which holds nothing else.

        In memory without one. Raises `LogCorrupt` for a log of something else.
        """
        self.log = Log() if log is None else log
        """What was learned, in order."""
        self._lock = Lock()
        self._slots: dict[str, dict[_Slot, list[Fact]]] = {}
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
        of the relation (who likes tea may like coffee), and contradicts only itself. Raises `UsageError` for times that
        are none, and `NotSerialisable`.
        """
        if value is None:
            raise UsageError(
                f"{subject!r} {relation!r} null says nothing: to say that it is true no more, use facts.end(...)"
            )
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
        facts = (fact for one in subjects for fact in self._facts_at(one, known_at) if fact.holds_at(moment))
        return sorted(
            (fact for fact in facts if relation in (None, fact.relation)),
            key=lambda fact: (fact.subject, fact.relation, fact.sequence),
        )

    def about(self, subject: str, known_at: float = math.inf) -> list[Fact]:
        """All that was known of `subject` at `known_at`, what has ended too; by relation, then by the time it began."""
        return sorted(
            self._facts_at(subject, known_at),
            key=lambda fact: (fact.relation, fact.valid_from, fact.learned_at, fact.sequence),
        )

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
        return next((known for known in self._facts_at(subject, math.inf) if known.sequence == fact.sequence), fact)

    def _take(self, entry: Entry) -> Fact:
        """Put an entry where it is looked up."""
        slot, fact = _read(entry)
        learned = self._slots.setdefault(fact.subject, {}).setdefault(slot, [])
        learned.append(fact)
        learned.sort(key=lambda one: (one.valid_from, one.learned_at, one.sequence))
        return fact

    def _facts_at(self, subject: str, known_at: float) -> Iterator[Fact]:
        with self._lock:
            slots = [list(learned) for learned in self._slots.get(subject, {}).values()]
        return (fact for slot in slots for fact in _intervals([fact for fact in slot if fact.learned_at <= known_at]))


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


def _intervals(slot: list[Fact]) -> Iterator[Fact]:
    """The facts of a slot, each ended where the next begins; ends, which have no value, are left out."""
    for fact, follower in zip_longest(slot, slot[1:]):
        if fact.value is None:
            continue
        if follower is None or (fact.valid_to is not None and fact.valid_to <= follower.valid_from):
            yield fact
        else:
            yield replace(fact, valid_to=follower.valid_from, ended_by=follower.sequence)


def _read(entry: Entry) -> tuple[_Slot, Fact]:
    """Slot and fact of an entry; the fact of an end has no value."""
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
    return (fact.subject, fact.relation, beside), fact
