"""A client that sends a whole request and then ends its side of the connection gets its response."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

from contextkit.server import LocalServer
from tests.server.proxied import PATIENCE, Seen, Wire, client, passing, provider

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST /v1/messages HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalServer]:
    with LocalServer(allow_hosts=["here"]) as server:
        yield server


def request(version: str, *, is_streamed: bool) -> bytes:
    said = {"model": "claude-sonnet-5-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    body = json.dumps({**said, "stream": is_streamed}).encode()
    headers = f"Host: here\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nx-api-key: any\r\n"
    return f"POST /v1/messages HTTP/{version}\r\n{headers}anthropic-version: 2023-06-01\r\n\r\n".encode() + body


def received(wire: Wire) -> tuple[int, bytes]:
    """Status and body as Python's own client reads them."""
    response = HTTPResponse(wire.link)
    response.begin()
    return response.status, response.read()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("is_proxied", [False, True], ids=["local", "proxy"])
def test_its_response_comes_whole(server: LocalServer, is_proxied: bool, is_streamed: bool, version: str) -> None:
    server.script([{"parts": [{"type": "text", "text": "Hello to you."}], "wait_seconds": 0.5}])
    with passing(server.url) as proxied, client(proxied if is_proxied else server.url) as wire:
        wire.say(request(version, is_streamed=is_streamed))
        wire.link.shutdown(socket.SHUT_WR)
        status, body = received(wire)
        assert status == 200 and wire.link.recv(1) == b""
    if is_streamed:
        assert body.endswith(b'{"type":"message_stop"}\n\n')
    else:
        assert json.loads(body)["content"] == [{"type": "text", "text": "Hello to you."}]
    assert [call.error for call in server.ledger] == [None]


def test_several_requests_sent_ahead_are_all_answered(server: LocalServer) -> None:
    with passing(server.url) as proxied:
        for url in (server.url, proxied):
            with client(url) as wire:
                wire.say(request("1.1", is_streamed=False) * 3)
                wire.link.shutdown(socket.SHUT_WR)
                assert wire.everything().count(b"HTTP/1.1 200 OK") == 3


def test_a_request_that_ends_inside_its_body_is_not_answered(server: LocalServer) -> None:
    with passing(server.url) as proxied:
        for url in (server.url, proxied):
            with client(url) as wire:
                wire.say(request("1.1", is_streamed=False)[:-10])
                wire.link.shutdown(socket.SHUT_WR)
                assert b" 200 " not in wire.everything()
    assert not len(server.ledger)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_the_proxy_passes_on_a_stream_whose_client_ends_its_side_inside_it(version: bytes) -> None:
    seen, ended = Seen(), threading.Event()

    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(STREAM + b"5\r\nfirst\r\n")
        assert ended.wait(PATIENCE)
        time.sleep(0.5)  # while the proxy looks whether the client has left
        wire.say(b"6\r\nsecond\r\n")
        time.sleep(0.5)
        wire.say(b"0\r\n\r\n")

    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(POST.replace(b"HTTP/1.1", b"HTTP/" + version))
        response = HTTPResponse(wire.link)
        response.begin()
        first = response.read(5)
        wire.link.shutdown(socket.SHUT_WR)
        ended.set()
        assert (first, response.read()) == (b"first", b"second")
    assert (seen.last().error, seen.last().body) == ("", b"firstsecond")
