"""Each cause is named from what was recorded, in small ledgers made for it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.ledger.misses import Miss, analyzed_calls, misses

HEAD = ["tool", "system"]
SETTINGS = (b"t", b"s", b"m")


def prompt(
    bodies: list[str],
    marks: list[int] | None = None,
    settings: tuple[bytes, bytes, bytes] = SETTINGS,
    ends: tuple[int, int] = (1, 2),
) -> Prompt:
    """A thousand tokens a segment, one position each, marked at its end unless told otherwise."""
    digests: list[bytes] = []
    for body in bodies:
        digests.append(blake2b((digests[-1] if digests else b"") + body.encode(), digest_size=16).digest())
    n = len(bodies)
    at = [n - 1] if marks is None else marks
    return Prompt(
        settings, ends, digests, [1000 * (i + 1) for i in range(n)], range(n), tuple(Breakpoint(i, 300) for i in at), n
    )


class Story:
    """Calls of one session, written as they happen."""

    def __init__(self) -> None:
        self.recorder = Recorder(Ledger())

    def call(self, at: float, usage: Usage | None, sent: Prompt | None = None, *, epoch: int = 0, **more: Any) -> Story:
        number = len(self.recorder.ledger)
        row: dict[str, Any] = {
            "id": f"msg_{number}",
            "session": "s",
            "lane": "main",
            "at": at,
            "first_byte_at": at + 1,
            "ended_at": at + 5,
            "provider": "anthropic",
            "model": "claude-opus-4-5",
            "prompt": None,
            "usage": usage,
            "predicted": None,
            "error": None,
        }
        self.recorder.record(ModelCall(**{**row, **more}), sent, range(100, 100 + sent.n) if sent else (), epoch)
        return self

    @property
    def misses(self) -> list[Miss]:
        return misses(self.recorder.ledger)

    @property
    def last(self) -> Miss:
        return self.misses[-1]


def billed(read: int, write: int, fresh: int = 10) -> Usage:
    return Usage(fresh, read, write, 0, 100)


def talk(n: int, **changed: str) -> list[str]:
    """A head and n messages; `m3="x"` changes one."""
    names = [*HEAD, *(f"m{i}" for i in range(n))]
    return [changed.get(name, name) for name in names]


def begun(sent: Prompt | None = None) -> Story:
    """One call that wrote 20,000 tokens."""
    return Story().call(0, billed(0, 20_000), sent or prompt(talk(18)))


def test_a_growing_conversation_has_only_its_first_write() -> None:
    story = begun().call(30, billed(20_000, 2_000), prompt(talk(20))).call(60, billed(22_000, 500), prompt(talk(21)))
    assert [(miss.cause, miss.lost_tokens) for miss in story.misses] == [("first_write", 0)]


def test_a_first_call_below_the_minimum_is_said_and_costs_nothing() -> None:
    story = Story().call(0, billed(0, 0, fresh=2_775)).call(5, billed(0, 33_637, fresh=1))
    assert [(miss.cause, miss.cost_usd) for miss in story.misses] == [("below_minimum", 0), ("first_write", 0)]
    assert "4,096" in story.misses[0].where


@pytest.mark.parametrize(
    ("cause", "where", "sent", "more"),
    [
        ("model_changed", "claude-sonnet-4-5", prompt(talk(20)), {"model": "claude-sonnet-4-5"}),
        ("compaction", "epoch 0 → 1", prompt([*HEAD, "summary", *talk(20)[10:]]), {"epoch": 1}),
        ("params_changed", "messages", prompt(talk(20), settings=(b"t", b"s", b"other")), {}),
        ("params_changed", "system", prompt(talk(20), settings=(b"t", b"other", b"other")), {}),
        ("tools_changed", "tools block 0, entry 100", prompt(talk(20, tool="other")), {}),
        ("tools_changed", "tools block 1, entry 101", prompt(["tool", "new", *talk(20)[1:]], ends=(2, 3)), {}),
        ("system_changed", "system block 1, entry 101", prompt(talk(20, system="14:02")), {}),
        ("messages_changed", "messages block 7, entry 107", prompt(talk(20, m5="pruned")), {}),
        ("breakpoint_place", "behind block 12, where this prompt has ended", prompt(talk(10)), {}),
        ("ttl_expired", "gap 373 s > 300 s", prompt(talk(20)), {"at": 373.6}),
        ("cold_fan_out", "started 0.5 s before", prompt(talk(20)), {"at": 0.5}),
        ("out_of_reach", "22 positions behind", prompt(talk(40)), {}),
        ("unknown", "prefix intact, gap 148 s ≤ 300 s", prompt(talk(20)), {"at": 148.2}),
    ],
)
def test_the_cause_is_named(cause: str, where: str, sent: Prompt, more: dict[str, Any]) -> None:
    more = {"at": 30.0, **more}
    miss = begun().call(more.pop("at"), billed(0, 1000 * sent.n), sent, **more).last
    assert (miss.cause, where in miss.where) == (cause, True), miss.where
    assert miss.index == 1
    assert miss.expected_tokens == pytest.approx(min(20_000, 1000 * sent.n + 10), abs=2_000)
    assert miss.is_loss is (cause != "compaction")
    assert miss.certain is (cause != "unknown")


def test_what_changed_the_prompt_comes_before_what_time_did() -> None:
    assert begun().call(900, billed(0, 22_000), prompt(talk(20, m5="x"))).last.cause == "messages_changed"


def test_a_change_behind_the_last_breakpoint_is_no_cause() -> None:
    first = prompt(talk(18), marks=[9])
    later = prompt(talk(20, m12="x"), marks=[9, 21])
    assert [miss.cause for miss in begun(first).call(30, billed(10_000, 12_000), later).misses] == [
        "first_write",
        "unknown",
    ]
    assert begun(first).call(400, billed(0, 22_000), later).last.cause == "ttl_expired"


def test_an_earlier_breakpoint_in_reach_is_no_cause() -> None:
    sent = prompt(talk(40), marks=[25, 41])
    assert begun().call(30, billed(0, 42_000), sent).last.cause == "unknown"


def test_an_answer_that_never_began_wrote_nothing() -> None:
    story = begun().call(
        10, Usage(10, 20_000, 10_000, 0, 0), prompt(talk(28)), first_byte_at=None, ended_at=11.0, error="aborted"
    )
    miss = story.call(30, billed(20_000, 11_000), prompt(talk(29))).last
    assert (miss.cause, miss.lost_tokens, miss.certain) == ("aborted", 10_000, False)


def test_a_call_without_a_bill_between_two_makes_an_expiry_uncertain() -> None:
    story = (
        begun()
        .call(200, None, prompt(talk(19)), error="aborted", first_byte_at=None)
        .call(400, billed(0, 22_000), prompt(talk(20)))
    )
    assert (story.last.cause, story.last.certain, len(story.misses)) == ("ttl_expired", False, 2)


def test_a_change_that_was_taken_back_is_none() -> None:
    story = (
        begun()
        .call(10, None, prompt(talk(19, m5="x")), error="aborted")
        .call(30, billed(20_000, 2_000), prompt(talk(20)))
    )
    assert [miss.cause for miss in story.misses] == ["first_write"]
    last = begun().call(10, None, prompt(talk(19, m5="x"))).call(30, billed(0, 22_000), prompt(talk(20))).last
    assert (last.cause, last.basis) == ("messages_changed", "associated")


def test_long_writes_live_longer() -> None:
    story = Story().call(0, Usage(10, 0, 0, 20_000, 5)).call(1_000, billed(0, 21_000))
    assert story.last.cause == "unknown"
    late = Story().call(0, Usage(10, 0, 0, 20_000, 5)).call(4_000, billed(0, 21_000)).last
    assert (late.cause, late.expected_tokens, late.is_loss) == ("cold_start", 20_000, False)  # no lifetime is longer


def test_noise_is_no_miss() -> None:
    assert len(begun().call(30, billed(18_001, 4_000), prompt(talk(20))).misses) == 1
    assert len(begun().call(30, billed(17_999, 4_000), prompt(talk(20))).misses) == 2
    big = Story().call(0, billed(0, 100_000))
    assert len(big.call(30, billed(95_001, 6_000)).misses) == 1


def test_each_call_that_pays_again_is_counted() -> None:
    story = begun().call(30, billed(0, 0, fresh=22_000), prompt(talk(20))).call(60, billed(0, 23_000), prompt(talk(21)))
    assert [miss.cause for miss in story.misses] == ["first_write", "unknown", "unknown"]


def test_going_back_to_an_earlier_place_is_no_miss() -> None:
    story = begun(prompt(talk(18), marks=[9, 19])).call(30, billed(10_000, 900), prompt(talk(9), marks=[9]))
    assert [miss.cause for miss in story.misses] == ["first_write"]
    story.call(60, billed(20_000, 20_000), prompt(talk(38), marks=[9, 30, 39]))
    assert [miss.cause for miss in story.misses] == ["first_write"]


def test_bills_alone_are_enough_to_find_a_miss() -> None:
    miss = Story().call(0, billed(0, 20_000)).call(30, billed(0, 9_000)).last
    assert (miss.cause, miss.expected_tokens, miss.certain) == ("messages_changed", 9_010, True)
    assert "shrank from 20,010 to 9,010" in miss.where
    miss = Story().call(0, billed(0, 20_000)).call(30, billed(0, 21_000)).last
    assert (miss.cause, miss.expected_tokens, miss.certain) == ("unknown", 20_000, False)
    assert "not recorded" in miss.where


def test_siblings_that_start_together_are_a_cold_fan_out() -> None:
    shared = talk(10)
    story = Story().call(0, billed(0, 12_000), prompt([*shared, "a"], marks=[11, 12]), lane="a")
    story.call(0.2, billed(0, 12_000), prompt([*shared, "b"], marks=[11, 12]), lane="b")
    story.call(9, billed(12_000, 1_000), prompt([*shared, "c"], marks=[11, 12]), lane="c")
    assert [(miss.lane, miss.cause, miss.lost_tokens) for miss in story.misses] == [
        ("a", "first_write", 0),
        ("b", "cold_fan_out", pytest.approx(12_000, rel=0.1)),
    ]


def test_lanes_and_sessions_are_judged_apart() -> None:
    story = begun().call(10, billed(0, 9_000), lane="side").call(20, billed(20_000, 100), prompt(talk(18)))
    story.call(30, billed(0, 9_000), session="other")
    assert [(miss.index, miss.cause) for miss in story.misses] == [
        (0, "first_write"),
        (1, "first_write"),
        (3, "first_write"),
    ]


def test_an_implicit_cache_keeps_what_nobody_says_it_wrote() -> None:
    gpt = {"provider": "openai", "model": "gpt-4o"}
    story = Story().call(0, Usage(20_000, 0, None, None, 50), **gpt).call(30, Usage(21_000, 0, None, None, 50), **gpt)
    assert [(miss.cause, miss.expected_tokens) for miss in story.misses] == [("first_write", 0), ("unknown", 19_968)]
    story = (
        Story().call(0, Usage(20_000, 0, None, None, 50), **gpt).call(30, Usage(1_032, 19_968, None, None, 50), **gpt)
    )
    assert [miss.cause for miss in story.misses] == ["first_write"]


def test_the_cost_is_what_was_paid_above_the_read_price() -> None:
    # claude-opus-4-5: read 0.50, 5m write 6.25, 1h write 10, input 5 dollars a million tokens
    miss = begun().call(30, billed(0, 22_000), prompt(talk(20))).last
    assert miss.cost_usd == pytest.approx(20_000 * (6.25 - 0.5) / 1e6)
    uncached = begun().call(30, billed(0, 0, fresh=22_000), prompt(talk(20))).last
    assert uncached.cost_usd == pytest.approx(20_000 * (5 - 0.5) / 1e6)
    mixed = begun().call(30, Usage(12_000, 0, 0, 10_000, 9), prompt(talk(20))).last
    assert mixed.cost_usd == pytest.approx((10_000 * (10 - 0.5) + 10_000 * (5 - 0.5)) / 1e6)


def test_an_unknown_price_is_not_zero() -> None:
    story = Story().call(0, billed(0, 20_000), model="my-model").call(30, billed(0, 22_000), model="my-model")
    assert story.last.cost_usd is None
    assert story.last.lost_tokens == 20_000


def test_a_bill_with_a_hole_is_passed_over() -> None:
    hole = replace(billed(0, 22_000), read=None)
    assert [miss.cause for miss in begun().call(30, hole, prompt(talk(20))).misses] == ["first_write"]


def test_each_part_of_a_loss_has_its_own_cause() -> None:
    story = Story().call(0, billed(0, 40_000), prompt(talk(38), marks=[29, 39]))
    story.call(60, billed(0, 40_000), prompt(talk(38, m33="x"), marks=[29, 39]))
    verdict = [*analyzed_calls(story.recorder.ledger)][-1].verdict
    assert verdict is not None
    assert (verdict.read, verdict.readable, verdict.shared, verdict.similar) == (0, 30_000, 35_000, 40_000)
    assert [(gap.cause, gap.tokens, gap.place) for gap in verdict.gaps] == [
        ("unknown", 30_000, ""),
        ("messages_changed", 10_000, "messages block 35, entry 135"),
    ]


def test_a_host_that_never_reports_a_read_has_no_misses() -> None:
    silent = {"provider": "our-host", "model": "glm-5.2"}
    story = Story()
    for number in range(3):
        story.call(30 * number, Usage(20_000 + 1_000 * number, 0, None, None, 50), **silent)
    assert not [miss for miss in story.misses if miss.is_loss]
    story.call(90, Usage(1_000, 22_000, None, None, 50), **silent).call(120, Usage(24_000, 0, None, None, 50), **silent)
    assert [miss.cause for miss in story.misses if miss.is_loss] == ["unknown"]


def test_a_miss_is_the_providers_where_the_next_call_reads_the_older_entry() -> None:
    def call(number: int, prompt: int, read: int) -> ModelCall:
        at, usage = 1_800_000_000.0 + 10 * number, Usage(prompt - read, read, 0, 0, 9)
        return ModelCall(
            f"c{number}",
            "s",
            at=at,
            first_byte_at=at + 1,
            ended_at=at + 2,
            provider="openai",
            model="gpt-5.1",
            usage=usage,
        )

    calls = [call(0, 20_000, 0), call(1, 26_000, 19_968), call(2, 31_000, 0), call(3, 36_000, 25_984)]
    told = [(one.miss.cause, one.miss.whose, one.miss.basis) for one in analyzed_calls(calls) if one.miss]
    assert told[1] == ("other_server", "provider", "documented")
    assert [one.call.id for one in analyzed_calls(calls)] == ["c0", "c1", "c2", "c3"]
    intact = [*calls[:3], call(3, 36_000, 30_976)]  # it reads what the call that missed has written
    assert [one.miss.cause for one in analyzed_calls(intact) if one.miss][1] == "unknown"
