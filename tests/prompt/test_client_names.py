"""The names of session, agent and context window that clients put into headers and bodies."""

from __future__ import annotations

import pytest

from contextkit.providers.client_names import NO_NAMES, ClientNames, client_names, names_in_headers

TURN = '{"session_id": "s", "thread_id": "t", "window_id": "t:1", "request_kind": "turn"}'


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({"x-claude-code-session-id": "s"}, ClientNames("s")),
        ({"X-Claude-Code-Session-Id": "s", "X-Claude-Code-Agent-Id": "a"}, ClientNames("s", "a")),
        ({"session_id": "s", "thread_id": "s", "x-codex-window-id": "s:0"}, ClientNames("s", "", "s:0")),
        ({"session-id": "s", "thread-id": "t", "x-codex-window-id": "t:1"}, ClientNames("s", "t", "t:1")),
        ({"x-codex-turn-metadata": TURN}, ClientNames("s", "t", "t:1")),
        ({"session-id": "s", "x-codex-turn-metadata": "no JSON"}, ClientNames("s")),
        ({"x-opencode-session": "s"}, ClientNames("s")),
        ({"x-session-affinity": "c", "X-Session-Id": "c", "x-parent-session-id": "s"}, ClientNames("s", "c")),
        ({"x-grok-conv-id": "s"}, ClientNames("s")),
        ({"x-api-key": "k", "thread-id": "t", "x-claude-code-session-id": ""}, NO_NAMES),
    ],
)
def test_names_in_headers(headers: dict[str, str], names: ClientNames) -> None:
    assert names_in_headers(headers.items()) == names


def test_what_the_body_names_stands_before_what_a_header_names() -> None:
    in_headers = ClientNames("header", "a", "w")
    assert client_names({"metadata": {"session_id": "body"}}, in_headers) == ClientNames("body", "a", "w")
    assert client_names({}, in_headers) == in_headers
    assert client_names({}) is NO_NAMES


KEY = "abcdefghijklmnop0123"


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer  {KEY} ", f"Bearer\t{KEY}", KEY])
def test_a_key_names_the_same_account_however_its_header_is_spelled(header: str) -> None:
    assert names_in_headers([("Authorization", header)]).account == names_in_headers([("x-api-key", KEY)]).account != ""


@pytest.mark.parametrize(
    "token", ["eyJ", "sk-ant-oat01-", "ya29.", "bedrock-api-key-", "ghu_", "ghs_", "tid=1;exp=2;", "AWS4-HMAC-SHA256 "]
)
@pytest.mark.parametrize("scheme", ["", "Bearer ", "BEARER\t"])
def test_a_token_that_is_renewed_names_no_account(token: str, scheme: str) -> None:
    assert names_in_headers([("authorization", scheme + token + KEY)]).account == ""
