"""The Responses API over a WebSocket: through the SDK's own connection, and with raw frames."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponsesServerEvent
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, GPT, HEAD, saying
from tests.server.strict import strictly
from tests.server.test_openai import TURNS

EVENT: TypeAdapter[ResponsesServerEvent] = TypeAdapter(ResponsesServerEvent)
KEY = {"authorization": "Bearer any"}
ENDS = ("response.completed", "response.incomplete", "error")
TOOL: dict[str, Any] = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}}
CALL = {"parts": [{"type": "call", "name": "search", "arguments": {"query": "gpu"}}]}
BASE: dict[str, Any] = {"model": GPT, "store": False, "instructions": HEAD, "tools": [{**TOOL, "strict": False}]}


@contextmanager
def opened(server: LocalServer, **named: Any) -> Iterator[ClientConnection]:
    url = f"{server.url.replace('http', 'ws', 1)}/v1/responses"
    with connect(url, additional_headers=KEY, max_size=None, **named) as socket:
        yield socket


def say(socket: ClientConnection, **fields: Any) -> None:
    socket.send(json.dumps({"type": "response.create", "model": GPT, **fields}))


def received(socket: ClientConnection) -> dict[str, Any]:
    message = socket.recv(timeout=30)
    assert isinstance(message, str)
    event: dict[str, Any] = json.loads(message)
    if event.get("response", {}).get("model", GPT) == GPT:  # an engine's usage has fewer fields than the SDK's type
        strictly(EVENT, event)
    return event


def events(socket: ClientConnection) -> list[dict[str, Any]]:
    """Everything up to the end of a response."""
    listed = [received(socket)]
    while listed[-1]["type"] not in ENDS:
        listed.append(received(socket))
    return listed


def response_to(socket: ClientConnection, **fields: Any) -> dict[str, Any]:
    """The response to a request."""
    say(socket, **fields)
    response: dict[str, Any] = events(socket)[-1]["response"]
    return response


def refused(socket: ClientConnection, **fields: Any) -> tuple[int, str]:
    """Status and code of a refusal."""
    say(socket, **fields)
    (error,) = events(socket)
    return error["status"], error["error"]["code"]


def completed(connection: Any) -> Response:
    for event in connection:
        assert event.type != "error", event
        if event.type == "response.completed":
            assert isinstance(event.response, Response)
            return event.response
    raise AssertionError("closed")


def closed(socket: ClientConnection) -> int:
    """The close code, 1006 where the connection ends without a close frame."""
    try:
        while True:
            socket.recv(timeout=30)
    except ConnectionClosed as fault:
        return fault.rcvd.code if fault.rcvd else 1006


def cached(response: Response) -> int:
    assert response.usage is not None
    return response.usage.input_tokens_details.cached_tokens


def test_a_tool_loop_on_one_socket_with_nothing_stored(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([CALL, CALL, saying("done")])
    with gpt.responses.connect() as connection:
        connection.response.create(**BASE, generate=False)
        before = completed(connection)
        assert before.output == [] and before.usage is not None and before.usage.output_tokens == 0
        connection.response.create(**BASE, input="Find one.", previous_response_id=before.id)
        while (answer := completed(connection)).output_text != "done":
            assert answer.previous_response_id == before.id and cached(answer) == before.usage.input_tokens  # type: ignore[union-attr]
            (call,) = answer.output
            assert call.type == "function_call"
            result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "3 GPUs"}
            connection.response.create(**BASE, input=[result], previous_response_id=answer.id)
            before = answer
    rows = list(server.ledger)
    assert [row.error for row in rows] == [None] * 4
    assert len({row.lane for row in rows[1:]}) == 1
    with pytest.raises(openai.BadRequestError, match="not found"):
        gpt.responses.create(**BASE, input="and?", previous_response_id=answer.id)


def test_the_asynchronous_client_and_lanes_that_run_at_the_same_time(server: LocalServer) -> None:
    server.script(
        [saying("slow", wait_seconds=0.4), saying("fast"), saying("slow too", wait_seconds=0.1), saying("last")]
    )

    async def talk() -> list[tuple[str | None, str]]:
        ended: list[tuple[str | None, str]] = []
        async with (
            openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any") as client,
            client.responses.connect() as connection,
        ):
            for lane in ("a", "b", "a"):
                await connection.response.create(model=GPT, input=lane, stream_id=lane)
            await connection.response.create(model=GPT, input="default")
            async for event in connection:
                if event.type == "response.completed":
                    ended.append((event.stream_id, event.response.output_text))
                if len(ended) == 4:
                    return ended
        return ended

    ended = asyncio.run(talk())
    assert ended[0] == ("b", "fast") and sorted(ended[1:], key=str) == sorted(
        [("a", "slow"), ("a", "last"), (None, "slow too")], key=str
    )
    assert [text for lane, text in ended if lane == "a"] == ["slow", "last"]


def test_at_most_sixteen_responses_are_under_way(server: LocalServer) -> None:
    server.script([saying(wait_seconds=60)] * 20)
    with opened(server) as socket:
        for number in range(20):
            say(socket, input="hi", stream_id=f"lane-{number}")
        assert begun(server, leaving=4)
        time.sleep(0.1)
        assert begun(server, leaving=4)
    assert settled(server, 16) == ["aborted"] * 16
    assert begun(server, leaving=4), "requests whose turn never came used no script"


def test_lanes_are_named_and_counted(server: LocalServer) -> None:
    with opened(server) as socket:
        for name in ("", "a b", "x" * 257, 3, "ä"):
            assert refused(socket, input="hi", stream_id=name) == (400, "invalid_stream_id")
        for number in range(32):
            say(socket, input="hi", stream_id=f"lane.{number}")
            assert {event["stream_id"] for event in events(socket)} == {f"lane.{number}"}
        say(socket, input="hi", stream_id="one-too-many")
        error = received(socket)
        assert error["error"]["code"] == "websocket_stream_limit_reached" and error["stream_id"] == "one-too-many"
        assert "stream_id" not in response_to(socket, input="hi", stream_id=None)
        say(socket, input="hi", stream_id="lane.0")
        assert events(socket)[-1]["stream_id"] == "lane.0"


def test_a_lane_holds_its_latest_response_and_others_may_fork_it(server: LocalServer) -> None:
    with opened(server) as socket, opened(server) as other:
        first = response_to(socket, input="one", store=False, stream_id="main")
        going_on = {"input": "and?", "store": False, "previous_response_id": first["id"]}
        assert refused(other, **going_on) == (400, "previous_response_not_found")
        fork = response_to(socket, **going_on, stream_id="critic")
        second = response_to(socket, **going_on, stream_id="main")
        assert fork["usage"]["input_tokens"] == second["usage"]["input_tokens"]
        assert refused(socket, **going_on, stream_id="main") == (400, "previous_response_not_found")
        assert response_to(socket, input="more", store=False, previous_response_id=fork["id"])["status"] == "completed"
    with opened(server) as socket:
        assert refused(socket, **going_on) == (400, "previous_response_not_found")


def test_what_is_stored_goes_on_anywhere(server: LocalServer, gpt: openai.OpenAI) -> None:
    with opened(server) as socket, opened(server) as other:
        hidden = response_to(socket, input="one", store=False)
        kept = response_to(socket, input="two", previous_response_id=hidden["id"])
        answered = gpt.responses.create(model=GPT, input="three", previous_response_id=kept["id"])
        for peer in (socket, other):
            again = response_to(peer, input="three", previous_response_id=kept["id"])
            assert answered.usage is not None and again["usage"]["input_tokens"] == answered.usage.input_tokens
        assert response_to(other, input="four", previous_response_id=answered.id)["previous_response_id"] == answered.id
    listed = gpt.responses.input_items.list(kept["id"], order="asc")
    assert [getattr(item, "role", None) for item in listed] == ["user", "assistant", "user"]


def test_a_turn_that_fails_is_told_and_forgets_what_it_continued(server: LocalServer) -> None:
    overloaded = {"kind": "error_event", "after_parts": 1, "message": "too much"}
    limited = {"kind": "status", "status": 429, "retry_after": 7}
    with opened(server) as socket:
        for fault, status, code in ((limited, 429, "rate_limit_exceeded"), (overloaded, 503, "server_overloaded")):
            server.script([saying("one"), saying("two", fault=fault), saying("three")])
            first = response_to(socket, input="hi", store=False)
            say(socket, input="and?", store=False, previous_response_id=first["id"])
            *begun, error = events(socket)
            assert (error["status"], error["error"]["code"]) == (status, code)
            assert bool(begun) == (fault is overloaded)
            again = {"input": "and?", "store": False, "previous_response_id": first["id"]}
            assert refused(socket, **again) == (400, "previous_response_not_found")
            assert (
                response_to(socket, input="from the start", store=False)["output"][0]["content"][0]["text"] == "three"
            )
        server.script([saying("one"), saying(fault=limited)])
        first = response_to(socket, input="hi", store=False)
        say(socket, input="fork", store=False, previous_response_id=first["id"], stream_id="fork")
        error = received(socket)
        assert error["error"]["headers"]["retry-after"] == "7" and error["stream_id"] == "fork"
        assert response_to(socket, input="main", store=False, previous_response_id=first["id"])["status"] == "completed"
    errors = [row.error for row in server.ledger]
    assert errors == [
        *[None, "rate_limit_error", None],
        *[None, "overloaded_error", None],
        *[None, "rate_limit_error", None],
    ]


@pytest.mark.parametrize("fault", [{"kind": "cut", "after_parts": 1}, {"kind": "never"}], ids=["cut", "never"])
def test_a_connection_that_breaks_is_opened_again(
    server: LocalServer, gpt: openai.OpenAI, fault: dict[str, Any]
) -> None:
    server.script([saying("one"), saying("two", fault=fault), saying("three")])
    going_on: dict[str, Any] = {"model": GPT, "input": "and?", "store": False}

    def reconnecting(event: Any) -> None:
        connection.response.create(**going_on)  # queued until the new connection is open

    with gpt.responses.connect(on_reconnecting=reconnecting, initial_delay=0.01) as connection:
        connection.response.create(model=GPT, input="hi", store=False)
        going_on["previous_response_id"] = completed(connection).id
        connection.response.create(**going_on)
        lost = next(event for event in connection if event.type == "error")
        assert lost.type == "error" and lost.error.code == "previous_response_not_found"
        connection.response.create(model=GPT, input="hi", store=False)
        assert completed(connection).output_text == "three"
    assert [row.error for row in server.ledger] == [None, "cut" if fault["kind"] == "cut" else "aborted", None]


def test_a_break_ends_without_a_close_frame(server: LocalServer) -> None:
    for fault in ({"kind": "cut", "after_parts": 0}, {"kind": "never"}):
        server.script([saying(fault=fault)])
        with opened(server) as socket:
            say(socket, input="hi")
            assert closed(socket) == 1006


def settled(server: LocalServer, n: int) -> list[str | None]:
    """The errors of `n` calls, once they are recorded."""
    patience = time.monotonic() + 10
    while len(server.ledger) < n and time.monotonic() < patience:
        time.sleep(0.01)
    return [row.error for row in server.ledger]


def begun(server: LocalServer, *, leaving: int) -> bool:
    """Whether requests have used up all scripts but so many, within some seconds."""
    patience = time.monotonic() + 10
    while (
        waiting := httpx2.post(f"{server.url}/_contextkit/script", json={"replies": []}).json()["waiting"]
    ) > leaving:
        if time.monotonic() > patience:
            return False
        time.sleep(0.01)
    return bool(waiting == leaving)


def test_a_client_that_leaves(server: LocalServer) -> None:
    server.script([saying(wait_seconds=60), saying(wait_seconds=60), saying("x" * 5_000_000)])
    with opened(server) as socket:
        say(socket, input="hi", stream_id="a")
        say(socket, input="hi", stream_id="b")
        say(socket, input="behind it", stream_id="b")
        assert begun(server, leaving=1)
    assert settled(server, 2) == ["aborted", "aborted"]
    with opened(server) as socket:
        say(socket, input="hi")
        received(socket)
        socket.socket.close()
    assert settled(server, 3) == ["aborted", "aborted", None]


def test_messages_that_are_no_requests_leave_the_socket_open(server: LocalServer) -> None:
    odd: list[str | bytes] = [
        *("{", "", "[]", "null", "7", '{"type":"x"}', '{"type":["x"]}', "{}", "[" * 300 + "]" * 300, b"{}", b"\xff"),
        *(
            '{"type":"response.create"}',
            '{"type":"response.create","model":"gpt-6.1-sol","input":"hi","background":true}',
        ),
        '{"type":"response.create","model":"gpt-6.1-sol","input":"hi","generate":"no"}',
        '{"type":"response.create","model":"gpt-6.1-sol","input":[]}',
        '{"type":"response.create","model":"no-such","input":"hi","stream_id":[]}',
    ]
    with opened(server) as socket:
        for message in odd:
            socket.send(message)
            (error,) = events(socket)
            assert error["type"] == "error" and error["status"] == 400, message
        assert response_to(socket, input="hi")["status"] == "completed"
    assert len(server.ledger) == 1


def test_frames_in_pieces_pings_and_compression(server: LocalServer) -> None:
    for compression in ("deflate", None):
        with opened(server, compression=compression) as socket:
            text = json.dumps(
                {"type": "response.create", "model": GPT, "input": "Grüße 🙂 " * 2000}, ensure_ascii=False
            )
            socket.send(text[start : start + 999] for start in range(0, len(text), 999))
            assert socket.ping().wait(10)
            assert events(socket)[-1]["type"] == "response.completed"


def test_prompts_of_five_megabytes_and_messages_over_the_limit(server: LocalServer) -> None:
    with opened(server) as socket:
        assert response_to(socket, input="lorem ipsum " * 450_000)["usage"]["input_tokens"] > 500_000
        output = {"type": "function_call_output", "call_id": "c", "output": "lorem ipsum " * 450_000}
        assert refused(socket, input=[output])[0] == 400
        socket.send(" " * ((64 << 20) + 1))
        assert closed(socket) == 1009


def test_a_socket_lives_an_hour_of_the_servers_clock(server: LocalServer) -> None:
    with opened(server) as socket:
        assert response_to(socket, input="hi")["status"] == "completed"
        server.clock.advance(3599)
        assert response_to(socket, input="hi")["status"] == "completed"
        server.clock.advance(1)
        assert refused(socket, input="hi") == (400, "websocket_connection_limit_reached")
        assert closed(socket) == 1001
    with opened(server) as socket:
        assert response_to(socket, input="hi")["status"] == "completed"


def test_a_reset_forgets_what_a_socket_holds(server: LocalServer) -> None:
    with opened(server) as socket:
        first = response_to(socket, input="hi", store=False)
        server.reset()
        assert refused(socket, input="and?", store=False, previous_response_id=first["id"])[0] == 400
        assert response_to(socket, input="hi", store=False)["id"] == first["id"]


def test_steering_comes_too_late(server: LocalServer, gpt: openai.OpenAI) -> None:
    with gpt.responses.connect() as connection:
        connection.response.create(model=GPT, input="hi", stream_id="main")
        name = completed(connection).id
        for previous, text, code in (
            (name, "wait", "response_already_completed"),
            ("resp_none", "wait", "response_not_found"),
            (name, [], "invalid_input"),
        ):
            connection.response.steer(previous_response_id=previous, input=text)
            raw = connection.recv_bytes()
            event = strictly(EVENT, raw, is_json=True)
            assert event.type == "response.steer.failed" and event.error.code == code
            assert (
                event.steer.input == text and event.stream_id == (None if previous == "resp_none" else "main")
            ) or not text


def test_a_handshake_needs_a_key_our_name_and_the_path_of_responses(server: LocalServer) -> None:
    url = server.url.replace("http", "ws", 1)
    for path, named, status in (
        ("/v1/responses", {}, 401),
        ("/v1/responses", {"additional_headers": KEY, "origin": "http://evil.com"}, 403),
        ("/v1/responses", {"additional_headers": {**KEY, "sec-fetch-site": "cross-site"}}, 403),
        ("/v1/realtime", {"additional_headers": KEY}, 426),
        ("/v1/messages", {"additional_headers": KEY}, 426),
        ("/_contextkit/ledger", {}, 426),
    ):
        with pytest.raises(InvalidStatus) as caught, connect(f"{url}{path}", **named):
            pass
        assert caught.value.response.status_code == status
        error = json.loads(caught.value.response.body)["error"]
        assert status != 426 or "POST over HTTP" in (error if isinstance(error, str) else error["message"])


def test_a_server_that_stops_closes_its_sockets() -> None:
    with LocalServer([saying(wait_seconds=60)], now=0.0) as server, opened(server) as socket:
        say(socket, input="hi")
        assert begun(server, leaving=0)
        server.stop()
        assert closed(socket) == 1012
    assert settled(server, 1) == ["aborted"]


def test_an_engine_is_asked_over_a_socket_too() -> None:
    with LocalServer([saying("one"), saying("two")], cache="vllm", now=0.0) as server, opened(server) as socket:
        fields = {"model": "my/own", "instructions": HEAD, "store": False}
        before = response_to(socket, **fields, generate=False)
        first = response_to(socket, **fields, input="hi", previous_response_id=before["id"])
        second = response_to(socket, **fields, input="and?", previous_response_id=first["id"])
        assert second["usage"]["input_tokens_details"]["cached_tokens"] > 0
        assert [row.provider for row in server.ledger] == ["vllm"] * 3


def test_frames_that_codex_sent(server: LocalServer, shared: Path) -> None:
    folder = shared / "data" / "client-requests" / "2026-11-27"
    warm, *going_on = json.loads((folder / "codex_0.171.0_websocket_frames.json").read_bytes())
    calls = [frame["input"][0]["call_id"] for frame in going_on]
    server.script([{"parts": [{"type": "call", "name": "exec", "arguments": "ls", "id": name}]} for name in calls])
    with opened(server) as socket:
        socket.send(json.dumps(warm))
        before = events(socket)[-1]["response"]
        assert before["output"] == [] and before["usage"]["input_tokens"] == 0
        user = {**warm, "input": TURNS, "previous_response_id": before["id"]}
        del user["generate"]
        for frame in (user, *going_on):
            socket.send(json.dumps({**frame, "previous_response_id": before["id"]}))
            before = events(socket)[-1]["response"]
            assert before["output"]
    rows = list(server.ledger)
    assert {row.session for row in rows} == {warm["client_metadata"]["session_id"]}
    assert [row.lane for row in rows] == ["conversation 0", "main", "main", "main"]
    read = [row.usage.read for row in rows if row.usage]
    assert read[2] and read[3] and read[2] < read[3]
    assert {finding.name for finding in server.findings} <= {"client_metadata", warm["model"]}


PARTS = st.lists(st.sampled_from(ALL_PARTS[:3]), min_size=1, max_size=3, unique_by=lambda part: part["type"])
FAULT: Any = st.sampled_from(
    [None, None, None, {"kind": "status", "status": 503}, {"kind": "error_event", "after_parts": 1}]
)
# Five turns of 700 seconds: a socket lives no longer than 3600.
TURN = st.fixed_dictionaries(
    {"parts": PARTS, "fault": FAULT, "output_tokens": st.none() | st.integers(0, 9), "seconds": st.integers(0, 700)},
    optional={"stop": st.sampled_from(["truncated", "refused", "overflow"])},
)
FIELDS = st.sampled_from(
    [{}, {}, {"reasoning": {"effort": "low"}}, {"colour": "red"}, {"max_output_tokens": 5}, {"metadata": {"a": "b"}}]
)


def followed(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Input that follows a response."""
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": "3 GPUs"} for call in calls]
    return outputs or [{"role": "user", "content": "Go on."}]


