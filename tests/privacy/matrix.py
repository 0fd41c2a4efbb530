"""Every kind of secret, in every encoding, at every place, through a running proxy: nothing that is written down or
shown gives it away.

`python -m tests.privacy.matrix --full` runs all combinations and prints how many there were; the tests run a part of
them."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import brotli
import zstandard
from click.testing import CliRunner

from contextkit.cli.main import cli
from tests.privacy.kinds import TEXTS, Kind, kinds, traces_of

COMMAND = [sys.executable, "-m", "contextkit.cli.main"]
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "br": brotli.compress,
    "deflate": zlib.compress,
}
WAYS = ("plain", "JSON-escaped", "percent-encoded", "base64", *CODINGS)
PLACES = ("header", "query", "path", "body", "response", "error")


@dataclass(frozen=True)
class Case:
    """One secret on its way through the proxy."""

    kind: Kind
    way: str
    place: str

    @property
    def text(self) -> str:
        """The secret as it is written here."""
        return TEXTS.get(self.way, TEXTS["plain"])(self.kind.written)

    def encoded(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        """A body in this encoding, and the header that says so."""
        if self.way not in CODINGS:
            return body, {}
        return CODINGS[self.way](body), {"Content-Encoding": self.way if self.way != "gzip" else "X-GZip"}


def _json(value: Any, case: Case) -> bytes:
    """JSON in which the text of a case stands as it is, its escapes being JSON's own."""
    raw = json.dumps(value)
    return raw.replace("SECRET", case.text if case.way == "JSON-escaped" else json.dumps(case.text)[1:-1]).encode()


