"""Hazards of markers, lifetimes and concurrency, as they show in requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from contextkit.cache.usage import Usage
from tests.lint.injection.mutations.mutation import CLAUDE, Mutation
from tests.lint.injection.tape import Call, Tape, part

Json = Any
_SHORT, _LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
_LEAST = 20_000
"""Bytes of a body from which on any Claude caches it."""


def _blocks(call: Call) -> Iterator[Json]:
    yield from call.body["tools"]
    yield from call.body["system"]
    for message in call.said:
        yield from message["content"]


def _unmark(call: Call) -> None:
    for block in _blocks(call):
        block.pop("cache_control", None)


def _is_large(tape: Tape, turn: int, least: int = _LEAST) -> bool:
    return len(json.dumps(tape.calls[turn - 1].body)) >= least


def _mark(block: Json, marker: Json = _SHORT) -> None:
    block["cache_control"] = marker


def _ends(call: Call) -> list[Json]:
    """The last block of each message that can carry a marker."""
    return [message["content"][-1] for message in call.said if message["content"][-1].get("type") != "thinking"]


def none(tape: Tape, turn: int, rng: Random) -> int | None:
    """A client that never marks anything; seen from its second call on."""
    for call in tape.calls:
        _unmark(call)
    return 1 if _is_large(tape, 1, 30_000) else None


def lost_on_the_way(tape: Tape, turn: int, rng: Random) -> int | None:
    """From a turn on a gateway rebuilds blocks by the keys it knows, and all markers are gone."""
    for call in tape.calls[turn:]:
        _unmark(call)
    return turn if _is_large(tape, turn) else None


def out_of_reach(tape: Tape, turn: int, rng: Random) -> int | None:
    """Many steps were made elsewhere since the last call, so that the one marker stands more than twenty positions
    behind the last."""
    n = rng.randint(12, 16)
    if turn + n >= len(tape.calls) or not _is_large(tape, turn):
        return None
    grown = len(tape.calls[turn + n].said) - len(tape.calls[turn - 1].said)
    if grown < 2 * n:
        return None
    del tape.calls[turn : turn + n]
    for call in tape.calls:
        _unmark(call)
        _mark(_ends(call)[-1])
    return turn


def frozen(tape: Tape, turn: int, rng: Random) -> int | None:
    """Markers are only ever added, and four are there: the last one stays where it is."""
    for call in tape.calls[:turn]:
        _unmark(call)
        for block in _ends(call)[-2:]:
            _mark(block)
    ends = _ends(tape.calls[turn - 1])
    places = [i for i, block in enumerate(ends) if "cache_control" in block]
    for call in tape.calls[turn:]:
        _unmark(call)
        for i in places:
            _mark(_ends(call)[min(i, len(_ends(call)) - 1)])
    return turn + 1 if turn + 1 < len(tape.calls) and _is_large(tape, turn) else None


def wandering_anchor(tape: Tape, turn: int, rng: Random) -> int | None:
    """The second marker is planned anew for each request, at a share of its length."""
    share = rng.choice((0.4, 0.5, 0.6))
    for i, call in enumerate(tape.calls):
        ends = _ends(call)
        if len(ends) < 6:
            return None
        _unmark(call)
        _mark(ends[int(len(ends) * share)] if i >= turn else ends[-1])
        if i < turn:
            _mark(ends[-2])
    return turn if _is_large(tape, turn, 40_000) else None


def all_in_front(tape: Tape, turn: int, rng: Random) -> int | None:
    """Framework, memory and gateway each mark something in front, and nothing is left for the messages."""
    for i, call in enumerate(tape.calls):
        call.body["system"] += [{"type": "text", "text": f"# Notes {n}\nKeep to them."} for n in range(3)]
        _unmark(call)
        _mark(call.body["tools"][-1])
        _mark(call.body["system"][-1])
        if i < turn:
            _mark(_ends(call)[-1])
        else:
            _mark(call.body["system"][-2])
            _mark(call.body["system"][-3])
    return turn if _is_large(tape, turn) else None


def five(tape: Tape, turn: int, rng: Random) -> int | None:
    """Every message of the user's side is marked, and nothing takes a marker off."""
    ends = _ends(tape.calls[turn])
    if len(ends) < 6:
        return None
    _unmark(tape.calls[turn])
    for block in [*rng.sample(ends, 3), tape.calls[turn].body["tools"][-1], tape.calls[turn].body["system"][-1]]:
        _mark(block)
    return turn


def long_behind_short(tape: Tape, turn: int, rng: Random) -> int | None:
    """The messages are marked for an hour, the text in front of them for five minutes."""
    for i, call in enumerate(tape.calls):
        _unmark(call)
        _mark(call.body["system"][-1], _SHORT)
        _mark(_ends(call)[-1], _LONG if i >= turn else _SHORT)
    return turn


