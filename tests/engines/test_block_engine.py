"""vLLM's manager against a second opinion on random streams, and what its releases and neighbours may rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit.engines.token_ids import Adapter, Item, TokenIds
from contextkit.engines.vllm_engine import BlockEngine, Shape
from contextkit.engines.vllm_groups import Group
from contextkit.engines.vllm_keys import rules_of
from contextkit.errors import UsageError
from tests.engines.naive_blocks import Asked, Layer, Naive

STREAMS = {False: 30, True: 10_000}
"""Whether `--full` was given → random streams."""

FULL2, FULL3, FULL4 = Group("full", 2), Group("full", 3), Group("full", 4)
WINDOW3, WINDOW4, WINDOW7 = Group("sliding_window", 2, 3), Group("sliding_window", 2, 4), Group("sliding_window", 2, 7)
CHUNK = Group("chunked_local", 2, 6)
LAYOUTS = [
    (FULL2,),
    (FULL2,),
    (FULL3,),
    (WINDOW4,),
    (FULL2, WINDOW4),
    (FULL2, WINDOW4, WINDOW4),
    (FULL4, WINDOW7),
    (WINDOW3, WINDOW7),
    (CHUNK,),
    (FULL2, CHUNK),
]
KINDS = {"full": "full", "sliding_window": "window", "chunked_local": "chunk"}


class Step(NamedTuple):
    """One thing that happens; the numbers are taken modulo what there is."""

    name: str
    stem: int
    length: int
    space: int
    chunk: int


STEPS = st.builds(
    Step,
    st.sampled_from([*["begin"] * 5, *["grow"] * 3, *["free"] * 4, "preempt", "slide", "evict", "reset"]),
    st.integers(0, 5),
    st.integers(4, 18),
    st.integers(0, 9),
    st.integers(4, 24),
)
SPACES = [*[("", "")] * 8, ("s", ""), ("", "a")]


def tokens_of(stem: int, length: int) -> list[int]:
    """Stems share beginnings: each leaves another at its own place."""
    return [stem * (index >= 3 * (stem % 3) + 2) for index in range(length)]


class Both:
    """One engine and its naive double, driven alike and compared after each step."""

    def __init__(self, layout: tuple[Group, ...], n_blocks: int, version: str, retention: int | None) -> None:
        rules = rules_of(version)
        self.engine = BlockEngine(Shape(n_blocks, layout, rules, retention=retention))
        layers = [Layer(KINDS[group.kind], group.size, group.reach) for group in layout]
        self.naive = Naive(n_blocks, layers, rules.is_unhashed_first, retention, rules.are_ends_cached)
        self.pairs: list = []

    def do(self, step: Step) -> None:
        getattr(self, step.name)(step)
        self.compare()

    def pair(self, step: Step):
        return self.pairs[step.stem % len(self.pairs)] if self.pairs else (None, None)

    def begin(self, step: Step) -> None:
        salt, adapter = SPACES[step.space]
        tokens = tokens_of(step.stem, step.length)
        prompt = TokenIds(
            tokens, Adapter(adapter, "/") if adapter else None, salt=salt or None, is_read_skipped=step.chunk == 24
        )
        self.pairs.append((self.engine.request(prompt), Asked(tokens[:], SPACES[step.space], step.chunk != 24)))
        self.start(*self.pairs[-1], step.chunk)

    def start(self, request, asked, chunk: int) -> None:
        found, expected = self.engine.lookup(request), self.naive.lookup(asked)
        assert (found.tokens, list(found.blocks)) == expected
        n = min(chunk, len(asked.tokens) - found.tokens)
        self.step(request, asked, n, found, expected)

    def step(self, request, asked, n: int, found=None, hit=None) -> None:
        given, expected = self.engine.allocate(request, n, found), self.naive.allocate(asked, n, hit)
        assert (given and (list(given.new), given.evicted)) == expected
        if given:
            asked.computed += n + (found.tokens if found else 0)
            self.engine.advance(request, asked.computed)

    def grow(self, step: Step) -> None:
        """The rest of the prompt, or generated tokens; a preempted request starts over."""
        request, asked = self.pair(step)
        if request is None:
            return
        if not asked.tables:
            self.start(request, asked, step.chunk)
            return
        if asked.computed == len(asked.tokens):
            generated = [step.space % 2] * (1 + step.chunk % 4)
            asked.tokens.extend(generated)
            self.engine.append(request, generated)
        self.step(request, asked, min(step.chunk, len(asked.tokens) - asked.computed))

    def free(self, step: Step) -> None:
        request, asked = self.pair(step)
        if request is not None:
            self.pairs.remove((request, asked))
            self.engine.free(request)
            self.naive.free(asked)

    def preempt(self, step: Step) -> None:
        request, asked = self.pair(step)
        if request is not None:
            self.engine.preempt(request)
            self.naive.free(asked)
            asked.computed = 0

    def slide(self, step: Step) -> None:
        request, asked = self.pair(step)
        if request is not None:
            self.engine.remove_skipped(request, asked.computed)
            self.naive.slide(asked, asked.computed)

    def evict(self, step: Step) -> None:
        block = 1 + step.length % (self.engine.pool.n_blocks - 1)
        self.engine.evict_blocks([block])
        self.naive.forget(block)

    def reset(self, step: Step) -> None:
        assert self.engine.reset() == self.naive.reset()

    def compare(self) -> None:
        pool = self.engine.pool
        assert list(pool.queue) == self.naive.free_row
        assert pool.queue.n == len(self.naive.free_row)
        assert [pool.users(block) for block in range(pool.n_blocks)] == self.naive.users
        assert {block for block, key in enumerate(pool.index.keys) if key} == {row[0] for row in self.naive.stored}
        assert pool.index.n == len({row[1:] for row in self.naive.stored})
        for request, asked in self.pairs:
            assert request.tables == (asked.tables or [[] for _ in request.tables])


def test_equals_a_naive_engine_on_random_streams(pytestconfig: pytest.Config) -> None:
    n_streams = STREAMS[pytestconfig.getoption("--full")]

    @settings(max_examples=n_streams, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(LAYOUTS),
        st.integers(6, 24),
        st.sampled_from(["0.22.1", "0.33.0"]),
        st.sampled_from([None, None, 0, 12]),
        st.lists(STEPS, min_size=12, max_size=40),
    )
    def stream(
        layout: tuple[Group, ...], n_blocks: int, version: str, retention: int | None, steps: list[Step]
    ) -> None:
        both = Both(layout, n_blocks, version, retention)
        for step in steps:
            both.do(step)

    stream()


def run(engine: BlockEngine, tokens: list[int], **marks):
    request = engine.request(TokenIds(tokens, **marks))
    found = engine.lookup(request)
    assert engine.allocate(request, len(tokens) - found.tokens, found)
    return request


@pytest.mark.parametrize(("version", "expected"), [("0.22.1", [5, 2, 1, 4, 3]), ("0.23.0", [2, 5, 1, 4, 3])])
def test_blocks_that_nothing_can_hit_wait_at_the_back_before_0_23(version: str, expected: list[int]) -> None:
    engine = BlockEngine(Shape(6, (Group("full", 4),), rules_of(version)))
    short, whole = run(engine, [1, 1, 1, 1, 2]), run(engine, [9, 9, 9, 9, 8, 8, 8, 8])
    engine.free(short)
    engine.free(whole)
    assert list(engine.pool.queue) == expected


def test_a_preempted_request_finds_what_it_left_and_is_counted_apart() -> None:
    engine = BlockEngine(Shape(20))
    request = run(engine, list(range(40)))
    engine.advance(request, 40)
    engine.append(request, list(range(100, 110)))
    engine.allocate(request, 9)
    engine.preempt(request)
    assert engine.lookup(request).tokens == 48
    first, again = (
        {"requests": 1, "queries": 40, "hits": 0},
        {"preempted_requests": 1, "preempted_queries": 50, "preempted_hits": 48},
    )
    assert engine.counters == first | again


def test_what_follows_an_evicted_block_stays_but_cannot_be_reached() -> None:
    engine = BlockEngine(Shape(20))
    request = run(engine, list(range(64)))
    engine.evict_blocks([request.tables[0][1]])
    assert engine.lookup(engine.request(TokenIds(range(64)))).tokens == 16
    assert engine.pool.index.n == 3


def test_of_equal_blocks_the_one_cached_first_serves_until_it_goes() -> None:
    engine = BlockEngine(Shape(20))
    blocks = [run(engine, list(range(17)), is_read_skipped=True).tables[0][0] for _ in range(4)]
    for gone, serving in zip(blocks, [*blocks[1:], None], strict=True):
        engine.evict_blocks([gone])
        found = engine.lookup(engine.request(TokenIds(range(17)))).blocks
        assert found == (([serving],) if serving else ([],))


def test_a_block_that_lost_its_key_while_in_use_is_the_next_to_be_taken() -> None:
    engine = BlockEngine(Shape(6))
    engine.free(run(engine, list(range(32))))
    again = run(engine, list(range(40)))
    assert again.tables == [[1, 2, 3]]
    engine.evict_blocks([1])
    engine.free(again)
    assert list(engine.pool.queue) == [3, 1, 4, 5, 2]
    assert run(engine, list(range(500, 580))).tables == [[3, 1, 4, 5, 2]]


def test_a_salt_reaches_every_block_through_the_chain_and_is_a_namespace_of_its_own() -> None:
    engine = BlockEngine(Shape(40))
    run(engine, list(range(64)), salt="one")
    hits = [engine.lookup(engine.request(TokenIds(range(64), salt=salt))).tokens for salt in ("one", "two", None, "")]
    assert hits == [48, 0, 0, 0]


def test_only_the_name_of_an_adapter_counted_up_to_0_30() -> None:
    for version, expected in (("0.30.0", 48), ("0.31.0", 0), ("0.33.0", 0)):
        engine = BlockEngine(Shape(40, rules=rules_of(version)))
        run(engine, list(range(64)), adapter=Adapter("a", "/one"))
        assert engine.lookup(engine.request(TokenIds(range(64), Adapter("a", "/two")))).tokens == expected


def test_a_coarser_group_goes_by_every_other_key_of_the_finer_chain() -> None:
    engine = BlockEngine(Shape(40, (Group("full", 32), Group("sliding_window", 16, 17))))
    request = engine.request(TokenIds(range(64)))
    assert engine.group_keys(request, 0) == request.keys[1::2]


def test_keys_are_the_same_in_every_process() -> None:
    code = (
        "from contextkit.engines.vllm_engine import *; from contextkit.engines.token_ids import *;"
        "print(BlockEngine(Shape(9)).request(TokenIds(range(64), Adapter('a', '/'), (Item(3, 20, 'x'),), 's')).keys)"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    prompt = TokenIds(range(64), Adapter("a", "/"), (Item(3, 20, "x"),), "s")
    assert printed == {f"{BlockEngine(Shape(9)).request(prompt).keys}{os.linesep}".encode()}


@pytest.mark.parametrize(
    "shape", [Shape(1), Shape(9, ()), Shape(9, (Group("sliding_window", 16),)), Shape(9, retention=7)]
)
def test_a_shape_no_engine_has_is_refused(shape: Shape) -> None:
    with pytest.raises(UsageError):
        BlockEngine(shape)
