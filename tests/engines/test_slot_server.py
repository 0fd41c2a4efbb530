"""Slots against the same server written token by token, and what checkpoints and turned chunks give."""

from __future__ import annotations

from array import array
from dataclasses import astuple, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit.engines.llamacpp_server import (
    Content,
    HostShape,
    Model,
    SlotEnd,
    SlotRequest,
    SlotServer,
    SlotShape,
    keep,
    slot_shape,
)
from contextkit.engines.token_ids import pack
from contextkit.errors import UsageError
from tests.engines.naive_slots import NaiveServer

STREAMS = {False: 30, True: 10_000}
"""Whether `--full` was given → random streams of requests."""

CHUNKS = ([1, 2, 3, 4], [5, 6, 7, 8, 9], [1, 2, 256, 512], [0x01000000, 0x02000000], [7], list(range(20, 34)))
"""What prompts are made of, so that they share beginnings and, further on, whole runs; some are alike a byte further
on."""


def _prompt(n_first: int, rest: list[list[int]]) -> list[int]:
    return [token for part in [*CHUNKS[::-1][:n_first], *rest] for token in part]


prompts = st.builds(_prompt, st.integers(0, 6), st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=4))
models = st.builds(
    Model,
    st.sampled_from(["full", "full", "window", "recurrent"]),
    st.sampled_from([2, 3, 8]),
    st.sampled_from([6, 64]),
    st.sampled_from([3, 5]),
    st.sampled_from([0, 1, 3, 32]),
    st.sampled_from([4, 20]),
)
windows = st.just(SlotEnd()) | st.builds(
    SlotEnd,
    st.sampled_from([12, 30, 50]),
    st.booleans(),
    st.sampled_from([0, 0, 3, 100, -1]),
    st.sampled_from([0, 0, 1, 7, 90]),
)
configs = st.tuples(
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 40, 100]),
    st.sampled_from([0, 0, 2, 4]),
    models,
    windows,
)
requests = st.tuples(
    prompts,
    st.booleans() | st.just(True),
    st.lists(st.integers(1, 20), max_size=3),
    st.booleans(),
    prompts,
    st.sampled_from([-1, -1, 0, 2]),
)


def servers(
    n_slots: int,
    is_unified: bool,
    is_saving_idle: bool,
    n_host: int | None,
    n_reuse: int,
    model: Model,
    ends: SlotEnd,
) -> tuple[SlotServer, NaiveServer]:
    host = HostShape(n_host, token_bytes=1)
    shape = SlotShape(n_slots, is_unified, is_saving_idle, n_cache_reuse=n_reuse, host=host, model=model, end=ends)
    options = (model.n_window, model.n_batch, model.n_ubatch, model.max_checkpoints, model.min_step)
    end = (ends.n_tokens, ends.is_shifting, ends.n_keep, ends.n_discard)
    naive = NaiveServer(n_slots, is_unified, is_saving_idle, n_host, n_reuse, model.memory, *options, *end)
    return SlotServer(shape), naive


def held(server: SlotServer) -> list[Any]:
    contents = [*(slot.content for slot in server.slots), *server.host.states]
    return [
        (array("i", content.tokens).tolist(), [astuple(point) for point in content.checkpoints]) for content in contents
    ]


def held_naively(server: NaiveServer) -> list[Any]:
    states = [slot.state for slot in server.slots] + server.host
    return [
        (
            state.tokens,
            [(point.n_tokens, point.first, point.last, point.task, tuple(point.window)) for point in state.points],
        )
        for state in states
    ]


