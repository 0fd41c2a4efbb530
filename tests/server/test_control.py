"""Steering the server over plain HTTP, as a test in any language would."""

from __future__ import annotations

from pathlib import Path

import anthropic
import httpx2
import pytest

from contextkit.ledger.ledger import Ledger
from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, asking, saying


def test_clock(http: httpx2.Client, claude: anthropic.Anthropic) -> None:
    claude.messages.create(**asking())
    assert http.post("/_contextkit/clock", json={"advance_seconds": 299.5}).json() == {"now": 1299.5}
    assert claude.messages.create(**asking()).usage.cache_read_input_tokens
    assert http.post("/_contextkit/clock", json={"now": 2000}).json() == {"now": 2000.0}
    assert not claude.messages.create(**asking()).usage.cache_read_input_tokens


def test_script_and_reset(server: LocalServer, http: httpx2.Client, claude: anthropic.Anthropic) -> None:
    assert http.post("/_contextkit/script", json={"replies": [saying("a"), {"parts": ALL_PARTS}]}).json() == {
        "waiting": 2
    }
    assert http.post("/_contextkit/script", json={"replies": [saying("b")]}).json() == {"waiting": 3}
    assert claude.messages.create(**asking()).content[0].text == "a"  # type: ignore[union-attr]
    assert http.post("/_contextkit/reset").json() == {"now": 1000.0}
    after = claude.messages.create(**asking())
    assert after.content[0].text == "You said: hello"  # type: ignore[union-attr]
    assert not after.usage.cache_read_input_tokens and len(server.ledger) == 1


def test_ledger_is_a_ledger_file(
    server: LocalServer, http: httpx2.Client, claude: anthropic.Anthropic, tmp_path: Path
) -> None:
    for _ in range(3):
        claude.messages.create(**asking())
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(http.get("/_contextkit/ledger").content)
    assert list(Ledger.read(file)) == list(server.ledger)
    assert [prompt is not None and prompt.n for _, prompt in Ledger.read(file).prompts()] == [2, 2, 2]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("clock", b"[]", "advance_seconds or now"),
        ("clock", b'{"advance_seconds":-1}', "does not go back"),
        ("clock", b'{"now":5}', "has not passed yet"),
        ("clock", b'{"now":2000,"advance_seconds":1}', "one field"),
        ("script", b"{}", "replies"),
        (
            "script",
            b'{"replies":[{},{"parts":[{"type":"text","text":"a"},{"type":"text"}]}]}',
            "replies.1.parts.1.text.text: Field",
        ),
        ("script", b'{"replies":[{"fault":{"kind":"status","status":200}}]}', "replies.0.fault.status.status"),
        ("script", b'{"replies":[{"text":"hi"}]}', "its fields are parts, stop, output_tokens"),
        ("script", b'{"replies":[{"output_tokens":"5"}]}', "replies.0.output_tokens"),
    ],
)
def test_bad_input_changes_nothing(
    server: LocalServer, http: httpx2.Client, path: str, body: bytes, words: str
) -> None:
    response = http.post(f"/_contextkit/{path}", content=body)
    assert response.status_code == 400
    assert words in response.json()["error"]
    assert server.clock.now() == 1000.0
    assert http.post("/_contextkit/script", json={"replies": []}).json() == {"waiting": 0}


def test_paths_nobody_answers(http: httpx2.Client) -> None:
    for response, status in (
        (http.get("/_contextkit/clock"), 405),
        (http.post("/_contextkit/none"), 404),
        (http.post("/_contextkit/ledger"), 405),
    ):
        assert response.status_code == status and "control.py" in response.json()["error"]
    assert http.get("/v1/messages").json()["type"] == "error"  # Anthropic's words, without its client's headers too
    assert (
        "end the client's base_url with /v1" in http.post("/responses").text
    )  # OpenAI's client, given the address alone
    assert "base_url" not in http.post("/nothing").text
    wrong = http.get("/v1/responses").json()["error"]
    assert (wrong["type"], wrong["code"]) == ("invalid_request_error", "method_not_supported")
