"""What goes wrong on either side of the proxy goes wrong for the other side too, and nobody else notices."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time
from pathlib import Path

import anthropic
import openai
import pytest

from contextkit.errors import UsageError
from contextkit.proxy.relay import CLOSED_AT_ONCE_SECONDS
from contextkit.proxy.upstreams import Upstream
from contextkit.server import LocalServer
from tests.server.conftest import CLAUDE, GPT
from tests.server.proxied import PATIENCE, Seen, Wire, client, passing, provider

ASKED = [{"role": "user", "content": "hi"}]
POST = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_provider_that_cannot_be_reached_is_a_502_in_its_own_words() -> None:
    seen = Seen()
    with passing(f"http://127.0.0.1:{_free_port()}", observer=seen) as url:
        claude = anthropic.Anthropic(base_url=url, api_key="sk-ant-private", max_retries=0)
        with claude, pytest.raises(anthropic.InternalServerError, match="cannot be reached") as caught:
            claude.messages.create(model=CLAUDE, max_tokens=5, messages=ASKED)
        assert (caught.value.status_code, caught.value.body["error"]["type"]) == (502, "api_error")
        gpt = openai.OpenAI(base_url=f"{url}/v1", api_key="private", max_retries=0)
        with gpt, pytest.raises(openai.InternalServerError) as other:
            gpt.chat.completions.create(model=GPT, messages=ASKED)
        assert (other.value.status_code, other.value.type) == (502, "server_error")
    assert [(seen.last(n).status, seen.last(n).error) for n in (1, 2)] == [(0, "unreachable"), (0, "unreachable")]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2", b"SSH-2.0-OpenSSH\r\n\r\n"])
def test_a_provider_that_does_not_answer_is_a_502(said: bytes) -> None:
    seen = Seen()
    answer = lambda wire: (wire.request(), wire.say(said))  # noqa: E731
    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(POST)
        assert b" 502 " in wire.head()
    assert seen.last().error == "unreachable"


def test_an_idle_connection_that_closes_when_it_is_used_again_is_not_the_client_s_trouble() -> None:
    """The provider answers once on each connection, says that it keeps it, and closes it when the next request has
    come."""
    seen, heads = Seen(), list[bytes]()

    def answer(wire: Wire) -> None:
        heads.append(wire.request()[0])
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        heads.append(wire.request()[0])

    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        for path in (b"/v1/messages", b"/v1/messages", b"/v1/files"):
            wire.say(POST.replace(b"/v1/messages", path))
            said = wire.head()
            wire.exactly(int(said.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            assert (b" 200 " in said) == (path != b"/v1/files")  # whose body was not kept: it cannot be sent twice
    assert [call.error for call in seen.over] == ["", ""] and len(heads) >= 4


def test_a_request_that_a_provider_has_had_for_a_while_is_never_sent_twice() -> None:
    """The second request on a kept connection is taken, thought about, and then the provider dies: it may have been
    billed."""
    seen, asked = Seen(), list[bytes]()

    def answer(wire: Wire) -> None:
        asked.append(wire.request()[0])
        if len(asked) == 1:
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            asked.append(wire.request()[0])
        time.sleep(CLOSED_AT_ONCE_SECONDS + 0.3)

    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(POST)
        assert b" 200 " in wire.head() and wire.exactly(2) == b"ok"
        wire.say(POST)
        assert b" 502 " in wire.head()
    assert [call.error for call in seen.over] == ["", "unreachable"] and len(asked) == 2


def test_a_provider_killed_in_the_middle_is_a_cut_for_the_client() -> None:
    seen = Seen()

    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(STREAM + b"5\r\nfirst\r\n6\r\nsec")

    with provider(answer) as upstream, passing(upstream, observer=seen) as url, client(url) as wire:
        wire.say(POST)
        wire.head()
        text = wire.everything()
    assert text.startswith(b"5\r\nfirst\r\n") and not text.endswith(b"0\r\n\r\n")
    assert (seen.last().error, seen.last().body) == ("cut", b"firstsec")


def test_a_client_of_http_1_0_sees_the_cut_as_a_reset() -> None:
    answer = lambda wire: (wire.request(), wire.say(STREAM + b"5\r\nfirst\r\n"))  # noqa: E731
    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(POST.replace(b"HTTP/1.1", b"HTTP/1.0"))
        with pytest.raises(ConnectionResetError):
            wire.everything()


def test_a_client_that_leaves_cancels_the_request() -> None:
    seen, gone = Seen(), threading.Event()

    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(STREAM + b"5\r\nfirst\r\n")
        assert wire.link.recv(1) == b""
        gone.set()

    with provider(answer) as upstream, passing(upstream, observer=seen) as url:
        with client(url) as wire:
            wire.say(POST)
            wire.head()
            assert wire.chunk() == b"first"
        assert gone.wait(PATIENCE)
        assert (seen.last().error, seen.last().body) == ("aborted", b"first")


def test_a_client_that_leaves_before_the_answer_cancels_it_too() -> None:
    seen, gone = Seen(), threading.Event()

    def answer(wire: Wire) -> None:
        wire.request()
        assert wire.link.recv(1) == b""
        gone.set()

    with provider(answer) as upstream, passing(upstream, observer=seen) as url:
        with client(url) as wire:
            wire.say(POST)
            time.sleep(0.1)
        assert gone.wait(PATIENCE) and seen.last().error == "aborted"


def test_a_slow_client_holds_its_provider_back_and_nobody_else() -> None:
    sent = [0]

    def answer(wire: Wire) -> None:
        if b"/slow" not in wire.head():
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        wire.say(STREAM)
        wire.link.setblocking(False)
        wire.link.settimeout(1.0)
        try:
            for _ in range(64):
                wire.say(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
                sent[0] += 1
        except TimeoutError:
            return

    with provider(answer) as upstream, passing(upstream) as url, client(url) as slow:
        slow.say(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        for _ in range(20):
            with client(url) as quick:
                quick.say(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 200 " in quick.head()
        time.sleep(1.2)
        assert sent[0] < 32  # the rest waits at the provider, not in the proxy's memory


def test_a_slow_provider_holds_the_upload_back() -> None:
    release = threading.Event()

    def answer(wire: Wire) -> None:
        wire.head()
        release.wait(PATIENCE)

    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(b"PUT /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        wire.link.settimeout(1.0)
        with pytest.raises(TimeoutError):
            wire.say(bytes(100_000_000))
        release.set()


def test_an_answer_before_the_upload_is_over_comes_through() -> None:
    def answer(wire: Wire) -> None:
        wire.head()
        wire.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        wire.link.recv(1 << 20)

    with provider(answer) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(b"PUT /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc")
        assert b" 413 " in wire.head() and wire.exactly(3) == b"big"


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01 hello\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"]
)
def test_what_is_not_http_is_refused(said: bytes, server: LocalServer) -> None:
    with passing(server.url) as url, client(url) as wire:
        wire.say(said)
        assert b" 400 " in wire.head()


def test_two_lengths_never_reach_the_provider() -> None:
    """The way requests are smuggled past a proxy: both ends must agree where a request stops."""
    heard = list[bytes]()
    with provider(lambda wire: heard.append(wire.head())) as upstream, passing(upstream) as url, client(url) as wire:
        wire.say(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}")
        assert b" 400 " in wire.head()
    assert heard == []


# TLS
# ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("cryptography", reason="makes the certificate of a test")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]),
    )
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "provider.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_provider_s_certificate_is_checked(certificate: Path) -> None:
    def answer(wire: Wire) -> None:
        wire.request()
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with provider(answer, certificate=certificate) as upstream:
        with passing(upstream) as url, client(url) as wire:
            wire.say(POST)
            assert b" 502 " in wire.head()
        with passing(upstream, ca=certificate) as url, client(url) as wire:
            wire.say(POST)
            assert b" 200 " in wire.head() and wire.exactly(2) == b"ok"
        with passing(upstream.replace("localhost", "127.0.0.1"), ca=certificate) as url, client(url) as wire:
            wire.say(POST)
            assert b" 502 " in wire.head()  # trusted, but not the host that was asked


@pytest.mark.parametrize(
    "url", ["api.anthropic.com", "ftp://x", "https://", "https://x:99999", "https://key@x", "https://x?a=1"]
)
def test_what_is_no_provider_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Upstream(url)
    assert "key" not in str(caught.value).partition("keys")[0] and "a=1" not in str(caught.value)