def test_the_server_is_the_one_written_token_by_token(request: pytest.FixtureRequest) -> None:
    """Slots, hits, turned chunks, saved states and checkpoints, whatever the model can cut."""

    @settings(
        max_examples=STREAMS[request.config.getoption("--full")], deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(configs, st.lists(requests, min_size=4, max_size=14))
    def check(config: Any, stream: Any) -> None:
        ours, naive = servers(*config)
        busy: list[tuple[int, list[int]]] = []
        for prompt, is_caching, positions, is_kept_waiting, generated, wanted in stream:
            named = wanted
            starts = sorted({position for position in positions if position < len(prompt)})
            plan = ours.start(
                SlotRequest(pack(prompt), is_caching=is_caching, user_starts=tuple(starts), id_slot=named)
            )
            expected = naive.start(list(prompt), is_caching, starts, named)
            assert (plan and (plan.slot, plan.kept.n_tokens, plan.kept.n_exact)) == expected
            if plan:
                busy.append((plan.slot, generated))
            while busy and not is_kept_waiting:
                number, output = busy.pop()
                ours.finish(number, pack(output))
                naive.finish(number, list(output))
            assert held(ours) == held_naively(naive)

    check()


def test_what_was_computed_behind_a_turned_chunk_is_as_approximate_as_it_is() -> None:
    server = SlotServer(slot_shape(1, n_cache_reuse=8))
    seen = []
    for prompt in (
        range(40),
        [*range(10), *range(20, 40), 7, 7],
        [*range(10), *range(20, 40), 7, 7, 8],
        [*range(9), 1, 1],
    ):
        plan = server.start(SlotRequest(pack(list(prompt))))
        assert plan
        server.finish(plan.slot, b"")
        seen.append((plan.kept.n_tokens, plan.kept.n_exact))
    assert seen == [(0, 0), (30, 10), (32, 10), (9, 9)]


def test_a_recurrent_model_goes_back_to_its_newest_checkpoint_or_to_the_start() -> None:
    server = SlotServer(slot_shape(1, model=Model("recurrent", n_ubatch=16)))
    first = server.start(SlotRequest(pack(range(100)), user_starts=(40,)))
    assert first
    server.finish(first.slot, pack([500, 501]))
    assert [point.n_tokens for point in server.slots[0].content.checkpoints] == [40, 80, 96]

    def kept(prompt: list[int]) -> int:
        plan = server.plan(SlotRequest(pack(prompt)))
        assert plan
        return plan.kept.n_tokens

    assert kept([*range(100), 500, 600]) == 101  # goes on where the state is
    assert kept([*range(100), 600]) == 96 and kept([*range(90), 600]) == 80 and kept([*range(41), 600]) == 40
    assert kept([*range(39), 600, 601]) == 0
    assert kept([*range(100), 500]) == 96  # the last token is computed again, and one step back is as far as any


def test_a_slot_that_would_keep_half_of_itself_is_not_saved() -> None:
    server = SlotServer(slot_shape(1))
    for prompt, n_saved in ((range(20), 0), ([*range(10), 99], 0), (range(20), 0), ([*range(9), 99], 1)):
        plan = server.start(SlotRequest(pack(list(prompt))))
        assert plan and len(server.host.states) == n_saved
        server.finish(plan.slot, b"")


def test_a_host_state_comes_back_and_is_moved_out() -> None:
    server = SlotServer(slot_shape(1))

    def ask(prompt: range) -> int:
        plan = server.start(SlotRequest(pack(prompt)))
        assert plan
        server.finish(plan.slot, b"")
        return plan.kept.n_tokens

    assert [ask(prompt) for prompt in (range(50), range(100, 150), range(50), range(100, 150))] == [0, 0, 49, 49]
    assert len(server.host.states) == 1


def test_another_adapter_empties_the_slot_and_a_request_that_names_none_goes_on_with_it() -> None:
    server = SlotServer(slot_shape(1))
    for adapter, cached, exact in ((None, 0, 0), ("x", 0, 0), ("x", 9, 9), (None, 9, 0), ("y", 0, 0)):
        plan = server.start(SlotRequest(pack(range(10)), adapter))
        assert plan and (plan.kept.n_tokens, plan.kept.n_exact) == (cached, exact)
        server.finish(plan.slot, b"")


def ask(server: SlotServer, prompt: list[int], generated: int = 0, **given: Any) -> tuple[int, int] | None:
    """(slot, tokens kept) of a request that is over at once and generated so many tokens; None where it was not served."""
    plan = server.start(SlotRequest(pack(prompt), **given))
    if plan:
        server.finish(plan.slot, pack(range(1000, 1000 + generated)))
    return (plan.slot, plan.kept.n_tokens) if plan else None


def test_a_request_that_names_its_slot_gets_that_one_whatever_it_holds() -> None:
    server = SlotServer(slot_shape(3))
    mine, yours = list(range(30)), list(range(100, 140))
    asked = [
        (mine, 0, (0, 0)),
        (mine, 1, (1, 0)),
        (yours, 1, (1, 0)),
        (mine, None, (0, 29)),
        (mine, 4, (1, 29)),
        (yours, -1, (2, 39)),
    ]
    for prompt, named, expected in asked:
        assert ask(server, prompt, id_slot=named) == expected


def test_a_slot_that_is_named_while_it_is_busy_is_waited_for() -> None:
    server = SlotServer(slot_shape(2))
    first = server.start(SlotRequest(pack(range(9)), id_slot=0))
    assert first and server.start(SlotRequest(pack(range(9)), id_slot=0)) is None
    assert server.start(SlotRequest(pack(range(9)), id_slot=1)) is not None


def test_generation_stops_at_the_end_of_a_slot_unless_it_shifts() -> None:
    """Sixteen tokens a slot: twelve of prompt and ten generated, of which the last is never computed."""
    shifting = SlotEnd(16, is_shifting=True)
    for window, held in ((SlotEnd(16), 15), (shifting, 14), (replace(shifting, n_keep=-1), 15), (SlotEnd(), 21)):
        server = SlotServer(slot_shape(1, end=window))
        assert ask(server, list(range(12)), 10) == (0, 0)
        assert len(server.slots[0].content) == held
    assert ask(SlotServer(slot_shape(1, end=SlotEnd(16))), list(range(16))) is None


def test_what_was_shifted_is_approximate() -> None:
    server = SlotServer(slot_shape(1, end=SlotEnd(16, is_shifting=True, n_keep=4)))
    ask(server, list(range(12)), 10)
    plan = server.plan(SlotRequest(server.slots[0].content.tokens))
    assert plan and (plan.kept.n_tokens, plan.kept.n_exact) == (len(server.slots[0].content) - 1, 4)


def test_a_run_is_found_at_token_boundaries_only() -> None:
    old = [1, 2, 3, 0x01000000, 0x02000000, 256, 0, 9, 9]
    assert keep(Content(pack(old)), pack([1, 2, 256 * 2, 0]), 2, Model()).moved == ()
    assert keep(Content(pack(old)), pack([1, 2, 9, 9]), 2, Model()).moved == ((7, 2, 2),)


def test_a_server_needs_a_slot() -> None:
    with pytest.raises(UsageError, match="0 slots"):
        SlotServer(SlotShape(0))
