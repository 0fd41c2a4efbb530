"""What a server accepts on an assumption and says so, and what a strict one refuses instead."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from contextkit.models import model_named, register
from contextkit.server import LocalServer
from tests.server.bodies import HEADERS, WHOLE
from tests.server.conftest import CLAUDE, GPT, saying

UNKNOWN = {
    "/v1/messages": "Extra inputs are not permitted",
    "/v1/chat/completions": "Unknown parameter: 'colour'",
    "/v1/responses": "Unknown parameter: 'colour'",
    "/model/anthropic.claude-sonnet-5-5/converse": "no such field",
    "/v1beta/models/gemini-2.5-pro:generateContent": "no such field",
}
MODEL_FIELDS = {"/v1/messages": "claude-none-9", "/v1/chat/completions": "gpt-none", "/v1/responses": "gpt-none"}


@pytest.fixture(scope="module")
def strict() -> Iterator[httpx2.Client]:
    with LocalServer(now=1000.0, strict=True) as server, httpx2.Client(base_url=server.url, headers=HEADERS) as http:
        yield http


def usage_of(answer: httpx2.Response) -> Any:
    body = answer.json()
    return body.get("usage") or body.get("usageMetadata")


@pytest.mark.parametrize("path", WHOLE)
def test_an_unknown_field_is_accepted_neutral_and_reported_once(
    server: LocalServer, http: httpx2.Client, strict: httpx2.Client, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    if path.endswith("/converse"):
        pytest.importorskip("boto3", reason="fields of Converse are known from the service model of boto3")
    body = WHOLE[path]
    http.post(path, json=body, headers=HEADERS)
    plain = usage_of(http.post(path, json=body, headers=HEADERS))
    with caplog.at_level(logging.WARNING, "contextkit.server"):
        for colour in (1, {"red": [2]}, None):
            answer = http.post(path, json={**body, "colour": colour}, headers=HEADERS)
            assert answer.status_code == 200 and usage_of(answer) == plain
            assert "'colour' is not known" in answer.headers["x-contextkit-warning"]
    assert len(caplog.records) == 1 and [finding.name for finding in server.findings] == ["colour"]
    assert http.get("/_contextkit/findings").json()["findings"] == [finding.json() for finding in server.findings]
    refused = strict.post(path, json={**body, "colour": 1})
    assert (
        refused.status_code == 400 and UNKNOWN[path] in refused.text and strict.post(path, json=body).status_code == 200
    )
    server.reset()
    assert server.findings == []


def test_a_name_cannot_break_a_header_or_a_log_line(http: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    name = "a\x1b]0;pwn\x07\r\nx: y \u2028é" + "b" * 5000
    answer = http.post("/v1/messages", json={**WHOLE["/v1/messages"], name: 1}, headers=HEADERS)
    assert (
        answer.status_code == 200 and "%1B]0;pwn%07%0D%0Ax: y %E2%80%A8%C3%A9" in answer.headers["x-contextkit-warning"]
    )
    assert (
        len(answer.headers["x-contextkit-warning"]) < 1000
        and "\x1b" not in caplog.text
        and caplog.text.count("\n") == 1
    )


@pytest.mark.parametrize("path", MODEL_FIELDS)
def test_an_unknown_model_is_served_by_assumed_rules(
    server: LocalServer, http: httpx2.Client, strict: httpx2.Client, path: str
) -> None:
    body = {**WHOLE[path], "model": MODEL_FIELDS[path]}
    for is_stream in (False, True):
        answer = http.post(path, json={**body, "stream": is_stream}, headers=HEADERS)
        assert answer.status_code == 200 and body["model"] in answer.text, answer.text[:300]
        assert repr(body["model"]) in answer.headers["x-contextkit-warning"]
    assert [finding.kind for finding in server.findings] == ["assumed_model"]
    refused = strict.post(path, json=body)
    assert refused.status_code == 404 and body["model"] in refused.text


@pytest.mark.parametrize("model", ["deepseek-flash", "grok-4.7", "mistral-large-4", "openai/gpt-oss-120b"])
def test_models_of_compatible_hosts_are_served_at_openai_s_endpoint(
    server: LocalServer, http: httpx2.Client, model: str
) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Be careful. " * 3000}]}
    for _ in range(3):
        answer = http.post("/v1/chat/completions", json=body, headers=HEADERS)
        assert answer.status_code == 200 and "x-contextkit-warning" not in answer.headers
    assert (
        server.ledger[-1].provider == model_named(model).provider
        and usage_of(answer)["prompt_tokens_details"]["cached_tokens"]
    )


def test_a_retired_model_is_served_with_a_warning_from_that_day_on() -> None:
    name, day = "claude-retired-1", datetime(2026, 5, 1, tzinfo=UTC).timestamp()
    register(dataclasses.replace(model_named(CLAUDE), name=name, retired_on="2026-05-01"))
    body = {"model": name, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    for is_strict, status in ((False, 200), (True, 404)):
        with (
            LocalServer(now=day - 1, strict=is_strict) as server,
            httpx2.Client(base_url=server.url, headers=HEADERS) as http,
        ):
            before = http.post("/v1/messages", json=body)
            server.clock.advance(1)
            after = http.post("/v1/messages", json=body)
        assert (before.status_code, after.status_code) == (200, status) and "x-contextkit-warning" not in before.headers
        assert is_strict or ("was retired on 2026-05-01" in after.headers["x-contextkit-warning"])
        assert [finding.kind for finding in server.findings] == ([] if is_strict else ["retired_model"])


def test_a_websocket_upgrade_elsewhere_is_refused_with_a_reason_and_http_goes_on(http: httpx2.Client) -> None:
    upgrade = {**HEADERS, "upgrade": "WebSocket", "sec-websocket-version": "13", "sec-websocket-key": "a" * 22 + "=="}
    for path, connection in (("/v1/realtime", "Upgrade"), ("/v1/messages", "Upgrade"), ("/v1/responses", "keep-alive")):
        answer = http.get(path, headers={**upgrade, "connection": connection})
        assert answer.status_code == 426 and "POST over HTTP" in answer.json()["error"]["message"]
    assert http.post("/v1/responses", json={"model": GPT, "input": "hi"}, headers=HEADERS).status_code == 200


def test_a_background_response_is_complete_when_it_is_asked_for(server: LocalServer, http: httpx2.Client) -> None:
    server.script([saying("done")])
    made = http.post("/v1/responses", json={"model": GPT, "input": "hi", "background": True}, headers=HEADERS).json()
    again = http.get(f"/v1/responses/{made['id']}", headers=HEADERS).json()
    assert made["background"] is True and again["status"] == "completed" and "done" in json.dumps(again["output"])