def on_nothing(tape: Tape, turn: int, rng: Random) -> int | None:
    """The last block is marked whatever it is: an empty text, or a thought."""
    call = tape.calls[turn]
    _unmark(call)
    if rng.random() < 0.5:
        call.said[-1]["content"].append({"type": "text", "text": "", "cache_control": _SHORT})
        return turn
    answers = [message for message in call.said if message["role"] == "assistant"]
    if not answers:
        return None
    answers[-1]["content"].insert(
        0, {"type": "thinking", "thinking": "So.", "signature": "EuUFCkY=", "cache_control": _SHORT}
    )
    return turn


def pause(tape: Tape, turn: int, rng: Random) -> int | None:
    """The user is away for longer than the entry lives, and for less than the longest lifetime that is sold."""
    tape.shift(turn, rng.uniform(330, 3000))
    return turn if _is_large(tape, turn, 40_000) else None


def long_answer(tape: Tape, turn: int, rng: Random) -> int | None:
    """An answer takes minutes, and its time counts."""
    one = tape.calls[turn - 1]
    took = rng.uniform(200, 290)
    start = one.call.at
    one.call = replace(one.call, first_byte_at=start + 5, ended_at=start + took)
    late = start + rng.uniform(310, took + 280)
    tape.shift(turn, late - tape.calls[turn].call.at)
    return turn if _is_large(tape, turn, 40_000) else None


def downgraded(tape: Tape, turn: int, rng: Random) -> int | None:
    """An hour is asked for, and from a turn on a write of five minutes is billed."""
    before, new = 0, [0 for _ in tape.calls]
    for i, call in enumerate(tape.calls):
        _unmark(call)
        _mark(call.body["system"][-1], _LONG)
        _mark(_ends(call)[-1], _LONG)
        size = len(json.dumps(call.body)) // 4
        new[i] = size - before
        call.call = replace(call.call, usage=Usage(0, before, new[i] * (i >= turn), new[i] * (i < turn), 50))
        before = size
    return turn if new[turn] > 1_000 else None


def fan_out(tape: Tape, turn: int, rng: Random) -> int | None:
    """Sub-agents with one long system text start at once; the second is the first that writes what another one writes."""
    leader = tape.calls[turn]
    guide = "You are a reviewer.\n" + "\n".join(
        f"Rule {n}: look at matter {n} and say what you found there." for n in range(500)
    )
    made = []
    for n in range(rng.randint(3, 6)):
        body = {
            "model": leader.body["model"],
            "max_tokens": 4096,
            "system": [{"type": "text", "text": guide, "cache_control": _SHORT}],
            "tools": leader.body["tools"],
            "messages": [{"role": "user", "content": [part(leader, f"Review part {n}.")]}],
        }
        at = leader.call.at + 0.05 * n
        one = replace(
            leader.call,
            id=f"fan-{n}",
            lane=f"reviewer-{n}",
            at=at,
            first_byte_at=at + 3,
            ended_at=at + 20,
            usage=None,
        )
        made.append(Call(tape.wire, one, json.loads(json.dumps(body))))
    tape.calls[turn:turn] = made
    tape.shift(turn + len(made), 30)
    return turn + 1


def evicted(tape: Tape, turn: int, rng: Random) -> int | None:
    """The provider drops the entry of the messages before its time; the head is still there."""
    if not _is_large(tape, turn, 60_000):
        return None
    head = 0
    before = 0
    for i, taped in enumerate(tape.calls):
        size = len(json.dumps(taped.body)) // 4
        head = head or len(json.dumps([taped.body["tools"], taped.body["system"]])) // 4
        _mark(taped.body["system"][-1])
        got = head if i == turn else before
        taped.call = replace(taped.call, usage=Usage(0, got, size - got, 0, 50))
        before = size
    gap = tape.calls[turn].call.at - (tape.calls[turn - 1].call.first_byte_at or tape.calls[turn - 1].call.at)
    tape.shift(turn, max(0.0, 20 - gap))
    return turn if tape.calls[turn].call.at - tape.calls[turn - 1].call.at < 290 else None


MUTATIONS = (
    Mutation("CKB01", "nothing is marked", none, (CLAUDE,)),
    Mutation("CKB03", "more than twenty positions since the last marker", out_of_reach, (CLAUDE,)),
    Mutation("CKB02", "markers frozen at four", frozen, (CLAUDE,)),
    Mutation("CKB02", "anchor planned anew", wandering_anchor, (CLAUDE,)),
    Mutation("CKB02", "all markers in front", all_in_front, (CLAUDE,)),
    Mutation("CKB08", "five markers", five, (CLAUDE,)),
    Mutation("CKB08", "an hour behind five minutes", long_behind_short, (CLAUDE,)),
    Mutation("CKB01", "markers lost on the way", lost_on_the_way, (CLAUDE,)),
    Mutation("CKB08", "marker on an empty text or a thought", on_nothing, (CLAUDE,)),
    Mutation("CKL01", "a pause longer than the entry lives", pause, (CLAUDE,)),
    Mutation("CKL01", "an answer that takes minutes", long_answer, (CLAUDE,)),
    Mutation("CKL03", "sub-agents that start at once", fan_out, (CLAUDE,)),
    Mutation("CKL05", "an entry dropped before its time", evicted, (CLAUDE,)),
    Mutation("CKL06", "an hour becomes five minutes", downgraded, (CLAUDE,)),
)
