"""A conversation that was given a name is the one of that name, whatever is said in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit import Ledger, watch
from contextkit.errors import UsageError
from contextkit.server import LocalServer
from contextkit.watcher import conversation
from tests.watcher.talk import GPT, HAZARDS, HEAD, Talk, Told
from tests.watcher.test_watch import claude, gpt, place_of


def reviewed(talk: Talk) -> Talk:
    """Another agent of the same head, that is given the first words of a conversation and its last."""
    other = Talk(talk.messages[0]["content"][0]["text"])
    other.messages += [talk.messages[-2], {**talk.messages[-1]}]
    return other.say("Is that right?")


def worked() -> Talk:
    return (
        Talk("Mend bug 12. " * 20)
        .say("Go on. " * 20, "I look at it. " * 20)
        .say("Is it done? " * 20, "It was the index. " * 20)
    )


def test_agents_that_share_their_head_and_words_are_kept_apart_by_their_names(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), worked()
    for name in ("coder", "reviewer"):
        with conversation(name):
            client.messages.create(**(talk if name == "coder" else reviewed(talk)).claude())
    assert told == []
    with conversation("coder"):
        client.messages.create(**talk.say().claude())
    assert told == []
    client.messages.create(**talk.claude())  # without a name it is another conversation, and the words decide
    client.messages.create(**reviewed(talk).claude())
    assert [place_of(one).session for one in told] == ["watch-1"]
    client.close()


def test_another_history_under_a_name_is_a_break_and_a_question_asked_anew_is_none(
    server: LocalServer, told: Told
) -> None:
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), worked()
    replaced = Talk("What was said: the index was wrong. " * 20).say("What now?")
    client.messages.create(**talk.claude())
    client.messages.create(**Talk("Who wrote this? " * 20).say("What now?").claude())
    assert told == []  # the words have nothing in common
    with conversation("coder"):
        client.messages.create(**talk.claude())
        client.messages.create(
            **Talk(talk.messages[0]["content"][0]["text"]).say("Or else?", "I look at it. " * 20).claude()
        )
        assert told == []
        client.messages.create(**talk.say().claude())
        client.messages.create(**replaced.claude())
    (found,) = [one for one in told if one.detector == "guard"]
    assert (place_of(found).session, place_of(found).turn, place_of(found).level) == ("coder", 3, "messages")
    client.close()


def test_a_changed_head_under_a_name_is_a_break_though_the_same_words_are_said(server: LocalServer, told: Told) -> None:
    client = watch(gpt(server), on_break=told, hazards=HAZARDS)
    with conversation("coder"):
        client.chat.completions.create(**Talk().chat())
        client.chat.completions.create(**Talk(head="All is new here. " + HEAD).chat())
    assert [(one.code, place_of(one).session) for one in told if one.detector == "guard"] == [("CKS10", "coder")]
    client.close()


def test_tasks_and_threads_of_asyncio_keep_the_name_they_were_started_under(server: LocalServer, told: Told) -> None:
    client = anthropic.AsyncAnthropic(base_url=server.url, api_key="any", max_retries=0)
    plain: Any = watch(claude(server), on_break=told, hazards=HAZARDS)

    async def ask(watched: Any, name: str, talk: Talk) -> None:
        with conversation(name):
            await asyncio.gather(watched.messages.create(**talk.claude()))
            await asyncio.to_thread(plain.messages.create, **talk.claude())

    async def run() -> None:
        watched, talk = watch(client, on_break=told, hazards=HAZARDS), worked()
        await asyncio.gather(ask(watched, "coder", talk), ask(watched, "reviewer", reviewed(talk)))
        assert told == []
        with conversation("coder"):
            other = Talk("What was said: the index was wrong. " * 20).say("What now?")
            await watched.messages.create(**other.claude())
            await asyncio.to_thread(plain.messages.create, **other.claude())
        await watched.close()

    asyncio.run(run())
    assert [place_of(one).session for one in told if one.detector == "guard"] == ["coder", "coder"]
    plain.close()


def test_the_name_stands_in_the_recording_with_its_run_behind_it(server: LocalServer, tmp_path: Path) -> None:
    client = watch(gpt(server), record=tmp_path / "ledger.jsonl")
    with conversation("coder"):
        client.responses.create(model=GPT, instructions=HEAD, input="hello")
        with conversation("reviewer"):
            client.responses.create(model=GPT, instructions=HEAD, input="hello")
        client.responses.create(model=GPT, instructions=HEAD, input="hello")
    client.close()
    sessions = [call.session.partition("-")[0] for call in Ledger.read(tmp_path / "ledger.jsonl")]
    assert sessions == ["coder", "reviewer", "coder"]


def test_a_response_that_is_gone_on_from_keeps_its_name(server: LocalServer, told: Told) -> None:
    client = watch(gpt(server), on_break=told, hazards=HAZARDS)
    with conversation("coder"):
        first = client.responses.create(model=GPT, instructions=HEAD, input="hello")
        client.responses.create(model=GPT, instructions="Now " + HEAD, input="go on", previous_response_id=first.id)
    assert [place_of(one).session for one in told if one.detector == "guard"] == ["coder"]
    client.close()


def test_a_name_is_a_string_that_says_something() -> None:
    for name in ["", "  ", None, 7, openai]:
        with pytest.raises(UsageError, match="a conversation is named by a string"), conversation(name):
            pass
