"""The status line: what it says of statuses that Claude Code handed over, and of transcripts what the report says."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from contextkit.cli import statusline
from tests.cli.conftest import Ended, Run

STATUSES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("claude_code_statuses.json").read_text("utf-8")
)
"""Recorded from Claude Code 2.1.332, one from 2.1.197, with other ids and paths."""
LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-logs" / "claude-code"

Line = Callable[..., Ended]


@pytest.fixture
def line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """The command with this on standard input, at this second."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def call(status: object, now: float = 1_795_938_100.0, *args: str) -> Ended:
        content = status if isinstance(status, bytes) else json.dumps(status).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        monkeypatch.setattr("time.time", lambda: now)
        return run("statusline", *args)

    return call


@pytest.mark.parametrize(
    ("name", "seconds_left", "text"),
    [
        ("two calls", 192.5, "cache 49.9 % · warm 3:12 · $0.0992 at risk"),
        ("cold", -10, "cache 49.9 % · cold · $0.0992 more for the next call"),
        ("effort changed", 60, "cache 33.2 % · warm 1:00 · $0.10 at risk · last miss: effort (4 min ago)"),
        ("compacted", 100, "cache 70.6 % · warm 1:40 · last miss: unknown (3 min ago)"),
        ("after the compaction", 250, "cache 72.5 % · warm 4:10 · $0.10 at risk · last miss: unknown (1 min ago)"),
        ("resumed", 300, "cache 99.0 % · warm 5:00 · $0.10 at risk"),
    ],
)
def test_what_the_client_counted_is_said(line: Line, name: str, seconds_left: float, text: str) -> None:
    status = STATUSES[name]
    assert line(status, status["prompt_cache"]["expires_at"] - seconds_left) == Ended(0, f"{text}\n", "")


@pytest.mark.parametrize("name", ["before the first call", "2.1.197"])
def test_without_a_call_there_is_nothing_to_say_yet(line: Line, name: str) -> None:
    assert line(STATUSES[name]) == Ended(0, "cache: no call yet\n", "")


def cache(**changed: object) -> dict[str, Any]:
    status = STATUSES["effort changed"]
    return {**status, "prompt_cache": {**status["prompt_cache"], **changed}}


@pytest.mark.parametrize(
    ("changed", "lacks"),
    [
        ({"hit_ratio": None}, "%"),
        ({"expires_at": None}, "warm"),
        ({"recache_tokens_if_cold": None}, "$"),
        ({"ttl": "2h"}, "$"),
        ({"last_miss_at": None}, "last miss"),
        ({"hit_ratio": True, "recache_tokens_if_cold": "many", "expires_at": [], "last_miss_at": {}}, "·"),
        ({"hit_ratio": float("nan"), "recache_tokens_if_cold": -5}, "$"),
    ],
)
def test_what_is_unknown_is_left_out_and_never_zero(line: Line, changed: dict[str, object], lacks: str) -> None:
    ended = line(cache(**changed))
    assert ended.code == 0 and lacks not in ended.out and "$0.00" not in ended.out and "nan" not in ended.out
    assert ended.out.startswith("cache")


def test_causes_are_named_as_the_judge_names_them(line: Line) -> None:
    from contextkit.facts.load import client
    from contextkit.ledger.changes.settings import Setting
    from contextkit.ledger.verdict import WHOSE

    names = client("claude-code")["miss_causes"]
    for name in names.values():
        cause, _, kind = name.partition(".")
        assert cause in WHOSE and (not kind or kind in get_args(Setting))
    for said, words in (
        ("ttl_expired_1h", "ttl expired"),
        ("tools_changed", "tools changed"),
        ("new_cause", "unknown"),
    ):
        assert f"last miss: {words} (" in line(cache(last_miss_cause={"causes": [said, "unknown"]})).out
    for strange in (None, {}, {"causes": 3}, {"causes": []}, {"causes": [{}]}, "effort_changed"):
        assert "last miss: unknown (" in line(cache(last_miss_cause=strange)).out


