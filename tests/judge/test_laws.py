"""Laws of the judge's verdicts, on random recordings and planted changes; bills are those of the reference cache."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.misses import MissDetector
from contextkit.ledger.prompts import outline
from contextkit.ledger.verdict import Verdict
from contextkit.prompt.alignment import equal_bytes
from contextkit.watcher.live_judge import LiveJudge, Ticket
from tests.judge.recordings import (
    ANTHROPIC,
    MODELS,
    OPENAI,
    START,
    Talk,
    billed,
    prompt_of,
    reads,
    recording,
    talk,
    tool,
    unlucky,
    verdicts,
    words,
)
from tests.scale import n_examples

SEEDS = range(n_examples(60, 500))
PLANTED = range(n_examples(12, 200))
GRANULARITY = 128
"""Of the reads of OpenAI's models here."""


def judged(calls: list[ModelCall]) -> Iterator[tuple[ModelCall, Verdict]]:
    for call, verdict in zip(calls, verdicts(calls), strict=True):
        if verdict is not None:
            yield call, verdict


# Lengths and gaps
# -------------------------------------------------------------------------------------------------------------------


def no_bills(calls: list[ModelCall], seed: int) -> list[ModelCall]:
    return [replace(call, usage=None) for call in calls]


BILLS: dict[str, Callable[[list[ModelCall], int], list[ModelCall]]] = {
    "reference": lambda calls, seed: calls,
    "unlucky": unlucky,
    "none": no_bills,
}


@pytest.mark.parametrize("bills", BILLS)
def test_the_lengths_are_in_order_and_the_gaps_are_their_differences(bills: str) -> None:
    for seed in SEEDS:
        for call, verdict in judged(BILLS[bills](billed(recording(seed)), seed)):
            readable, shared, similar = verdict.readable, verdict.shared, verdict.similar
            assert readable is not None and shared is not None and similar is not None
            assert (verdict.read or 0) <= readable <= shared <= similar <= verdict.prompt, (seed, call.id)
            had = readable if verdict.read is None else verdict.read
            assert sum(gap.tokens for gap in verdict.gaps) == similar - had, (seed, call.id)
            assert all(gap.tokens >= 0 for gap in verdict.gaps), (seed, call.id)


def test_the_gaps_add_up_where_the_model_changed_and_the_provider_missed() -> None:
    """The call before was another model's; an older one of this model had left something, which was not read."""
    first = example(ANTHROPIC)
    second, third = deepcopy(first), deepcopy(first)
    second.model = MODELS[ANTHROPIC][1]
    for one in (second, third):
        one.messages += first.messages[:1] * 2
    third.messages += first.messages[:1] * 2
    calls = billed(sent(first, second, third))
    usage = calls[2].usage
    assert usage is not None and usage.read
    calls[2] = replace(calls[2], usage=replace(usage, read=0, writes=((300, usage.prompt or 0),), fresh=0))
    verdict = verdicts(calls)[2]
    assert verdict is not None
    assert verdict.readable == usage.read
    assert sum(gap.tokens for gap in verdict.gaps) == verdict.similar


def test_no_loss_is_announced_for_a_call_that_then_reads_it() -> None:
    """A verdict is asked before the bill comes, all earlier bills being there, or none."""
    for seed in SEEDS:
        calls = billed(recording(seed))
        *earlier, last = calls
        before = verdicts([*earlier, replace(last, usage=None)])[-1:]
        without = verdicts(no_bills(calls, seed))
        for call, verdict in [*zip(calls, without, strict=True), *zip([last], before, strict=True)]:
            if verdict is not None and call.usage is not None:
                assert verdict.read is None
                assert reads(call.usage) <= (verdict.readable or 0), (seed, call.id)
                assert verdict.lost_tokens + reads(call.usage) <= (verdict.similar or 0), (seed, call.id)


# Order and status
# -------------------------------------------------------------------------------------------------------------------


def test_live_order_gives_the_verdicts_of_sorted_order() -> None:
    """Calls are judged live when they end, and those sent before them have ended; in a recording, sorted by start."""
    for seed in SEEDS:
        calls = [call for call in billed(recording(seed)) if isinstance(call.prompt, Bodies)]
        detector, expected = MissDetector(), dict[str, Verdict | None]()
        for call in calls:
            detector.feed(call)
            expected[call.id] = detector.verdict
        judge, found = LiveJudge[str](), dict[str, Verdict | None]()
        tickets = dict[str, Ticket]()
        ends = {call.id: call.ended_at or call.at for call in calls}
        events = [(call.at, 0, call) for call in calls] + [(ends[call.id], 1, call) for call in calls]
        for _, is_end, call in sorted(events, key=lambda event: event[:2]):
            if is_end:
                assert isinstance(call.prompt, Bodies)
                found |= dict(judge.ended(tickets[call.id], call, call.prompt.request, call.id))
            else:
                tickets[call.id] = judge.sent(call.at)
        assert found == expected, seed


