"""Stored contents in a replay, as Gemini's documentation prices them (https://ai.google.dev/gemini-api/docs/caching)."""

from __future__ import annotations

import pytest

from contextkit.cache.hosted.content_cache import Contents
from contextkit.cache.prompt import Prompt
from tests.cache.hosted_prompts import talk

HEAD, ASK, MORE = ("head", 5000), ("ask", 700), ("more", 9000)


def read(client: Contents, prompt: Prompt, at: float) -> int | None:
    """Tokens read by a call of one second."""
    return client.end(client.begin(prompt, at), 0, at + 1).read


def test_a_prompt_is_stored_once_and_read_until_it_expires() -> None:
    client = Contents(4096, 3600)
    assert [read(client, talk(HEAD, ASK), at) for at in (0.0, 10.0, 3600.0)] == [0, 5700, 5700]
    assert client.created_tokens == 5700
    assert read(client, talk(HEAD, ASK), 3601.0) == 0  # and stored again
    assert client.created_tokens == 2 * 5700


def test_a_small_prompt_is_not_stored() -> None:
    client = Contents(4096, 3600)
    assert [read(client, talk(ASK), at) for at in (0.0, 10.0)] == [0, 0] and client.created_tokens == 0


def test_a_longer_prompt_takes_the_place_of_one_that_covers_less_than_half() -> None:
    client = Contents(4096, 3600)
    prompts = talk(HEAD), talk(HEAD, ASK), talk(HEAD, ASK, MORE), talk(HEAD, ASK, MORE, ASK), talk(HEAD, ASK)
    assert [read(client, prompt, 10.0 * n) for n, prompt in enumerate(prompts)] == [0, 5000, 5000, 14_700, 0]


def test_storage_costs_from_the_end_of_the_answer_to_expiry_or_replacement() -> None:
    client = Contents(4096, 3600)
    read(client, talk(("book", 1_000_000)), 0.0)
    assert client.storage_usd(1 + 1800.0, 4.5) == pytest.approx(2.25)
    assert client.storage_usd(1e9, 4.5) == pytest.approx(4.5)
    read(client, talk(("book", 1_000_000), ("another", 2_000_000)), 1800.0)
    assert client.storage_usd(1801.0 + 360, 4.5) == pytest.approx(2.25 + 3 * 0.45)
