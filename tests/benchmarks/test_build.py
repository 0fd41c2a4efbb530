"""Building a request costs what was said since the last one, plus one copy of the bytes.

pytest tests/benchmarks/test_build.py -n 0 -s --benchmark-enable
"""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses
from contextkit.providers.provider import Provider
from tests.benchmarks.clock import medians
from tests.benchmarks.conversations import Talk

PROVIDERS: dict[str, Provider] = {
    "anthropic": AnthropicMessages("claude-sonnet-5-5", max_tokens=1024),
    "openai chat": OpenAIChat("gpt-6.1-sol"),
    "openai responses": OpenAIResponses("gpt-6.1-sol"),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_turn_2000_costs_what_turn_20_costs_and_one_copy_of_the_body(name: str) -> None:
    early = Talk(PROVIDERS[name], 400, seed=1).until(20)
    late = Talk(PROVIDERS[name], 400, seed=2).until(2000)
    body = memoryview(late.request().body)
    early_ms, late_ms, copy_ms = medians(
        time.perf_counter, 101, lambda: early.request().body, lambda: late.request().body, lambda: bytes(body)
    )
    ratio = (late_ms - copy_ms) / early_ms
    print(
        f"\n{name}: turn 20 {early_ms:.3f} ms, turn 2,000 {late_ms:.3f} ms, copy of {len(body):,} bytes {copy_ms:.3f} ms: x{ratio:.2f}"
    )
    assert ratio <= 1.5


@pytest.mark.parametrize("turn", [10, 100, 1000, 2000])
@pytest.mark.parametrize("name", PROVIDERS)
def test_a_whole_turn(benchmark: BenchmarkFixture, name: str, turn: int) -> None:
    """A result is given, a request built, a reply received; compare the rows: 10 and 2,000 are to be alike."""
    going = Talk(PROVIDERS[name], 400, seed=turn)
    going.until(turn)

    def one_more() -> None:
        going.until(going.turn + 1)

    benchmark.group = name
    benchmark.pedantic(one_more, rounds=50, warmup_rounds=2)
    assert going.turn >= turn + 1 and going.context.request().body
