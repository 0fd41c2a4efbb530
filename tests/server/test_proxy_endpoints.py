"""Every endpoint a model is called at is recorded with its bill; whatever else passes is told in sizes."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.providers.paths import wire_of
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import Departed, Ended, Passed
from tests.server.proxied import Seen, Wire, client, passing, provider

GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"
STREAM = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
HAIKU = "us.anthropic.claude-haiku-4-5-20251001-v1%3A0"
CONVERSE, INVOKE = f"/model/{HAIKU}/converse", f"/model/{HAIKU}/invoke"
LONG = "You are careful. " * 3000
SSE, EVENTS = "text/event-stream", "application/vnd.amazon.eventstream"


OPEN: list[Judged] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Every judge of a test gives its file back."""
    yield
    while OPEN:
        list(OPEN.pop().analysis.close(0.0))


class Judged:
    """A judge in this process."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.path, self.troubles, self.upstream = folder / "runs.jsonl", list[str](), upstream
        self.analysis = CallAnalyzer(Journal(self.path), self.troubles.append)
        self.n, self.now = 0, 1_780_000_000.0
        OPEN.append(self)

    def call(
        self, path: str, body: Any, said: Any = b"", kind: str = "application/json", status: int = 200, **more: Any
    ) -> Any:
        """One call from its request to its report."""
        self.n, self.now = self.n + 1, self.now + 10
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        heard = said if isinstance(said, bytes) else json.dumps(said).encode()
        wire = wire_of("POST", path)
        assert wire
        self.analysis.departed(Departed(self.n, wire, path, "", raw, None, (), (), self.now, upstream=self.upstream))
        ended = {"first_byte_at": self.now + 1, "ended_at": self.now + 2, "error": "", "encoding": "", **more}
        line = self.analysis.ended(Ended(self.n, status, kind, body=heard, **ended))
        return parse(line)

    def rows(self) -> list[ModelCall]:
        """What was recorded."""
        return list(Ledger.read(self.path))


def frame(kind: str, payload: Any, message: str = "event") -> bytes:
    """One frame of Amazon's event stream (vnd.amazon.eventstream: prelude, its CRC, headers, payload, CRC of it all)."""
    named = {f":{message}-type": kind, ":content-type": "application/json", ":message-type": message}
    headers = b"".join(
        struct.pack("!B", len(n)) + n.encode() + b"\7" + struct.pack("!H", len(v)) + v.encode()
        for n, v in named.items()
    )
    data = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(data), len(headers))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + data
    return whole + struct.pack("!I", zlib.crc32(whole))


def gemini(*said: str, system: str = LONG) -> dict[str, Any]:
    contents = [{"role": ("user", "model")[i % 2], "parts": [{"text": text}]} for i, text in enumerate(said)]
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


def converse(*said: str) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[i % 2], "content": [{"text": text}]} for i, text in enumerate(said)]
    return {
        "system": [{"text": LONG}, {"cachePoint": {"type": "default"}}],
        "messages": messages,
        "inferenceConfig": {"maxTokens": 9},
    }


def counted(prompt: int, cached: int, output: int) -> dict[str, int]:
    return {"promptTokenCount": prompt, "cachedContentTokenCount": cached, "candidatesTokenCount": output}


CANDIDATE = {"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}
COUNTS = {
    "inputTokens": 7,
    "outputTokens": 3,
    "totalTokens": 110,
    "cacheReadInputTokens": 90,
    "cacheWriteInputTokens": 10,
}
CONVERSED = [
    frame("messageStart", {"role": "assistant"}),
    frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "ok"}}),
    frame("contentBlockStop", {"contentBlockIndex": 0}),
    frame("messageStop", {"stopReason": "end_turn"}),
    frame("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 5}}),
]


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/anthropic/v1/messages", "anthropic_messages"),
        ("/chat/completions", "openai_chat"),
        ("/openai/deployments/mine/chat/completions?api-version=1", "openai_chat"),
        ("/v1/completions", "openai_completions"),
        ("/v1/responses", "openai_responses"),
        (GEMINI, "gemini"),
        (f"{STREAM}?alt=sse&key=AIza", "gemini"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:streamGenerateContent", "gemini"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-5@2:streamRawPredict", "vertex_raw"),
        (CONVERSE, "bedrock_converse"),
        (f"{CONVERSE}-stream", "bedrock_converse"),
        (INVOKE, "bedrock_invoke"),
        (f"{INVOKE}-with-response-stream", "bedrock_invoke"),
        ("/v1/messages/count_tokens", ""),
        ("/v1/embeddings", ""),
        (f"{GEMINI[:-15]}countTokens", ""),
        ("/v1/responses/resp_1/cancel", ""),
    ],
)
def test_a_path_tells_the_wire(path: str, wire: str) -> None:
    assert wire_of("POST", path) == wire and wire_of("GET", path) == ""


