"""HTTP archives: only calls of models, bodies however they are packed, no secret, and what a cut archive still holds."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers import har
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, encode

ARCHIVE = Path(__file__).parent / "fixtures" / "har" / "session.har"


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    return [
        record
        for record in records_in([str(path)], Faults() if faults is None else faults)
        if isinstance(record, ModelCall)
    ]


def archive(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}), "utf-8")
    return path


def entry(url: str, text: str, **content: Any) -> dict[str, Any]:
    body = {"max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "Hi"}], "model": "claude-opus-5"}
    return {
        "startedDateTime": "2026-09-21T14:13:20.000+02:00",
        "time": 100,
        "request": {"method": "POST", "url": url, "headers": [], "postData": {"text": json.dumps(body)}},
        "response": {
            "status": 200,
            "headers": [],
            "content": {"mimeType": "application/json", "text": text, **content},
        },
    }


def test_what_a_router_says_a_call_cost_is_kept(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.25}
    answer = {"id": "gen-1", "model": "m", "choices": [{"finish_reason": "stop"}], "usage": usage}
    path = archive(tmp_path / "a.har", entry("https://openrouter.ai/api/v1/chat/completions", json.dumps(answer)))
    assert [call.billed_usd for call in calls(path)] == [0.25]


def test_no_header_cookie_or_query_reaches_a_ledger() -> None:
    kept = b"\n".join(encode(record) for record in records_in([str(ARCHIVE)], Faults()))
    assert b"secret" not in kept
    assert b"https://" not in kept


@pytest.mark.parametrize("packer", [gzip.compress, zlib.compress, lambda raw: raw])
def test_bodies_may_be_packed(tmp_path: Path, packer: Any) -> None:
    said = json.dumps({"id": "m", "usage": {"input_tokens": 1, "output_tokens": 2}, "stop_reason": "end_turn"}).encode()
    made = entry("https://api.anthropic.com/v1/messages", base64.b64encode(packer(said)).decode(), encoding="base64")
    assert [call.usage for call in calls(archive(tmp_path / "a.har", made))] == [Usage(1, None, None, None, 2)]


def test_amazons_binary_streams(tmp_path: Path) -> None:
    def frame(kind: str, payload: Any) -> bytes:
        name, value, body = b":event-type", kind.encode(), json.dumps(payload).encode()
        head = bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value
        start = struct.pack(">II", 16 + len(head) + len(body), len(head))
        start += struct.pack(">I", zlib.crc32(start))
        return start + head + body + struct.pack(">I", zlib.crc32(start + head + body))

    usage = {
        "inputTokens": 4,
        "outputTokens": 5,
        "totalTokens": 109,
        "cacheReadInputTokens": 100,
        "cacheWriteInputTokens": 0,
    }
    raw = frame("messageStart", {"role": "assistant"}) + frame("messageStop", {"stopReason": "end_turn"})
    raw += frame("metadata", {"usage": usage})
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-opus-4-8/converse-stream"
    mime = "application/vnd.amazon.eventstream"
    made = entry(url, base64.b64encode(raw).decode(), encoding="base64", mimeType=mime)
    made["request"]["postData"]["text"] = json.dumps({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})
    found = calls(archive(tmp_path / "a.har", made))
    assert [(call.provider, call.model, call.usage) for call in found] == [
        ("aws", "anthropic.claude-opus-4-8", Usage(4, 100, 0, 0, 5))
    ]


def test_a_cut_archive_gives_its_whole_entries(tmp_path: Path) -> None:
    whole = ARCHIVE.read_bytes()
    n_seen = []
    for size in range(400, len(whole), 397):
        (tmp_path / "a.har").write_bytes(whole[:size])
        faults = Faults()
        n_seen.append(len(calls(tmp_path / "a.har", faults)))
        assert any("cut" in fault.what or "no entries" in fault.what for fault in faults.kept) or n_seen[-1] == 5
    assert n_seen == sorted(n_seen)
    assert n_seen[-1] == 5


def test_an_archive_larger_than_memory_is_cut_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = calls(ARCHIVE)
    monkeypatch.setattr(har, "MOST_AT_ONCE", 100)
    assert calls(ARCHIVE) == expected


def test_aborted_calls_and_repeated_ones(tmp_path: Path) -> None:
    said = json.dumps({"id": "m", "usage": {"input_tokens": 1, "output_tokens": 2}, "stop_reason": "end_turn"})
    gone = entry("https://api.anthropic.com/v1/messages", "")
    gone["response"]["status"] = 0
    good, faults = entry("https://api.anthropic.com/v1/messages", said), Faults()
    found = calls(archive(tmp_path / "a.har", gone, good, good), faults)
    assert [(call.error, call.usage) for call in found] == [("aborted", None), (None, Usage(1, None, None, None, 2))]
    assert len(faults) == 1
