"""Turns against a slow model written from the rules: it sorts the whole log anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import InvalidCall, UsageError
from contextkit.log.log import Log, OpenCall, Turns
from tests.scale import n_examples

Row = tuple[str, dict[str, Any]]


def reply(after: int, *calls: str) -> Row:
    made = [{"id": call, "name": "f", "arguments": {"b": 1, "a": 2}} for call in calls]
    return "assistant", {"after": after, "calls": made, "stop": "calls"}


@dataclass
class Model:
    """A list of (kind, body), and answers computed from scratch."""

    rows: list[Row] = field(default_factory=list)

    def replies(self, n: int) -> list[tuple[int, dict[str, Any], dict[str, int | None]]]:
        """(sequence, body, call → its answer) of the first `n` rows: an answer is the first result with that id before
        the next reply."""
        found = [(s, body) for s, (kind, body) in enumerate(self.rows[:n]) if kind == "assistant"]
        ends = [*(s for s, _ in found[1:]), n]
        spans = zip(found, ends, strict=False)
        return [(s, body, {c["id"]: self.answer(c["id"], s, end) for c in body["calls"]}) for (s, body), end in spans]

    def answer(self, call: str, start: int, end: int) -> int | None:
        return next(
            (s for s in range(start, end) if self.rows[s][0] == "result" and self.rows[s][1]["call_id"] == call), None
        )

    def conversation(self, n: int) -> list[int]:
        """The order without epochs: each reply behind what its request held, its results behind it, what came later
        behind those."""
        said = [s for s in range(n) if self.rows[s][0] in ("user", "notice")]
        order: list[int] = []
        for s, body, answers in self.replies(n):
            order += [one for one in said if one <= body["after"] and one not in order]
            order.append(s)
            if None in answers.values():
                return order
            order += [one for one in answers.values() if one is not None]
        return order + [one for one in said if one not in order]

    def dropped(self, n: int) -> dict[int, int]:
        """Sequence → epoch that dropped it."""
        gone: dict[int, int] = {}
        for epoch in (s for s in range(n) if self.rows[s][0] == "epoch"):
            keep = self.rows[epoch][1]["keep_from"]
            gone |= {s: epoch for s in self.ordered(epoch) if keep is None or s < keep}
        return gone

    def ordered(self, n: int) -> list[int]:
        epochs = [s for s in range(n) if self.rows[s][0] == "epoch"]
        gone = self.dropped(n)
        return [s for s in [*reversed(epochs), *self.conversation(n)] if s not in gone]

    def open_ids(self, n: int) -> list[str]:
        replies = self.replies(n)
        return [call for call, result in replies[-1][2].items() if result is None] if replies else []

    def has_pending(self, n: int) -> bool:
        order, gone = self.conversation(n), self.dropped(n)
        last = max((s for s in order if self.rows[s][0] == "assistant"), default=-1)
        behind = order[order.index(last) + 1 :] if last >= 0 else order
        return any(self.rows[s][0] != "notice" and gone.get(s, n) >= last for s in behind)

    def splits(self, keep: int | None) -> bool:
        """Whether an epoch now would leave an answer without its reply."""
        there, n = set(self.ordered(len(self.rows))), len(self.rows)
        kept = {s for s in there if keep is not None and s >= keep}
        cut = any(result in kept and s not in kept for s, _, answers in self.replies(n) for result in answers.values())
        return cut or (bool(self.open_ids(n)) and self.replies(n)[-1][0] not in kept)


@st.composite
def conversations(draw: st.DrawFn) -> list[Row]:
    """Random interleavings of everything that may happen, call ids used again in every turn, results in any order."""
    model = Model([("opened", {"system": [], "tools": []})])
    rows, free_from = model.rows, 0
    for _ in range(draw(st.integers(0, 22))):
        open_ids = model.open_ids(len(rows))
        kinds = [
            "user",
            "user",
            "notice",
            "phase",
            "epoch",
            "opened",
            *(["result", "result", "begun"] if open_ids else ["assistant"] * 2),
        ]
        kind = draw(st.sampled_from(kinds))
        if kind == "assistant":
            calls = draw(st.permutations(["call_0", "call_1", "call_2"]))[: draw(st.integers(0, 3))]
            body: dict[str, Any] = reply(draw(st.integers(free_from, len(rows) - 1)), *calls)[1]
            free_from = len(rows)
        elif kind in ("result", "begun"):
            body = {"call_id": draw(st.sampled_from(open_ids))}
            free_from = len(rows) if kind == "result" else free_from
        elif kind == "epoch":
            body = {"keep_from": draw(st.none() | st.integers(0, len(rows)))}
            body |= draw(st.sampled_from([{}, {"system": []}, {"tools": []}]))
            if model.splits(body["keep_from"]):
                continue
        else:
            body = {}
        rows.append((kind, body))
    return rows


@st.composite
def masked(draw: st.DrawFn) -> list[Row]:
    """The same, with phases that tell the model something, and epochs that say something themselves."""
    rows = draw(conversations())
    told = st.sampled_from(
        [{}, {"name": "p", "text": "Phase p."}, {"name": "p", "removed": ["f"]}, {"name": "p", "text": ""}]
    )
    more = {"phase": told, "epoch": st.sampled_from([{}, {"summary": [{"type": "text", "text": "Said."}]}])}
    return [(kind, {**body, **draw(more[kind])} if kind in more else body) for kind, body in rows]


def write(rows: list[Row]) -> Log:
    log = Log(clock=lambda: 0.0)
    for kind, body in rows:
        log.append(kind, body)  # type: ignore[arg-type]
    return log


@settings(max_examples=n_examples(50, 1_000), deadline=None)
@given(conversations())
def test_turns_equal_the_slow_model_after_every_entry(rows: list[Row]) -> None:
    model, turns = Model(rows), Turns()
    for n, entry in enumerate(write(rows), 1):
        turns.feed(entry)
        order, replies = model.ordered(n), model.replies(n)
        assert turns.ordered == order
        assert [call.call_id for call in turns.open_calls] == model.open_ids(n)
        assert turns.has_pending_user == model.has_pending(n)
        assert turns.last_assistant == (replies[-1][0] if replies else None)
        assert turns.last_stop == (replies[-1][1]["stop"] if replies else None)
        last = replies[-1][0] if replies else None
        assert turns.n_before_last_assistant == (order.index(last) if last in order else None)
        assert turns.epoch == sum(kind == "epoch" for kind, _ in rows[:n])
        for part in "system", "tools":
            assert getattr(turns, f"head_{part}") == max(s for s in range(n) if part in rows[s][1])
        said = {s for s in range(n) if rows[s][0] in ("user", "notice")}
        assert set(turns.waiting) == said - set(order) - set(model.dropped(n))
    assert Turns.over(write(rows)) == turns


@settings(max_examples=n_examples(50, 1_000), deadline=None)
@given(conversations(), st.none() | st.integers(0, 25))
def test_an_epoch_is_refused_exactly_when_it_would_orphan_a_result(rows: list[Row], keep: int | None) -> None:
    turns, before = Turns.over(write(rows)), Turns.over(write(rows))
    if Model(rows).splits(keep):
        with pytest.raises(InvalidCall, match="an epoch that keeps from"):
            turns.check("epoch", {"keep_from": keep})
    else:
        turns.check("epoch", {"keep_from": keep})
    assert turns == before


@st.composite
def eventful(draw: st.DrawFn) -> list[Row]:
    """The same, with notices of events, some of them for the next reply alone."""
    body = st.sampled_from([{}, {"event": {"type": "date"}}, {"event": {"type": "recitation"}, "until": "reply"}])
    return [(kind, {**said, **draw(body)} if kind == "notice" else said) for kind, said in draw(masked())]


@settings(max_examples=n_examples(50, 1_000), deadline=None)
@given(eventful())
def test_events_stand_behind_a_word_to_the_model_and_passing_ones_leave_with_its_reply(rows: list[Row]) -> None:
    turns, taken, epoch = Turns(), list[int](), 0
    for n, entry in enumerate(write(rows), 1):
        turns.feed(entry)
        taken = taken if turns.epoch == epoch else []
        epoch = turns.epoch
        while taken and (len(taken) > len(turns.ordered) or taken[-1] != turns.ordered[len(taken) - 1]):
            taken.pop()
        taken += turns.ordered[len(taken) :]
        assert taken == turns.ordered
        events = {s for s in range(n) if "event" in rows[s][1]}
        passing = {s for s in events if rows[s][1].get("until")}
        ends = [(r, rows[r][1].get("after", n)) for r in range(n) if rows[r][0] in ("epoch", "assistant")]
        over = {s for s in passing for r, after in ends if r > s and after >= s}
        assert not passing & {*turns.ordered, *turns.waiting}
        assert turns.passing in ([], sorted(passing - over))
        spoken = next(
            (rows[s][0] for s in reversed(turns.ordered) if s not in events and not is_told(rows[s])), "assistant"
        )
        assert (
            bool(turns.passing) == bool(passing - over and not turns.open_calls and spoken != "assistant")
            or spoken == "epoch"
        )
        told = events | {s for s in range(n) if is_told(rows[s])}
        for place, sequence in enumerate(turns.ordered):
            if sequence in events:
                before = next((s for s in reversed(turns.ordered[:place]) if s not in told), None)
                assert before is not None and rows[before][0] != "assistant"
                assert rows[before][0] != "epoch" or rows[before][1].get("summary")


def is_told(row: Row) -> bool:
    return row[0] == "phase" and bool(row[1].get("text") or row[1].get("removed"))


@settings(max_examples=n_examples(50, 1_000), deadline=None)
@given(masked())
def test_a_phase_is_told_between_a_word_to_the_model_and_its_answer_and_moves_nothing_else(rows: list[Row]) -> None:
    log, turns = write(rows), Turns()
    for n, entry in enumerate(log, 1):
        turns.feed(entry)
        spoken = [s for s in turns.ordered if not is_told(rows[s])]
        plain = [("notice" if is_told(row) else row[0], row[1]) for row in rows[:n]]
        told = {s for s in range(n) if is_told(rows[s])}
        assert spoken == [s for s in Turns.over(write(plain)).ordered if s not in told]
        after_epoch = max((s for s in range(n) if rows[s][0] == "epoch"), default=-1)
        standing = {s for s in turns.ordered if s in told}
        assert standing | {s for s in turns.waiting if s in told} == {s for s in told if s > after_epoch}
        for place, sequence in enumerate(turns.ordered):
            if sequence in told:
                before = next((s for s in reversed(turns.ordered[:place]) if s not in told), None)
                behind = next((s for s in turns.ordered[place:] if s not in told), None)
                assert before is not None and rows[before][0] != "assistant"
                assert rows[before][0] != "epoch" or rows[before][1].get("summary")
                assert behind is None or rows[behind][0] == "assistant"


@pytest.mark.parametrize(
    ("rows", "ordered"),
    [
        ([("phase", {"text": "p"}), ("user", {})], [2, 1]),
        ([("user", {}), ("phase", {"text": "p"}), ("user", {})], [1, 3, 2]),
        ([("user", {}), ("phase", {"text": "p"}), ("user", {}), reply(2)], [1, 2, 4, 3]),
        (
            [("user", {}), reply(1, "x"), ("phase", {"text": "p"}), ("user", {}), ("result", {"call_id": "x"})],
            [1, 2, 5, 4, 3],
        ),
        ([("user", {}), reply(1, "x"), ("result", {"call_id": "x"}), ("phase", {"text": "p"})], [1, 2, 3, 4]),
    ],
)
def test_where_a_phase_is_told(rows: list[Row], ordered: list[int]) -> None:
    assert Turns.over(write([("opened", {}), *rows])).ordered == ordered


LATE: list[Row] = [("user", {}), ("user", {}), ("notice", {"event": {"type": "date"}}), reply(1), reply(4)]
"""What was said while a reply was under way, and the event of it: it stands in the order 1 4 2 3 5."""


@pytest.mark.parametrize(
    ("said", "ordered", "waiting"),
    [
        ([], [6, 4, 5], [3]),
        ([("user", {})], [6, 4, 5, 7, 3], []),
        ([("notice", {"event": {"type": "date"}})], [6, 4, 5], [3, 7]),
    ],
)
def test_an_event_whose_words_an_epoch_dropped_waits_for_the_next(
    said: list[Row], ordered: list[int], waiting: list[int]
) -> None:
    turns = Turns.over(write([("opened", {}), *LATE, ("epoch", {"keep_from": 3}), *said]))
    assert turns.ordered == ordered and turns.waiting == waiting


def test_an_event_whose_words_an_epoch_dropped_goes_behind_those_nobody_answered() -> None:
    turns = Turns.over(write([("opened", {}), *LATE, ("user", {}), ("epoch", {"keep_from": 3})]))
    assert turns.ordered == [7, 4, 5, 6, 3] and turns.waiting == []


def test_an_open_call_is_known_with_its_arguments_in_their_order_and_whether_it_was_begun() -> None:
    log = write([("opened", {}), ("user", {}), reply(1, "x", "y"), ("result", {"call_id": "y"})])
    turns = Turns.over(log)
    assert turns.open_calls == [OpenCall("x", "f", {"b": 1, "a": 2}, 2)]
    turns.feed(log.append("begun", {"call_id": "x"}))
    assert turns.open_calls[0].was_started and list(turns.open_calls[0].arguments) == ["b", "a"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("result", {"call_id": "z"}), "call 'z' is unknown: calls 'x' of entry 1 are open"),
        (("result", {"call_id": "y"}), "call 'y' of entry 1 is answered already, by entry 2"),
        (("begun", {"call_id": "y"}), "answered already"),
        (reply(2), "calls 'x' of entry 1 are open; append a result for each"),
        (("epoch", {"keep_from": None}), "answer its calls"),
    ],
)
def test_what_cannot_come_next_is_refused_and_changes_nothing(row: Row, message: str) -> None:
    rows = [("opened", {}), reply(0, "x", "y"), ("result", {"call_id": "y"})]
    turns, before, log = Turns.over(write(rows)), Turns.over(write(rows)), write([*rows, row])
    with pytest.raises(InvalidCall, match=message):
        turns.check(*row)
    with pytest.raises(InvalidCall, match=message):
        turns.feed(log[3])
    assert turns == before


def test_one_id_for_two_calls_is_refused_but_may_come_again_in_the_next_turn() -> None:
    with pytest.raises(InvalidCall, match="one id for several calls"):
        Turns().check(*reply(0, "x", "x"))
    turns = Turns.over(
        write(
            [("opened", {}), reply(0, "x"), ("result", {"call_id": "x"}), reply(2, "x"), ("result", {"call_id": "x"})]
        )
    )
    assert turns.ordered == [1, 2, 3, 4]
    with pytest.raises(InvalidCall, match="no call is open"):
        turns.check("result", {"call_id": "z"})


def test_an_entry_left_out_is_noticed() -> None:
    log = write([("opened", {}), ("user", {}), ("user", {})])
    with pytest.raises(UsageError, match="entry 2 came where entry 1 was due"):
        Turns.over([log[0], log[2]])
