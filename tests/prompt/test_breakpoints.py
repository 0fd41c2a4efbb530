"""Where marks go, tried against the reference cache: the next request always reads the whole of the one before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.prompt import PromptColumns, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR

laws = settings.get_profile("laws")
FRAMES = {role: (b'{"role":"%b","content":[' % role.encode(), b"]}") for role in ("user", "assistant")}
KEYS = (b"", b"", b"")


def prompt_of(columns: PromptColumns, n: int, marks: tuple[Breakpoint, ...]) -> Prompt:
    ends = (min(columns.level_ends[0], n), min(columns.level_ends[1], n))
    return Prompt(KEYS, ends, columns.digests, columns.ends_tokens, columns.positions, marks, n)


BLOCK = st.tuples(
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(["", "", "tool_use", "tool_result"]),
    st.booleans(),
    st.integers(0, 300),
)


def message(columns: PromptColumns, block: tuple[str, str, bool, int]) -> RenderedBlock:
    role, run, can_hold_breakpoint, size = block
    return RenderedBlock(
        "messages", role, b'{"n":%d}' % len(columns), size, run, *FRAMES[role], can_hold_breakpoint=can_hold_breakpoint
    )


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
    columns, cache, rules = (
        PromptColumns(GRAMMAR),
        BreakpointCache(min_tokens),
        Plan(head_ttl_seconds=ttl[0], tail_ttl_seconds=ttl[1], min_tokens=min_tokens),
    )
    for level, size, can_hold_breakpoint in sorted(head, key=lambda item: item[0] == "system"):
        columns.append(
            RenderedBlock(level, "", b'{"n":%d}' % len(columns), size, can_hold_breakpoint=can_hold_breakpoint)
        )  # type: ignore[arg-type]
    previous, written = 0, 0
    for at, turn in enumerate(turns):
        for block in turn:
            columns.append(message(columns, block))
        marks = plan(columns, len(columns), previous, rules)
        _check(columns, marks, min_tokens)
        prompt = prompt_of(columns, len(columns), marks)
        lease = cache.begin(prompt, float(at))
        cache.publish(lease, float(at))
        assert lease.hit.read_tokens >= written
        previous, written = len(columns), max((columns.ends_tokens[mark.segment] for mark in marks), default=written)


def _check(columns: PromptColumns, marks: tuple[Breakpoint, ...], min_tokens: int) -> None:
    places = [mark.segment for mark in marks]
    assert len(marks) <= 4 and places == sorted(set(places))
    assert all(columns.breakpoint_offsets[place] >= 0 and place not in columns.silent for place in places)
    assert all(columns.ends_tokens[place] >= min_tokens for place in places)
    lifetimes = [mark.ttl_seconds for mark in marks]
    assert lifetimes == sorted(lifetimes, reverse=True)


def test_however_much_one_turn_adds() -> None:
    for n in range(1, 201):
        columns, cache = PromptColumns(GRAMMAR), BreakpointCache(0)
        columns.append(RenderedBlock("system", "", b"{}", 1000))
        columns.append(message(columns, ("user", "", True, 10)))
        first = plan(columns, 2, 0, Plan())
        cache.publish(cache.begin(prompt_of(columns, 2, first), 0.0), 0.0)
        for _ in range(n):
            columns.append(message(columns, ("user", "", True, 10)))
        hit = cache.lookup(prompt_of(columns, len(columns), plan(columns, len(columns), 2, Plan())), 1.0)
        assert hit.segment == 1, n
        bare = cache.lookup(prompt_of(columns, len(columns), (Breakpoint(len(columns) - 1, 300),)), 1.0)
        assert (bare.segment == 1) == (n <= 19), n  # what the bridge is for


def test_a_bridge_stands_only_where_the_tail_cannot_reach() -> None:
    columns = PromptColumns(GRAMMAR)
    for _ in range(40):
        columns.append(message(columns, ("user", "", True, 10)))
    assert [mark.segment for mark in plan(columns, 40, 21, Plan(has_head=False))] == [39]
    assert [mark.segment for mark in plan(columns, 40, 20, Plan(has_head=False))] == [19, 39]
    assert [mark.segment for mark in plan(columns, 40, 39, Plan(has_head=False, lookback=1))] == [38, 39]


def test_a_run_of_tool_results_is_one_step() -> None:
    columns = PromptColumns(GRAMMAR)
    columns.append(message(columns, ("user", "", True, 10)))
    for _ in range(120):
        columns.append(message(columns, ("assistant", "tool_use", True, 10)))
    for _ in range(120):
        columns.append(message(columns, ("user", "tool_result", True, 10)))
    assert columns.positions[-1] == 2 and [mark.segment for mark in plan(columns, len(columns), 1, Plan())] == [
        len(columns) - 1
    ]


def test_nothing_markable_is_no_mark() -> None:
    columns = PromptColumns(GRAMMAR)
    assert plan(columns, 0, 0, Plan()) == ()
    columns.append(message(columns, ("assistant", "", False, 10)))
    assert plan(columns, 1, 0, Plan()) == ()
    assert plan(columns, 1, 0, Plan(has_head=False, has_tail=False)) == ()


def test_a_deferred_tool_carries_no_mark() -> None:
    columns = PromptColumns(GRAMMAR)
    columns.extend([RenderedBlock("tools", "", b"{}", 9), RenderedBlock("tools", "", b"{}", 9, is_silent=True)])
    assert [mark.segment for mark in plan(columns, 2, 0, Plan())] == [0]
