"""What vLLM 0.33.0 itself did with recurrent groups, hits inside blocks, blocks of several sizes and loads from a
connector.

The files beside this one were recorded from the real manager by `python -m tests.conformance.against_vllm PEERS --keep
DIR --all`, cut to what changed from one operation to the next; where vLLM's sources are at hand that command goes on
from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm_engine import BlockEngine, Shape
from contextkit.engines.vllm_groups import Group
from contextkit.engines.vllm_pool import ByChain, FreeQueue
from contextkit.errors import UsageError
from tests.conformance.run import BUILDERS
from tests.conformance.scenario import Scenario, replay, scenarios

RECORDED = list(scenarios(Path(__file__).parent / "block_recorded"))


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: scenario.name)
def test_answers_as_the_engine_did(scenario: Scenario) -> None:
    outcome = replay(scenario, BUILDERS)
    assert outcome.passed, outcome.detail


def hybrid(size: int = 32, key_size: int | None = None) -> BlockEngine:
    return BlockEngine(Shape(40, (Group("full", size), Group("mamba", size)), key_size=key_size, retention=None))


def test_a_recurrent_group_is_hit_only_where_a_step_ended_and_not_in_the_step_that_wrote_it() -> None:
    engine = hybrid(16)
    first, again = engine.request(TokenIds(range(100))), engine.request(TokenIds(range(100)))
    assert engine.allocate(first, 48)
    found = engine.lookup(again)
    assert (found.tokens, found.blocks[1][:2]) == (48, [0, 0])
    assert engine.allocate(again, 52, found) is None
    engine.begin_step()
    assert engine.allocate(again, 52, found)


def test_a_prompt_can_be_hit_inside_a_block_and_the_newcomer_gets_a_copy() -> None:
    engine = hybrid(32, key_size=16)
    first, again = engine.request(TokenIds(range(50))), engine.request(TokenIds(range(60)))
    assert engine.allocate(first, 48)
    engine.begin_step()
    found = engine.lookup(again)
    assert found.tokens == 48
    given = engine.allocate(again, 12, found)
    assert given is not None
    assert again.tables[0][1] != first.tables[0][1]
    assert given.new[0][0] == again.tables[0][1]


def test_what_a_connector_brings_gets_blocks_and_can_be_hit() -> None:
    engine = BlockEngine(Shape(20))
    request = engine.request(TokenIds(range(64)))
    given = engine.allocate(request, 16, engine.lookup(request), n_external=48)
    assert given is not None
    assert (given.new, request.tables) == (([4],), [[1, 2, 3, 4]])
    assert engine.lookup(engine.request(TokenIds(range(64)))).tokens == 48


@pytest.mark.parametrize(
    "shape", [Shape(9, key_size=8), Shape(9, (Group("full", 24), Group("mamba", 16)), key_size=16)]
)
def test_keys_that_do_not_divide_every_block_are_refused(shape: Shape) -> None:
    with pytest.raises(UsageError):
        BlockEngine(shape)


def test_a_follower_whose_place_was_taken_is_not_mistaken_for_what_it_was() -> None:
    index = ByChain(9)
    index.register([1, 2, 3], [71, 72, 73], 0, 3)
    index.drop([3])
    index.register([3], [81], 0, 1)
    assert (index.leading([71, 72, 73]), index.leading([81])) == ([1, 2], [3])
    index.register([1, 2, 4], [71, 72, 73], 2, 3)
    index.forget(2)
    assert (index.leading([71, 72, 73]), index.serving([71, 72, 73]), index.n) == ([1], [1, 0, 4], 3)


def test_a_block_hit_and_freed_more_often_than_can_be_counted_is_still_queued_once() -> None:
    queue = FreeQueue(range(1, 2000), 2000)
    for _ in range(600):
        queue.remove(7)
        queue.append([7])
    assert (queue.n, list(queue)[-1], list(queue).count(7)) == (1999, 7, 1)
