"""What a watched client is told of: what will be lost given what is cached, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from contextkit import watch
from contextkit.server import LocalServer
from tests.watcher.talk import CLAUDE, HEAD, MARK, Talk, Told
from tests.watcher.test_watch import claude

BIG = HEAD * 3


def question(text: str, clock: str, **more: Any) -> dict[str, Any]:
    """One question, a conversation of its own, behind a marked system text."""
    system = [{"type": "text", "text": f"{BIG}It is {clock}.", "cache_control": MARK}]
    return {"model": CLAUDE, "max_tokens": 9, "system": system, "messages": [{"role": "user", "content": text}], **more}


def test_one_question_each_with_a_clock_is_told_before_it_is_sent(server: LocalServer, told: Told) -> None:
    client = watch(claude(server), on_break=told)
    client.messages.create(**question("Why?", "10:31"))
    client.messages.create(**question("How?", "10:31"))
    assert told == []
    client.messages.create(**question("When?", "10:32"))
    (found,) = told
    assert (found.code, found.detector) == ("CKS01", "guard")
    assert found.cost_tokens and found.cost_tokens > 4_000
    client.close()


def test_a_return_to_what_is_still_cached_is_not_told(server: LocalServer, told: Told) -> None:
    """A, A, B, A: the fourth reads what the second left."""
    client, talk = watch(claude(server), on_break=told), Talk(head=BIG)
    client.messages.create(**talk.claude())
    client.messages.create(**talk.claude())
    client.messages.create(**Talk(head=BIG + "It is 10:32.").claude())
    n = len(told)
    reply = client.messages.create(**talk.claude())
    assert reply.usage.cache_read_input_tokens and len(told) == n
    client.close()


def test_requests_that_mark_nothing_are_told_once(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told), Talk()
    for _ in range(3):
        said = [{"role": one["role"], "content": one["content"][0]["text"]} for one in talk.messages]
        client.messages.create(model=CLAUDE, max_tokens=9, system=BIG, messages=said)  # type: ignore[arg-type]
        talk.say()
    (found,) = told
    assert (found.code, found.detector) == ("CKB01", "provider")
    assert "no block is marked" in found.message and found.cost_tokens and found.cost_tokens > 4_000
    client.close()


def test_a_refused_request_leaves_nothing_to_compare_with(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told), Talk(head=BIG)
    client.messages.create(**talk.claude())
    with pytest.raises(Exception, match="temperature"):
        client.messages.create(**{**Talk(head=BIG + "It is 10:32.").claude(), "temperature": 9})
    n = len(told)
    client.messages.create(**talk.claude())
    assert len(told) == n
    client.close()
