"""What the provider keeps is judged as well: requests that name a response or a conversation, with the real client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from contextkit import Ledger, watch
from contextkit.canonical import parse
from contextkit.errors import PrefixBroken
from contextkit.ledger.calls import Bodies
from contextkit.ledger.misses import misses
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import find_in_requests
from contextkit.server import LocalServer
from contextkit.watcher.guard import ResponseHistories
from tests.watcher.talk import GPT, HEAD, Told

TOOLS = [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}]
ASKED: dict[str, Any] = {"model": GPT, "instructions": HEAD, "tools": TOOLS}


def gpt(server: LocalServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


def chain(client: Any, *said: dict[str, Any], is_stream: bool = False) -> list[Any]:
    """Requests, each going on from the response to the one before; gives the responses."""
    answers: list[Any] = []
    for fields in said:
        past = {"previous_response_id": answers[-1].id} if answers else {}
        if is_stream:
            *_, last = client.responses.create(**{**ASKED, **fields, **past}, stream=True)
            answers.append(last.response)
        else:
            answers.append(client.responses.create(**{**ASKED, **fields, **past}))
    return answers


TURNS = [{"input": f"question {n} " * 20} for n in range(4)]


@pytest.fixture
def client(server: LocalServer, told: Told) -> Iterator[openai.OpenAI]:
    watched = watch(gpt(server), on_break=told)
    yield watched
    watched.close()


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_chain_that_only_goes_on_is_left_in_peace(client: openai.OpenAI, told: Told, is_stream: bool) -> None:
    answers = chain(client, *TURNS, is_stream=is_stream)
    assert told == []
    assert answers[-1].usage.input_tokens_details.cached_tokens == answers[-2].usage.input_tokens


def test_developer_messages_are_kept_with_the_others(client: openai.OpenAI, told: Told) -> None:
    head = {"instructions": openai.omit}
    first = {**head, "input": [{"role": "developer", "content": HEAD}, {"role": "user", "content": "hello"}]}
    chain(
        client,
        first,
        {**head, "input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "and?"}]},
    )
    assert told == []


LEFT_OUT = {
    "instructions": ({"instructions": openai.omit}, "CKS10", "instructions", 0),
    "effort": ({"reasoning": {"effort": "high"}}, "CKP02", "reasoning.effort", 1_600),
}
"""Fields → code, path, least tokens lost: what is left without the instructions is too short to be cached."""


@pytest.mark.parametrize(("fields", "code", "path", "least"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_a_request_must_say_again_is_missed_before_it_leaves(
    client: openai.OpenAI, told: Told, server: LocalServer, fields: dict[str, Any], code: str, path: str, least: int
) -> None:
    answers = chain(client, *TURNS[:2], {**TURNS[2], **fields})
    (finding,) = told
    assert isinstance(finding.place, RequestPlace)
    assert (finding.code, finding.detector, finding.place.path, finding.place.turn) == (code, "guard", path, 3)
    assert least <= (finding.cost_tokens or 0) <= answers[1].usage.input_tokens
    assert answers[2].usage.input_tokens_details.cached_tokens == 0
    assert "test_stateful.py" in finding.place.caller


def test_a_chain_that_breaks_is_stopped(server: LocalServer) -> None:
    client = watch(gpt(server), on_break="raise")
    with pytest.raises(PrefixBroken):
        chain(client, *TURNS[:2], {"input": "x", "instructions": "You are somebody else."})
    assert len(server.ledger) == 2
    client.close()


def test_branches_of_one_response_and_unseen_ones_break_nothing(
    client: openai.OpenAI, told: Told, server: LocalServer
) -> None:
    first = client.responses.create(**ASKED, input="hello")
    for other in (
        "You are a poet.",
        "You are a clerk.",
    ):  # the second goes on from a response that is not the last any more
        client.responses.create(**{**ASKED, "instructions": other}, input="and?", previous_response_id=first.id)
    codes = [finding.code for finding in told]
    unseen = gpt(server)
    answer = unseen.responses.create(**ASKED, input="elsewhere")
    client.responses.create(model=GPT, input="and?", previous_response_id=answer.id)
    unseen.close()
    assert codes == ["CKS10"] and [finding.code for finding in told] == codes


def test_a_conversation_of_the_provider_s_is_one_of_ours(client: openai.OpenAI, told: Told) -> None:
    kept = client.conversations.create()
    for fields in (TURNS[0], TURNS[1], {**TURNS[2], "instructions": openai.omit}):
        client.responses.create(**{**ASKED, **fields}, conversation=kept.id)
    (finding,) = told
    assert finding.code == "CKS10" and isinstance(finding.place, RequestPlace) and finding.place.turn == 3


def test_who_says_everything_again_begins_anew(client: openai.OpenAI, told: Told) -> None:
    chain(client, *TURNS[:3])
    said = [{"role": "user", "content": turn["input"]} for turn in TURNS]
    client.responses.create(**ASKED, input=said)
    assert told == []


def test_asynchronously_too(server: LocalServer, told: Told) -> None:
    async def run() -> None:
        made = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
        async with watch(made, on_break=told) as client:
            first = await client.responses.create(**ASKED, input="hello")
            second = await client.responses.create(**ASKED, input="and?", previous_response_id=first.id)
            await client.responses.create(model=GPT, tools=TOOLS, input="and?", previous_response_id=second.id)

    asyncio.run(run())
    assert [finding.code for finding in told] == ["CKS10"]


def test_a_recording_says_what_each_call_was_asked_with(server: LocalServer, tmp_path: Path) -> None:
    client = watch(gpt(server), record=tmp_path / "ledger.jsonl")
    answers = chain(client, *TURNS)
    client.close()
    rows = Ledger.read(tmp_path / "ledger.jsonl")
    bodies = [parse(row.prompt.request) for row in rows if isinstance(row.prompt, Bodies)]
    assert [len(body["input"]) if isinstance(body["input"], list) else 1 for body in bodies] == [1, 3, 5, 7]
    assert [body["input"][-1]["content"] for body in bodies[1:]] == [turn["input"] for turn in TURNS[1:]]
    assert bodies[3]["input"][1]["id"] == answers[0].output[0].id and "previous_response_id" not in bodies[3]
    assert [miss.cause for miss in misses(rows)] == ["first_write"]
    assert list(find_in_requests(rows, hazards())) == []


def test_the_oldest_pasts_go_first() -> None:
    histories = ResponseHistories(most_bytes=100)
    for number in range(4):
        histories.add_response(f"resp_{number}", b'{"input":"%s"}' % (b"x" * 30), [])
    asks = [b'{"input":"y","previous_response_id":"resp_%d"}' % number for number in range(4)]
    assert [b"xxx" in histories.whole(ask) for ask in asks] == [False, False, True, True]
    assert histories.whole(asks[0]) == asks[0]
