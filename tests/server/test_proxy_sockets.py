"""WebSockets of the Responses API through the proxy; the other ends are the `websockets` library and the openai SDK."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from contextkit.ledger.budget import Budget
from contextkit.proxy.observer import Departed
from contextkit.proxy.repairs.repairs import Repairs
from tests.server.proxied import PATIENCE, Seen, passing

Talk = Callable[[ServerConnection], None]
MODEL = "gpt-6.1-sol"


@contextmanager
def answering(talk: Talk, **named: Any) -> Iterator[str]:
    """The URL of a provider that speaks WebSocket."""
    server = serve(talk, "127.0.0.1", 0, **named)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join(PATIENCE)


def socket_of(url: str, **named: Any) -> Any:
    """A client's connection."""
    return connect(f"{url.replace('http', 'ws')}/v1/responses", open_timeout=PATIENCE, close_timeout=PATIENCE, **named)


def status_of(url: str) -> int:
    """The status of a handshake that is refused."""
    with pytest.raises(InvalidStatus) as refused:
        socket_of(url)
    return refused.value.response.status_code


def create(text: str, **fields: Any) -> str:
    """A request."""
    return json.dumps({"type": "response.create", "model": MODEL, "input": text, **fields})


def events(name: str, text: str = "hello", read: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """The events of one response."""
    usage = {
        "input_tokens": 2_000,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2_010,
    }
    said = [{"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": []}]
    response = {"id": name, "object": "response", "model": MODEL, "created_at": 1, "output": []}
    return [
        {"type": "response.created", "sequence_number": 0, "response": response, **fields},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": text, **fields},
        {
            "type": "response.completed",
            "sequence_number": 2,
            "response": {**response, "status": "completed", "output": said, "usage": usage},
            **fields,
        },
    ]


def echo(wire: ServerConnection) -> None:
    """Answer each request at once; its id is the text that was asked."""
    for message in wire:
        asked = json.loads(message)
        lane = {"stream_id": asked["stream_id"]} if "stream_id" in asked else {}
        for event in events(str(asked["input"]), **lane):
            wire.send(json.dumps(event))


def heard(wire: Any, n: int) -> list[Any]:
    """So many messages, parsed."""
    return [json.loads(wire.recv(timeout=PATIENCE)) for _ in range(n)]


@pytest.mark.parametrize("compression", ["deflate", None])
def test_requests_of_a_socket_are_calls(compression: str | None) -> None:
    observer = Seen()
    with (
        answering(echo, compression=compression) as upstream,
        passing(upstream, observer=observer) as url,
        socket_of(
            url, additional_headers={"Authorization": "Bearer sk-a-secret-of-some-length", "session-id": "s1"}
        ) as wire,
    ):
        assert bool(wire.protocol.extensions) is (compression is not None)
        for n in (1, 2):
            wire.send(create(f"r{n}"))
            assert heard(wire, 3) == events(f"r{n}")
            ended = observer.last(n)
            assert (ended.status, ended.content_type, ended.error) == (200, "text/event-stream", "")
            assert [json.loads(line[6:]) for line in ended.body.decode().splitlines() if line.startswith("data: ")] == (
                events(f"r{n}")
            )
    calls = [call for call in observer.left if isinstance(call, Departed)]
    assert [(call.wire, call.path, call.body.decode()) for call in calls] == [
        ("openai_responses", "/v1/responses", create(f"r{n}")) for n in (1, 2)
    ]
    assert "s1" in calls[0].names and "sk-a-secret-of-some-length" in " ".join(calls[0].credentials)


def test_streams_of_one_socket_are_told_apart() -> None:
    def talk(wire: ServerConnection) -> None:
        asked = [json.loads(wire.recv()) for _ in range(2)]
        told = [events(one["input"], stream_id=one["stream_id"]) for one in asked]
        for pair in zip(*told, strict=True):  # interleaved
            for event in pair:
                wire.send(json.dumps(event))

    observer = Seen()
    with answering(talk) as upstream, passing(upstream, observer=observer) as url, socket_of(url) as wire:
        wire.send(create("a", stream_id="one"))
        wire.send(create("b", stream_id="two"))
        heard(wire, 6)
        for call, name in zip(observer.left, "ab", strict=True):
            body = next(ended for ended in (observer.last(1), observer.last(2)) if ended.number == call.number).body
            assert body.count(f'"id": "{name}"'.encode()) == 2 and body.count(b"event: ") == 3


def test_errors_have_their_status_and_the_socket_goes_on() -> None:
    error = {"type": "error", "status": 429, "error": {"code": "rate_limit_exceeded", "message": "slow down"}}

    def talk(wire: ServerConnection) -> None:
        wire.recv()
        wire.send(json.dumps(error))
        echo(wire)

    observer = Seen()
    with answering(talk) as upstream, passing(upstream, observer=observer) as url, socket_of(url) as wire:
        wire.send(create("r1"))
        assert heard(wire, 1) == [error]
        assert observer.last(1).status == 429 and json.loads(observer.last(1).body) == error
        wire.send(create("r2"))
        heard(wire, 3)
        assert observer.last(2).status == 200


@pytest.mark.parametrize("who", ["provider", "client"])
def test_a_socket_that_breaks_off_breaks_off_for_the_other_end(who: str, caplog: pytest.LogCaptureFixture) -> None:
    left = threading.Event()

    def talk(wire: ServerConnection) -> None:
        wire.recv()
        wire.send(json.dumps(events("r1")[0]))
        if who == "provider":
            wire.socket.close()
        else:
            with pytest.raises(ConnectionClosed):
                wire.recv(timeout=PATIENCE)
            left.set()

    observer = Seen()
    with answering(talk) as upstream, passing(upstream, observer=observer) as url, socket_of(url) as wire:
        wire.send(create("r1"))
        heard(wire, 1)
        if who == "provider":
            with pytest.raises(ConnectionClosed) as caught:
                wire.recv(timeout=PATIENCE)
            assert caught.value.rcvd is None  # no close frame, as the provider sent none
        else:
            wire.socket.close()
            assert left.wait(PATIENCE)
        assert observer.last().error == ("cut" if who == "provider" else "aborted")
        assert not [record for record in caplog.records if record.name.startswith("contextkit")]
        assert observer.last().body.count(b"event: ") == 1


def test_close_codes_and_pings_go_through() -> None:
    pinged, codes = threading.Event(), list[Any]()

    def talk(wire: ServerConnection) -> None:
        if wire.ping(b"from the provider").wait(PATIENCE):
            pinged.set()
        with pytest.raises(ConnectionClosed) as closed:
            wire.recv()
        codes.append(closed.value.rcvd)

    with answering(talk) as upstream, passing(upstream) as url, socket_of(url) as wire:
        assert wire.ping(b"from the client").wait(PATIENCE) and pinged.wait(PATIENCE)
        wire.close(1001, "going away")
    assert [(close.code, close.reason) for close in codes] == [(1001, "going away")]

    with (
        answering(lambda wire: wire.close(4000, "limit")) as upstream,
        passing(upstream) as url,
        socket_of(url) as wire,
    ):
        with pytest.raises(ConnectionClosed) as caught:
            wire.recv(timeout=PATIENCE)
        assert caught.value.rcvd and (caught.value.rcvd.code, caught.value.rcvd.reason) == (4000, "limit")


def test_what_is_not_read_is_said_once_and_passes() -> None:
    told, got = list[Any](), list[Any]()

    def talk(wire: ServerConnection) -> None:
        got.extend(wire.recv() for _ in range(4))
        wire.send(json.dumps(events("r0")[0]))

    with answering(talk) as upstream, passing(upstream, on_report=told.append) as url, socket_of(url) as wire:
        sent = ['{"type": "response.steer", "input": "x"}', '{"type": "response.steer"}', b"\x00\x01", "no JSON"]
        for message in sent:
            wire.send(message)
        assert heard(wire, 1) == events("r0")[:1]
    assert got == sent
    texts = [report["websocket"]["text"] for report in told]
    assert [text.partition(" on a WebSocket")[0] for text in texts] == [
        "response.steer",
        "a message that is no event",
        "a response that no request asked for",
    ]


def test_large_and_fragmented_messages_arrive_whole() -> None:
    big = "x" * 5_000_000

    def talk(wire: ServerConnection) -> None:
        asked = json.loads(wire.recv())
        wire.send(json.dumps(dict(zip(("type", "size"), ("response.created", len(asked["input"])), strict=True))))
        wire.send(json.dumps(events("r1", big)[1]))

    with answering(talk, max_size=None) as upstream, passing(upstream) as url, socket_of(url, max_size=None) as wire:
        body = create(big)
        wire.send(body[at : at + 1_000_000] for at in range(0, len(body), 1_000_000))
        first, second = heard(wire, 2)
        assert first["size"] == len(big) and second["delta"] == big


def test_a_budget_refuses_on_the_socket() -> None:
    reached, told = list[str](), list[Any]()

    def talk(wire: ServerConnection) -> None:
        for message in wire:
            reached.append(str(message))
            for event in events("r1"):
                wire.send(json.dumps(event))

    with (
        answering(talk) as upstream,
        passing(upstream, budget=Budget(tokens=5_000), on_report=told.append) as url,
        socket_of(url) as wire,
    ):
        wire.send(create("hi", max_output_tokens=100))
        heard(wire, 3)  # billed 2,010 tokens
        wire.send(create("hi", max_output_tokens=4_000, stream_id="two"))
        (refused,) = heard(wire, 1)
        assert (refused["status"], refused["stream_id"], refused["error"]["code"]) == (402, "two", "budget_exceeded")
        wire.send('{"type": "response.steer", "previous_response_id": "r1", "input": "x"}')
        assert "--budget-allow-unpriced" in heard(wire, 1)[0]["error"]["message"]
        wire.send(create("hi", max_output_tokens=100))
        heard(wire, 3)
    assert len(reached) == 2 and [list(report) for report in told] == [["refused"], ["refused"]]


def test_a_budget_lowers_the_limit_of_a_frame() -> None:
    reached, told = list[str](), list[Any]()

    def talk(wire: ServerConnection) -> None:
        for message in wire:
            reached.append(str(message))
            for event in events(f"r{len(reached)}", stream_id="one"):
                wire.send(json.dumps(event))

    named: dict[str, Any] = {"budget": Budget(tokens=12_000), "caps_output": True, "on_report": told.append}
    with answering(talk) as upstream, passing(upstream, **named) as url, socket_of(url) as wire:
        asked = create("hi", stream_id="one")  # billed 2,010 tokens, its prompt many more than estimated
        for previous in ({}, {"previous_response_id": "r1"}):
            wire.send(create("hi", stream_id="one", **previous))
            heard(wire, 3)
        wire.send(create("hi", previous_response_id="r_of_yesterday"))
        (refused,) = heard(wire, 1)
        assert refused["status"] == 402 and "the whole window" in refused["error"]["message"]
    capped = [report["capped"] for report in told[:2]]
    assert all((one["field"], one["from"]) == ("max_output_tokens", None) for one in capped)
    assert reached[0] == f'{asked[:-1]},"max_output_tokens":{capped[0]["to"]}}}'
    assert 5_900 < capped[0]["to"] < 6_000 and 1_024 <= capped[1]["to"] < 5_000
    assert json.loads(reached[1])["max_output_tokens"] == capped[1]["to"]


def test_repairs_change_frames() -> None:
    got = list[Any]()

    def talk(wire: ServerConnection) -> None:
        for message in wire:
            got.append(json.loads(message))
            for event in events("r1"):
                wire.send(json.dumps(event))

    tools = [{"type": "function", "name": name, "parameters": {}} for name in ("b", "a")]
    observer = Seen()
    with (
        answering(talk) as upstream,
        passing(upstream, observer=observer, repair=Repairs(("sort-tools",))) as url,
        socket_of(url) as wire,
    ):
        wire.send(create("hi", tools=tools))
        heard(wire, 3)
    assert [tool["name"] for tool in got[0]["tools"]] == ["a", "b"] and observer.left[0].repairs == ("sort-tools",)


def test_a_refused_handshake_is_passed_on() -> None:
    def refuse(wire: ServerConnection, request: Any) -> Any:
        return wire.respond(426, "no")

    with answering(echo, process_request=refuse) as upstream, passing(upstream) as url:
        assert status_of(url) == 426


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")  # the SDK with websockets 17
def test_the_sdk_of_openai_works_through_it() -> None:
    observer = Seen()
    check: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
    with answering(echo) as upstream, passing(upstream, observer=observer) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
        with client.responses.connect() as connection:
            for name in ("r1", "r2"):
                connection.response.create(model=MODEL, input=name)
                for event in connection:
                    assert check.dump_python(event)
                    if event.type == "response.completed":
                        break
    assert [observer.last(n).status for n in (1, 2)] == [200, 200]


def test_a_budget_knows_how_long_a_prepared_prompt_is() -> None:
    def talk(wire: ServerConnection) -> None:
        for number, _ in enumerate(wire, 1):
            for event in events(f"r{number}"):
                if number == 1 and "usage" in event.get("response", {}):
                    event["response"]["usage"] |= {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
                wire.send(json.dumps(event))

    budget = Budget(tokens=40_000)
    with answering(talk) as upstream, passing(upstream, budget=budget) as url, socket_of(url) as wire:
        wire.send(create("word " * 9_000, generate=False))
        heard(wire, 3)
        wire.send(create("hi", previous_response_id="r1", max_output_tokens=500))
        assert [event["type"] for event in heard(wire, 3)][-1] == "response.completed"
        wire.send(create("hi", previous_response_id="r1", max_output_tokens=25_000))
        (refused,) = heard(wire, 1)
        assert refused["status"] == 402 and "(9,0" in refused["error"]["message"]


@pytest.mark.parametrize("who", ["provider", "client"])
def test_a_message_without_end_is_not_kept(who: str) -> None:
    over, sent = threading.Event(), 0

    def endless() -> Iterator[str]:
        nonlocal sent
        while sent < 300:
            sent += 1
            yield "y" * (1 << 20)

    def talk(wire: ServerConnection) -> None:
        with pytest.raises(ConnectionClosed):
            wire.send(endless()) if who == "provider" else wire.recv()
        over.set()

    with (
        answering(talk, compression=None, max_size=None) as upstream,
        passing(upstream) as url,
        socket_of(url, compression=None, max_size=None) as wire,
        pytest.raises(ConnectionClosed) as caught,
    ):
        wire.recv(timeout=PATIENCE) if who == "provider" else wire.send(endless())
    assert caught.value.rcvd is None or caught.value.rcvd.code == 1009
    assert over.wait(PATIENCE) and sent < 200  # the rest was not read


def test_an_error_that_is_said_twice_ends_one_response() -> None:
    def talk(wire: ServerConnection) -> None:
        for _ in range(2):
            wire.recv()
        begun = events("a")[0]
        failed = {"type": "response.failed", "response": {**begun["response"], "status": "failed"}}
        for event in (begun, {"type": "error", "code": "server_error", "message": "x"}, failed, *events("b")):
            wire.send(json.dumps(event))

    observer = Seen()
    with answering(talk) as upstream, passing(upstream, observer=observer) as url, socket_of(url) as wire:
        wire.send(create("a"))
        wire.send(create("b"))
        heard(wire, 6)
        assert [observer.last(n).body.count(b"event: ") for n in (1, 2)] == [2, 3]


def test_what_a_provider_said_before_it_left_arrives() -> None:
    big, got = "x" * 4_000_000, list[str]()

    def talk(wire: ServerConnection) -> None:
        wire.recv()
        for _ in range(4):
            wire.send(big)
        wire.socket.shutdown(2)

    with (
        answering(talk, compression=None) as upstream,
        passing(upstream) as url,
        socket_of(url, max_size=None, compression=None) as wire,
    ):
        wire.send(create("hi"))
        time.sleep(0.5)  # the client is slow
        got.extend(wire.recv(timeout=PATIENCE) for _ in range(4))
        with pytest.raises(ConnectionClosed):
            wire.recv(timeout=PATIENCE)
    assert len(got) == 4
