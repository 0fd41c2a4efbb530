"""`contextkit proxy` in a process of its own: what it records, what it shows, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit.ledger.calls import Bodies
from contextkit.ledger.ledger import Ledger
from contextkit.proxy.repairs.splices import undone
from contextkit.server import LocalServer
from tests.cli.conftest import COMMAND, Run
from tests.server.proxied import Wire, provider
from tests.server.proxied import client as wire_to

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
HEAD = "You are careful. " * 800
KEY = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFy"
IN_TEXT = "AKIAIOSFODNN7EXAMPLE"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends its processes with POSIX signals")


class Proxied:
    """A proxy under way."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def claude(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.url, api_key=KEY, max_retries=0)

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, list[str]]:
        """Exit code and what it had said since it began."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=20)
        return self.process.returncode, out.splitlines()


@contextmanager
def proxied(upstream: str, *more: object) -> Iterator[Proxied]:
    command = [*COMMAND, "proxy", "--upstream", upstream, "--port", "0", *map(str, more)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8")
    assert process.stdout
    line = process.stdout.readline()
    try:
        yield Proxied(process, json.loads(line)["url"] if line.startswith("{") else line.split()[0])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


def asked(turns: int, clock: str = "10:30", **more: Any) -> dict[str, Any]:
    said = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n}, key {IN_TEXT}"} for n in range(2 * turns - 1)]
    system = [{"type": "text", "text": f"{HEAD}It is {clock}.", "cache_control": {"type": "ephemeral"}}]
    return {"model": CLAUDE, "max_tokens": 50, "system": system, "messages": said, **more}


def rows_at(path: Path, n: int) -> Ledger:
    """The ledger, once it has `n` calls."""
    patience = time.monotonic() + 15
    while time.monotonic() < patience:
        if path.exists() and path.stat().st_size and len(found := Ledger.read(path)) >= n:
            return found
        time.sleep(0.05)
    raise AssertionError(f"fewer than {n} rows")


def test_what_a_provider_says_to_a_client_that_asked_and_in_the_middle_of_a_stream_is_recorded_too(
    server: LocalServer, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "runs.jsonl"
    with proxied(server.url, "--record", path) as proxy, proxy.claude() as claude:
        first = claude.messages.create(**asked(1), diagnostics={"previous_message_id": None})
        claude.messages.create(**asked(2, clock="10:31"), diagnostics={"previous_message_id": first.id})
        fault = {"kind": "error_event", "after_parts": 0, "type": "overloaded_error"}
        server.script([{"parts": [{"type": "text", "text": "hi"}], "fault": fault}])
        with pytest.raises(anthropic.APIStatusError), claude.messages.stream(**asked(1)) as stream:
            stream.get_final_message()
        assert [row.error for row in rows_at(path, 3)] == [None, None, "overloaded_error"]
        proxy.end()
    ledger = Ledger.read(path)
    assert [(remark.kind, remark.about, remark.text) for remark in ledger.remarks] == [
        ("verdict", ledger[1].id, "system_changed")
    ]
    assert "= provider: system_changed" in run("lint", str(path)).out


def test_a_web_socket_is_told_at_once_and_summed_up() -> None:
    def answer(wire: Wire) -> None:
        wire.head()
        wire.say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        wire.exactly(3)

    with provider(answer) as upstream, proxied(upstream) as proxy, wire_to(proxy.url) as wire:
        wire.say(b"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert b" 101 " in wire.head() and wire.exactly(5) == b"hello"
        assert proxy.process.stdout
        said = [proxy.process.stdout.readline() for _ in range(2)][-1]  # while the web socket is open
        assert "/v1/realtime" in said and "no call in it is recorded" in said
        wire.say(b"end")
        _, lines = proxy.end()
    assert "not read: 1 web socket, whose calls are in none of these figures" in lines


def test_a_session_is_recorded_judged_and_summed_up(server: LocalServer, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "runs.jsonl"
    with proxied(server.url, "--record", path) as proxy, proxy.claude() as claude:
        claude.messages.create(**asked(1))
        with claude.messages.stream(**asked(2)) as stream:
            stream.get_final_message()
        claude.messages.create(**asked(3, clock="10:31"))
        with pytest.raises(anthropic.NotFoundError):
            claude.messages.create(**asked(1, model=GPT))
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=0) as gpt:
            list(gpt.responses.create(model=GPT, input="hi", stream=True))
            gpt.chat.completions.create(model=GPT, messages=[{"role": "user", "content": "hi"}])
        rows_at(path, 6)
        code, lines = proxy.end()
    broken = [line for line in lines if line.startswith("  ! CKS01 ")]
    assert (
        code == 130
        and len(broken) == 1
        and "system[0] byte " in broken[0]
        and "tokens billed again instead of read" in broken[0]
    )
    assert lines[-2].startswith("6 calls · ") and lines[-1] == "breaks: CKS01 × 1"

    found = list(Ledger.read(path))
    theirs = [row.usage for row in server.ledger if row.usage]
    assert [row.usage for row in found if row.usage] == theirs
    assert [row.error for row in found] == [None, None, None, "not_found_error", None, None]
    assert len({row.session for row in found[:3]}) == 1 and len({row.session for row in found}) == 4
    assert all(row.at <= (row.first_byte_at or row.at) <= (row.ended_at or 0) for row in found)
    raw = path.read_bytes()
    assert KEY.encode() not in raw and IN_TEXT.encode() not in raw and b"AKIA" + b"*" * 16 in raw
    kept = [json.loads(row.prompt.request) for row in found if isinstance(row.prompt, Bodies)]
    assert kept[0] == json.loads(json.dumps(asked(1)).replace(IN_TEXT, "AKIA" + "*" * 16)) and len(kept) == 6
    assert "1 miss" in run("report", path, "--verbose").out


def test_proxy_report_and_lint_agree_on_what_is_no_part_of_the_prompt(
    server: LocalServer, tmp_path: Path, run: Run
) -> None:
    path, turns = tmp_path / "runs.jsonl", ((1, "a"), (2, "a"), (3, "b"), (4, "c"))
    with proxied(server.url, "--record", path, "--json") as proxy:
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=0) as gpt:
            for n, mark in turns:
                said: Any = [{"role": "user", "content": HEAD}, *asked(n)["messages"]]
                gpt.responses.create(model=GPT, input=said, extra_body={"client_metadata": {"turn_id": mark}})
        with proxy.claude() as claude:
            for n, mark in turns:
                fields = asked(n)
                header = f"x-anthropic-billing-header: cc_version=2.1.197.{mark}; cc_entrypoint=cli;"
                claude.messages.create(**{**fields, "system": [{"type": "text", "text": header}, *fields["system"]]})
        rows_at(path, 8)
        _, lines = proxy.end()
    reports = [json.loads(line) for line in lines]
    calls = [report for report in reports if "call" in report]
    assert [(call["cause"], call["findings"]) for call in calls] == [("first_write", []), *[(None, [])] * 3] * 2
    assert [bool(call.usage and call.usage.read) for call in server.ledger] == [False, True, True, True] * 2
    assert [call.usage for call in Ledger.read(path)] == [call.usage for call in server.ledger]
    report = json.loads(run("report", path, "--json").out)
    assert [miss["cause"] for miss in report["misses"] if miss["lost_tokens"]] == []
    assert run("lint", path).code == 0


def test_repairs_are_recorded_before_and_after_a_torn_ledger_is_continued_and_a_foreign_file_left_alone(
    server: LocalServer, tmp_path: Path, run: Run
) -> None:
    path, bodies = tmp_path / "runs.jsonl", list[bytes]()
    path.write_bytes(b'{"contextkit_ledger":1}\n{"id":"torn')
    with proxied(server.url, "--record", path, "--repair", "freeze-date,place-breakpoints", "--json") as proxy:
        with anthropic.Anthropic(base_url=proxy.url, api_key=KEY, max_retries=0) as claude:
            for turns in (1, 2):
                fields = asked(turns, clock=f"10:3{turns}")
                fields["system"] = fields["system"][0]["text"]
                bodies.append(claude.messages.with_raw_response.create(**fields).http_request.content)
        code, lines = proxy.end()
    reports = [json.loads(line) for line in lines]
    assert code == 130 and [report["repairs"] for report in reports[:-1]] == [
        ["place-breakpoints"],
        ["freeze-date", "place-breakpoints"],
    ]
    assert reports[-1]["summary"]["total"]["calls"] == 2 and not reports[-1]["breaks"]
    found = Ledger.read(path)
    second = found[1].usage
    assert second and second.read and second.read > 3000  # the clock moved on, the prefix did not
    stars = [body.replace(IN_TEXT.encode(), b"AKIA" + b"*" * 16) for body in bodies]
    remarks = {remark.about: remark.text for remark in found.remarks if remark.kind == "repair"}
    assert [undone(row.prompt.request, remarks[row.id]) for row in found if isinstance(row.prompt, Bodies)] == stars
    assert Path(f"{path}.torn").read_bytes() == b'{"id":"torn'
    foreign = tmp_path / "notes.txt"
    foreign.write_bytes(b"my notes\nmore")
    ended = run("proxy", "--upstream", server.url, "--record", foreign)
    assert (ended.code, foreign.read_bytes()) == (2, b"my notes\nmore") and "not a ledger" in ended.err


def _fails(claude: anthropic.Anthropic, fields: dict[str, Any]) -> None:
    with pytest.raises(anthropic.APIError):
        claude.messages.create(**fields)


def test_what_had_ended_is_recorded_whatever_kills_the_proxy(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with proxied(server.url, "--record", path, "--quiet") as proxy, proxy.claude() as claude:
        for turns in range(1, 6):
            claude.messages.create(**asked(turns))
        server.script([{"parts": [{"type": "text", "text": "late"}], "wait_seconds": 5}])
        threading.Thread(target=_fails, args=(claude, asked(6)), daemon=True).start()
        time.sleep(0.5)
        proxy.end(signal.SIGKILL)
        found = list(rows_at(path, 6))
    assert [row.error for row in found] == [None] * 5 + ["aborted"]
    with proxied(server.url, "--record", path, "--quiet") as proxy, proxy.claude() as claude:
        claude.messages.create(**asked(1))
        code, lines = proxy.end(signal.SIGTERM)
    assert code == 130 and lines[0].startswith("1 call · ") and len(Ledger.read(path)) == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--upstream", "api.anthropic.com"], "give scheme and host"),
        (["--upstream", "http://x", "--repair", "all"], "choose among"),
    ],
)
def test_what_the_caller_can_mend_is_one_line(options: list[str], said: str, run: Run) -> None:
    ended = run("proxy", *options)
    assert ended.code == 2 and said in ended.err and ended.err.count("\n") == 1


def test_calls_are_exported_as_the_environment_says(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra `otel`")
    for kind in ("TRACES", "METRICS"):
        monkeypatch.setenv(f"OTEL_{kind}_EXPORTER", "console")
    with proxied(server.url, "--otel", "--quiet") as proxy, proxy.claude() as claude:
        claude.messages.create(**asked(1))
        _, lines = proxy.end()
    text = "\n".join(lines)
    assert '"gen_ai.usage.input_tokens"' in text and "gen_ai.client.token.usage" in text
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    assert "choose among console" in run("proxy", "--upstream", server.url, "--port", "0", "--otel").err
