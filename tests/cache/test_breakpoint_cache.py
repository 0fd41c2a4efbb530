"""Breakpoint caches: every worked example of the providers' pages, then cost and memory."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prefix_cache import Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import ContextKitError

FIVE, HOUR = 300, 3600


class Block(NamedTuple):
    """One block of a conversation."""

    text: str
    tokens: int = 100
    level: int = 2
    run: str = ""


def blocks(n: int, start: int = 0) -> list[Block]:
    return [Block(f"b{i}") for i in range(start, start + n)]


def prompt_of(
    conversation: Sequence[Block], marks: Sequence[Breakpoint], settings: tuple[str, str, str] = ("", "", "")
) -> Prompt:
    digest, total, position = b"", 0, -1
    digests, ends, positions = [], [], []
    for index, block in enumerate(conversation):
        digest = hashlib.sha256(digest + repr((block.level, block.text)).encode()).digest()
        total += block.tokens
        position += not (index and block.run and block.run == conversation[index - 1].run)
        digests.append(digest)
        ends.append(total)
        positions.append(position)
    levels = [block.level for block in conversation]
    namespaces = tuple(repr(settings[: level + 1]).encode() for level in range(3))
    return Prompt(
        namespaces,
        (levels.count(0), levels.count(0) + levels.count(1)),
        digests,
        ends,
        positions,
        tuple(marks),
        len(digests),
    )


def marked(n: int, *at: int, ttl: int = FIVE) -> Prompt:
    """The first `n` blocks of one long conversation, marked at these segments."""
    return prompt_of(blocks(n), [Breakpoint(i, ttl) for i in at])


def call(cache: BreakpointCache, prompt: Prompt, at: float, begun: float | None = None) -> Lease:
    """One whole call."""
    lease = cache.begin(prompt, at)
    cache.publish(lease, at if begun is None else begun)
    cache.end(lease, 7, at if begun is None else begun)
    return lease


# --- the worked examples
# ----------------------------------------------------------------------------------------------------------


def test_an_entry_ten_is_found_from_fifteen() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(11, 10), 0)
    hit = cache.lookup(marked(16, 15), 1)
    assert (hit.reason, hit.segment, hit.read_tokens, hit.expires_at) == ("hit", 10, 1100, 300)


def test_an_entry_fifteen_is_out_of_reach_from_thirty_five() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(16, 15), 0)
    assert cache.lookup(marked(36, 35), 1).reason == "out_of_reach"
    assert cache.lookup(marked(35, 34), 1).read_tokens == 1600
    assert cache.lookup(marked(36, 20, 35), 1).read_tokens == 1600, "an earlier breakpoint starts its own window"


@pytest.mark.parametrize(("positions", "reason"), [(20, "hit"), (21, "out_of_reach"), (22, "out_of_reach")])
def test_a_run_of_tool_blocks_is_one_position(positions: int, reason: str) -> None:
    turns = [Block(f"t{i}", run=("tool_use", "tool_result")[(i * positions // 120) % 2]) for i in range(120)]
    cache = BreakpointCache(0)
    call(cache, prompt_of(turns[:1], [Breakpoint(0, FIVE)]), 0)
    later = prompt_of(turns, [Breakpoint(119, FIVE)])
    assert later.positions[119] == positions - 1
    assert cache.lookup(later, 1).reason == reason


def test_an_entry_written_inside_a_run_is_found_from_its_end() -> None:
    results = [Block(f"r{i}", run="tool_result") for i in range(8)]
    cache = BreakpointCache(0)
    call(cache, prompt_of(results[:3], [Breakpoint(2, FIVE)]), 0)
    assert cache.lookup(prompt_of(results, [Breakpoint(7, FIVE, lookback=1)]), 1).segment == 2


def test_mixed_lifetimes_are_billed_by_three_places() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(3, 2, ttl=HOUR), 0)
    mixed = prompt_of(blocks(10), [Breakpoint(2, HOUR), Breakpoint(5, HOUR), Breakpoint(8, FIVE)])
    assert cache.begin(mixed, 1).usage == Usage(fresh=100, read=300, write_5m=300, write_1h=300, output=0)


def test_a_hit_behind_the_last_long_mark_bills_no_long_write() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(7, 6), 0)
    mixed = prompt_of(blocks(10), [Breakpoint(5, HOUR), Breakpoint(8, FIVE)])
    assert cache.begin(mixed, 1).usage == Usage(fresh=100, read=700, write_5m=200, write_1h=0, output=0)


def test_a_hit_at_the_last_mark_writes_nothing() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    assert cache.begin(marked(9, 4), 1).usage == Usage(fresh=400, read=500, write_5m=0, write_1h=0, output=0)


def test_the_lifetime_counts_from_the_start_of_the_request() -> None:
    cache = BreakpointCache(0)
    prompt = marked(5, 4)
    lease = cache.begin(prompt, 0)
    cache.publish(lease, 200)
    cache.end(lease, 4000, 290)
    assert cache.lookup(prompt, 299.9).reason == "hit"
    miss = cache.lookup(prompt, 300)
    assert (miss.reason, miss.expires_at) == ("ttl_expired", 300)


def test_a_read_refreshes_for_free() -> None:
    cache = BreakpointCache(0)
    prompt = marked(5, 4)
    call(cache, prompt, 0)
    lease = cache.begin(prompt, 250)
    assert (lease.usage, lease.hit.expires_at) == (Usage(0, 500, 0, 0, 0), 550)
    assert cache.lookup(prompt, 549).reason == "hit"
    assert cache.lookup(prompt, 550).reason == "ttl_expired"


def test_marks_below_the_hit_are_refreshed_with_it() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(30, 2, 25), 0)
    call(cache, marked(31, 2, 30), 250)
    assert cache.lookup(marked(4, 2), 400).read_tokens == 300
    cache.begin(
        marked(31, 2, 30), 500
    )  # the request dies: what it read lives on, what it marked below was read with it
    assert cache.lookup(marked(4, 2), 799).read_tokens == 300


def test_a_mark_that_only_reads_refreshes_too() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(30, 2, 25), 0)
    call(cache, prompt_of(blocks(31), [Breakpoint(2, FIVE, is_written=False), Breakpoint(30, FIVE)]), 250)
    assert cache.lookup(marked(4, 2), 400).read_tokens == 300


def test_a_lookup_or_a_quote_changes_nothing() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    before = pickle.dumps(cache)
    cache.lookup(marked(5, 4), 299)
    cache.lookup(marked(50, 49), 299)
    assert cache.quote(marked(6, 5), 299) == Usage(0, 500, 100, 0, 0)
    assert pickle.dumps(cache) == before


def test_a_long_mark_over_a_live_short_entry_lengthens_it_and_is_never_shortened() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    call(cache, marked(5, 4, ttl=HOUR), 10)
    assert cache.lookup(marked(5, 4), 3609).reason == "hit"
    call(cache, marked(5, 4), 20)
    assert cache.lookup(marked(5, 4), 3619).reason == "hit"
    call(cache, marked(5, 4), 3000)
    assert cache.lookup(marked(5, 4), 6599).reason == "hit", "read under a short mark it keeps its own lifetime"


def test_parallel_first_calls_all_miss_and_all_pay() -> None:
    cache = BreakpointCache(0)
    prompt = marked(5, 4)
    leases = [cache.begin(prompt, at) for at in (0, 1, 2)]
    assert [lease.hit.reason for lease in leases] == ["first_write", "not_yet_visible", "not_yet_visible"]
    assert {lease.usage for lease in leases} == {Usage(0, 0, 500, 0, 0)}
    cache.publish(leases[0], 3)
    assert cache.begin(prompt, 4).usage == Usage(0, 500, 0, 0, 0)


def test_a_request_that_dies_before_its_response_leaves_nothing() -> None:
    cache = BreakpointCache(0)
    prompt = marked(5, 4)
    cache.begin(prompt, 0)
    assert cache.lookup(prompt, 299).reason == "not_yet_visible"
    assert cache.lookup(prompt, 300).reason == "first_write"
    assert cache.begin(prompt, 301).usage.read == 0


@pytest.mark.parametrize(("visible_at", "seen"), [("begin", [1, 1, 1]), ("publish", [0, 1, 1]), ("end", [0, 0, 1])])
def test_when_a_write_becomes_readable_is_a_parameter(visible_at: str, seen: list[int]) -> None:
    cache = BreakpointCache(0, visible_at=visible_at)
    prompt = marked(5, 4)
    found = []
    lease = cache.begin(prompt, 0)
    found.append(cache.lookup(prompt, 1).read_tokens > 0)
    cache.publish(lease, 2)
    found.append(cache.lookup(prompt, 3).read_tokens > 0)
    assert cache.end(lease, 12, 4) == Usage(0, 0, 500, 0, 12)
    found.append(cache.lookup(prompt, 5).read_tokens > 0)
    assert found == seen


def test_below_the_minimum_both_counters_are_zero() -> None:
    cache = BreakpointCache(1024)
    prompt = marked(11, 9)
    for at in (0, 1):
        lease = call(cache, prompt, at)
        assert (lease.hit.reason, lease.usage) == ("below_minimum", Usage(1100, 0, 0, 0, 0))
    both = call(cache, marked(11, 9, 10), 2)
    assert both.usage == Usage(0, 0, 1100, 0, 0), "the mark that reaches the minimum writes, the other does not"
    assert cache.lookup(marked(11, 9), 3).reason == "below_minimum"


def test_a_prefix_of_exactly_the_minimum_is_cached() -> None:
    cache = BreakpointCache(1000)
    call(cache, marked(11, 9), 0)
    assert cache.lookup(marked(11, 9), 1).read_tokens == 1000


def test_no_breakpoint_no_cache() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    lease = cache.begin(marked(5), 1)
    assert (lease.hit.reason, lease.usage) == ("no_breakpoint", Usage(500, 0, 0, 0, 0))
    assert cache.begin(prompt_of([], []), 1).usage == Usage(0, 0, 0, 0, 0)


HEAD = [Block("tools", 1500, 0), Block("system", 1500, 1), Block("hello")]
EACH = [Breakpoint(0, FIVE), Breakpoint(1, FIVE), Breakpoint(2, FIVE)]


@pytest.mark.parametrize(
    ("settings", "read"),
    [(("m", "", "auto"), 3100), (("m", "", "none"), 3000), (("m", "fast", "auto"), 1500), (("other", "", "auto"), 0)],
)
def test_a_changed_setting_loses_its_level_and_those_behind(settings: tuple[str, str, str], read: int) -> None:
    cache = BreakpointCache(1024)
    call(cache, prompt_of(HEAD, EACH, ("m", "", "auto")), 0)
    assert cache.lookup(prompt_of(HEAD, EACH, settings), 1).read_tokens == read


def test_a_changed_tool_loses_everything() -> None:
    cache = BreakpointCache(1024)
    call(cache, prompt_of(HEAD, EACH), 0)
    assert cache.lookup(prompt_of([Block("tools, sorted", 1500, 0), *HEAD[1:]], EACH), 1).reason == "first_write"


def test_a_prewarm_costs_the_write_and_the_next_call_reads_it() -> None:
    cache = BreakpointCache(1024)
    prompt = prompt_of(HEAD, EACH[:2])
    lease = cache.begin(prompt, 0)
    cache.publish(lease, 1)
    assert cache.end(lease, 0, 1) == Usage(100, 0, 3000, 0, 0)
    assert cache.begin(prompt, 2).usage == Usage(100, 3000, 0, 0, 0)


def test_explicit_boundaries_match_exactly_and_implicit_ones_look_back_twenty_endings() -> None:
    cache = BreakpointCache(0)
    call(cache, prompt_of(blocks(6), [Breakpoint(5, 1800, lookback=1)]), 0)
    assert cache.lookup(prompt_of(blocks(7), [Breakpoint(6, 1800, lookback=1)]), 1).reason == "out_of_reach"
    assert cache.lookup(prompt_of(blocks(26), [Breakpoint(25, 1800, lookback=21)]), 1).read_tokens == 600
    assert cache.lookup(prompt_of(blocks(27), [Breakpoint(26, 1800, lookback=21)]), 1).reason == "out_of_reach"


def test_a_breakpoint_that_is_not_written_only_reads() -> None:
    cache = BreakpointCache(0)
    reader = prompt_of(blocks(8), [Breakpoint(5, 1800, 1, is_written=False), Breakpoint(7, 43200, 1)])
    assert call(cache, reader, 0).usage == Usage(0, 0, output=0, writes={43200: 800})
    assert cache.lookup(prompt_of(blocks(6), [Breakpoint(5, 1800, 1)]), 1).reason == "first_write"
    call(cache, prompt_of(blocks(6), [Breakpoint(5, 1800, 1)]), 2)
    other = prompt_of([*blocks(6), *blocks(2, start=90)], reader.breakpoints)
    assert call(cache, other, 3).usage == Usage(0, 600, output=0, writes={43200: 200})


def test_lifetimes_may_be_told_to_keep_apart() -> None:
    apart = BreakpointCache(0, is_ttl_interchangeable=False)
    call(apart, marked(5, 4, ttl=HOUR), 0)
    assert apart.begin(marked(5, 4), 1).usage == Usage(0, 0, 500, 0, 0)
    assert apart.lookup(marked(6, 5, ttl=HOUR), 2).read_tokens == 500


def test_a_lifetime_nobody_sells_is_refused_before_anything_changes() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    before = pickle.dumps(cache)
    with pytest.raises(ContextKitError, match="301 s"):
        cache.begin(marked(5, 4, ttl=301), 1)
    assert pickle.dumps(cache) == before


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


def probes(n: int, marks: Sequence[int], seed: int | None) -> int:
    """Reads of the prompt's arrays in one call of a conversation of `n` segments."""
    cache = BreakpointCache(0)
    if seed is not None:
        call(cache, marked(n, seed), 0)
    plain = marked(n, *marks)
    arrays = [Counting(plain.digests), Counting(plain.ends_tokens), Counting(plain.positions)]
    call(cache, Prompt(plain.namespaces, plain.level_ends, *arrays, plain.breakpoints, n), 1)
    return sum(array.reads for array in arrays)