def test_gemini_is_recorded_with_its_bill_and_what_broke_its_prefix(tmp_path: Path) -> None:
    judge = Judged(tmp_path, "https://generativelanguage.googleapis.com")
    first = judge.call(
        GEMINI, gemini("a"), {"candidates": [CANDIDATE], "usageMetadata": counted(9_000, 0, 5), "responseId": "g1"}
    )
    streamed = [
        {"candidates": [{"content": {"parts": [{"text": "o"}]}}], "usageMetadata": counted(9_100, 8_900, 1)},
        {"candidates": [CANDIDATE], "usageMetadata": counted(9_100, 8_900, 6), "responseId": "g2"},
    ]
    sse = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in streamed).encode()
    second = judge.call(STREAM, gemini("a", "ok", "b"), sse, SSE)
    listed = judge.call(STREAM, gemini("a", "ok", "b", "ok", "c"), json.dumps(streamed, indent=1).encode())
    broken = judge.call(
        GEMINI,
        gemini("a", "ok", "b", "ok", "c", "ok", "d", system=LONG + "It is 10:31."),
        {"candidates": [CANDIDATE], "usageMetadata": counted(9_300, 0, 5)},
    )
    assert [report["call"]["error"] for report in (first, second, listed, broken)] == [None] * 4
    rows = judge.rows()
    assert [row.usage for row in rows[:2]] == [Usage(9_000, 0, 0, 0, 5), Usage(200, 8_900, 0, 0, 6)] and rows[
        2
    ].usage == rows[1].usage
    assert {(row.provider, row.model, row.session) for row in rows} == {("google", "gemini-2.5-pro", rows[0].session)}
    assert (
        rows[0].id == "g1" and isinstance(rows[0].prompt, Bodies) and json.loads(rows[0].prompt.request) == gemini("a")
    )
    assert broken["findings"][0]["level"] == "system" and broken["lost_tokens"] and broken["cost_usd"]


def test_a_gemini_stream_that_was_cut_is_said_to_be(tmp_path: Path) -> None:
    judge = Judged(tmp_path, "https://generativelanguage.googleapis.com")
    event = {"candidates": [{"content": {"parts": [{"text": "o"}]}}], "usageMetadata": counted(9_100, 0, 1)}
    report = judge.call(STREAM, gemini("a"), f"data: {json.dumps(event)}\n\n".encode(), SSE, error="cut")
    assert report["call"]["error"] == "cut"
    assert report["call"]["usage"]["qualities"] == {"output": "partial"}
    refusal = {"error": {"code": 429, "message": f"quota; you said {LONG}", "status": "RESOURCE_EXHAUSTED"}}
    assert judge.call(GEMINI, gemini("b"), refusal, status=429)["call"]["error"] == "RESOURCE_EXHAUSTED"
    assert judge.call(STREAM, gemini("b"), [refusal], status=429)["call"]["error"] == "RESOURCE_EXHAUSTED"


def test_bedrock_converse_is_recorded_plain_and_streamed(tmp_path: Path) -> None:
    judge = Judged(tmp_path, "https://bedrock-runtime.us-east-1.amazonaws.com")
    judge.call(CONVERSE, converse("a"), {"output": {"message": {}}, "stopReason": "end_turn", "usage": COUNTS})
    judge.call(f"{CONVERSE}-stream", converse("a", "ok", "b"), b"".join(CONVERSED), EVENTS)
    cut = judge.call(
        f"{CONVERSE}-stream", converse("a", "ok", "b", "ok", "c"), b"".join(CONVERSED[:2]), EVENTS, error="cut"
    )
    thrown = frame("throttlingException", {"message": f"slow down: {LONG}"}, "exception")
    failed = judge.call(f"{CONVERSE}-stream", converse("z"), CONVERSED[0] + thrown, EVENTS)
    rows = judge.rows()
    assert rows[0].usage == rows[1].usage == Usage(7, 90, 10, 0, 3)
    assert [row.error for row in rows] == [None, None, "cut", "throttlingException"] and cut["call"]["usage"] is None
    assert (rows[0].provider, rows[0].model) == ("aws", "us.anthropic.claude-haiku-4-5-20251001-v1:0")
    assert rows[0].session == rows[1].session == rows[2].session != rows[3].session
    assert LONG not in json.dumps(failed)


