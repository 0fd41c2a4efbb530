"""The rules of `cache/` against rows that are really computed: for streams of requests, what the model computes is
input minus hit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit.engines.sglang import RadixCache, RadixShape
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import Shape as Blocks
from contextkit.engines.vllm_groups import Group
from contextkit.transformer.engine import Engine, Run
from contextkit.transformer.kv_cache import PagedCache, Pool
from contextkit.transformer.methods.prefix_blocks import PrefixEngine, names
from contextkit.transformer.model import Model
from contextkit.transformer.weights import Shape, seeded

SMALL = Shape(n_layers=1, d_model=8, n_heads=1, n_kv_heads=1, d_head=4, d_ff=8, vocabulary=4)
MODEL = Model(seeded(SMALL))


@pytest.fixture(scope="module")
def n_examples(request: pytest.FixtureRequest) -> int:
    return 600 if request.config.getoption("--full") else 15


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Requests of few tokens, so that they often begin alike: (prompt, generated).

    Many go on where one before them ended.
    """
    requests: list[tuple[list[int], list[int]]] = []
    few = st.lists(st.integers(0, 1), min_size=1, max_size=9)
    for _ in range(draw(st.integers(2, 12))):
        before = draw(st.sampled_from([[], *[prompt + said for prompt, said in requests]]))
        prompt = (before[: draw(st.integers(0, len(before)))] + draw(few))[:40]
        requests.append((prompt, draw(few)[:4]))
    return requests


def checked(
    requests: list[tuple[list[int], list[int]]], block: int, n_blocks: int
) -> Iterator[tuple[int, int, int, int]]:
    """Of each request: rows the model found and computed; tokens the rules read and did not."""
    engine, rules = (
        PrefixEngine(MODEL, Pool(SMALL, n_blocks, block)),
        BlockCache(Blocks(n_blocks + 1, (Group(size=block),))),
    )
    for prompt, said in requests:
        before = engine.work.positions
        run, n_found, logits = engine.begin(prompt, list(names(prompt, block)))
        n_computed, lease = engine.work.positions - before, rules.begin(TokenIds(prompt), 0.0)
        yield n_found, n_computed, lease.usage.read or 0, lease.usage.fresh or 0
        fresh = Engine(MODEL)
        assert abs(logits - fresh.feed([(fresh.open(), prompt)])[0]).max() < 1e-10
        rules.generate(lease, said)
        tokens = [*prompt, *said][:-1]
        if len(tokens) > len(prompt):
            engine.feed([(run, tokens)])
        engine.name(run, list(names(tokens, block)))
        rules.end(lease, len(said), 0.0)
        run.cache.cut(0)


def test_the_rules_of_vllm_are_what_a_model_with_blocks_computes(n_examples: int) -> None:
    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(streams(), st.sampled_from([1, 2, 4]), st.integers(0, 20))
    def holds(requests: list[tuple[list[int], list[int]]], block: int, more: int) -> None:
        n_blocks = -(-44 // block) + more  # room for one request; with little more, blocks are forgotten all the time
        for found, computed, read, fresh in checked(requests, block, n_blocks):
            assert (found, computed) == (read, fresh)
            hits.append(read > 0)

    hits: list[bool] = []
    holds()
    assert 0.2 < sum(hits) / len(hits) < 0.95  # streams that neither always hit nor never


class Branches:
    """Every sequence there was, and a new one forked from the one it has most in common with: what a radix tree does,
    without a tree."""

    def __init__(self, page: int) -> None:
        self.page, self.engine, self.pool = page, Engine(MODEL), Pool(SMALL, 600, 4)
        self.runs: list[Run] = []

    def begin(self, prompt: list[int]) -> tuple[Run, int]:
        best = max(self.runs, key=lambda run: run.hit(prompt), default=None)
        cache = best.cache.fork() if best and isinstance(best.cache, PagedCache) else PagedCache(self.pool)
        cache.cut(best.hit(prompt) // self.page * self.page if best else 0)
        run = Run(cache, list(best.tokens) if best else [])
        before = self.engine.work.positions
        (logits,) = self.engine.feed([(run, prompt)])
        fresh = Engine(MODEL)
        assert abs(logits - fresh.feed([(fresh.open(), prompt)])[0]).max() < 1e-10
        self.runs.append(run)
        return run, self.engine.work.positions - before


def test_the_rules_of_sglang_are_what_a_model_that_forks_computes(n_examples: int) -> None:
    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(streams(), st.sampled_from([1, 2, 4]))
    def holds(requests: list[tuple[list[int], list[int]]], page: int) -> None:
        branches, rules = Branches(page), RadixCache(RadixShape(page=page))
        for prompt, said in requests:
            lease = rules.begin(TokenIds(prompt), 0.0)
            run, n_computed = branches.begin(prompt)
            assert n_computed == len(prompt) - lease.hit.read_tokens == lease.usage.fresh
            rules.publish(lease, 0.0)
            rules.generate(lease, said)
            rules.end(lease, len(said), 0.0)
            if len(said) > 1:
                branches.engine.feed([(run, [*prompt, *said][:-1])])

    holds()
