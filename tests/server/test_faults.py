"""What goes wrong on the way, as the SDKs meet it."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import openai
import pytest

from contextkit.providers.provider import Parsed
from contextkit.server import LocalServer
from tests.server.conftest import CLAUDE, asking, saying
from tests.server.test_openai import CHAT, RESPOND

TOO_MANY = {"fault": {"kind": "status", "status": 429, "retry_after": 0.01}}


def errors(server: LocalServer) -> list[str | None]:
    return [call.error for call in server.ledger]


def test_a_retry_meets_the_next_reply(server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI) -> None:
    server.script([TOO_MANY, saying("at last"), TOO_MANY, TOO_MANY, saying("at last")])
    assert claude.with_options(max_retries=1).messages.create(**asking()).content[0].text == "at last"  # type: ignore[union-attr]
    assert gpt.with_options(max_retries=2).chat.completions.create(**CHAT).choices[0].message.content == "at last"
    assert errors(server) == ["rate_limit_error", None, "rate_limit_error", "rate_limit_error", None]


KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def test_status_faults_anthropic(server: LocalServer, claude: anthropic.Anthropic) -> None:
    for status, kind in KINDS.items():
        server.script([{"fault": {"kind": "status", "status": status, "message": "as scripted"}}])
        with pytest.raises(anthropic.APIStatusError) as caught:
            claude.messages.create(**asking())
        error = caught.value
        assert (error.status_code, error.type, error.api_message) == (status, kind, "as scripted")
    assert claude.messages.create(**asking()).usage.cache_read_input_tokens == 0


def test_status_faults_openai(server: LocalServer, gpt: openai.OpenAI) -> None:
    for call in (lambda: gpt.chat.completions.create(**CHAT), lambda: gpt.responses.create(**RESPOND)):
        for status in (400, 503):
            server.script([{"fault": {"kind": "status", "status": status, "type": "my_error"}}])
            with pytest.raises(openai.APIStatusError) as caught:
                call()
            assert (caught.value.status_code, caught.value.type) == (status, "my_error")


CUT = {
    "parts": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    "fault": {"kind": "cut", "after_parts": 1},
}


def test_a_cut_stream_gives_what_came_before(
    server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI
) -> None:
    server.script([CUT] * 3)
    heard = ""
    with claude.messages.stream(**asking()) as stream:
        texts = stream.text_stream
        while heard != "one":
            heard += next(texts)
        with pytest.raises((httpx2.RemoteProtocolError, anthropic.APIConnectionError)):
            next(texts)
    for call in (
        lambda: gpt.chat.completions.create(**CHAT, stream=True),
        lambda: gpt.responses.create(**RESPOND, stream=True),
    ):
        with pytest.raises(openai.APIConnectionError):
            list(call())  # type: ignore[call-overload]
    assert errors(server) == ["cut"] * 3
    assert all(recorded.usage is not None and 0 < (recorded.usage.output or 0) < 3 for recorded in server.ledger)


def test_a_cut_body_is_a_connection_error_and_was_billed(
    server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI
) -> None:
    server.script([CUT] * 2)
    with pytest.raises(anthropic.APIConnectionError):
        claude.messages.create(**asking())
    with pytest.raises(openai.APIConnectionError):
        gpt.responses.create(**RESPOND)
    assert errors(server) == ["cut"] * 2
    assert claude.messages.create(**asking()).usage.cache_read_input_tokens


OVERLOADED = {
    "parts": [{"type": "text", "text": "one"}],
    "fault": {"kind": "error_event", "after_parts": 1, "message": "too much"},
}


def test_an_error_in_mid_stream(server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI) -> None:
    server.script([OVERLOADED] * 3)
    heard = ""
    with claude.messages.stream(**asking()) as stream:
        texts = stream.text_stream
        while heard != "one":
            heard += next(texts)
        with pytest.raises(anthropic.APIStatusError, match="too much"):
            next(texts)
    with pytest.raises(openai.APIError, match="too much"):
        list(gpt.chat.completions.create(**CHAT, stream=True))
    event = list(gpt.responses.create(**RESPOND, stream=True))[-1]
    assert event.type == "error" and event.message == "too much"
    assert heard == "one" and errors(server) == ["overloaded_error"] * 3


def test_an_error_event_without_a_stream_is_a_status(
    server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI
) -> None:
    server.script([OVERLOADED] * 2)
    with pytest.raises(anthropic.OverloadedError):
        claude.messages.create(**asking())
    with pytest.raises(openai.InternalServerError):
        gpt.chat.completions.create(**CHAT)


def test_a_response_that_never_begins_is_billed_and_not_readable(
    server: LocalServer, claude: anthropic.Anthropic, gpt: openai.OpenAI
) -> None:
    server.script([{"fault": {"kind": "never"}}, saying(), {"fault": {"kind": "never"}}])
    with pytest.raises(anthropic.APIConnectionError):
        claude.messages.create(**asking())
    assert claude.messages.create(**asking()).usage.cache_read_input_tokens == 0
    with pytest.raises(openai.APIConnectionError):
        gpt.chat.completions.create(**CHAT)
    lost = server.ledger[0]
    assert lost.error == "aborted" and lost.first_byte_at is None and lost.usage is not None and lost.usage.write_5m


def test_a_callable_that_fails_leaves_no_prompt_in_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "what nobody else may read"

    def reply(parsed: Any, body: Any) -> Any:
        raise KeyError(body["messages"][0]["content"])

    with (
        LocalServer(reply) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as claude,
        pytest.raises(anthropic.InternalServerError, match="KeyError") as caught,
    ):
        claude.messages.create(model=CLAUDE, max_tokens=5, messages=[{"role": "user", "content": secret}])
    assert secret not in str(caught.value)
    logged = caplog.text + "".join(capfd.readouterr())
    assert "KeyError" in logged and "test_faults.py" in logged and "in reply" in logged and secret not in logged


def test_a_callable_replies_and_its_mistakes_are_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def reply(parsed: Parsed, body: Any) -> dict[str, Any]:
        seen.append(parsed.prompt.n)
        return {1: saying(f"asked {body['model']}"), 2: {"parts": "wrong"}}.get(len(seen)) or {}["missing"]

    with (
        LocalServer(reply, now=0.0) as server,
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=3) as client,
    ):
        assert client.messages.create(**asking()).content[0].text == f"asked {CLAUDE}"  # type: ignore[union-attr]
        with pytest.raises(anthropic.InternalServerError, match=r"reply\.parts"):
            client.messages.create(**asking())
        with pytest.raises(anthropic.InternalServerError, match="KeyError"):
            client.messages.create(**asking())
    assert seen == [2, 2, 2] and len(caplog.records) == 2
