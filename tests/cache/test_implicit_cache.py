"""Implicit caches: what is documented, then cost and memory."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError


class Block(NamedTuple):
    """One block of a conversation."""

    text: str
    tokens: int = 100
    level: int = 2


def blocks(*texts: object) -> list[Block]:
    return [Block(str(text)) for text in texts]


def prompt_of(conversation: Sequence[Block], settings: tuple[str, str, str] = ("", "", "")) -> Prompt:
    digest, total = b"", 0
    digests, ends = [], []
    for block in conversation:
        digest = hashlib.sha256(digest + repr((block.level, block.text)).encode()).digest()
        total += block.tokens
        digests.append(digest)
        ends.append(total)
    levels = [block.level for block in conversation]
    namespaces = tuple(repr(settings[: level + 1]).encode() for level in range(3))
    n = len(digests)
    return Prompt(namespaces, (levels.count(0), levels.count(0) + levels.count(1)), digests, ends, range(n), (), n)


def talk(n: int, *tail: str) -> Prompt:
    """The first `n` blocks of one long conversation, and a tail of its own."""
    return prompt_of(blocks(*range(n), *tail))


def call(cache: ImplicitCache, prompt: Prompt, at: float) -> Lease:
    """One whole call."""
    lease = cache.begin(prompt, at)
    cache.publish(lease, at)
    cache.end(lease, 7, at)
    return lease


# --- what is documented
# -----------------------------------------------------------------------------------------------------------


def test_a_read_is_the_common_prefix_floored_and_writing_is_free() -> None:
    cache = ImplicitCache(1024, 128, 300)
    assert call(cache, talk(20), 0).usage == Usage(2000, 0, 0, 0, 0)
    assert call(cache, talk(15, "other"), 1).usage == Usage(1600 - 1408, 1408, 0, 0, 0)
    assert call(cache, talk(30), 2).usage == Usage(3000 - 1920, 1920, 0, 0, 0)


@pytest.mark.parametrize(("shared", "read"), [(20, 0), (21, 2048), (40, 2048), (41, 4096)])
def test_boundaries_every_2048_tokens(shared: int, read: int) -> None:
    cache = ImplicitCache(1024, 2048, 300)
    call(cache, talk(60), 0)
    assert cache.lookup(talk(shared, "other", *"abcdefghijklmnopqrstuvwxyz"), 1).read_tokens == read


def test_the_segment_is_the_one_the_read_ends_in() -> None:
    cache = ImplicitCache(1000, 1000, 300)
    call(cache, talk(20), 0)
    hit = cache.lookup(talk(15, "other"), 1)
    assert (hit.read_tokens, hit.segment, hit.expires_at) == (1000, 9, 300)


def test_below_the_minimum_nothing_is_read() -> None:
    cache = ImplicitCache(1024, 128, 300)
    call(cache, talk(10), 0)
    assert cache.begin(talk(10), 1).usage == Usage(1000, 0, 0, 0, 0)
    assert cache.lookup(talk(10), 1).reason == "below_minimum"
    assert cache.lookup(talk(30), 1).reason == "below_minimum", "what is shared is too short"
    call(cache, talk(30), 2)
    assert cache.lookup(talk(30), 3).reason == "hit"


def test_use_keeps_a_prefix_alive_and_only_what_it_uses() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(20), 0)
    call(cache, talk(12, "other"), 200)
    assert cache.lookup(talk(20), 350).read_tokens == 1200
    assert cache.lookup(talk(20), 499).read_tokens == 1200
    gone = cache.lookup(talk(20), 500)
    assert (gone.reason, gone.expires_at) == ("ttl_expired", 300)
    assert cache.lookup(talk(12), 501).expires_at == 500


def test_a_tail_that_is_gone_dies_though_the_conversation_goes_on() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(10, "tail"), 0)
    call(cache, talk(12, "tail"), 200)
    assert cache.lookup(talk(10, "tail"), 299).read_tokens == 1100
    assert cache.lookup(talk(10, "tail"), 300).read_tokens == 1000
    assert cache.lookup(talk(12, "tail"), 300).read_tokens == 1300


def test_what_came_back_after_dying_survives_another_branch() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(7), 0)
    call(cache, talk(1), 200)
    call(cache, talk(4), 350)
    call(cache, talk(1, *"abcdefghij"), 360)
    assert cache.lookup(talk(7), 370).read_tokens == 400


def test_a_slow_answer_to_an_older_request_shortens_nothing() -> None:
    cache = ImplicitCache(0, 1, 300)
    slow = cache.begin(talk(9), 0)
    call(cache, talk(5), 100)
    cache.publish(slow, 150)
    assert cache.lookup(talk(9), 299).read_tokens == 900
    assert cache.lookup(talk(9), 399).read_tokens == 500
    assert cache.lookup(talk(9), 400).reason == "ttl_expired"


def test_what_is_read_reaches_the_minimum_after_rounding() -> None:
    cache = ImplicitCache(1500, 1000, 300)
    call(cache, talk(19), 0)
    assert cache.lookup(talk(19), 1).read_tokens == 0
    call(cache, talk(20), 2)
    assert cache.lookup(talk(20), 3).read_tokens == 2000


def test_a_branch_keeps_its_trunk_alive() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(30), 0)
    for turn in range(1, 10):
        call(cache, talk(10, *"abcdefghi"[:turn]), turn * 200)
    assert cache.lookup(talk(10), 2000).read_tokens == 1000
    assert cache.lookup(talk(11), 2000).read_tokens == 1000


def test_a_lookup_or_a_quote_changes_nothing() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(5), 0)
    before = pickle.dumps(cache)
    cache.lookup(talk(5), 299)
    assert cache.quote(talk(6), 299) == Usage(100, 500, 0, 0, 0)
    assert pickle.dumps(cache) == before


def test_the_lifetime_counts_from_the_start_of_the_request() -> None:
    cache = ImplicitCache(0, 1, 300)
    lease = cache.begin(talk(5), 0)
    cache.publish(lease, 250)
    assert cache.lookup(talk(5), 299).reason == "hit"
    assert cache.lookup(talk(5), 300).reason == "ttl_expired"


def test_parallel_first_calls_all_miss() -> None:
    cache = ImplicitCache(0, 1, 300)
    leases = [cache.begin(talk(5), at) for at in (0, 1)]
    assert [lease.hit.reason for lease in leases] == ["first_write", "not_yet_visible"]
    cache.publish(leases[0], 2)
    assert cache.lookup(talk(5), 3).expires_at == 300
    cache.publish(leases[1], 4)
    assert cache.lookup(talk(5), 5).expires_at == 301


def test_a_request_that_dies_before_its_response_leaves_nothing() -> None:
    cache = ImplicitCache(0, 1, 300)
    cache.begin(talk(5), 0)
    assert cache.lookup(talk(5), 299).reason == "not_yet_visible"
    assert cache.lookup(talk(5), 300).reason == "first_write"


@pytest.mark.parametrize(("visible_at", "seen"), [("begin", [1, 1, 1]), ("publish", [0, 1, 1]), ("end", [0, 0, 1])])
def test_when_a_prompt_becomes_readable_is_a_parameter(visible_at: str, seen: list[int]) -> None:
    cache = ImplicitCache(0, 1, 300, visible_at)
    found = []
    lease = cache.begin(talk(5), 0)
    found.append(cache.lookup(talk(5), 1).read_tokens > 0)
    cache.publish(lease, 2)
    found.append(cache.lookup(talk(5), 3).read_tokens > 0)
    assert cache.end(lease, 12, 4) == Usage(500, 0, 0, 0, 12)
    found.append(cache.lookup(talk(5), 5).read_tokens > 0)
    assert found == seen


@pytest.mark.parametrize(
    ("settings", "read"),
    [(("m", "", "auto"), 3100), (("m", "", "none"), 3000), (("m", "fast", "auto"), 1500), (("other", "", "auto"), 0)],
)
def test_a_changed_setting_loses_its_level_and_those_behind(settings: tuple[str, str, str], read: int) -> None:
    head = [Block("tools", 1500, 0), Block("system", 1500, 1), Block("hello")]
    cache = ImplicitCache(1024, 1, 300)
    call(cache, prompt_of(head, ("m", "", "auto")), 0)
    assert cache.lookup(prompt_of(head, settings), 1).read_tokens == read


def test_breakpoints_change_nothing() -> None:
    plain = talk(20)
    marked = replace(plain, breakpoints=(Breakpoint(3, 1800, 1),))
    cache = ImplicitCache(1024, 128, 300)
    call(cache, marked, 0)
    assert cache.lookup(plain, 1) == cache.lookup(marked, 1)
    assert cache.lookup(plain, 1).read_tokens == 1920


def test_an_empty_prompt_is_billed_nothing() -> None:
    assert call(ImplicitCache(0, 1, 300), prompt_of([]), 0).usage == Usage(0, 0, 0, 0, 0)


def test_a_granularity_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="granularity_tokens is 0"):
        ImplicitCache(1024, 0, 300)


# --- cost, memory
# ------------------------------------------------------------------------------------------------------


class Counting(Sequence):
    """A list that counts how often it is read."""

    def __init__(self, items: Sequence) -> None:
        self.items, self.reads = items, 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index):
        self.reads += 1
        return self.items[index]


def probes(n: int, n_tail: int) -> int:
    """Reads of the prompt's digests in the last of some calls, each with 4 new blocks and a tail that is gone in the
    next."""
    cache = ImplicitCache(0, 1, 300)
    digests = Counting([])
    for turn in range(5):
        plain = talk(n + 4 * turn, *(f"tail {turn} {i}" for i in range(n_tail)))
        digests = Counting(plain.digests)
        call(
            cache,
            Prompt(plain.namespaces, plain.level_ends, digests, plain.ends_tokens, plain.positions, (), plain.n),
            turn,
        )
    return digests.reads


@pytest.mark.parametrize("n_tail", [0, 3])
def test_a_call_costs_what_is_new_not_the_conversation(n_tail: int) -> None:
    short, long = probes(100, n_tail), probes(5_000, n_tail)
    assert short == long < 60


def test_a_tail_that_changes_each_turn_leaves_no_chain_behind() -> None:
    cache = ImplicitCache(0, 1, 300)
    for turn in range(300):
        call(cache, talk(turn, f"tail {turn}", "end"), turn)
    trunk = max(cache._runs, key=lambda run: len(run.keys))
    assert len(trunk.keys) >= 299, "the conversation stays one run, so a refresh has no chain of parents to walk"
    assert len(trunk.steps) < 5


def test_a_short_branch_leaves_the_long_one_where_it_is() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(500), 0)
    call(cache, talk(3, "aside"), 1)
    assert sorted(len(run.keys) for run in cache._runs) == [1, 500]


def test_memory_stays_bounded_over_weeks() -> None:
    cache = ImplicitCache(0, 1, 300)
    for step in range(4_000):
        lease = cache.begin(prompt_of(blocks("shared", f"only {step}", "b", "c")), step * 864.0)
        if step % 2:
            cache.publish(lease, step * 864.0)
    assert cache.stats()["segments"] <= 400, "100 calls a day, half of them published, three segments each"
    assert len(cache._in_flight) <= 8


def test_a_shared_head_that_never_dies_does_not_keep_its_first_conversation() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(1, *(f"first {i}" for i in range(500))), 0)
    for step in range(1, 2_000):
        call(cache, talk(1, f"later {step}"), step * 200.0)
    assert cache.lookup(talk(1), 2_000 * 200.0).reason == "hit"
    assert cache.stats()["segments"] <= 700


def test_reset_forgets_everything_and_an_open_call_cannot_bring_back_half() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(5), 0)
    pending = cache.begin(talk(9), 1)
    cache.reset()
    cache.publish(pending, 2)
    assert cache.lookup(talk(9), 3).reason == "first_write"
    assert cache.stats()["segments"] == 0


def test_stats_add_up_to_the_bills() -> None:
    cache = ImplicitCache(0, 1, 300)
    call(cache, talk(5), 0)
    call(cache, talk(7), 1)
    assert cache.stats() == {
        "requests": 2,
        "hits": 1,
        "miss_first_write": 1,
        "read_tokens": 500,
        "fresh_tokens": 700,
        "output_tokens": 14,
        "segments_written": 7,
        "segments": 7,
    }
