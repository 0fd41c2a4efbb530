"""A recorded conversation on a cache that keeps the end of every answer, as DeepSeek's does."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import openai
import pytest

from contextkit.cache.hosted.hosted_cache import hosted_cache
from contextkit.cache.hosted.rules import HOSTED, Rule
from contextkit.engines.simulate import simulate
from contextkit.ledger.ledger import Ledger
from contextkit.server import LocalServer


def conversation(turns: int) -> Ledger:
    """One that every turn goes on with, through the real client."""
    with LocalServer(now=0.0) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client:
        said: list[Any] = [{"role": "system", "content": "Be careful. " * 200}]
        for turn in range(turns):
            said.append({"role": "user", "content": f"question {turn} " * 20})
            said.append(client.chat.completions.create(model="gpt-4o", messages=said).choices[0].message)
            server.clock.advance(5)
        return server.ledger


def reads(ledger: Ledger, rule: Rule = HOSTED["deepseek"]) -> list[int | None]:
    return [call.usage.read if call.usage else None for call in simulate(ledger, hosted_cache(rule))]


def test_the_next_turn_reads_the_answer_too() -> None:
    ledger = conversation(4)
    up_to_the_answer = [prompt.ends_tokens[prompt.n - 2] for _, prompt in ledger.prompts() if prompt]
    assert reads(ledger) == [0, *up_to_the_answer[1:]]


def test_an_answer_that_was_cut_is_no_unit() -> None:
    ledger, cut = conversation(3), Ledger()
    for index, call in enumerate(ledger):
        cut.append(replace(call, error="cut") if index == 1 else call)
    sizes = [prompt.n_tokens for _, prompt in ledger.prompts() if prompt]
    assert reads(cut) == [0, reads(ledger)[1], sizes[1]]


@pytest.mark.parametrize(
    "rule",
    [
        replace(HOSTED["deepseek"], n_servers=8, sticky_seconds=600),
        replace(HOSTED["deepseek"], n_servers=3, per_minute=1000),
        replace(HOSTED["deepseek"], max_marks=4),
        replace(HOSTED["deepseek"], n_servers=8, sticky_seconds=600, max_marks=4),
    ],
    ids=["router", "servers", "marks", "all"],
)
def test_an_answer_is_kept_behind_routers_and_readers_too(rule: Rule) -> None:
    ledger = conversation(4)
    assert reads(ledger, rule) == reads(ledger)


def test_an_answer_is_kept_where_it_was_given() -> None:
    """Every call goes to the other server, which knows the answer before last and no later one."""
    ledger = conversation(5)
    alone, in_turn = reads(ledger), reads(ledger, replace(HOSTED["deepseek"], n_servers=2, per_minute=1))
    assert in_turn == [0, 0, *alone[1:4]] and all(alone[1:4])


def test_a_replay_can_be_cut_short() -> None:
    ledger = conversation(4)
    assert len(simulate(ledger, watch=lambda rows: islice(rows, 2))) == 2