def _request(case: Case) -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers."""
    path, headers = "/v1/messages", {"Content-Type": "application/json", "x-api-key": "any"}
    echoed = case.place in ("header", "query", "body")
    text = "line one\nSECRET\nline three" if echoed else "hello"
    if case.place == "header":
        headers |= {"x-api-key": case.kind.written, "cookie": f"session={case.kind.value}"}
    if case.place == "query":
        path += f"?beta=true&key={quote(case.kind.written, safe='')}"
    if case.place == "path":
        # a model call, one whose model stands in the address, and what is no model call
        ending = ("v1/{}/messages", "v1beta/models/{}:generateContent", "v1/{}/embeddings")[len(case.kind.name) % 3]
        path = "/" + ending.format(quote(case.text, safe="=:@"))
    fields = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    body, encoding = case.encoded(_json(fields, case))
    return path, body, headers | encoding


def _answer(case: Case) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of the response."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    status, value = 200, message
    if case.place == "response":
        value = {
            **message,
            "id": "msg SECRET",
            "model": "claude SECRET",
            "content": [{"type": "text", "text": "SECRET"}],
        }
    if case.place == "error":
        error = {"type": "SECRET", "code": "SECRET", "message": "Incorrect API key provided: SECRET"}
        status, value = 401, {"type": "error", "error": error}
    body, encoding = case.encoded(_json(value, case))
    cookie = {"Set-Cookie": f"session={case.kind.value}; Path=/"} if case.place == "response" else {}
    return status, body, {"Content-Type": "application/json", **encoding, **cookie}


@contextmanager
def _upstream(cases: Sequence[Case]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body, headers = _answer(cases[int(self.headers["X-Case"])])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(link: http.client.HTTPConnection, number: int, case: Case) -> tuple[int, bytes]:
    path, body, headers = _request(case)
    link.request("POST", path, body, {**headers, "X-Case": str(number)})
    answer = link.getresponse()
    return answer.status, answer.read()


def _commands(folder: Path, record: Path, *, is_full: bool) -> Iterator[bytes]:
    """What the other commands make of the recording."""
    page = folder / "page.html"
    few = [
        ["report", "--json", "--html", page, record],
        ["lint", "--requests", record],
        ["report", "--to", folder / "copy.jsonl", record],
    ]
    more = [
        ["report", "--misses", "--verbose", record],
        ["report", "--csv", record],
        ["report", "--markdown", record],
        ["whatif", record],
        ["validate", record],
        ["lint", "--format", "json", "--requests", record],
    ]
    for command in [*few, *(more if is_full else [])]:
        ended = CliRunner().invoke(cli, list(map(str, command)))
        yield ended.stdout_bytes + ended.stderr_bytes
    yield page.read_bytes()
    yield (folder / "copy.jsonl").read_bytes()


def outputs(cases: Sequence[Case], folder: Path, *more: str, is_full: bool = False) -> dict[str, bytes]:
    """Everything that is left of cases that went through a proxy, by name."""
    record, found = folder / "runs.jsonl", dict[str, bytes]()
    with _upstream(cases) as upstream:
        command = [*COMMAND, "proxy", "--upstream", upstream, "--port", "0", "--record", str(record), *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout and process.stderr
        lines: list[bytes] = []
        first = process.stdout.readline().decode()
        url = json.loads(first)["url"] if first.startswith("{") else first.split()[0]
        reader = threading.Thread(target=lambda: lines.append(process.stdout.read()), daemon=True)  # type: ignore[union-attr]
        reader.start()
        try:
            link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
            link.connect()
            assert link.sock
            link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number, case in enumerate(cases):
                status, _ = _ask(link, number, case)
                assert status == (401 if case.place == "error" else 200), (status, case)
            link.close()
            patience = time.monotonic() + 120
            while record.read_bytes().count(b"\n") <= len(cases):  # a line a case, below the first
                assert time.monotonic() < patience and process.poll() is None
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGTERM)
            reader.join(60)
            found["standard error"] = process.stderr.read()
            process.wait(60)
            process.stderr.close()
            process.stdout.close()
    found["standard output"] = b"".join(lines)
    found["recording"] = record.read_bytes()
    if is_full or not more:
        found["errors"] = b"".join(_failures(cases, folder))
        commands = _commands(folder, record, is_full=is_full)
        found |= {f"command {number}": text for number, text in enumerate(commands)}
    return found


def _failures(cases: Sequence[Case], folder: Path) -> Iterator[bytes]:
    """What a client is told, and what is recorded, where nobody answers: of each place but the response's."""
    record = folder / "failed.jsonl"
    command = [*COMMAND, "proxy", "--upstream", "http://127.0.0.1:9", "--port", "0", "--record", str(record)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout
    url = process.stdout.readline().split()[0].decode()
    try:
        for number, case in enumerate(cases):
            if case.place in ("header", "query", "path", "body"):
                link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
                status, body = _ask(link, number, case)
                link.close()
                assert status == 502
                yield body
        with socket.create_connection(
            ("127.0.0.1", int(url.rpartition(":")[2])), 30
        ) as raw:  # what is no HTTP is not quoted
            raw.sendall(b"POST /v1/messages HTTP/1.1\r\nAuthorization " + cases[0].kind.written.encode() + b"\r\n\r\n")
            yield raw.recv(65536)
    finally:
        process.send_signal(signal.SIGTERM)
        yield process.communicate(timeout=60)[0]
    yield record.read_bytes()


def leaks(cases: Sequence[Case], found: dict[str, bytes]) -> list[str]:
    """Where a secret can be found."""
    values = {case.kind.value: case for case in cases}
    return [
        f"{case.kind.name}, {case.way}, {case.place}: {name}: …{text[max(0, text.find(trace) - 60) : text.find(trace) + 20]!r}"
        for value, case in values.items()
        for trace in traces_of(value)
        for name, text in found.items()
        if trace in text
    ]


def all_cases(*, is_full: bool) -> list[Case]:
    """Each combination with a secret of its own; without `is_full`, of each kind and place one encoding, in turn."""
    cases = []
    for number, (place, way) in enumerate((place, way) for place in PLACES for way in WAYS):
        for index, kind in enumerate(kinds(1000 + number)):
            if is_full or WAYS[(index + PLACES.index(place)) % len(WAYS)] == way:
                cases.append(Case(kind, way, place))
    return cases


if __name__ == "__main__":
    chosen = all_cases(is_full="--full" in sys.argv)
    n_kinds = len({case.kind.name for case in chosen})
    for options in ((), ("--json",)):
        with tempfile.TemporaryDirectory() as name:
            begun = time.monotonic()
            left = outputs(chosen, Path(name), *options, is_full=True)
            gone = leaks(chosen, left)
        print(
            f"{n_kinds} kinds, {len(WAYS)} encodings, {len(PLACES)} places {options}: {len(chosen)} calls, {len(gone)} leaks, "
            f"{time.monotonic() - begun:.1f} s, {sum(map(len, left.values())):,} bytes searched"
        )
        print("\n".join(gone[:40]))
