"""`contextkit replay`: the beginning of a real session through the real clients, and a small one for everything else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contextkit.cli.replay import MODELS, replayed
from tests.cli.conftest import COMMAND, Run, Start

COUNTERS = ("fresh", "read", "write_5m", "write_1h", "output")
FIRST = 150
"""Lines of the session that are said by default: 68 calls."""


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses"])
def test_the_beginning_of_a_real_session_is_billed_as_without_the_real_client(
    start: Start, provider: str, shared: Path, tmp_path: Path
) -> None:
    """Whole sessions are in tests.analysis/test_naive_oracle.py."""
    path = tmp_path / "beginning.jsonl"
    lines = (shared / "data" / "pi" / "before-compaction.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:FIRST]))
    command = [*COMMAND, "replay", str(path), "--provider", provider, "--json"]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, ledger = replayed(path, provider, MODELS[provider], "direct")  # meanwhile, without HTTP
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    figures = json.loads(out)
    assert list(figures) == ["calls", "hit_rate", "cost_usd", "cost_usd_uncached", "misses", "per_call"]
    assert figures["per_call"] == [{name: getattr(exchange.usage, name) for name in COUNTERS} for exchange in ledger]
    check_the_totals(figures)


def check_the_totals(figures: dict[str, Any]) -> None:
    bills = figures["per_call"]
    prompts = sum(bill[name] for bill in bills for name in COUNTERS[:-1])
    assert figures["calls"] == len(bills) == 68
    assert figures["hit_rate"] == pytest.approx(sum(bill["read"] for bill in bills) / prompts)
    assert 0.8 < figures["hit_rate"] < 1
    assert 0 < figures["cost_usd"] < figures["cost_usd_uncached"] / 3
    assert {"index", "cause", "lost_tokens", "where"} <= figures["misses"][0].keys()


@pytest.mark.parametrize("via", ["sdk", "direct"])
@pytest.mark.parametrize("provider", MODELS)
def test_a_small_session(provider: str, via: str, session: Path, run: Run) -> None:
    ended = run("replay", session, "--provider", provider, "--via", via, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["calls"] == 6


def test_without_json_it_is_a_report(session: Path, run: Run) -> None:
    ended = run("replay", session, "--via", "direct")
    assert (ended.code, ended.err) == (0, "")  # progress is for terminals
    assert "replayed on claude-opus-4-5 via direct" in ended.out
    assert "of input read from cache" in ended.out


def test_an_image_that_was_taken_out_of_the_recording_is_replayed_as_words(session: Path, run: Run) -> None:
    image = '{"type": "image", "mimeType": "image/png", "data": "[taken out]"}'
    text = session.read_text("utf-8").replace('{"type": "text", "text": "What stands in 0.txt"}', image)
    assert image in text
    session.write_text(text, "utf-8")
    ended = run("replay", session, "--via", "direct", "--json")
    assert (ended.code, ended.err, json.loads(ended.out)["calls"]) == (0, "", 6)


def test_three_totals_of_one_session_say_what_each_is_of(session: Path, run: Run) -> None:
    said = {
        ("report", session): "counted: what the provider billed, as recorded; dollars at list prices",
        ("report", session, "--markdown"): "Counted: what the provider billed, as recorded; dollars at list prices",
        (
            "replay",
            session,
            "--via",
            "direct",
        ): "counted: the reference cache's bills for prompts rebuilt from the recording",
        (
            "replay",
            session,
            "--via",
            "direct",
            "--offload",
        ): "counted: the reference cache's bills for prompts rebuilt from the recording",
        (
            "simulate",
            session,
            "--cache",
            "anthropic",
        ): "counted: bills of these caches for the trace's prompts, not the recorded ones",
    }
    for args, line in said.items():
        ended = run(*args)
        assert ended.code == 0 and line in ended.out.splitlines()
    report, replay, simulation = (json.loads(run(*args, "--json").out) for args in list(said)[0::2])
    assert report["total"]["cost_usd"] > replay["cost_usd"] > simulation["cost_usd"] > 0


def test_a_model_of_another_provider_is_refused(session: Path, run: Run) -> None:
    ended = run("replay", session, "--provider", "openai-chat", "--model", "claude-opus-4-5")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "contextkit: --provider openai-chat has no claude-opus-4-5: it is a model of anthropic; leave --model out for gpt-5.6-sol\n"
    )


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-haiku-4-5", "claude-fable-5-1"])
def test_other_models_of_the_provider_can_be_asked(model: str, session: Path, run: Run) -> None:
    ended = run("replay", session, "--model", model, "--via", "direct", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["cost_usd"] > 0


@pytest.mark.parametrize("provider", MODELS)
def test_large_results_in_files_halve_the_window_and_come_back(
    provider: str, shared: Path, tmp_path: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    """The whole session with --full, its beginning otherwise."""
    is_full = request.config.getoption("--full")
    path = tmp_path / "session.jsonl"
    lines = (shared / "data" / "pi" / "before-compaction.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines if is_full else lines[:FIRST]))
    ended = run(
        "replay", path, "--provider", provider, "--via", "direct", "--offload", "--memory", tmp_path / "kept", "--json"
    )
    assert (ended.code, ended.err) == (0, "")
    figures = json.loads(ended.out)
    plain, offloaded = figures["plain"], figures["offloaded"]
    assert figures["n_restored"] == figures["n_results"] >= (449 if is_full else 60)
    assert figures["n_offloaded"] > figures["n_results"] / 4
    assert plain["calls"] == offloaded["calls"]
    assert offloaded["window_tokens"] <= plain["window_tokens"] / 2
    assert offloaded["cost_usd"] < 0.75 * plain["cost_usd"]
    assert offloaded["n_misses"] <= plain["n_misses"]
    assert len(list((tmp_path / "kept" / ".contextkit" / "objects").rglob("*"))) >= figures["n_offloaded"] / 2


def test_offloading_without_json_is_a_table(session: Path, run: Run) -> None:
    ended = run("replay", session, "--via", "direct", "--offload", "--above-tokens", "4")
    assert (ended.code, ended.err) == (0, "")
    assert "as recorded, and with results above 4 tokens kept in files" in ended.out
    assert "restored byte for byte" in ended.out and "window, all calls" in ended.out


@pytest.mark.parametrize("options", [("--above-tokens", "9"), ("--memory", "kept")])
def test_what_only_offloading_takes_is_refused_without_it(options: tuple[str, str], session: Path, run: Run) -> None:
    ended = run("replay", session, *options)
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err == "contextkit: --above-tokens and --memory say how results are offloaded: give --offload as well\n"
    )
