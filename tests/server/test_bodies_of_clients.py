"""What today's clients send is read: bodies of each client and release, compressed as they may be, and small ones of
our own of the same kinds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from contextkit.facts.load import built_in_table
from contextkit.server import LocalServer

START = 1_790_000_000.0
CLAUDE_CODE_BETAS = ",".join(
    row["name"]
    for row in built_in_table("betas.toml")["betas"]
    if row["name"] != "mid-conversation-output-config-2026-07-01"
)
"""Bodies hold no headers: every beta is opted in to, an effort of a message by the name that Claude Code gives it."""
HEADERS = {"authorization": "Bearer any", "anthropic-version": "2023-06-01", "anthropic-beta": CLAUDE_CODE_BETAS}
FILES = {
    "claude_code_2.1.332_compact": 0,
    "claude_code_2.1.332_per_turn_effort": 0,
    "claude_code_2.1.332_refused_then_retry": 0,
    "codex_0.171.0_additional_tools": 0,
    "pi_1.6.0_responses_gpt55": 0,
    "pi_1.6.0_system_effort_last": 0,
    "gemini_cli_0.61.0_resume_twice_answered": 1,
}
"""File → bodies refused in it: gemini-cli answers one call twice on a resume, at which Gemini itself answers 400."""
TURNS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude code": (
        "/v1/messages?beta=true",
        {
            "model": "claude-opus-5-5",
            "max_tokens": 64,
            "stream": True,
            "thinking": {"type": "adaptive", "display": "omitted"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"},
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.1ab; cc_entrypoint=sdk-cli;"}
            ],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "system", "content": "The effort is low now.", "output_config": {"effort": "low"}},
            ],
        },
    ),
    "codex": (
        "/v1/responses",
        {
            "model": "gpt-5.5",
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "client_metadata": {"turn_id": "t"},
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "hi"}],
                    "internal_chat_message_metadata_passthrough": {"turn_id": "t"},
                }
            ],
        },
    ),
    "chat": ("/v1/chat/completions", {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hi"}]}),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}
"""A small body of each kind, and where it goes."""


def brotli_of(body: bytes) -> bytes:
    compressed: bytes = pytest.importorskip("brotli", reason="needs the package brotli").compress(body)
    return compressed


def zstd_of(body: bytes) -> bytes:
    made = pytest.importorskip("zstandard", reason="needs the package zstandard").ZstdCompressor()
    compressed: bytes = made.compress(body)
    return compressed


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "br": ("br", brotli_of),
    "zstd": ("zstd", zstd_of),
    "two": ("gzip, zstd", lambda body: zstd_of(gzip.compress(body))),
}


def bodies_in(shared: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    packed = shared / "data" / "client-requests" / "2026-11-27" / f"{name}.jsonl.gz"
    for line in gzip.decompress(packed.read_bytes()).splitlines():
        body = json.loads(line)
        if "include" in body:
            body["include"] = ["reasoning.encrypted_content"]  # the recording replaced it as it did every text
        path = "/v1/messages" if "messages" in body else "/v1/responses" if "input" in body else TURNS["gemini"][0]
        yield path, body


@pytest.mark.parametrize("name", FILES)
def test_bodies_of_today_are_answered_and_compressed_ones_alike(shared: Path, name: str) -> None:
    with LocalServer(now=START) as server, httpx2.Client(base_url=server.url, headers=HEADERS) as http:
        plain = [http.post(path, json=body) for path, body in bodies_in(shared, name)]
        bills = [call.usage for call in server.ledger]
        assert sum(answer.status_code != 200 for answer in plain) == FILES[name], [a.text[:300] for a in plain]
        packers = list(CODINGS.values())
        server.reset()
        for index, (path, body) in enumerate(bodies_in(shared, name)):
            encoding, pack = packers[index % len(packers)]
            headers = {"content-encoding": encoding, "content-type": "application/json"}
            answer = http.post(path, content=pack(json.dumps(body).encode()), headers=headers)
            assert answer.status_code == plain[index].status_code, answer.text[:300]
        assert [call.usage for call in server.ledger] == bills


@pytest.mark.parametrize(("client", "coding"), list(zip(TURNS, CODINGS, strict=True)))
def test_each_kind_of_body_is_read_in_a_coding(
    client: str, coding: str, server: LocalServer, http: httpx2.Client
) -> None:
    (path, body), (encoding, pack) = TURNS[client], CODINGS[coding]
    headers = {**HEADERS, "content-encoding": encoding, "content-type": "application/json"}
    plain = http.post(path, json=body, headers=HEADERS)
    packed = http.post(path, content=pack(json.dumps(body).encode()), headers=headers)
    assert (plain.status_code, packed.status_code) == (200, 200), packed.text
    one, other = (call.usage for call in server.ledger)
    assert one is not None and other is not None and one.prompt == other.prompt


def test_a_body_that_cannot_be_decoded_is_refused_with_what_to_do() -> None:
    body, bomb = json.dumps(TURNS["chat"][1]).encode(), gzip.compress(b" " * ((1 << 26) + 1))
    cases = [
        ("lzma", body, 415, "unknown coding; gzip, deflate, br and zstd are read"),
        ("gzip", b"not gzip", 400, "cannot be decoded as 'gzip' (corrupt)"),
        ("gzip", gzip.compress(body)[:-9], 400, "(incomplete)"),
        ("gzip", bomb, 413, "larger than 67,108,864 bytes"),
        ("gzip", gzip.compress(b"{"), 400, "not valid JSON"),
    ]
    with LocalServer(now=START) as server:
        for encoding, sent, status, text in cases:
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/files"):
                headers = {**HEADERS, "content-encoding": encoding, "content-type": "application/json"}
                answer = httpx2.post(server.url + path, content=sent, headers=headers)
                if path != "/v1/files" or "JSON" not in text:
                    assert (answer.status_code, text in answer.text) == (status, True), answer.text
                assert answer.json()["error"]["message"]
        packed = gzip.compress(b'{"advance_seconds": 5}')
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        moved = httpx2.post(f"{server.url}/_contextkit/clock", content=packed, headers=headers)
        assert (moved.status_code, moved.json()) == (200, {"now": START + 5})


def test_a_coding_whose_extra_is_missing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "brotli", None)
    monkeypatch.setitem(__import__("sys").modules, "brotlicffi", None)
    with LocalServer(now=START) as server:
        headers = {**HEADERS, "content-encoding": "br", "content-type": "application/json"}
        answer = httpx2.post(f"{server.url}/v1/messages", content=b"x", headers=headers)
    assert answer.status_code == 415
    assert "[brotli]" in answer.json()["error"]["message"]


# Counting
# ---------------------------------------------------------------------------------------------------------------------


def test_input_tokens_are_those_that_the_call_is_billed_for() -> None:
    asked: dict[str, Any] = {
        "model": "gpt-5.5",
        "instructions": "Answer briefly. " * 50,
        "input": "What is a prefix?",
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}],
    }
    with LocalServer(now=START) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
        counted = client.responses.input_tokens.count(**asked)
        assert counted.object == "response.input_tokens"
        first = client.responses.create(**asked)
        assert first.usage is not None and counted.input_tokens == first.usage.input_tokens
        more = {"model": "gpt-5.5", "previous_response_id": first.id, "input": "And a suffix?"}
        again, second = client.responses.input_tokens.count(**more), client.responses.create(**more)
        assert second.usage is not None and again.input_tokens == second.usage.input_tokens
        held = client.conversations.create(items=[{"type": "message", "role": "user", "content": "hi"}])
        assert client.responses.input_tokens.count(model="gpt-5.5", conversation=held.id).input_tokens > 0
        with pytest.raises(openai.BadRequestError, match="'model'"):
            client.responses.input_tokens.count(input="hi")
        with pytest.raises(openai.BadRequestError, match="'input'"):
            client.responses.input_tokens.count(model="gpt-5.5")
        assert len(server.ledger) == 2


# Files
# ---------------------------------------------------------------------------------------------------------------------

CONTENT = b"a,b\r\n\r\n--x--\r\n\x00\xff\n"


def test_files_of_openai_are_kept() -> None:
    with LocalServer(now=START) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
        sent = client.files.create(file=("../dir/näme.csv", CONTENT, "text/csv"), purpose="user_data")
        assert (sent.bytes, sent.filename, sent.purpose, sent.created_at) == (
            len(CONTENT),
            "näme.csv",
            "user_data",
            int(START),
        )
        assert client.files.content(sent.id).content == CONTENT
        assert [one.id for one in client.files.list()] == [sent.id] == [client.files.retrieve(sent.id).id]
        assert not list(client.files.list(purpose="batch"))
        other = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", project="another", max_retries=0)
        assert not list(other.files.list())
        assert client.files.delete(sent.id).deleted
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(sent.id)
        with pytest.raises(openai.BadRequestError, match="purpose"):
            client.files.create(file=b"x", purpose="nothing")  # type: ignore[arg-type]


def test_files_of_anthropic_are_kept() -> None:
    with LocalServer(now=START) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
        sent = client.beta.files.upload(file=("notes.txt", CONTENT, "text/plain"))
        assert (sent.size_bytes, sent.filename, sent.mime_type) == (len(CONTENT), "notes.txt", "text/plain")
        assert [one.id for one in client.beta.files.list()] == [sent.id]
        assert client.beta.files.retrieve_metadata(sent.id).created_at.timestamp() == START
        with pytest.raises(anthropic.BadRequestError, match="not downloadable"):
            client.beta.files.download(sent.id)
        assert client.beta.files.delete(sent.id).type == "file_deleted"
        with pytest.raises(anthropic.NotFoundError):
            client.beta.files.retrieve_metadata(sent.id)
        server.reset()
        assert not list(client.beta.files.list())


@pytest.mark.parametrize("version", [{}, {"anthropic-version": "2023-06-01"}])
def test_an_upload_that_is_no_form_or_has_no_key_is_refused(version: dict[str, str]) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="%b"; filename="a"\r\n\r\nx\r\n--b--\r\n'
    kind = {"content-type": "multipart/form-data; boundary=b"}
    with LocalServer(now=START) as server, httpx2.Client(base_url=server.url, headers=version) as http:
        key = {"authorization": "Bearer any"}
        cases = [
            (key, b"", 400),
            (key, b"--b\r\n", 400),
            (key, form % b"other", 400),
            ({}, form % b"file", 415),  # what a page of another site can send
        ]
        for headers, body, status in cases:
            assert http.post("/v1/files", content=body, headers={**kind, **headers}).status_code == status
        assert http.post("/v1/files", json={}, headers=key).status_code == 400
        assert http.get("/v1/files").status_code == 401
        assert http.post("/v1/messages", content=form, headers={**kind, **key}).status_code == 415