def test_a_refused_call_has_no_verdict_and_changes_nothing() -> None:
    for seed in SEEDS:
        rng, calls = random.Random(seed), billed(recording(seed))
        with_refused = list[ModelCall]()
        for call in calls:
            if rng.random() < 0.5:
                at = call.at - rng.choice((0.1, 0.4))
                refused = {"usage": None, "error": rng.choice(("529 overloaded_error", "400 invalid_request_error"))}
                body = rng.choice(calls).prompt
                with_refused.append(
                    replace(
                        call, id=f"refused {call.id}", at=at, first_byte_at=None, ended_at=at, prompt=body, **refused
                    )
                )
            with_refused.append(call)
        found = dict(zip((call.id for call in with_refused), verdicts(with_refused), strict=True))
        assert all(verdict is None for name, verdict in found.items() if name.startswith("refused"))
        assert [found[call.id] for call in calls] == verdicts(calls), seed


@pytest.mark.parametrize("fate", ["aborted", "cut"])
@pytest.mark.parametrize("provider", MODELS)
def test_the_resend_of_a_call_that_failed_has_no_gap_of_its_own(provider: str, fate: str) -> None:
    """Its losses are those it would have had, had it been sent once."""
    for seed in SEEDS:
        rng = random.Random(seed)
        grown = conversation(rng, provider, 3)
        grown[2].marks = rng.choice(("last", "system", "none", "early"))
        calls = sent(*grown)
        begun = calls[2].first_byte_at if fate == "cut" else None
        failed = replace(calls[2], error=fate, first_byte_at=begun, ended_at=calls[2].at + 4)
        resent = replace(calls[2], id="resent", at=calls[2].at + 5, first_byte_at=None, ended_at=calls[2].at + 9)
        once = verdicts(billed(calls))[2]
        again = verdicts(billed([*calls[:2], failed, resent]))[3]
        assert once is not None and again is not None
        assert again.lost_tokens <= once.lost_tokens, seed
        assert {gap.cause for gap in again.gaps if gap.is_avoidable} <= {gap.cause for gap in once.gaps}, seed


@pytest.mark.parametrize("provider", MODELS)
def test_an_identical_resend_of_a_call_that_was_answered_loses_nothing(provider: str) -> None:
    """As long as its breakpoint stands at the end, and the entry lives."""
    for seed in SEEDS:
        *_, last = grown = conversation(random.Random(seed), provider, 3)
        verdict = verdicts(billed(sent(*grown, last)))[-1]
        assert verdict is not None and verdict.lost_tokens == 0, seed


# Whose
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", MODELS)
def test_another_model_outside_the_conversation_owes_nothing(provider: str) -> None:
    for seed in SEEDS:
        grown = conversation(random.Random(seed), provider, 3)
        side = deepcopy(grown[-1])
        side.session, side.model = random.Random(seed).choice(("s9", "s0")), MODELS[provider][1]
        side.lane = "titles" if side.session == "s0" else "main"
        verdict = verdicts(billed(sent(*grown, side)))[-1]
        assert verdict is not None and verdict.lost_tokens == 0, seed
        assert [gap.cause for gap in verdict.gaps] in (["first_write"], ["below_minimum"])
        for call, found in judged(unlucky(billed(recording(seed, provider)), seed)):
            if any(gap.cause == "model_changed" for gap in found.gaps):
                assert found.earlier_id in {
                    one.id for one in recording(seed, provider) if lane_of(one) == lane_of(call)
                }


@pytest.mark.parametrize("provider", MODELS)
def test_a_compaction_that_is_remarked_is_nobodys(provider: str) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        grown = conversation(rng, provider, 5, marks="both")
        after = deepcopy(grown[-1])
        kept = rng.choice((0, 2))
        summary = {"role": "user", "content": [{"type": "text", "text": f"So far: {words(rng, 60)}"}]}
        after.messages = [summary, *after.messages[len(after.messages) - kept :]]
        calls = billed(sent(*grown, after))
        verdict = verdicts(calls, {calls[-1].id: {"compaction": "compacted"}})[-1]
        assert verdict is not None, seed
        assert not any(gap.whose.startswith("program") for gap in verdict.gaps), seed
        assert verdict.lost_tokens <= (GRANULARITY if provider == OPENAI else 0), seed  # the bill counts whole blocks


