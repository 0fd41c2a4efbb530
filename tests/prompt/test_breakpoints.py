"""Where marks go, tried against the reference cache: the next request always reads the whole of the one before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.prompt import Piece, Track
from contextkit.providers.anthropic.messages import GRAMMAR

laws = settings.get_profile("laws")
FRAMES = {role: (b'{"role":"%b","content":[' % role.encode(), b"]}") for role in ("user", "assistant")}
KEYS = (b"", b"", b"")


def prompt_of(track: Track, n: int, marks: tuple[Breakpoint, ...]) -> Prompt:
    ends = (min(track.level_ends[0], n), min(track.level_ends[1], n))
    return Prompt(KEYS, ends, track.digests, track.ends_tokens, track.positions, marks, n)


BLOCK = st.tuples(
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(["", "", "tool_use", "tool_result"]),
    st.booleans(),
    st.integers(0, 300),
)


def message(track: Track, block: tuple[str, str, bool, int]) -> Piece:
    role, run, is_markable, size = block
    return Piece("messages", role, b'{"n":%d}' % len(track), size, run, *FRAMES[role], is_markable=is_markable)


@given(
    head=st.lists(st.tuples(st.sampled_from(["tools", "system"]), st.integers(0, 3000), st.booleans()), max_size=4),
    turns=st.lists(
        st.one_of(
            st.lists(BLOCK, min_size=1, max_size=30), st.integers(1, 200).map(lambda n: [("user", "", True, 9)] * n)
        ),
        min_size=2,
        max_size=8,
    ),
    ttl=st.sampled_from([(300, 300), (3600, 300), (3600, 3600)]),
    min_tokens=st.sampled_from([0, 512, 4096]),
)
@laws
def test_the_next_request_reads_all_that_the_one_before_marked(
    head: list[tuple[str, int, bool]],
    turns: list[list[tuple[str, str, bool, int]]],
    ttl: tuple[int, int],
    min_tokens: int,
) -> None:
    track, cache, rules = (
        Track(GRAMMAR),
        BreakpointCache(min_tokens),
        Plan(head_ttl_seconds=ttl[0], tail_ttl_seconds=ttl[1], min_tokens=min_tokens),
    )
    for level, size, is_markable in sorted(head, key=lambda item: item[0] == "system"):
        track.append(Piece(level, "", b'{"n":%d}' % len(track), size, is_markable=is_markable))  # type: ignore[arg-type]
    previous, written = 0, 0
    for at, turn in enumerate(turns):
        for block in turn:
            track.append(message(track, block))
        marks = plan(track, len(track), previous, rules)
        _check(track, marks, min_tokens)
        prompt = prompt_of(track, len(track), marks)
        lease = cache.begin(prompt, float(at))
        cache.publish(lease, float(at))
        assert lease.hit.read_tokens >= written
        previous, written = len(track), max((track.ends_tokens[mark.segment] for mark in marks), default=written)


def _check(track: Track, marks: tuple[Breakpoint, ...], min_tokens: int) -> None:
    places = [mark.segment for mark in marks]
    assert len(marks) <= 4 and places == sorted(set(places))
    assert all(track.marks[place] >= 0 and place not in track.silent for place in places)
    assert all(track.ends_tokens[place] >= min_tokens for place in places)
    lifetimes = [mark.ttl_seconds for mark in marks]
    assert lifetimes == sorted(lifetimes, reverse=True)


@pytest.mark.parametrize("n", range(1, 201))
def test_however_much_one_turn_adds(n: int) -> None:
    track, cache = Track(GRAMMAR), BreakpointCache(0)
    track.append(Piece("system", "", b"{}", 1000))
    track.append(message(track, ("user", "", True, 10)))
    first = plan(track, 2, 0, Plan())
    cache.publish(cache.begin(prompt_of(track, 2, first), 0.0), 0.0)
    for _ in range(n):
        track.append(message(track, ("user", "", True, 10)))
    hit = cache.lookup(prompt_of(track, len(track), plan(track, len(track), 2, Plan())), 1.0)
    assert hit.segment == 1
    bare = cache.lookup(prompt_of(track, len(track), (Breakpoint(len(track) - 1, 300),)), 1.0)
    assert (bare.segment == 1) == (n <= 19)  # what the bridge is for


def test_a_bridge_stands_only_where_the_tail_cannot_reach() -> None:
    track = Track(GRAMMAR)
    for _ in range(40):
        track.append(message(track, ("user", "", True, 10)))
    assert [mark.segment for mark in plan(track, 40, 21, Plan(has_head=False))] == [39]
    assert [mark.segment for mark in plan(track, 40, 20, Plan(has_head=False))] == [19, 39]
    assert [mark.segment for mark in plan(track, 40, 39, Plan(has_head=False, lookback=1))] == [38, 39]


def test_a_run_of_tool_results_is_one_step() -> None:
    track = Track(GRAMMAR)
    track.append(message(track, ("user", "", True, 10)))
    for _ in range(120):
        track.append(message(track, ("assistant", "tool_use", True, 10)))
    for _ in range(120):
        track.append(message(track, ("user", "tool_result", True, 10)))
    assert track.positions[-1] == 2 and [mark.segment for mark in plan(track, len(track), 1, Plan())] == [
        len(track) - 1
    ]


def test_nothing_markable_is_no_mark() -> None:
    track = Track(GRAMMAR)
    assert plan(track, 0, 0, Plan()) == ()
    track.append(message(track, ("assistant", "", False, 10)))
    assert plan(track, 1, 0, Plan()) == ()
    assert plan(track, 1, 0, Plan(has_head=False, has_tail=False)) == ()


def test_a_deferred_tool_carries_no_mark() -> None:
    track = Track(GRAMMAR)
    track.extend([Piece("tools", "", b"{}", 9), Piece("tools", "", b"{}", 9, is_silent=True)])
    assert [mark.segment for mark in plan(track, 2, 0, Plan())] == [0]