@pytest.mark.parametrize(
    "status",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\x00" * 5,
        b"[" * 200_000,
        {},
        {"transcript_path": 5},
        {"transcript_path": "\x00"},
        {"transcript_path": "."},
        {"transcript_path": "nowhere/at/all.jsonl"},
        {"transcript_path": os.devnull},
        {"prompt_cache": 5, "transcript_path": "broken.jsonl"},
        {"prompt_cache": {}, "model": []},
        {"prompt_cache": {"hit_ratio": 10**400}},
    ],
    ids=lambda status: str(status)[:30],
)
def test_it_never_fails(line: Line, status: object, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_bytes(b'{"type":"assistant"\n\xff\n{}\n[]\n')
    ended = line(status)
    assert ended.code == 0 and ended.err == "" and ended.out.startswith("cache:") and ended.out.count("\n") == 1


def test_neither_broken_prices_of_the_user_nor_a_cache_folder_that_is_none_end_it(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_bytes(b"no folder")
    assert "at risk" in line(STATUSES["two calls"]).out
    monkeypatch.setenv("CONTEXTKIT_MODELS", "broken.toml")
    (tmp_path / "broken.toml").write_bytes(b"a = b = c")
    assert line(STATUSES["two calls"]).out.startswith("cache 49.9 % · warm ")


def test_prices_are_kept_and_those_of_the_user_come_first(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = line(STATUSES["two calls"])
    kept = tmp_path / "cache" / "contextkit" / "statusline.json"
    content = kept.read_bytes()
    assert line(STATUSES["two calls"]) == first and kept.read_bytes() == content and b"session" not in content
    with monkeypatch.context() as patched:
        patched.setattr(statusline, "_tiers", lambda *given: pytest.fail("the price list was read again"))
        assert line(STATUSES["two calls"]) == first
    for broken in (b"", b"[]", b'{"of": 1}', content.replace(b"[-1", b'["x"')):
        kept.write_bytes(broken)
        assert line(STATUSES["two calls"]) == first
    row = '[[prices]]\nprovider = "*"\nmodel = "claude-opus-5-5"\ninput = 10\noutput = 10\ncache_read = 10\ncache_write = 210\n'
    (tmp_path / "own.toml").write_text(row, "utf-8")
    monkeypatch.setenv("CONTEXTKIT_MODELS", str(tmp_path / "own.toml"))
    assert "$4.13 at risk" in line(STATUSES["two calls"]).out


def test_a_model_without_a_price_has_no_dollars(line: Line) -> None:
    status = {**STATUSES["two calls"], "model": {"id": "claude-nobody-lists-9[1m]"}}
    assert line(status).out.startswith("cache 49.9 % · warm ") and "$" not in line(status).out


@pytest.mark.skipif(not LOGS.is_dir(), reason="the recorded transcripts are not here")
@pytest.mark.parametrize("n", range(0, 60, 6))
def test_of_a_transcript_it_says_what_the_report_says(line: Line, run: Run, tmp_path: Path, n: int) -> None:
    logs = sorted(LOGS.glob("*.jsonl.gz"))
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_bytes(gzip.decompress(logs[n % len(logs)].read_bytes()))
    report = json.loads(run("report", transcript, "--json").out)
    said = line({"transcript_path": str(transcript)}).out
    rate = report["total"]["hit_rate"]
    assert said.startswith(f"cache {rate:.1%}".replace("%", " %") if rate is not None else "cache")
    losses = sorted(
        (miss for miss in report["misses"] if miss["is_loss"]), key=lambda miss: (miss["at"], miss["index"])
    )
    if not losses:
        assert "last miss" not in said
        return
    assert f"(call {losses[-1]['index'] + 1:,})" in said
    cause = losses[-1]["cause"].replace("_", " ")
    assert f"last miss: {cause} (" in said or losses[-1]["cause"] == "params_changed"
