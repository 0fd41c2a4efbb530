"""Request and response bodies: every provider's bill, the conversation each belongs to, the exact place of a miss.

Nothing twice.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.billed import provider_of
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, ModelCall, Record, encode
from contextkit.ledger.misses import analyzed_calls
from contextkit.providers.endpoints import endpoint_of
from contextkit.providers.usage import usage_of
from contextkit.report.faults import summary_of

FIXTURES = Path(__file__).parent / "fixtures" / "raw_pairs"
ANTHROPIC, EVERY_WIRE = FIXTURES / "anthropic.jsonl", FIXTURES / "every_wire.jsonl"
AT = 1_790_000_000.0


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def put(path: Path, *records: Any) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records), "utf-8")
    return path


def read(path: Path, faults: Faults | None = None) -> list[Record]:
    return list(records_in([str(path)], Faults() if faults is None else faults))


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    return [record for record in read(path, faults) if isinstance(record, ModelCall)]


def pair(number: int, said: list[Any], **usage: Any) -> dict[str, Any]:
    counts = {
        "input_tokens": 1,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
        **usage,
    }
    body = {"model": "claude-sonnet-4-6", "max_tokens": 9, "system": "s", "messages": said}
    return {
        "at": AT + number,
        "request": body,
        "response": {"id": f"msg_{number}", "usage": counts, "stop_reason": "end_turn"},
    }


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_boto3_names_the_model_inside_the_request(tmp_path: Path) -> None:
    row = next(row for row in rows(EVERY_WIRE) if "modelId" in row)
    model = row.pop("modelId")
    inside = {**row, "request": {"modelId": model, **row["request"]}}
    assert [call.model for call in calls(put(tmp_path / "inside.jsonl", inside))] == [model]


def test_no_secret_reaches_a_ledger() -> None:
    kept = b"\n".join(map(encode, read(EVERY_WIRE)))
    assert b"desk-2" in kept
    assert b"secret" not in kept
    assert b"Bearer" not in kept


def test_a_name_inside_the_request_does_not_end_it(tmp_path: Path) -> None:
    body = {"model": "gpt-5.1", "messages": [user("Hi")], "tools": [{"type": "function", "response": {"a": 1}, "x": 1}]}
    path = put(
        tmp_path / "a", json.dumps({"request": body, "response": {"id": "r", "usage": {}}}, separators=(",", ":"))
    )
    prompt = calls(path)[0].prompt
    assert isinstance(prompt, Bodies)
    assert json.loads(prompt.request) == body


@pytest.mark.parametrize(
    "written",
    [
        lambda events: events,
        lambda events: [f"data: {json.dumps(event)}\n\n" for event in events],
        lambda events: "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n",
        lambda events: "\n".join(map(json.dumps, events)),
        lambda events: [{"event": event["type"], "data": json.dumps(event)} for event in events],
        lambda events: [{"event": event["type"], "data": event} for event in events],
        lambda events: {"events": events},
    ],
)
def test_a_stream_may_be_written_down_in_many_ways(tmp_path: Path, written: Callable[[Any], Any]) -> None:
    start = {
        "id": "m1",
        "model": "claude-opus-5",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1},
    }
    events = [
        {"type": "message_start", "message": start},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 8, "cache_creation_input_tokens": 5},
        },
    ]
    body = {"model": "claude-opus-5", "max_tokens": 9, "messages": [user("Hi")]}
    whole, cut = ({"at": AT, "request": body, "response": written(said)} for said in (events, events[:-1]))
    assert [(call.usage, call.error) for call in calls(put(tmp_path / "a", whole))] == [(Usage(3, 4, 5, 0, 8), None)]
    assert [(call.usage, call.error) for call in calls(put(tmp_path / "b", cut))] == [
        (Usage(3, 4, None, None, 1, qualities={"output": "partial"}), "cut")
    ]


def test_counts_that_contradict_each_other_are_said_and_bill_nothing(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 60}}
    body = {"model": "gpt-5.1", "messages": [user("Hi")]}
    path = put(tmp_path / "a", {"at": AT, "request": body, "response": {"id": "r", "usage": usage}})
    faults = Faults()
    assert [call.usage for call in calls(path, faults)] == [None]
    assert [(fault.line, fault.what) for fault in faults.kept] == [
        (1, "more read and written than was sent; its bill is unknown")
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(output=2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}, Usage(5, 4, None, None, 2)),  # Moonshot
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 3,
            },
            Usage(2, 4, 3, 0, 2),
        ),  # LiteLLM
        ({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}, Usage(output=2)),
        ({"input_tokens": 9, "output_tokens": 2}, Usage(9, None, None, None, 2)),
        ({"inputTokens": 9, "outputTokens": 2, "totalTokens": 11}, Usage(9, None, None, None, 2)),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11},
            Usage(9, 0, 0, 0, 2),
        ),  # protobuf leaves zeros out
        ({"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}, None),
        ({"prompt_tokens": -1, "completion_tokens": True}, None),
        ({"total_cost": 3}, None),
    ],
)
def test_unknown_is_never_zero(counts: dict[str, Any], expected: Usage | None) -> None:
    assert usage_of(counts, lambda what: None) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("https://my.openai.azure.com/openai/deployments/x/chat/completions", "", "openai_chat", "gpt-4o"), "azure"),
        (("https://openrouter.ai/api/v1/chat/completions", "", "openai_chat", "openai/gpt-5.1"), "openrouter"),
        (("http://localhost:8000/v1/chat/completions", "", "openai_chat", "my-own"), ""),
        (("http://localhost:4000/v1/messages", "", "anthropic_messages", "claude-opus-5"), "anthropic"),
        (("", "vertex_ai", "anthropic_messages", "claude-opus-5"), "google"),
        (("", "", "anthropic_messages", "kimi-k3"), "moonshotai"),
        (("", "", "openai_chat", "grok-4.5"), "x-ai"),
        (("", "", "openai_chat", "gpt-4o-2024-08-06"), "openai"),
    ],
)
def test_the_provider_is_the_one_prices_are_known_of(asked: tuple[str, str, str, str], expected: str) -> None:
    assert provider_of(*asked) == expected


def test_conversations_are_joined_by_what_they_say(tmp_path: Path) -> None:
    first = [user("Plan a trip"), assistant("Where to?"), user("Rome")]
    other = [user("Fix my code"), assistant("Which?"), user("All")]
    edited = [user("Plan a long trip"), *first[1:], assistant("When?"), user("May")]
    path = put(
        tmp_path / "a",
        pair(0, first[:1]),
        pair(1, other[:1]),
        pair(2, first),
        pair(3, other),
        pair(4, edited),
        pair(5, [user("Plan a trip"), assistant("No."), user("Why?")]),
    )
    assert [call.session for call in calls(path)] == ["a", "a#2", "a", "a#2", "a", "a#3"]


def test_marks_and_shapes_that_move_are_the_same_message(tmp_path: Path) -> None:
    marked = [{"role": "user", "content": [{"type": "text", "text": "Plan", "cache_control": {"type": "ephemeral"}}]}]
    path = put(tmp_path / "a", pair(0, marked), pair(1, [user("Plan"), assistant("ok"), user("go")]))
    assert {call.session for call in calls(path)} == {"a"}


def test_side_calls_of_a_named_session_are_lanes_of_it(tmp_path: Path) -> None:
    main, title = pair(0, [user("Plan a trip")]), pair(1, [user("Name this talk")])
    for row in (main, title):
        row["request"]["metadata"] = {"user_id": '{"session_id":"s1"}'}
    assert [(call.session, call.lane) for call in calls(put(tmp_path / "a", main, title))] == [
        ("s1", "main"),
        ("s1", "conversation 2"),
    ]


def test_a_named_session_stays_one_conversation_when_its_front_is_edited_before_a_reply_was_sent_back(
    tmp_path: Path,
) -> None:
    rows = [
        pair(0, [user("Plan a trip at 9:01")]),
        pair(1, [user("Plan a trip at 9:02"), assistant("Where to?"), user("Rome")]),
    ]
    for row in rows:
        row["session_id"] = "s1"
    assert [(call.session, call.lane) for call in calls(put(tmp_path / "a", *rows))] == [("s1", "main")] * 2


def test_of_two_calls_that_wait_for_a_reply_none_is_guessed(tmp_path: Path) -> None:
    rows = [
        pair(0, [user("Plan")]),
        pair(1, [user("Name this talk")]),
        pair(2, [user("Plan it"), assistant("Where to?"), user("Rome")]),
    ]
    for row in rows:
        row["session_id"] = "s1"
    assert [call.lane for call in calls(put(tmp_path / "a", *rows))] == ["main", "conversation 2", "conversation 3"]


def test_a_request_that_names_the_response_before_it_goes_on_with_it(tmp_path: Path) -> None:
    def row(number: int, **more: Any) -> dict[str, Any]:
        usage = {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "total_tokens": 10,
        }
        body = {"model": "gpt-5.1", "input": f"question {number}", **more}
        return {
            "at": AT + number,
            "request": body,
            "response": {"id": f"resp_{number}", "status": "completed", "usage": usage},
        }

    path = put(tmp_path / "a", row(0), row(1), row(2, previous_response_id="resp_0"))
    assert [call.session for call in calls(path)] == ["a", "a#2", "a"]


def test_prompts_without_bills_and_bills_without_prompts(tmp_path: Path) -> None:
    row = pair(0, [user("Hi")])
    found = calls(put(tmp_path / "a", row["request"], row["response"]))
    assert [(call.prompt is None, call.usage is None) for call in found] == [(False, True), (True, False)]


def test_what_is_recorded_twice_counts_once_and_is_said(tmp_path: Path) -> None:
    lines = ANTHROPIC.read_text("utf-8").splitlines()
    path, faults = put(tmp_path / "a", *lines, lines[2], *lines[:2]), Faults()
    put(tmp_path / "b", lines[0])
    found = [call for call in records_in([str(path), str(tmp_path / "b")], faults) if isinstance(call, ModelCall)]
    assert len(found) == len(lines)
    assert [(Path(fault.file).name, fault.what.split(" ")[0]) for fault in faults.kept] == [("a", "3"), ("b", "1")]


def test_lines_out_of_order_cut_or_of_other_formats_are_said_and_nothing_is_lost(tmp_path: Path) -> None:
    lines = ANTHROPIC.read_text("utf-8").splitlines()
    mixed = [lines[0], '{"type":"session","id":"a"}', lines[2], lines[1], "[1]", lines[3], lines[4], lines[5][:200]]
    faults = Faults()
    found = calls(put(tmp_path / "a", *mixed), faults)
    assert {call.id for call in found} == {f"msg_made_up_{i}" for i in range(5)}
    assert len(faults) >= 3
    assert any("out of order" in fault.what and fault.line == 4 for fault in faults.kept)
    assert not any("train" in str(fault) for fault in faults.kept)


def test_wrong_clocks_are_said(tmp_path: Path) -> None:
    never, backwards = pair(0, [user("Hi")]), pair(5, [user("Hi"), assistant("a"), user("b")])
    del never["at"]
    backwards["ended_at"] = AT
    faults = Faults()
    found = calls(put(tmp_path / "a", never, backwards), faults)
    assert [call.ended_at for call in found] == [None, None]
    assert found[0].at > AT / 2  # the file's own time
    said = {fault.what.split(";")[0] for fault in faults.kept}
    assert said >= {"no time, or one of a clock that was never set", "ended before it started"}


def test_errors_have_a_kind_and_no_text(tmp_path: Path) -> None:
    row = pair(0, [user("Hi")])
    row["response"] = {"type": "error", "error": {"type": "overloaded_error", "message": "your prompt was: Hi"}}
    refused = {**pair(1, [user("Ho")]), "response": None, "status": 429}
    found = calls(put(tmp_path / "a", row, refused))
    assert [(call.error, call.usage) for call in found] == [("overloaded_error", None), ("http_429", None)]


def test_calls_of_the_server_inside_one_reply_are_calls_of_their_own(tmp_path: Path) -> None:
    row = pair(0, [user("Hi")])
    step = {
        "type": "message",
        "input_tokens": 2,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 1,
        "output_tokens": 3,
    }
    steps = [step, {**step, "cache_read_input_tokens": 6}, {**step, "type": "advisor_message", "model": "m"}]
    row["response"]["usage"]["iterations"] = steps
    found = calls(put(tmp_path / "a", row))
    assert [(call.id, call.lane, call.model, call.prompt is None) for call in found] == [
        ("msg_0", "main", "claude-sonnet-4-6", False),
        ("msg_0/2", "main", "claude-sonnet-4-6", True),
        ("msg_0/3", "main advisor_message", "m", True),
    ]


def test_gemini_and_bedrock_bodies_show_the_place_too(tmp_path: Path) -> None:
    texts = ["a" * 30, "b" * 30, "c" * 30, "d" * 30]

    def gemini(number: int, said: list[str], read: int) -> dict[str, Any]:
        roles = ("user", "model")
        contents = [{"role": roles[i % 2], "parts": [{"text": text}]} for i, text in enumerate(said)]
        usage = {"promptTokenCount": 10_000 * len(said), "cachedContentTokenCount": read, "candidatesTokenCount": 1}
        answer = {"responseId": f"g{number}", "candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}
        return {"at": AT + number, "model": "gemini-2.5-pro", "request": {"contents": contents}, "response": answer}

    edited = copy.copy(texts)
    edited[0] = "A" * 10 + "a" * 20
    path = put(tmp_path / "a", gemini(0, texts[:1], 0), gemini(1, texts[:3], 10_000), gemini(2, [*edited, "e"], 0))
    found = [row.miss for row in analyzed_calls(read(path)) if row.miss]
    assert [(miss.cause, miss.where.split(" byte ")[0]) for miss in found][-1] == (
        "messages_changed",
        "contents[0].parts[0]",
    )


def test_a_time_and_a_session_before_the_request_are_no_agent_trace(tmp_path: Path) -> None:
    row = {
        "timestamp": 1775696615.5,
        "session_id": "s1",
        "request": {"model": "gpt-5.1", "messages": [{"role": "user", "content": "a"}]},
    }
    row["response"] = {
        "id": "r1",
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
    }
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n")
    known, records = records_at(str(tmp_path / "log.jsonl"))
    assert known.name == "request and response bodies"
    assert [record.session for record in records if isinstance(record, ModelCall)] == ["s1"]


@pytest.mark.parametrize(
    ("ttl", "details", "expected"),
    [
        ("1h", {}, (0, 900)),
        ("5m", {}, (900, 0)),
        ("1h", {"cacheDetails": [{"ttl": "5m", "inputTokens": 900}]}, (900, 0)),
    ],
)
def test_what_bedrock_wrote_lasts_as_long_as_was_asked_where_its_bill_does_not_say(
    ttl: str, details: dict[str, Any], expected: tuple[int, int], tmp_path: Path
) -> None:
    point = {"cachePoint": {"type": "default", "ttl": ttl}}
    request = {
        "modelId": "anthropic.claude-sonnet-4-6",
        "messages": [{"role": "user", "content": [{"text": "hi"}, point]}],
    }
    usage = {"inputTokens": 5, "outputTokens": 3, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 900, **details}
    (found,) = calls(put(tmp_path / "a", {"at": AT, "request": request, "response": {"usage": usage}}))
    assert found.usage is not None and (found.usage.write_5m, found.usage.write_1h) == expected


@pytest.mark.parametrize(
    "more", [{}, {"response": {"usage": {"total_input_tokens": 7}}}], ids=["a request", "with its response"]
)
def test_gemini_interactions_are_named_as_a_format_that_is_not_read(more: dict[str, Any], tmp_path: Path) -> None:
    body = {"model": "gemini-3.8-flash", "input": "Hi."}
    path, faults = put(tmp_path / "pairs.jsonl", *[{"request": body, **more}] * 2), Faults()
    assert not calls(path, faults)
    assert list(faults.counts) == ["a call of Gemini's Interactions API, a format that is not read; passed over"]
    assert "2 calls of Gemini's Interactions API, a format that is not read" in summary_of(faults.counts)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "google/gemini-3.8-flash", "input": "Hi."},
        {"model": "gemini-3.8-flash", "input": "Hi.", "instructions": "Be brief."},
        {"model": "gpt-5.2", "input": "Hi."},
    ],
)
def test_responses_bodies_for_a_gateway_are_read(body: dict[str, Any]) -> None:
    assert endpoint_of(body, "") == "openai_responses"


def test_a_system_text_longer_than_the_head_of_the_file_hides_no_format(tmp_path: Path) -> None:
    row = pair(0, [])
    row["request"] = {"model": "claude-sonnet-4-6", "system": "s" * (1 << 17), "messages": [user("Hi")]}
    assert len(calls(put(tmp_path / "a", row))) == 1


def test_an_error_that_is_the_whole_answer_refuses_the_call(tmp_path: Path) -> None:
    row = {**pair(0, [user("Hi")]), "first_byte_at": AT + 1, "ended_at": AT + 2, "status": 529}
    row["response"] = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    (call,) = calls(put(tmp_path / "a", row))
    assert call.is_refused and call.first_byte_at is None