def test_a_declared_epoch_is_nobodys() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        grown = conversation(rng, ANTHROPIC, 5, marks="both")
        after = deepcopy(grown[-1])
        after.messages = [{"role": "user", "content": [{"type": "text", "text": f"So far: {words(rng, 60)}"}]}]
        calls, previous, outlined = billed(sent(*grown, after)), None, list[ModelCall]()
        for number, call in enumerate(calls):
            prompt = prompt_of(call)
            entries = [
                segment if number < 5 or segment < prompt.level_ends[1] else 1_000 for segment in range(prompt.n)
            ]
            written = outline(previous, prompt, entries, epoch=number // 5)
            outlined.append(replace(call, prompt=written))
            previous = prompt
        verdict = verdicts(outlined)[-1]
        assert verdict is not None and verdict.lost_tokens == 0, seed


# Invariant 14
# -------------------------------------------------------------------------------------------------------------------


def with_clock(grown: list[Talk]) -> list[Talk]:
    planted = deepcopy(grown)
    for number, one in enumerate(planted):
        one.system[0] = f"Now 10:{number + 10}. {one.system[0]}"
    return planted


def with_late_clock(grown: list[Talk]) -> list[Talk]:
    planted = deepcopy(grown)
    for number, one in enumerate(planted):
        one.system[0] = f"{one.system[0]} It is 10:{number + 10}."
    return planted


def without_a_tool(grown: list[Talk]) -> list[Talk]:
    """A small tool is left out of one call."""
    planted = deepcopy(grown)
    del planted[3].tools[1]
    return planted


def with_other_order(grown: list[Talk]) -> list[Talk]:
    """Two small tools change places in one call: of what has moved, a subsequence holds but one."""
    planted = deepcopy(grown)
    planted[3].tools[1:] = planted[3].tools[:0:-1]
    return planted


def with_edit(grown: list[Talk]) -> list[Talk]:
    """A word of the first message is another one from the fourth call on."""
    planted = deepcopy(grown)
    for one in planted[3:]:
        one.messages[0]["content"][0]["text"] = "Edited " + one.messages[0]["content"][0]["text"]
    return planted


PLANTS = {
    "clock": with_clock,
    "late clock": with_late_clock,
    "dropped tool": without_a_tool,
    "tool order": with_other_order,
    "edit": with_edit,
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("provider", MODELS)
def test_a_planted_loss_is_what_its_removal_saves(provider: str, plant: str) -> None:
    for seed in PLANTED:
        grown = conversation(random.Random(seed), provider, 6)
        planted = PLANTS[plant](grown)
        clean, changed = billed(sent(*grown)), billed(sent(*planted))
        saved = sum(reads(call.usage) for call in clean) - sum(reads(call.usage) for call in changed)
        lost = sum(verdict.lost_tokens for _, verdict in judged(changed))
        rounding = GRANULARITY * len(grown) if provider == OPENAI else 0
        assert saved > 1_000, (seed, saved)
        assert abs(lost - saved) <= 0.02 * saved + rounding, (seed, lost, saved)
        assert sum(verdict.lost_tokens for _, verdict in judged(clean)) == 0, seed


# What two blocks have in common
# -------------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([b"abc", b"the quick brown fox jumps over the lazy dog. ", b"10:31", b"x"]), max_size=8)
)
def test_equal_bytes_lie_between_both_ends_and_the_longest_common_subsequence(parts: list[bytes]) -> None:
    was = b"".join(parts)
    for number in range(len(parts)):
        now = b"".join([*parts[:number], b"2:40 pm", *parts[number + 1 :]])
        assert both_ends(was, now) <= equal_bytes(was, now) <= longest_common(was, now)
    assert equal_bytes(was, was) == len(was)


def both_ends(was: bytes, now: bytes) -> int:
    """Lengths of the common prefix and, behind it, of the common suffix."""
    most = min(len(was), len(now))
    start = next((i for i in range(most) if was[i] != now[i]), most)
    rest = most - start
    return start + next((i for i in range(rest) if was[-1 - i] != now[-1 - i]), rest)


def longest_common(was: bytes, now: bytes) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(now) + 1)
    for a in was:
        before, row = row, [0]
        for j, b in enumerate(now):
            row.append(before[j] + 1 if a == b else max(before[j + 1], row[-1]))
    return row[-1]


# Conversations
# -------------------------------------------------------------------------------------------------------------------


def example(provider: str) -> Talk:
    return conversation(random.Random(1), provider, 1)[0]


def conversation(rng: random.Random, provider: str, n: int, marks: str = "last") -> list[Talk]:
    """A conversation as its program holds it at each of `n` calls."""
    one = talk(rng, provider, "s0")
    while not one.system or len(one.system[0]) < 6_000:
        one = talk(rng, provider, "s0")
    one.marks, one.ttl, one.has_images = marks, "5m", False
    one.messages[0]["content"][0]["text"] = words(rng, 1_500)
    one.tools[1:] = [tool(rng, f"tool_{number}") for number in (1, 2)]
    one.tools[1]["description"], one.tools[2]["description"] = "Lists.", "Counts."
    grown = [deepcopy(one)]
    for _ in range(n - 1):
        one.grow(rng)
        grown.append(deepcopy(one))
    return grown


def sent(*grown: Talk) -> list[ModelCall]:
    """A call every 20 s."""
    calls = []
    for number, one in enumerate(grown):
        at = START + 20 * number
        name = f"c{number}"
        call = ModelCall(name, one.session, one.lane, at, at + 1, at + 3, one.provider, one.model, Bodies(one.body()))
        calls.append(call)
    return calls


def lane_of(call: ModelCall) -> tuple[str, str]:
    return call.session, call.lane
