"""A recorded conversation on a cache that keeps the end of every answer, as DeepSeek's does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import openai

from contextkit.cache.hosted.hosted_cache import hosted_cache
from contextkit.cache.hosted.rules import HOSTED
from contextkit.ledger.ledger import Ledger
from contextkit.server import LocalServer
from contextkit.simulator.simulate import simulate


def conversation(turns: int) -> Ledger:
    """One that every turn goes on with, through the real client."""
    with LocalServer(now=0.0) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client:
        said: list[Any] = [{"role": "system", "content": "Be careful. " * 200}]
        for turn in range(turns):
            said.append({"role": "user", "content": f"question {turn} " * 20})
            said.append(client.chat.completions.create(model="gpt-4o", messages=said).choices[0].message)
            server.clock.advance(5)
        return server.ledger


def reads(ledger: Ledger) -> list[int | None]:
    return [exchange.usage.read if exchange.usage else None for exchange in simulate(ledger, hosted_cache(HOSTED["deepseek"]))]


def test_the_next_turn_reads_the_answer_too() -> None:
    ledger = conversation(4)
    up_to_the_answer = [prompt.ends_tokens[prompt.n - 2] for _, prompt in ledger.prompts() if prompt]
    assert reads(ledger) == [0, *up_to_the_answer[1:]]


def test_an_answer_that_was_cut_is_no_unit() -> None:
    ledger, cut = conversation(3), Ledger()
    for index, exchange in enumerate(ledger):
        cut.append(replace(exchange, error="cut") if index == 1 else exchange)
    sizes = [prompt.n_tokens for _, prompt in ledger.prompts() if prompt]
    assert reads(cut) == [0, reads(ledger)[1], sizes[1]]
