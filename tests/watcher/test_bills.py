"""What comes back: the bill against what the call before left, the provider's diagnosis, and the ledger of it all."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from click.testing import CliRunner

from contextkit import Ledger, watch
from contextkit.cache.usage import Usage
from contextkit.cli.main import cli
from contextkit.ledger.calls import Bodies, Remark
from contextkit.providers.response_facts import response_bytes
from contextkit.server import LocalServer
from contextkit.watcher.notify import described
from tests.watcher.talk import CLAUDE, GPT, HAZARDS, HEAD, Talk, Told

BIG = HEAD * 3
"""Well above what passes for noise."""


def usage(read: int, written: int, fresh: int = 10) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "output_tokens": 5,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def message(counters: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    said = [{"type": "text", "text": "ok"}]
    told = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": said,
        "stop_reason": "end_turn",
    }
    return {**told, "usage": counters, **more}


def provider(*answers: dict[str, Any]) -> tuple[httpx2.Client, list[bytes]]:
    """A provider that bills what it is told to, and the bodies it was sent."""
    sent: list[bytes] = []
    waiting = iter(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content)
        assert int(request.headers["content-length"]) == len(request.content)
        return httpx2.Response(200, json=next(waiting))

    return httpx2.Client(transport=httpx2.MockTransport(answer)), sent


def claude(http: httpx2.Client, **options: Any) -> anthropic.Anthropic:
    return watch(anthropic.Anthropic(api_key="any", http_client=http, max_retries=0), hazards=HAZARDS, **options)


def test_a_bill_that_forgot_the_prefix_is_told(told: Told) -> None:
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(8000, 20), "m2"), message(usage(0, 8040), "m3"))
    client, talk = claude(http, on_break=told), Talk(head=BIG)
    for _ in range(3):
        client.messages.create(**talk.claude())
        talk.say()
    (found,) = told
    assert (found.code, found.detector) == ("CKL05", "provider")
    assert "prefix intact" in found.message and (found.cost_tokens or 0) > 7000


@pytest.mark.parametrize(("read", "is_told"), [(6100, False), (5000, True)])
def test_a_small_shortfall_is_noise(read: int, is_told: bool, told: Told) -> None:
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(read, 8020 - read), "m2"))
    client, talk = claude(http, on_break=told), Talk(head=BIG)
    for _ in range(2):
        client.messages.create(**talk.claude())
        talk.say()
    assert bool(told) == is_told


def test_a_break_that_was_told_is_not_told_again_by_its_bill(server: LocalServer, told: Told) -> None:
    client, talk = (
        watch(anthropic.Anthropic(base_url=server.url, api_key="any"), on_break=told, hazards=HAZARDS),
        Talk(head=BIG),
    )
    client.messages.create(**talk.claude())
    talk.head = "Now " + BIG
    client.messages.create(**talk.say().claude())
    assert [finding.detector for finding in told] == ["guard"]
    client.close()


def test_another_model_is_told_by_its_name_and_not_by_its_bill(told: Told) -> None:
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(0, 8020), "m2"))
    client, talk = watch(anthropic.Anthropic(api_key="any", http_client=http), on_break=told), Talk(head=BIG)
    client.messages.create(**talk.claude())
    client.messages.create(**talk.say().claude(model="claude-opus-4-5"))
    assert [found.code for found in told] == ["CKP01"]
    client.close()


def test_an_idle_gap_is_no_surprise(server: LocalServer, told: Told) -> None:
    from contextkit.ledger.transport import attach
    from contextkit.watcher.guard import Guard
    from contextkit.watcher.notify import Notifier

    now = [1000.0]
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(0, 8020), "m2"))
    attach(http, Guard(Notifier(told, "anthropic"), hazards=HAZARDS, clock=lambda: now[0]))
    client, talk = anthropic.Anthropic(api_key="any", http_client=http), Talk(head=BIG)
    client.messages.create(**talk.claude())
    now[0] += 400
    client.messages.create(**talk.say().claude())
    assert told == []


# Diagnostics
# --------------------------------------------------------------------------------------------------------------


def test_the_provider_is_asked_about_the_call_before_and_its_verdict_is_told(told: Told) -> None:
    verdict = {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 8000}}
    http, sent = provider(message(usage(0, 8000), "m1"), message(usage(0, 8010), "m2", diagnostics=verdict))
    client, talk = claude(http, on_break=told, diagnostics=True), Talk(head=BIG)
    client.messages.create(**talk.claude())
    talk.head = "Now " + BIG
    client.messages.create(**talk.say().claude())
    assert [json.loads(body)["diagnostics"] for body in sent] == [
        {"previous_message_id": None},
        {"previous_message_id": "m1"},
    ]
    assert [(finding.code, finding.detector, finding.verdict) for finding in told] == [
        ("CKS10", "guard", ""),
        ("CKS10", "provider", "system_changed"),
    ]


def test_what_the_provider_says_of_a_break_that_was_told_is_one_short_line(told: Told) -> None:
    words = "CKS10 not confirmed by the provider: messages_changed; sent from "
    diagnosis = {"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 8000}}
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(0, 8010), "m2", diagnostics=diagnosis))
    client, talk = claude(http, on_break=told, diagnostics=True), Talk(head=BIG)
    client.messages.create(**talk.claude())
    talk.head = "Now " + BIG
    client.messages.create(**talk.say().claude())
    before, after = told
    assert described(after).startswith(words) and "byte" not in described(after)
    assert (before.cost_tokens or 0) > 0 and after.cost_tokens is None  # whoever adds costs up counts each break once


def test_a_verdict_on_what_the_guard_did_not_see_is_told_too(told: Told) -> None:
    verdict = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 8000}}
    http, _ = provider(message(usage(0, 8000), "m1"), message(usage(8000, 10), "m2", diagnostics=verdict))
    client, talk = claude(http, on_break=told, diagnostics=True), Talk(head=BIG)
    for _ in range(2):
        client.messages.create(**talk.claude())
        talk.say()
    assert [(finding.code, finding.detector, finding.verdict) for finding in told] == [
        ("CKT10", "provider", "tools_changed")
    ]


def test_the_local_providers_own_diagnosis_agrees(server: LocalServer, told: Told) -> None:
    client = watch(
        anthropic.Anthropic(base_url=server.url, api_key="any"), on_break=told, diagnostics=True, hazards=HAZARDS
    )
    talk = Talk(head=BIG)
    for head in (BIG, BIG, "Now " + BIG):
        talk.head = head
        for _ in client.messages.create(**talk.say().claude(), stream=True):
            pass
    assert [(finding.detector, finding.verdict) for finding in told] == [("guard", ""), ("provider", "system_changed")]
    client.close()


def test_openais_responses_are_compared_by_their_id(server: LocalServer, told: Told) -> None:
    client = watch(
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any"), on_break=told, diagnostics=True, hazards=HAZARDS
    )
    talk = Talk(head=BIG)
    client.responses.create(**talk.responses())
    client.responses.create(**talk.say().responses())
    assert told == []
    talk.head = "Now " + BIG
    client.responses.create(**talk.say().responses())
    assert [(finding.detector, finding.verdict) for finding in told] == [("guard", ""), ("provider", "input_changed")]
    client.close()


def test_what_the_provider_said_is_recorded_and_shown_by_the_lint_of_the_recording(
    server: LocalServer, tmp_path: Path
) -> None:
    path, talk = tmp_path / "ledger.jsonl", Talk()
    with watch(
        anthropic.Anthropic(base_url=server.url, api_key="any"), on_break=print, record=path, diagnostics=True
    ) as client:
        for clock in ("10:30:59", "10:30:59", "10:31:02"):
            talk.head = f"{BIG}It is {clock}."
            client.messages.create(**talk.say().claude())
    ledger = Ledger.read(path)
    assert list(ledger.remarks) == [Remark("verdict", ledger[2].id, "system_changed")]
    shown = CliRunner().invoke(cli, ["lint", str(path)]).output
    assert "= provider: system_changed" in shown


def test_what_the_caller_asks_already_is_left_as_it_is() -> None:
    http, sent = provider(message(usage(0, 8000), "m1"))
    claude(http, diagnostics=True).messages.create(
        **Talk().claude(), extra_body={"diagnostics": {"previous_message_id": "mine"}}
    )
    assert sent[0].count(b'"diagnostics"') == 1 and json.loads(sent[0])["diagnostics"] == {
        "previous_message_id": "mine"
    }


# The ledger
# ---------------------------------------------------------------------------------------------------------------


def test_every_call_is_recorded_with_its_bill_and_without_secrets(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "ledger.jsonl"
    client = watch(
        anthropic.Anthropic(base_url=server.url, api_key="sk-ant-secretsecretsecret", max_retries=0),
        record=path,
        on_break=print,
    )
    talk = Talk("my key is AKIAIOSFODNN7EXAMPLE")
    for is_stream in (False, True):
        reply = client.messages.create(**talk.claude(), stream=is_stream)
        for _ in reply if is_stream else ():
            pass
        talk.say()
    server.script([{"fault": {"kind": "status", "status": 400}}])
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**talk.claude())
    client.close()
    ledger = Ledger.read(path)
    assert [row.error for row in ledger] == [None, None, "invalid_request_error"] and len(
        {row.session for row in ledger}
    ) == 1
    billed = [call.usage for call in server.ledger]
    assert [(row.usage.read, row.usage.output) for row in ledger if row.usage] == [
        (one.read, one.output) for one in billed if one
    ][:2]
    assert all(row.first_byte_at is not None for row in list(ledger)[:2])
    prompt = ledger[0].prompt
    assert isinstance(prompt, Bodies) and b"AKIA****************" in prompt.request
    assert b"IOSFODNN7EXAMPLE" not in path.read_bytes() and b"secretsecret" not in path.read_bytes()


def test_a_stream_that_was_left_early_is_recorded_as_aborted(server: LocalServer, tmp_path: Path) -> None:
    client = watch(anthropic.Anthropic(base_url=server.url, api_key="any"), record=tmp_path / "ledger.jsonl")
    with client.messages.create(**Talk("word " * 500).claude(), stream=True) as events:
        next(iter(events))
    client.close()
    (row,) = Ledger.read(tmp_path / "ledger.jsonl")
    assert row.error == "aborted" and row.first_byte_at is not None


def test_a_call_that_failed_is_recorded_in_the_words_of_the_proxy(server: LocalServer, tmp_path: Path) -> None:
    server.script([{"fault": {"kind": "error_event", "type": "overloaded_error"}}])
    client = watch(
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0), record=tmp_path / "ledger.jsonl"
    )
    with suppress(Exception):  # what it is to the caller is the SDK's affair
        for _ in client.messages.create(**Talk("word " * 500).claude(), stream=True):
            pass
    client.close()
    assert [row.error for row in Ledger.read(tmp_path / "ledger.jsonl")] == ["overloaded_error"]


RAISED = [
    (httpx2.ConnectError("no"), "unreachable"),
    (httpx2.ReadTimeout("late"), "aborted"),
    (KeyboardInterrupt(), "aborted"),
]


@pytest.mark.parametrize(
    ("error", "word"), RAISED, ids=lambda value: value if isinstance(value, str) else type(value).__name__
)
def test_a_call_without_an_answer_is_recorded_as_unreachable_or_aborted(
    error: BaseException, word: str, tmp_path: Path
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise error

    client = claude(httpx2.Client(transport=httpx2.MockTransport(answer)), record=tmp_path / "ledger.jsonl")
    with pytest.raises((anthropic.APIError, KeyboardInterrupt)):
        client.messages.create(**Talk().claude())
    client.close()
    assert [row.error for row in Ledger.read(tmp_path / "ledger.jsonl")] == [word]


REFUSALS = [
    (b'{"error":{"message":"slow down","type":"tokens","code":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
    (b'{"error":{"message":"no","type":"what you said, quoted","code":null}}', "429"),
    (b"<html>busy</html>", "429"),
]


@pytest.mark.parametrize(("body", "word"), REFUSALS, ids=["code", "a text for a type", "no JSON"])
def test_a_refusal_is_recorded_by_its_type_or_else_by_its_status(body: bytes, word: str, tmp_path: Path) -> None:
    packed = httpx2.Response(
        429, content=gzip.compress(body), headers={"content-encoding": "gzip", "content-type": "application/json"}
    )
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: packed))
    client = watch(openai.OpenAI(api_key="any", http_client=http, max_retries=0), record=tmp_path / "ledger.jsonl")
    with pytest.raises(openai.RateLimitError):
        client.responses.create(**Talk().responses())
    client.close()
    assert [row.error for row in Ledger.read(tmp_path / "ledger.jsonl")] == [word]


def test_a_ledger_is_continued(server: LocalServer, tmp_path: Path) -> None:
    for n in (1, 2):
        with watch(
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="any"), record=tmp_path / "ledger.jsonl"
        ) as client:
            client.chat.completions.create(model=GPT, messages=[{"role": "user", "content": "hi"}])
        ledger = Ledger.read(tmp_path / "ledger.jsonl")
        assert len(ledger) == len({row.session for row in ledger}) == n


# Reading bills off the wire
# -----------------------------------------------------------------------------------------------


EVENTS = b"".join(
    b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())
    for kind, data in [
        ("message_start", {"message": message(usage(900, 100), "m9")}),
        (
            "content_block_delta",
            {"index": 0, "delta": {"type": "text_delta", "text": 'data: {"type":"message_stop"} "usage"'}},
        ),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 77}}),
        ("message_stop", {}),
    ]
)


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_bill_is_read_however_the_bytes_are_cut_and_packed(size: int) -> None:
    whole = json.dumps(message(usage(900, 100), "m9")).encode()
    for encoding, pack in (("", bytes), ("gzip", gzip.compress)):
        for kind, data in (("text/event-stream; charset=utf-8", EVENTS), ("application/json", whole)):
            reader, packed = response_bytes("anthropic_messages", kind, encoding), pack(data)
            for start in range(0, len(packed), size):
                reader.feed(packed[start : start + size])
            bill = reader.summary(is_closed=True)
            assert bill.usage is not None and (bill.id, bill.usage.read, bill.is_complete) == ("m9", 900, True)


def test_an_encoding_nobody_knows_leaves_the_bill_unknown() -> None:
    reader = response_bytes("openai_chat", "application/json", "compress")
    reader.feed(b"\x00\x01")
    assert reader.summary(is_closed=True).usage is None


@pytest.mark.parametrize(
    ("wire", "data", "error"),
    [
        ("openai_chat", b'data: {"error":{"message":"no","type":"server_error","code":null}}\n\n', "server_error"),
        (
            "openai_responses",
            b'data: {"type":"error","code":"server_error","message":"no","param":null}\n\n',
            "server_error",
        ),
        (
            "anthropic_messages",
            b'data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
            "overloaded_error",
        ),
        (
            "anthropic_messages",
            b'data: {"type":"content_block_delta","delta":{"text":"{\\"error\\":{\\"type\\":\\"x\\"}}"}}\n\n',
            "",
        ),
    ],
)
def test_an_error_in_a_stream_is_read_and_a_text_that_looks_like_one_is_not(wire: str, data: bytes, error: str) -> None:
    reader = response_bytes(wire, "text/event-stream", "")
    reader.feed(data)
    assert reader.summary(is_closed=True).error == error


@pytest.mark.parametrize("data", [b"", b"not json", b"[1]", b'{"usage":5}', b'{"id":5,"usage":{"input_tokens":null}}'])
def test_bytes_that_are_no_bill_are_passed_over(data: bytes) -> None:
    for wire in ("anthropic_messages", "openai_chat", "openai_responses"):
        for kind in ("application/json", "text/event-stream"):
            reader = response_bytes(wire, kind, "")
            reader.feed(data)
            assert (reader.summary(is_closed=True).usage or Usage()).prompt in (None, 0)


@pytest.mark.parametrize("iterations", [5, [None], [[]], {"type": "compaction"}, "x"])
def test_iterations_that_are_none_do_not_reach_the_sdk(iterations: Any) -> None:
    http, sent = provider(message({**usage(0, 8000), "iterations": iterations}, "m1"))
    client = watch(anthropic.Anthropic(api_key="any", http_client=http, max_retries=2))
    assert client.messages.create(**Talk(head=BIG).claude()).id == "m1"
    assert len(sent) == 1
