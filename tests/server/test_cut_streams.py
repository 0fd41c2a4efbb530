"""A stream that was cut is billed the same wherever it is seen: by `watch`, the proxy, `Context`, and in a recording."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from contextkit import AnthropicMessages, Context, Usage, watch
from contextkit.errors import UnreadableReply
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import Departed, Ended

MODEL = "claude-sonnet-5-5"
USAGE = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 5, "output_tokens": 1}
EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A long answer"}},
]
SENT = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()
BODY: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 99,
    "stream": True,
    "messages": [{"role": "user", "content": "hello"}],
}
EXPECTED = Usage(3, 40, writes={300: 5}, output=1, qualities={"output": "partial"})


def _watched(folder: Path) -> ModelCall:
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=SENT)
    )
    inner = anthropic.Anthropic(api_key="any", max_retries=0, http_client=httpx2.Client(transport=transport))
    with watch(inner, record=folder / "watched.jsonl") as client, suppress(Exception):
        for _ in client.messages.create(**BODY):
            pass
    return _only(list(Ledger.read(folder / "watched.jsonl")))


def _proxied(folder: Path) -> ModelCall:
    analyzer = CallAnalyzer(Journal(folder / "proxied.jsonl"), lambda text: None)
    raw = json.dumps(BODY).encode()
    analyzer.departed(
        Departed(
            1, "anthropic_messages", "/v1/messages", "", raw, None, (), (), 1000.0, upstream="https://api.anthropic.com"
        )
    )
    analyzer.ended(Ended(1, 200, "text/event-stream", "", SENT, 1001.0, 1002.0, "cut"))
    list(analyzer.close(1003.0))
    return _only(list(Ledger.read(folder / "proxied.jsonl")))


def _recorded(folder: Path) -> ModelCall:
    path = folder / "recorded.jsonl"
    path.write_text(json.dumps({"at": 1_780_000_000.0, "request": BODY, "response": SENT.decode()}) + "\n", "utf-8")
    return _only([record for record in records_in([str(path)], Faults()) if isinstance(record, ModelCall)])


def _built(folder: Path) -> ModelCall:
    context = Context(AnthropicMessages(MODEL, max_tokens=99), ledger=Ledger(folder / "built.jsonl"))
    context.user("hello")
    context.request()
    with pytest.raises(UnreadableReply):
        list(context.stream(EVENTS))
    return _only(list(context.ledger))


def _only(rows: list[ModelCall]) -> ModelCall:
    (row,) = rows
    return row


@pytest.mark.parametrize("observe", [_watched, _proxied, _recorded, _built])
def test_its_input_is_billed_and_its_output_is_a_lower_bound(observe: Any, tmp_path: Path) -> None:
    row = observe(tmp_path)
    assert (row.error, row.usage) == ("cut", EXPECTED)
    assert [row.usage.quality(name) for name in ("fresh", "read", "writes", "output")] == [*["billed"] * 3, "partial"]
