"""What passes through the proxy: real SDK clients, and every byte of anything else."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, CLAUDE, GPT
from tests.server.proxied import Seen, Wire, client, passing, provider

SCRIPT = {"parts": ALL_PARTS}
ASKED = [{"role": "user", "content": "Grüße 🙂"}]
POSTED = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def url(server: LocalServer, seen: Seen) -> Iterator[str]:
    with passing(server.url, observer=seen) as url:
        yield url


# Real clients
# -------------------------------------------------------------------------------------------------------------


def test_claude_says_the_same_through_the_proxy(server: LocalServer, url: str, seen: Seen) -> None:
    asked = {"model": CLAUDE, "max_tokens": 500, "messages": ASKED}
    said = []
    for base in (server.url, url):
        server.reset()
        server.script([SCRIPT, SCRIPT])
        with anthropic.Anthropic(base_url=base, api_key="any", max_retries=0) as claude:
            whole = claude.messages.create(**asked)
            with claude.messages.stream(**asked) as stream:
                said.append(
                    (
                        whole.to_dict(),
                        stream.get_final_message().to_dict(),
                        server.ledger[0].usage,
                        server.ledger[1].usage,
                    )
                )
    assert said[0] == said[1]
    assert [call.status for call in (seen.last(1), seen.last(2))] == [200, 200]
    assert seen.left[0].wire == "anthropic_messages" and b"Gr\xc3\xbc\xc3\x9fe" in seen.left[0].body
    assert seen.last(2).body.startswith(b"event: message_start") and seen.last(2).content_type.startswith(
        "text/event-stream"
    )


def test_gpt_says_the_same_through_the_proxy(server: LocalServer, url: str, seen: Seen) -> None:
    said = []
    for base in (server.url, url):
        server.reset()
        server.script([{"parts": ALL_PARTS[1:]}] * 4)
        with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as gpt:
            chat = gpt.chat.completions.create(model=GPT, messages=ASKED)
            chunks = [chunk.to_dict() for chunk in gpt.chat.completions.create(model=GPT, messages=ASKED, stream=True)]
            response = gpt.responses.create(model=GPT, input=ASKED)
            events = [event.to_dict() for event in gpt.responses.create(model=GPT, input=ASKED, stream=True)]
            assert gpt.models.list().data
        said.append([_timeless(value) for value in (chat.to_dict(), chunks, response.to_dict(), events)])
    assert said[0] == said[1]
    assert [call.wire for call in seen.left] == ["openai_chat", "openai_chat", "openai_responses", "openai_responses"]


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: _timeless(inner)
            for key, inner in value.items()
            if key not in ("created", "created_at", "completed_at")
        }
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def test_async_clients_stream_side_by_side(server: LocalServer, url: str, seen: Seen) -> None:
    async def one(claude: anthropic.AsyncAnthropic, number: int) -> str:
        asked = [{"role": "user", "content": f"number {number}"}]
        async with claude.messages.stream(model=CLAUDE, max_tokens=50, messages=asked) as stream:
            return "".join([text async for text in stream.text_stream])

    async def all_of_them() -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0) as claude:
            return await asyncio.gather(*(one(claude, number) for number in range(30)))

    assert asyncio.run(all_of_them()) == [f"You said: number {number}" for number in range(30)]
    assert seen.last(30).error == "" and sorted(call.number for call in seen.over) == list(range(1, 31))


# Bytes
# --------------------------------------------------------------------------------------------------------------------


def test_no_byte_changes_either_way(seen: Seen) -> None:
    noise = random.Random(7).randbytes(300_000)
    packed, got = zlib.compress(noise), list[tuple[bytes, bytes]]()

    def answer(wire: Wire) -> None:
        got.append(wire.request())
        wire.say(
            b"HTTP/1.1 200 Fine By Me\r\nX-CaSe: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Encoding: deflate\r\n"
        )
        wire.say(b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nContent-Length: %d\r\n\r\n" % len(packed))
        for start in range(0, len(packed), 7001):
            wire.say(packed[start : start + 7001])

    head = (
        b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: here\r\nX-Api-KEY: k\r\nAccept-Encoding: deflate\r\nTE: trailers\r\n"
        b"Content-Encoding: x-odd\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n"
    )
    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(head % len(noise) + noise)
        response = wire.head()
        body = wire.exactly(len(packed))
    sent, sent_body = got[0]
    assert sent_body == noise and body == packed
    host = upstream.rpartition("/")[2].encode()
    assert sent == (
        b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: %b\r\nX-Api-KEY: k\r\nAccept-Encoding: deflate\r\nContent-Encoding: x-odd\r\n"
        b"Content-Length: %d\r\n\r\n" % (host, len(noise))
    )
    assert response == (
        b"HTTP/1.1 200 Fine By Me\r\nX-CaSe: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Encoding: deflate\r\n"
        b"Content-Length: %d\r\n\r\n" % len(packed)
    )
    assert seen.last().body == packed and seen.last().encoding == "deflate" and seen.left[0].body == noise


def test_each_event_leaves_when_it_comes() -> None:
    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nfirst\r\n")
        wire.request()  # which the test sends once it has read the first event
        wire.say(b"6\r\nsecond\r\n0\r\nX-Sum: 9\r\n\r\n")

    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"Trailer: X-Sum" in wire.head() and wire.chunk() == b"first"
    # The provider waits for a second request, which never comes: what was said before it has come through all the same.


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n"),
        (b"HTTP/1.1 304 Not Modified\r\nETag: 1\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nETag: 1\r\n"),
        (b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: /b\r\n"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 Y\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n",
        ),
    ],
)
def test_every_kind_of_response(said: bytes, heard: bytes) -> None:
    with (
        provider(lambda wire: (wire.request(), wire.say(said))) as upstream,
        passing(upstream) as url,
        client(url) as wire,
    ):
        wire.say(b"OPTIONS /any/where?x=%20 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.head().lower().startswith(heard.lower())


def test_a_head_request_and_a_client_of_http_1_0(server: LocalServer) -> None:
    with passing(f"{server.url}/") as url:
        with client(url) as wire:
            wire.say(b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: k\r\nConnection: close\r\n\r\n")
            assert b"content-length" in wire.head().lower() and wire.everything() == b""
        with client(url) as wire:
            wire.say(b"GET /v1/models HTTP/1.0\r\nx-api-key: k\r\nanthropic-version: 1\r\n\r\n")
            text = wire.everything()
        assert b"200 OK" in text and b"chunked" not in text and b'"data"' in text


def test_connections_to_the_provider_are_used_again_and_pipelined_requests_answered_in_order() -> None:
    n_connections, paths = [0], list[bytes]()

    def answer(wire: Wire) -> None:
        n_connections[0] += 1
        while head := wire.request()[0]:
            paths.append(head.split()[1])
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + paths[-1][-2:])

    with provider(answer) as upstream, passing(f"{upstream}/base") as url, client(url) as wire:
        wire.say(b"".join(b"GET /a%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5)))
        bodies = [(wire.head(), wire.exactly(2))[1] for _ in range(5)]
    assert bodies == [b"a0", b"a1", b"a2", b"a3", b"a4"]
    assert paths == [b"/base/a%d" % number for number in range(5)] and n_connections == [1]


def test_a_body_the_proxy_does_not_know_is_streamed_up_and_100_continue_is_said() -> None:
    heard = list[bytes]()

    def answer(wire: Wire) -> None:
        head = wire.head()
        assert b"expect" not in head.lower()
        heard.append(wire.chunk())
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        heard.append(wire.chunk())

    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(b"PUT /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 100 " in wire.head()
        wire.say(b"3\r\nabc\r\n")
        assert b" 200 " in wire.head()  # before the body was over
    assert heard[0] == b"abc"


@pytest.mark.parametrize("path", [b"/v1/messages", b"/v1/files"])
def test_a_body_has_one_length_for_whoever_is_behind_the_proxy(path: bytes) -> None:
    """A length beside chunks is how requests are smuggled past a proxy (RFC 9112, 6.1 and 11.2)."""
    heads = list[bytes]()

    def answer(wire: Wire) -> None:
        heads.append(wire.request()[0].lower())
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(POSTED % path)
        assert b"content-length" not in wire.head().lower() and wire.chunk() == b"abc" and wire.chunk() == b""
    assert b"content-length" not in heads[0] and b"transfer-encoding: chunked" in heads[0]


def test_it_goes_nowhere_but_to_its_provider() -> None:
    heads = list[bytes]()

    def answer(wire: Wire) -> None:
        heads.append(wire.request()[0])
        wire.say(b"HTTP/1.1 204 Fine\r\n\r\n")

    with provider(answer) as upstream, passing(upstream) as url:
        for target in (b"http://evil.example/x", b"//evil.example/x"):
            with client(url) as wire:
                wire.say(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
                assert b" 204 " in wire.head()
        with client(url) as wire:
            wire.say(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert b" 405 " in wire.head() and b"base URL of a client" in wire.everything()
    assert len(heads) == 2 and all(b"Host: %b\r\n" % upstream.rpartition("/")[2].encode() in head for head in heads)


def test_what_is_no_http_is_told_without_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(b"HTTP/1.1 200 OK\r\nSet Cookie: secret-1\r\n\r\n")

    with provider(answer) as upstream, passing(upstream) as url:
        with client(url) as wire:
            wire.say(b"GET / HTTP/1.1\r\nHost: x\r\nAuth orization: secret-2\r\n\r\n")
            assert b" 400 " in wire.head() and b"secret" not in wire.everything()
        with client(url) as wire:
            wire.say(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 502 " in wire.head() and b"secret" not in wire.everything()
    assert "secret" not in caplog.text


def test_another_protocol_is_tunnelled() -> None:
    def answer(wire: Wire) -> None:
        assert b"Upgrade: websocket" in wire.head()
        wire.say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        wire.say(wire.exactly(4)[::-1])

    told: list[Any] = []
    with provider(answer) as upstream, passing(upstream, on_report=told.append) as url, client(url) as wire:
        wire.say(b"GET /v1/realtime?key=k HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert b" 101 " in wire.head() and wire.exactly(5) == b"hello"
        assert [report["websocket"]["path"] for report in told] == ["/v1/realtime"]  # while it is open
        assert "no call in it is recorded" in told[0]["websocket"]["text"]
        wire.say(b"abcd")
        assert wire.everything() == b"dcba"