@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller one says no more
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(st.lists(st.tuples(TURN, FIELDS), min_size=1, max_size=5), st.booleans())
def test_the_same_conversation_costs_and_says_the_same_over_post_and_over_a_socket(
    server: LocalServer, http: httpx2.Client, turns: list[tuple[Any, Any]], is_stored: bool
) -> None:
    scripts = [{name: value for name, value in turn.items() if value is not None} for turn, _ in turns]
    events_of: dict[str, list[list[dict[str, Any]]]] = {"post": [], "socket": []}
    rows = {}
    for way, listed in events_of.items():
        server.reset()
        server.script(scripts)
        with opened(server) as socket:
            whole, new, before = list[Any](), list(TURNS), None
            for _, fields in turns:
                body = {**BASE, **fields, "store": is_stored}
                by_name = {"input": new, "previous_response_id": before}
                if way == "socket":
                    say(socket, **body, **by_name)
                    messages = events(socket)
                else:
                    history = by_name if is_stored else {"input": [*whole, *new]}
                    answer = http.post("/v1/responses", json={**body, **history, "stream": True}, headers=KEY)
                    lines = answer.text.splitlines()
                    messages = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
                    if answer.status_code != 200:
                        headers = {"x-request-id": answer.headers["x-request-id"]}
                        notices = answer.headers.get("x-contextkit-warning")
                        headers |= {"x-contextkit-warning": notices} if notices else {}
                        error = {**answer.json()["error"], "headers": headers}
                        messages = [{"type": "error", "status": answer.status_code, "error": error}]
                listed.append(messages)
                if messages[-1]["type"] == "error":
                    whole, new, before = [], list(TURNS), None
                else:
                    response = messages[-1]["response"]
                    whole, new, before = [*whole, *new, *response["output"]], followed(response), response["id"]
        rows[way] = [dataclasses.asdict(row) for row in server.ledger]
    assert rows["post"] == rows["socket"]
    for posted, messages in zip(events_of["post"], events_of["socket"], strict=True):
        if len(posted) > 1 and posted[-1]["type"] == "error":  # in mid-stream the two have forms of their own
            assert messages[-1]["error"]["message"] == posted.pop()["message"] and messages.pop()
        for event in (*posted, *messages) if not is_stored else ():
            event.get("response", {}).pop("previous_response_id", None)
        assert posted == messages
