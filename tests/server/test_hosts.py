"""Which hosts, origins and content types the local provider and the proxy answer to."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic
import httpx2
import pytest

from contextkit.errors import UsageError
from contextkit.server import LocalServer
from contextkit.server.http.hosts import Hosts
from tests.server.conftest import asking
from tests.server.proxied import Wire, client, passing

PATHS = [
    ("POST", "/v1/messages"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/models"),
    ("POST", "/model/m/converse"),
    ("POST", "/v1beta/models/m:generateContent"),
    ("GET", "/_contextkit/ledger"),
    ("POST", "/_contextkit/reset"),
    ("POST", "/_contextkit/clock"),
    ("GET", "/v1/responses"),
    ("GET", "/no/such/path"),
]
FOREIGN = [
    "evil.com",
    "evil.com:8089",
    "localhost.evil.com",
    "127.0.0.1.evil.com",
    "127.1",
    "2130706433",
    "0.0.0.0",
    "192.168.0.2",
    "[::2]",
    "[::ffff:8.8.8.8]",
    "localhost,evil.com",
]
ODD = [
    "",
    "user@localhost",
    "localhost@evil.com",
    "localhost/evil",
    "localhost:8089:1",
    "localhost:x",
    "[::1",
    "local host",
    "%6cocalhost",
]
OURS = [
    "localhost",
    "LocalHost:1",
    "localhost.",
    "127.0.0.1:9",
    "127.8.9.1",
    "[::1]:80",
    "[::ffff:127.0.0.1]",
    "127.0.0.1",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalServer(now=1000.0) as server:
        yield server.url


def asked(
    url: str, method: str, path: str, *headers: tuple[str, str], version: str = "1.1", body: bytes = b""
) -> tuple[int, bytes]:
    """Status and body of the answer to a request with exactly these headers.

    Of its body only the length is sent where it is `...`.
    """
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    with client(url) as wire:
        wire.say(f"{method} {path} HTTP/{version}\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        return answered(wire)


def answered(wire: Wire) -> tuple[int, bytes]:
    head, body = wire.request()
    return int(head.split(b" ")[1]), body


def test_another_host_name_is_refused_on_every_path(url: str) -> None:
    for host, (method, path) in [*((host, PATHS[0]) for host in FOREIGN), *(("evil.com", place) for place in PATHS)]:
        status, body = asked(url, method, path, ("host", host), ("origin", f"http://{host}"))
        error = json.loads(body)
        text = error["error"] if path.startswith("/_contextkit") else error.get("message") or error["error"]["message"]
        assert status in (400, 403) and ("--allow-host" in text or "Host header" in text), (host, path, status, text)


def test_a_host_that_is_none_is_refused(url: str) -> None:
    for host in ODD:
        status, body = asked(url, "POST", "/_contextkit/reset", ("host", host))
        assert status == 400 and (not body.startswith(b"{") or "Host" in json.loads(body)["error"]), host


def test_a_request_has_one_host_unless_it_is_of_http_1_0(url: str) -> None:
    assert asked(url, "GET", "/_contextkit/ledger", version="1.0")[0] == 200  # no browser sends it
    assert asked(url, "GET", "/_contextkit/ledger", ("origin", "http://evil.com"), version="1.0")[0] == 403
    assert asked(url, "GET", "/_contextkit/ledger", ("host", "evil.com"), version="1.0")[0] == 403
    assert asked(url, "GET", "/_contextkit/ledger", ("host", "localhost"), version="1.0")[0] == 200
    assert asked(url, "GET", "/_contextkit/ledger")[0] == 400
    assert asked(url, "GET", "/_contextkit/ledger", ("host", "localhost"), ("host", "evil.com"))[0] == 400


def test_its_own_names_are_answered(url: str) -> None:
    for host in OURS:
        assert asked(url, "GET", "/_contextkit/ledger", ("host", host))[0] == 200, host
        page = ("origin", f"http://{host}"), ("sec-fetch-site", "same-origin")
        assert asked(url, "GET", "/_contextkit/ledger", ("host", host), *page)[0] == 200, host


ORIGINS = [
    "http://evil.com",
    "http://localhost:1",
    "app://localhost",
    "null",
    "https://localhost@evil.com",
    "file://",
    "http://",
]
PAGES = [
    *(("origin", origin) for origin in (*ORIGINS, "")),
    *(("sec-fetch-site", site) for site in ("cross-site", "same-site", "odd")),
]


def test_pages_of_another_origin_or_site_are_refused_on_every_path(url: str) -> None:
    for method, path in PATHS:
        for page in PAGES if path == PATHS[0][1] else (PAGES[0], PAGES[-3]):
            assert asked(url, method, path, ("host", "localhost"), page)[0] == 403, (path, page)


def test_what_a_form_sends_is_refused(url: str) -> None:
    kinds = [
        "text/plain",
        "Text/Plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ]
    for path in (path for method, path in PATHS if method == "POST"):
        for kind in kinds:
            status, body = asked(url, "POST", path, ("host", "localhost"), ("content-type", kind), body=b"{}")
            assert status == 415 and b"application/json" in body, (path, kind)


def test_it_is_refused_before_the_body_is_read(url: str) -> None:
    with client(url) as wire:
        wire.say(b"POST /v1/messages HTTP/1.1\r\nhost: evil.com\r\ncontent-length: 1000000\r\n\r\n{")
        assert answered(wire)[0] == 403


def test_websocket_upgrades_are_checked_alike(url: str) -> None:
    upgrade = (
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "a" * 22 + "=="),
    )
    for host in (*FOREIGN, *ODD, "xn--a", "x\xff", "xn--\xff", ".." * 99):
        assert asked(url, "GET", "/v1/responses", ("host", host), *upgrade)[0] in (400, 403), host
    assert asked(url, "POST", "/v1/responses", ("host", "localhost"), *upgrade)[0] == 426
    assert asked(url, "GET", "/v1/responses", ("host", "localhost"), ("origin", "http://evil.com"), *upgrade)[0] == 403


def test_names_that_are_allowed_are_answered_and_so_are_their_pages() -> None:
    with LocalServer(now=1000.0, allow_hosts=["box.internal:8089", "Notes"]) as server:
        assert asked(server.url, "GET", "/_contextkit/ledger", ("host", "BOX.internal:7"))[0] == 200
        page = ("origin", "app://notes"), ("sec-fetch-site", "cross-site")
        assert asked(server.url, "GET", "/_contextkit/ledger", ("host", "localhost"), *page)[0] == 200
        assert asked(server.url, "GET", "/_contextkit/ledger", ("host", "evil.com"), *page)[0] == 403
    for odd in ("http://box", "a b", "", "box/x"):
        with pytest.raises(UsageError, match="--allow-host"):
            LocalServer(allow_hosts=[odd])


@pytest.mark.parametrize("bound", ["2001:DB8:0:0::1", "127.0.0.1", "fe80::1%eth0"])
def test_addresses_are_compared_in_one_spelling(bound: str) -> None:
    hosts = Hosts(bound, ["2001:db8:0::2"])
    host = {"2001:DB8:0:0::1": "[2001:db8::1]:8089", "fe80::1%eth0": "[fe80::1]:8089"}.get(bound, "127.0.0.1")
    assert hosts.refusal([(b"host", host.encode())]) is None
    assert hosts.refusal([(b"host", b"[2001:db8::2]"), (b"origin", b"http://[2001:db8:0:0::2]:99")]) is None
    assert hosts.refusal([(b"host", b"[2001:db8::3]")]) is not None


def test_a_server_on_every_interface_answers_to_addresses_and_to_no_other_name() -> None:
    with LocalServer(now=1000.0, host="0.0.0.0") as server:
        assert asked(server.url, "GET", "/_contextkit/ledger", ("host", "192.168.0.2:80"))[0] == 200
        assert asked(server.url, "GET", "/_contextkit/ledger", ("host", "evil.com"))[0] == 403


def test_the_real_client_is_answered_by_every_name_of_loopback(url: str) -> None:
    port = url.rpartition(":")[2]
    with anthropic.Anthropic(base_url=f"http://localhost:{port}", api_key="any", max_retries=0) as claude:
        assert claude.messages.create(**asking()).usage.output_tokens
    evil = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0, default_headers={"host": "evil.com"})
    with evil as claude, pytest.raises(anthropic.PermissionDeniedError, match="--allow-host"):
        claude.messages.create(**asking())


@pytest.mark.parametrize("path", ["/v1/messages", "/anything"])
def test_the_proxy_checks_every_path(path: str) -> None:
    with LocalServer(now=1000.0) as server, passing(server.url, allow_hosts=("box.internal",)) as url:
        for headers in (
            [("host", "evil.com")],
            [("host", "evil.com"), ("origin", "http://evil.com")],
            [("host", "localhost"), ("origin", "http://evil.com")],
            [("host", "localhost"), ("sec-fetch-site", "cross-site")],
        ):
            status, body = asked(url, "GET", path, *headers)
            assert status == 403 and "contextkit proxy" in json.loads(body)["error"]["message"]
        for host in ("localhost", "box.internal:1"):
            assert asked(url, "GET", path, ("host", host))[0] == (404 if path == "/anything" else 405)


def test_what_a_form_sends_passes_the_proxy() -> None:
    with (
        LocalServer(now=1000.0) as server,
        passing(server.url) as url,
    ):  # files are uploaded as forms: the provider decides
        answer = httpx2.post(f"{url}/v1/files", files={"file": b"x"})
        assert answer.status_code == 415 and "contextkit proxy" not in answer.text