@pytest.mark.parametrize("back", [None, 3, 200, 1500])
def test_a_call_costs_the_window_not_the_conversation(back: int | None) -> None:
    short, long = (probes(n, (n - 30, n - 1), None if back is None else n - 1 - back) for n in (2_000, 20_000))
    assert short == long


def test_memory_stays_bounded_over_weeks() -> None:
    cache = BreakpointCache(0)
    for step in range(4_000):
        prompt = prompt_of([Block(f"only {step}"), Block("b")], [Breakpoint(0, FIVE), Breakpoint(1, FIVE)])
        lease = cache.begin(prompt, step * 864.0)
        if step % 2:
            cache.publish(lease, step * 864.0)
    assert cache.stats()["entries"] <= 200, "100 calls a day, half of them published, two entries each"
    assert len(cache._in_flight) <= 8


def test_reset_forgets_everything() -> None:
    cache = BreakpointCache(0)
    call(cache, marked(5, 4), 0)
    cache.reset()
    assert cache.lookup(marked(5, 4), 1).reason == "first_write"
    assert set(cache.stats().values()) == {0}


def test_stats_add_up_to_the_bills() -> None:
    cache = BreakpointCache(0)
    for at in (0, 1):
        call(cache, prompt_of(blocks(6), [Breakpoint(2, HOUR), Breakpoint(4, FIVE)]), at)
    assert cache.stats() == {
        "requests": 2,
        "hits": 1,
        "miss_first_write": 1,
        "read_tokens": 500,
        "fresh_tokens": 200,
        "write_5m_tokens": 200,
        "write_1h_tokens": 300,
        "output_tokens": 14,
        "entries_written": 4,
        "entries": 2,
    }
