"""What the proxy does not wait for, and what it does not keep: time limits, the queue of its analysis, and how it
stops."""

from __future__ import annotations

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contextkit.ledger.calls import Bodies
from contextkit.ledger.ledger import Ledger
from contextkit.proxy.frames import Hurry, framed
from contextkit.proxy.observer import Departed, Ended, Timeouts
from tests.cli.conftest import COMMAND
from tests.server.proxied import Seen, Wire, client, passing, provider

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
POST = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def answering(wire: Wire) -> None:
    while wire.request()[0]:
        wire.say(OK)


def test_a_head_that_does_not_end_gets_408() -> None:
    with provider(answering) as upstream, passing(upstream, timeouts=Timeouts(header=0.2)) as url, client(url) as wire:
        wire.say(b"POST /v1/messages HTTP/1.1\r\nHost: ")
        answer = wire.everything()
        assert b" 408 " in answer and b"--header-seconds" in answer


def test_a_body_that_does_not_go_on_gets_408_and_an_idle_connection_closes() -> None:
    with provider(answering) as upstream, passing(upstream, timeouts=Timeouts(idle=0.2)) as url:
        with client(url) as wire:
            wire.say(POST % 100 + b"{")
            answer = wire.everything()
            assert b" 408 " in answer and b"--idle-seconds" in answer
        with client(url) as wire:
            wire.say(POST % 2 + b"{}")
            assert wire.everything().endswith(b"{}")  # and then the connection ended


def test_a_provider_that_is_silent_gets_504_and_one_that_falls_silent_is_cut() -> None:
    seen = Seen()

    def silent(wire: Wire) -> None:
        head, _ = wire.request()
        if b"/v1/messages" in head:
            wire.link.recv(1)  # until the proxy leaves
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        wire.link.recv(1)

    with provider(silent) as upstream, passing(upstream, observer=seen, timeouts=Timeouts(read=0.2)) as url:
        with client(url) as wire:
            wire.say(POST % 2 + b"{}")
            head = wire.head()
            assert b" 504 " in head
            assert seen.last(1).error == "timeout"
        with client(url) as wire:
            wire.say(POST.replace(b"messages", b"responses") % 2 + b"{}")
            assert wire.everything().endswith(b"half")
            assert seen.last(2).error == "cut"


# The queue, and the end
# -----------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(
    not Path("/proc").exists(), reason="finds and stops the process that analyses as Linux shows it"
)


@contextmanager
def running(upstream: str, *more: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*COMMAND, "proxy", "--upstream", upstream, "--port", "0", *map(str, more)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout
    url = process.stdout.readline().split()[0]
    try:
        yield process, url
    finally:
        process.kill()
        process.communicate()


def analysis_of(process: subprocess.Popen[str]) -> int:
    """The process that analyses."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def posted(url: str, body: bytes, **headers: str) -> None:
    request = urllib.request.Request(f"{url}/v1/messages", body, headers={"x-api-key": "any", **headers})
    assert urllib.request.urlopen(request, timeout=30).read()


def call(n: int, size: int = 0) -> bytes:
    return json.dumps(
        {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": f"{n}" + "x " * size}]}
    ).encode()


@posix
def test_what_does_not_fit_into_the_queue_is_counted_and_told(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with provider(answering) as upstream, running(upstream, "--record", path, "--queue-mb", 1) as (process, url):
        analysis = analysis_of(process)
        os.kill(analysis, signal.SIGSTOP)
        for n in range(8):
            posted(url, call(n, 1 << 20))
        os.kill(analysis, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    skipped = int(out.partition("not analysed: ")[2].partition(" request")[0])
    ledger = Ledger.read(path)
    passed = [remark.text for remark in ledger.remarks if remark.kind == "passed"]
    assert 0 < skipped < 8 and len(ledger) + len(passed) == 8
    assert all("POST /v1/messages 200" in text and "skipped" in text for text in passed)


@posix
def test_sigterm_ends_it_also_when_the_analysis_stands_still_and_says_what_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with provider(answering) as upstream, running(upstream, "--record", path, "--stop-seconds", 1) as (process, url):
        posted(url, call(0))
        assert process.stdout
        while not process.stdout.readline().startswith("claude-sonnet-5-5"):  # the analysis confirmed that it recorded
            pass
        os.kill(analysis_of(process), signal.SIGSTOP)
        for n in range(1, 3):
            posted(url, call(n))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert "2 calls were not confirmed as recorded" in err and "--stop-seconds" in err
    assert len(Ledger.read(path)) == 1


def test_in_a_hurry_calls_are_recorded_and_not_analysed(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    frames: list[bytes] = []
    answer = json.dumps(
        {"id": "msg_9", "model": "claude-sonnet-5-5", "usage": {"input_tokens": 3, "output_tokens": 4}}
    ).encode()
    for n in (1, 2):
        frames += [
            framed(
                Departed(n, "anthropic_messages", "/v1/messages", "gzip", gzip.compress(call(n)), None, (), (), 1.0 * n)
            )
        ]
    frames.insert(1, framed(Hurry()))
    frames += [
        framed(Ended(n, 200, "application/json", "", answer.replace(b"9", b"%d" % n), 1.5, 2.0, "")) for n in (1, 2)
    ]
    command = [sys.executable, "-m", "contextkit.proxy.analyzer", str(path), "https://api.anthropic.com"]
    subprocess.run(command, input=b"".join(frames), stdout=subprocess.PIPE, check=True, timeout=120)
    rows = list(Ledger.read(path))
    assert [row.id for row in rows] == ["msg_1", "msg_2"] and all(row.usage and row.usage.output == 4 for row in rows)
    assert all(isinstance(row.prompt, Bodies) and row.prompt.request == call(n) for n, row in enumerate(rows, 1))


# A bomb, and files
# ----------------------------------------------------------------------------------------------------------


@posix
def test_a_bomb_is_recorded_by_size_and_digest_and_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    bomb = gzip.compress(b'{"model":"claude-sonnet-5-5","messages":"' + bytes(400 << 20))
    with provider(answering) as upstream, running(upstream, "--record", path) as (process, url):
        posted(url, call(1))
        status = Path(f"/proc/{analysis_of(process)}/status")
        for _ in range(2):
            posted(url, bomb, **{"Content-Encoding": "X-GZIP"})
        patience = time.monotonic() + 60
        while len(Ledger.read(path)) < 3 and time.monotonic() < patience:
            time.sleep(0.05)
        peak = int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) << 10
    prompts = [json.loads(row.prompt.request) for row in list(Ledger.read(path))[1:] if isinstance(row.prompt, Bodies)]
    assert [prompt["contextkit_undecoded"]["bytes"] for prompt in prompts] == [len(bomb)] * 2
    assert peak < 400 << 20


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_recordings_are_for_their_owner_alone_and_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    made, given = tmp_path / "made.jsonl", tmp_path / "given.jsonl"
    given.touch()
    given.chmod(0o640)
    before = os.umask(0)
    try:
        for path in (made, given):
            with provider(answering) as upstream, running(upstream, "--record", path) as (process, _):
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600 and stat.S_IMODE(given.stat().st_mode) == 0o640