def test_bedrock_invoke_and_vertex_speak_the_vendor_s_own_wire(tmp_path: Path) -> None:
    counts = {"input_tokens": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6, "output_tokens": 1}
    said = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude-haiku-4-5", "usage": counts}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    chunks = b"".join(
        frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcd"}) for event in said
    )
    body = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "system": LONG,
    }
    judge = Judged(tmp_path, "https://bedrock-runtime.us-east-1.amazonaws.com")
    judge.call(INVOKE, body, {"id": "msg_0", "usage": counts | {"output_tokens": 5}, "stop_reason": "end_turn"})
    judge.call(f"{INVOKE}-with-response-stream", body, chunks, EVENTS)
    rows = judge.rows()
    assert [(row.id, row.usage, row.error, row.provider) for row in rows] == [
        ("msg_0", Usage(4, 90, 6, 0, 5), None, "aws"),
        ("msg_1", Usage(4, 90, 6, 0, 5), None, "aws"),
    ]

    vertex = Judged(tmp_path / "vertex", "https://us-east5-aiplatform.googleapis.com")
    path = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-haiku-4-5@20251001:rawPredict"
    vertex.call(
        path,
        body | {"anthropic_version": "vertex-2023-10-16"},
        {"id": "msg_2", "usage": counts, "stop_reason": "end_turn"},
    )
    assert [(row.provider, row.model) for row in vertex.rows()] == [("google", "claude-haiku-4-5@20251001")]


def test_other_vendors_of_openai_s_wire_are_billed_in_their_own_words(tmp_path: Path) -> None:
    judge = Judged(tmp_path, "https://api.deepseek.com")
    usage = {
        "prompt_tokens": 100,
        "prompt_cache_hit_tokens": 64,
        "prompt_cache_miss_tokens": 36,
        "completion_tokens": 5,
    }
    body = {"model": "deepseek-chat", "messages": [{"role": "user", "content": "hi"}]}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    judge.call("/chat/completions", body, {"id": "d1", "choices": [choice], "usage": usage})
    ends = [
        {"id": "d2", "choices": [{"delta": {"content": "ok"}, "finish_reason": None}]},
        {"id": "d2", "choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage},
    ]
    judge.call(
        "/chat/completions",
        body | {"stream": True},
        "".join(f"data: {json.dumps(one)}\n\n" for one in ends).encode() + b"data: [DONE]\n\n",
        SSE,
    )
    rows = judge.rows()
    assert [(row.usage, row.provider, row.error) for row in rows] == [(Usage(36, 64, 0, 0, 5), "deepseek", None)] * 2

    local = Judged(tmp_path / "local", "http://127.0.0.1:8000")
    counts = {"prompt_tokens": 50, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 48}}
    text = {"id": "cmpl-1", "choices": [{"text": "ok", "finish_reason": "length"}], "usage": counts}
    local.call("/v1/completions", {"model": "nobody/knows-it", "prompt": "Once"}, text)
    row = local.rows()[0]
    assert row.usage and (row.usage.fresh, row.usage.read, row.usage.output, row.provider, row.error) == (
        2,
        48,
        4,
        "",
        None,
    )
    assert isinstance(row.prompt, Bodies) and json.loads(row.prompt.request)["prompt"] == "Once"


# Whatever else passes
# -----------------------------------------------------------------------------------------------------


