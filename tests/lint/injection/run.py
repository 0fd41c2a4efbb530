"""Runs of the injection test: a random stretch of a random session, one mutation at a random turn, what the detector
makes of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from contextkit.ledger.calls import ModelCall
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.detect import find_in_requests
from tests.lint.injection.mutations import (
    on_history,
    on_markers,
    on_pictures,
    on_settings,
    on_spelling,
    on_system,
    on_tools,
)
from tests.lint.injection.mutations.mutation import CLAUDE, Mutation
from tests.lint.injection.tape import Call, Tape, tape_of
from tests.scale import n_examples

_TABLES = (on_tools, on_system, on_history, on_pictures, on_spelling, on_markers, on_settings)
MUTATIONS: tuple[Mutation, ...] = tuple(mutation for table in _TABLES for mutation in table.MUTATIONS)
"""One or several a hazard."""
BASELINE = Path(__file__).with_name("baseline.json")
LONGEST = 20
"""Calls of the coding session that a run takes: its bodies are half a megabyte each."""
SHORTEST, LENGTH = 4, n_examples(8, LONGEST)
TRIES = 300
_REWRITTEN_SHARE = 0.85


@dataclass(slots=True)
class Score:
    """What came of the runs of one mutation."""

    mutation: Mutation
    runs: int = 0
    found: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    """What stood at the turn instead, nothing for no finding."""
    beside: Counter[str] = field(default_factory=Counter)
    """Other codes that were named at the turn as well."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name or 'nothing'} {n}" for name, n in self.missed.most_common(3))
        also = ", ".join(f"{name} {n}" for name, n in self.beside.most_common(3))
        missed, beside = f"missed for {shown}" if shown else "", f"also {also}" if also else ""
        return f"{self.mutation.code} {self.mutation.what:48} {f'{self.found}/{self.runs}':>9}  {missed:40} {beside}".rstrip()


def explained() -> Counter[tuple[str, str, int]]:
    """The baseline: wire, code and turn of the coding session, as often as it is found there."""
    rows = json.loads(BASELINE.read_text("utf-8"))["findings"]
    return Counter({(row["wire"], row["code"], row["turn"]): row["times"] for row in rows})


def run(
    mutation: Mutation,
    wire: str,
    pool: Sequence[Sequence[Sequence[ModelCall]]],
    hazards: Sequence[Hazard],
    rng: Random,
    score: Score,
) -> bool:
    """One run in a session of one of the pools, False where none was found that has anything the hazard could touch."""
    for _ in range(TRIES):
        made = _mutated(mutation, wire, rng.choice(rng.choice(pool)), rng)
        if made is not None:
            _judge(mutation, *made, hazards, score)
            return True
    return False


def _mutated(mutation: Mutation, wire: str, session: Sequence[ModelCall], rng: Random) -> tuple[Tape, int] | None:
    length = min(len(session), LENGTH)
    if length < SHORTEST:
        return None
    start = rng.randrange(len(session) - length + 1)
    taken, turn = session[start : start + length], rng.randrange(1, length)
    tape = tape_of(wire, taken)
    if wire == CLAUDE and not any("cache_control" in block for block in _blocks(tape.calls[turn - 1])):
        return None  # the call before left nothing that could break: its prompt was too short to be kept
    place = mutation.change(tape, turn, rng)
    if place is None or tape.calls[place].call.id in _unquiet(wire, session):
        return None  # something real happens there, which a mutation could not be told from
    return None if _is_rewritten(tape, place) else (tape, place)


def _is_rewritten(tape: Tape, place: int) -> bool:
    """Return whether a fifth of the history is gone: the judge takes that for a rewrite on purpose, which loses nothing."""
    size, before = (len(json.dumps(call.said)) for call in (tape.calls[place], tape.calls[place - 1]))
    return size < _REWRITTEN_SHARE * before


def _unquiet(wire: str, session: Sequence[ModelCall]) -> frozenset[str]:
    """Calls of the coding session that the baseline names."""
    turns = [turn for asked, _, turn in explained() if asked == wire and len(session) > LONGEST]
    return frozenset(session[turn - 1].id for turn in turns if turn <= len(session))


def _blocks(call: Call) -> Iterator[dict[str, object]]:
    yield from call.body["system"]
    yield from (block for message in call.said for block in message["content"])


def _judge(mutation: Mutation, tape: Tape, place: int, hazards: Sequence[Hazard], score: Score) -> None:
    calls = tape.recorded()
    wanted = calls[place].id
    found = list(find_in_requests(calls, hazards))
    codes = sorted({one.code for one in found if _request(one) == wanted})
    score.runs += 1
    if {mutation.code, *mutation.others} & {*codes}:
        score.found += 1
        score.beside.update(code for code in codes if code != mutation.code)
    else:
        elsewhere = any(one.code == mutation.code for one in found)
        score.missed["+".join(codes) + (" (named elsewhere)" if elsewhere else "")] += 1


def _request(finding: Finding) -> str:
    return finding.place.request if isinstance(finding.place, RequestPlace) else ""
