"""The Interactions API of Gemini: the real SDK against the local provider, and bodies as lint, proxy and reports read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, Exchange
from contextkit.ledger.ledger import Ledger
from contextkit.lint.catalogue import hazards
from contextkit.lint.requests.detect import Detector
from contextkit.providers.codecs import CODECS, endpoint_of, reader_of
from contextkit.providers.paths import wire_of
from contextkit.providers.request_fields import unlisted_fields
from contextkit.providers.response_facts import response_bytes
from contextkit.providers.usage import usage_of
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import Departed, Ended
from contextkit.server import LocalServer

genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
pytest.importorskip("google.genai.interactions", reason="google-genai without the Interactions API")
pytest.importorskip("uvicorn", reason="the local server is the extra `server`")

MODEL = "gemini-3.8-flash"
SYSTEM = "You are careful. " * 2000
TOOL = {"type": "function", "name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
CALL = {"parts": [{"type": "thinking", "thinking": "Hm."}, {"type": "call", "name": "add", "arguments": {"a": 1}}]}


def says(text: str) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": text}]}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as running:
        yield running


@pytest.fixture
def client(server: LocalServer) -> Iterator[Any]:
    options = {"base_url": server.url, "retry_options": {"attempts": 1}}
    with genai.Client(api_key="any", http_options=options) as made:
        yield made


def bill(usage: Any) -> tuple[int, int, int]:
    return usage.total_input_tokens, usage.total_cached_tokens, usage.total_output_tokens + usage.total_thought_tokens


def billed(server: LocalServer, index: int) -> tuple[int | None, int | None, int | None]:
    usage = server.ledger[index].usage
    assert usage is not None
    return usage.prompt, usage.read, usage.output


def test_an_interaction_is_answered_and_the_next_one_reads_the_cache(server: LocalServer, client: Any) -> None:
    server.script([says("Hello."), says("Again.")])
    first = client.interactions.create(model=MODEL, input="hi", system_instruction=SYSTEM)
    assert first.status == "completed" and first.steps[0].content[0].text == "Hello."
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
        *(step.model_dump(exclude_none=True) for step in first.steps),
        {"type": "user_input", "content": [{"type": "text", "text": "and?"}]},
    ]
    second = client.interactions.create(model=MODEL, input=steps, system_instruction=SYSTEM)
    assert bill(first.usage) == billed(server, 0) and bill(second.usage) == billed(server, 1)
    assert second.usage.total_cached_tokens > 4096 and server.findings == []
    assert len({(row.session, row.lane) for row in server.ledger}) == 1


def test_a_stored_interaction_is_continued_by_its_name(server: LocalServer, client: Any) -> None:
    server.script([CALL, says("Three."), says("x")])
    first = client.interactions.create(model=MODEL, input="1 + 2?", system_instruction=SYSTEM, tools=[TOOL])
    assert first.status == "requires_action"
    thought, call = first.steps
    assert thought.signature and thought.summary[0].text == "Hm." and (call.name, call.arguments) == ("add", {"a": 1})
    result = {"type": "function_result", "call_id": call.id, "name": "add", "result": "3"}
    second = client.interactions.create(
        model=MODEL, input=[result], system_instruction=SYSTEM, tools=[TOOL], previous_interaction_id=first.id
    )
    assert second.previous_interaction_id == first.id and second.usage.total_cached_tokens > 4096
    assert client.interactions.get(id=first.id).id == first.id
    client.interactions.delete(id=first.id)
    for missing in (first.id, "interaction_x"):
        with pytest.raises(Exception, match="not found") as caught:
            client.interactions.create(model=MODEL, input="x", previous_interaction_id=missing)
        assert getattr(caught.value, "status_code", getattr(caught.value, "code", 404)) == 404


def test_a_stream_holds_what_a_whole_interaction_holds(server: LocalServer, client: Any) -> None:
    server.script([says("A long answer. " * 20), CALL])
    responses = CODECS["gemini_interactions"].responses
    for ending in ("completed", "requires_action"):
        events = list(client.interactions.create(model=MODEL, input="hi", tools=[TOOL], stream=True))
        assert events[0].event_type == "interaction.created" and events[-1].event_type == "interaction.completed"
        whole = responses.joined(events)
        assert whole["status"] == ending and responses.is_complete(whole)
        assert not responses.is_complete(responses.joined(events[:-1]))
        reply = responses.reply(whole)
        stored = client.interactions.get(id=reply.id)
        assert responses.reply(stored) == reply
        assert reply.usage == server.ledger[-1].usage


def test_what_the_api_refuses_is_refused(client: Any) -> None:
    wrong: list[dict[str, Any]] = [
        {"input": []},
        {"input": [{"type": "function_result", "call_id": "x", "result": "1"}]},
        {"input": [{"type": "model_output", "content": [{"type": "text", "text": "x"}]}]},
        {"input": [{"type": "function_call", "id": "1", "name": "f", "arguments": {}}]},
    ]
    for fields in wrong:
        with pytest.raises(Exception, match="Invalid value at 'input") as caught:
            client.interactions.create(model=MODEL, **fields)
        assert "400" in str(caught.value) or getattr(caught.value, "status_code", 400) == 400


BODIES: list[dict[str, Any]] = [
    {"model": MODEL, "input": "hi"},
    {"model": MODEL, "input": {"type": "text", "text": "hi"}},
    {"model": MODEL, "input": [{"type": "text", "text": "hi"}]},
    {"model": "tuned", "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]},
    {"agent": "deep-research-pro", "input": "hi"},
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_recognised_and_its_forms_are_one_prompt(body: dict[str, Any]) -> None:
    reader = reader_of(body, "")
    assert reader is not None and reader.endpoint == "gemini_interactions"
    (block,) = reader.blocks(body)
    assert (block.level, block.role, block.type) == ("messages", "user", "text")
    if body.get("model") == MODEL:
        parse = CODECS[reader.endpoint].parse
        assert parse(body).prompt.digests == parse(BODIES[0]).prompt.digests
    assert unlisted_fields(reader.endpoint, {**body, "colour": 1}) == ("colour",)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "gpt-5.1", "input": "hi"},
        {"model": "gpt-5.1", "input": [{"role": "user", "content": "hi"}], "instructions": "x"},
        {"model": "gpt-5.1", "input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]},
    ],
)
def test_a_body_of_openai_is_not_taken_for_one(body: dict[str, Any]) -> None:
    assert endpoint_of(body, "") == "openai_responses"


def test_blocks_have_their_levels_roles_and_types() -> None:
    body = {
        "model": MODEL,
        "system_instruction": "Be brief.",
        "tools": [TOOL],
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "hi"}, {"type": "image", "uri": "gs://a"}]},
            {"type": "thought", "signature": "s"},
            {"type": "google_search_call", "id": "1", "arguments": {}},
            {"type": "google_search_result", "call_id": "1", "result": []},
            {"type": "function_call", "id": "2", "name": "add", "arguments": {}},
            {"type": "function_result", "call_id": "2", "result": "3"},
        ],
    }
    blocks = [(block.level, block.role, block.type) for block in CODECS["gemini_interactions"].body.blocks(body)]
    assert blocks == [
        ("tools", "add", "tool"),
        ("system", "system", "text"),
        ("messages", "user", "text"),
        ("messages", "user", "image"),
        ("messages", "model", "thinking"),
        ("messages", "model", "call"),
        ("messages", "model", "result"),
        ("messages", "model", "call"),
        ("messages", "user", "result"),
    ]


def test_the_counters_of_an_interaction_are_read() -> None:
    counters = {
        "total_input_tokens": 100,
        "total_cached_tokens": 60,
        "total_output_tokens": 5,
        "total_thought_tokens": 7,
    }
    assert usage_of({**counters, "total_tokens": 112}, print) == Usage(40, 60, writes={}, output=12)
    assert usage_of({**counters, "total_tool_use_tokens": 3}, print) == Usage(43, 60, writes={}, output=12)


def test_a_stream_is_read_from_its_bytes(server: LocalServer, client: Any, tmp_path: Path) -> None:
    event = {"event_type": "interaction.completed", "interaction": {"id": "i", "status": "completed"}}
    event["interaction"]["usage"] = {"total_input_tokens": 9, "total_output_tokens": 2}  # type: ignore[index]
    reader = response_bytes("gemini_interactions", "text/event-stream", "")
    reader.feed(f"event: x\ndata: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
    summary = reader.summary(is_closed=True)
    assert (summary.id, summary.usage, summary.is_complete) == ("i", Usage(9, 0, writes={}, output=2), True)


def _turn(number: int, text: str, **fields: Any) -> tuple[bytes, bytes]:
    usage = {
        "total_input_tokens": 9_000 + number,
        "total_cached_tokens": 8_192 * (number > 0),
        "total_output_tokens": 3,
    }
    response = {"id": f"i{number}", "status": "completed", "model": MODEL, "usage": usage}
    body = {"model": MODEL, "system_instruction": SYSTEM, "input": text, **fields}
    return json.dumps(body).encode(), json.dumps(response).encode()


def test_the_proxy_and_a_recording_agree_on_an_interaction(tmp_path: Path) -> None:
    turns = [_turn(0, "hi"), _turn(1, "and?", previous_interaction_id="i0")]
    analyzer = CallAnalyzer(
        Journal(tmp_path / "proxied.jsonl"), lambda text: None, "https://generativelanguage.googleapis.com"
    )
    path, lines = "/v1beta/interactions", []
    assert wire_of("POST", path) == "gemini_interactions"
    for number, (body, response) in enumerate(turns, 1):
        at = 1_780_000_000.0 + 10 * number
        analyzer.departed(Departed(number, "gemini_interactions", path, "", body, None, (), (), at))
        analyzer.ended(Ended(number, 200, "application/json", "", response, at + 1, at + 2, ""))
        url = f"https://generativelanguage.googleapis.com{path}"
        lines.append(json.dumps({"at": at, "url": url, "request": json.loads(body), "response": json.loads(response)}))
    list(analyzer.close(0.0))
    (tmp_path / "recorded.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    proxied = list(Ledger.read(tmp_path / "proxied.jsonl"))
    recorded = [row for row in records_in([str(tmp_path / "recorded.jsonl")], Faults()) if isinstance(row, Exchange)]
    for rows in (proxied, recorded):
        assert [row.provider for row in rows] == ["google"] * 2 and [row.model for row in rows] == [MODEL] * 2
        assert [row.usage for row in rows] == [
            Usage(9_000, 0, writes={}, output=3),
            Usage(809, 8_192, writes={}, output=3),
        ]


def test_lint_sees_a_system_instruction_that_changes() -> None:
    detector = Detector(hazards())
    findings = []
    for number, name in enumerate(("Ada", "Bob")):
        steps = [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]
        if number:
            steps.append({"type": "model_output", "content": [{"type": "text", "text": "Hello."}]})
            steps.append({"type": "user_input", "content": [{"type": "text", "text": "and?"}]})
        body = {"model": MODEL, "system_instruction": f"{SYSTEM} You help {name}.", "input": steps}
        raw = Bodies(json.dumps(body).encode())
        at = 1_790_000_000.0 + 20 * number
        row = Exchange(f"i{number}", "s", "main", at, at + 1, at + 2, "google", MODEL, raw, None, None, None)
        findings += list(detector.feed(row))
    assert [finding.place.level for finding in findings] == ["system"] and detector.unlisted_fields == []
