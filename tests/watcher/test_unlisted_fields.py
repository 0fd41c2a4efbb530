"""A request field that no table lists is named once, and changes nothing else."""

from __future__ import annotations

import logging

import anthropic
import openai
import pytest

import contextkit
from contextkit.server import LocalServer
from tests.watcher.talk import Talk, Told


def test_an_unlisted_field_is_logged_once_for_each_endpoint(
    server: LocalServer, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk()
    with caplog.at_level(logging.WARNING, "contextkit.watch"):
        with contextkit.watch(anthropic.Anthropic(base_url=server.url, api_key="any"), on_break=told) as client:
            for _ in range(3):
                client.messages.create(**talk.claude(), extra_body={"colour": "red"})
                talk.say()
        with contextkit.watch(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any"), on_break=told) as client:
            client.chat.completions.create(**talk.chat(temperature=0), extra_body={"colour": "red", "top_k": 5})
    texts = [record.getMessage() for record in caplog.records if record.name == "contextkit.watch"]
    assert [text.partition(":")[0] for text in texts] == ["anthropic_messages", "openai_chat"] and told == []
    for text in texts:
        assert "field 'colour' is not listed" in text and "assumed neutral for the cache" in text