def test_what_openrouter_says_a_call_cost_is_recorded_and_reported(tmp_path: Path) -> None:
    path = "/api/v1/chat/completions"
    judge = Judged(tmp_path, "https://openrouter.ai")
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "cost": 0.25, "is_byok": False}
    body = {"model": "a/model-nobody-lists", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "text": "ok", "finish_reason": "stop"}
    said = judge.call(path, body, {"id": "gen-1", "choices": [choice], "usage": usage})
    events = [{"id": "gen-2", "choices": [choice]}, {"id": "gen-2", "choices": [], "usage": usage | {"cost": 0.5}}]
    judge.call(
        path,
        body | {"stream": True},
        "".join(f"data: {json.dumps(one)}\n\n" for one in events).encode() + b"data: [DONE]\n\n",
        SSE,
    )
    assert [row.billed_usd for row in judge.rows()] == [0.25, 0.5]
    assert (said["cost_usd"], said["list_cost_usd"]) == (0.25, None)


def test_what_openai_kept_is_judged_and_recorded_whole(tmp_path: Path) -> None:
    judge = Judged(tmp_path, "https://api.openai.com")
    asked = {"model": "gpt-6.1-sol", "instructions": LONG}

    def say(number: int, cached: int, **fields: Any) -> Any:
        said = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": f"sk-ant-api03-{'x' * 40}", "annotations": []}],
        }
        usage = {
            "input_tokens": 12_000 + number,
            "output_tokens": 5,
            "total_tokens": 12_005 + number,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 12_000 + number - cached},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        answer = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [said], "usage": usage}
        past = {"previous_response_id": f"resp_{number - 1}"} if number else {}
        return judge.call("/v1/responses", {**fields, "input": f"question {number}", **past}, answer)

    first, second, third = say(0, 0, **asked), say(1, 12_000, **asked), say(2, 0, model="gpt-6.1-sol")
    assert [[finding["code"] for finding in report["findings"]] for report in (first, second, third)] == [
        [],
        [],
        ["CKS10"],
    ]
    rows = judge.rows()
    bodies = [json.loads(row.prompt.request) for row in rows if isinstance(row.prompt, Bodies)]
    assert {row.session for row in rows} == {rows[0].session} and [len(body["input"]) for body in bodies[1:]] == [3, 5]
    assert all("previous_response_id" not in body for body in bodies) and b"xxxx" not in judge.path.read_bytes()


def test_what_is_no_model_call_is_told_in_sizes_only(tmp_path: Path) -> None:
    seen = Seen()

    def answer(wire: Wire) -> None:
        while wire.request()[0]:
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nokay")

    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(b'POST /v1/embeddings?key=AIzaSyPrivate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"a":"b"}')
        assert b" 200 " in wire.head() and wire.exactly(4) == b"okay"
        wire.say(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in wire.head() and wire.exactly(4) == b"okay"
        other, looked = seen.other(1), seen.other(2)
    assert (other.method, other.path, other.status, other.error) == ("POST", "/v1/embeddings", 200, "")
    assert (other.n_sent, other.n_received) == (9, 4)
    assert not seen.left and (looked.method, looked.n_sent) == ("GET", 0)

    judge = Judged(tmp_path, upstream)
    line = judge.analysis.passed(other)
    assert line and parse(line)["passed"]["text"] == "POST /v1/embeddings 200, 9 bytes up, 4 down"
    assert judge.analysis.passed(looked) is None
    hidden = Passed(3, "POST", "/bot/sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9v/x", 0, 1, 0, 1.0, 2.0, "unreachable")
    judge.analysis.passed(hidden)
    remarks = Ledger.read(judge.path).remarks
    assert [remark.kind for remark in remarks] == ["passed", "passed"] and not judge.rows()
    assert "Zm9v" not in remarks[1].text and remarks[1].text.endswith("no answer, 1 bytes up, 0 down, unreachable")


@given(
    path=st.sampled_from([GEMINI, CONVERSE, INVOKE, "/v1/completions", "/v1/messages", "/v1/responses"]),
    kind=st.sampled_from(["application/json", SSE, EVENTS, ""]),
    body=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "messages",
                        "contents",
                        "system",
                        "model",
                        "role",
                        "parts",
                        "content",
                        "text",
                        "prompt",
                        "usage",
                        "tools",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    ).map(lambda value: json.dumps(value).encode()),
    said=st.binary(max_size=80),
    status=st.sampled_from([200, 200, 429, 0]),
    encoding=st.sampled_from(["", "gzip", "br", "odd"]),
)
def test_no_body_ends_the_recording(
    tmp_path_factory: pytest.TempPathFactory, path: str, kind: str, body: bytes, said: bytes, status: int, encoding: str
) -> None:
    judge = Judged(tmp_path_factory.mktemp("fuzz"), "http://127.0.0.1:1")
    for _ in range(2):
        judge.call(path, body, said, kind, status, encoding=encoding)
    assert len(judge.rows()) == 2 and not judge.troubles
    list(OPEN.pop().analysis.close(0.0))


# The real clients
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def answered() -> Iterator[tuple[str, Seen]]:
    """A proxy to a provider that answers as Gemini and Bedrock do, and who is told."""
    seen = Seen()
    whole = json.dumps({"candidates": [CANDIDATE], "usageMetadata": counted(9_000, 0, 5)}).encode()
    conversed = {
        "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
        "stopReason": "end_turn",
        "usage": COUNTS,
        "metrics": {"latencyMs": 1},
    }

    def answer(wire: Wire) -> None:
        while head := wire.request()[0]:
            path = head.split()[1]
            kind, body = next(
                (kind, body)
                for part, kind, body in (
                    (b"/converse-stream", EVENTS, b"".join(CONVERSED)),
                    (b"/converse", "application/json", json.dumps(conversed).encode()),
                    (b":streamGenerateContent", SSE, b"data: " + whole + b"\r\n\r\n"),
                    (b"", "application/json", whole),
                )
                if part in path
            )
            wire.say(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    with provider(answer) as upstream, passing(upstream, observer=seen) as url:
        yield url, seen


def test_google_s_client_through_the_proxy(answered: tuple[str, Seen]) -> None:
    genai = pytest.importorskip("google.genai", reason="needs the package google-genai")
    url, seen = answered
    google = genai.Client(api_key="private", http_options={"base_url": url})
    whole = google.models.generate_content(model="gemini-2.5-pro", contents="hi")
    chunks = list(google.models.generate_content_stream(model="gemini-2.5-pro", contents="hi"))
    assert whole.text == "ok" == chunks[0].text and whole.usage_metadata.prompt_token_count == 9_000
    assert [call.wire for call in seen.left] == ["gemini", "gemini"] and seen.last(2).error == ""


def test_amazon_s_client_through_the_proxy(answered: tuple[str, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3", reason="needs the package boto3")
    url, seen = answered
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "private")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "private")
    bedrock = boto3.client("bedrock-runtime", region_name="us-east-1")

    def through_the_proxy(request: Any, **_: object) -> None:
        request.url = request.url.replace("https://bedrock-runtime.us-east-1.amazonaws.com", url)

    bedrock.meta.events.register(
        "before-send.bedrock-runtime", through_the_proxy
    )  # signed for Amazon's host, which the proxy names
    fields = {"modelId": "us.anthropic.claude-haiku-4-5-20251001-v1:0", **converse("hi")}
    assert bedrock.converse(**fields)["usage"]["cacheReadInputTokens"] == 90
    events = list(bedrock.converse_stream(**fields)["stream"])  # botocore checks every frame's CRC
    assert [name for event in events for name in event][-1] == "metadata" and len(events) == len(CONVERSED)
    assert [(call.wire, call.path) for call in seen.left] == [
        ("bedrock_converse", CONVERSE),
        ("bedrock_converse", f"{CONVERSE}-stream"),
    ]
    assert seen.last(2).body == b"".join(CONVERSED)


def test_a_refused_call_has_sent_nothing_that_a_later_one_could_read(tmp_path: Path) -> None:
    judged, path = (
        Judged(tmp_path, "https://generativelanguage.googleapis.com"),
        "/v1beta/models/gemini-2.5-pro:generateContent",
    )
    refusal = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no"}}
    judged.call(path, gemini("hi", system=f"It is 10:01. {LONG * 9}"), refusal, status=429)
    answer = {"candidates": [CANDIDATE], "usageMetadata": counted(9_000, 0, 1)}
    report = judged.call(path, gemini("hi", system=f"It is 10:02. {LONG * 9}"), answer)
    assert (report["cause"], report["findings"]) == ("first_write", [])
    assert [row.is_refused for row in judged.rows()] == [True, False]
