"""`lint --requests` prints every miss that `report` lists, as it lists it: cause, place, evidence, tokens, dollars."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from contextkit.ledger.figures import Dollars
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import analyzed_calls
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.detect import find_in_requests
from contextkit.lint.requests.findings import all_codes
from tests.cli.conftest import Run
from tests.judge.recordings import billed, recording, unlucky
from tests.scale import n_examples


def test_each_miss_of_the_report_is_told_with_its_tokens_dollars_and_cause() -> None:
    n_misses = n_later = 0
    for seed in range(n_examples(100, 400)):
        calls = billed(recording(seed))
        calls = unlucky(calls, seed) if seed % 2 else calls
        found = defaultdict[str, list[Finding]](list)
        for finding in find_in_requests(calls, hazards()):
            if finding.cost_tokens is not None and isinstance(finding.place, RequestPlace):
                found[finding.place.request].append(finding)
        for one in analyzed_calls(calls):
            miss, verdict, told = one.miss, one.verdict, found[one.call.id]
            if miss is None or verdict is None or not miss.is_loss:
                assert verdict is None or verdict.read is None or not verdict.is_miss, (seed, one.index)
                continue
            n_misses += 1
            n_later += miss.where.startswith("a later call read")
            assert sum(finding.cost_tokens or 0 for finding in told) == miss.lost_tokens, (seed, one.index)
            if miss.cost_usd is not None:
                assert sum(finding.cost_usd or 0.0 for finding in told) == pytest.approx(miss.cost_usd), (
                    seed,
                    one.index,
                )
            main = verdict.main
            assert main is not None
            largest = max(told, key=lambda finding: finding.cost_tokens or 0)
            assert largest.code == all_codes().of_gap(main, one.call), (seed, one.index)
            assert largest.message == (main.evidence or main.cause.replace("_", " ")), (seed, one.index)
    assert n_misses > n_examples(100, 400)
    assert n_later


# What the commands print
# ----------------------------------------------------------------------------------------------------------------------

LOGS = (
    "cases/*/calls.jsonl",
    "pi/*.jsonl",
    "agent-logs/2026-11-27/*/*",
    "agent-logs/codex/*",
    "agent-logs/copilot-cli/*",
    "agent-logs/gemini-cli/*",
    "agent-logs/claude-code/*",
)
"""Recordings that nobody here made, with bills, by what their programs wrote."""


def test_both_commands_print_the_same_of_real_recordings(shared: Path, run: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    causes = Counter[str]()
    for pattern in LOGS:
        paths = sorted((shared / "data").glob(pattern))
        if not paths:
            pytest.skip(f"data/{pattern} is not in the shared data")
        for path in paths[:: n_examples(4, 1) if len(paths) > 10 else 1]:
            causes += in_both(path, run)
    assert {"system_changed", "tools_changed", "params_changed", "ttl_expired", "unknown"} <= {*causes}


def test_both_commands_print_the_same_of_random_recordings(tmp_path: Path, run: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    causes = Counter[str]()
    for seed in range(n_examples(15, 100)):
        calls = billed(recording(seed))
        path = tmp_path / f"{seed}.jsonl"
        with Ledger(path) as ledger:
            for call in unlucky(calls, seed) if seed % 2 else calls:
                ledger.append(call)
        causes += in_both(path, run)
    assert len(causes) > 5


def in_both(path: Path, run: Run) -> Counter[str]:
    """Compare what both commands print of a recording, as JSON and as text; return the causes of its misses."""
    report, lint = (json.loads(run(name, path, "--json").out) for name in ("report", "lint"))
    of_call = defaultdict[str, list[Any]](list)
    for finding in lint["findings"]:
        if finding["cost_tokens"]:
            of_call[finding["place"]["request"]].append(finding)
    lost = defaultdict[str, list[Any]](list)
    for miss in report["misses"]:
        if not miss["is_loss"]:
            continue
        found, where = of_call[miss["exchange_id"]], (path.name, miss["index"])
        largest = max(found, key=lambda finding: finding["cost_tokens"])
        lost[largest["cause"]] += found
        assert (largest["cause"], bool(largest["advice"])) == (miss["cause"], miss["action"] is not None), where
        assert sum(finding["cost_tokens"] for finding in found) == miss["lost_tokens"], where
        assert not any(finding["is_estimated"] for finding in found), where
        if miss["cost_usd"] is not None:
            assert sum(finding["cost_usd"] for finding in found) == pytest.approx(miss["cost_usd"]), where
        assert miss["where"] in (largest["message"], f"{_at(largest['place'])}: {largest['message']}"), where
    assert table_of_causes(run("report", path, "--misses").out) == {
        cause: (f"{sum(finding['cost_tokens'] for finding in found):,}", _dollars(found))
        for cause, found in lost.items()
    }
    printed = re.findall(r"^  = lost: (?:about )?([\d,]+) tokens, (\S+)", run("lint", path).out, re.MULTILINE)
    assert sum(_number(tokens) for tokens, _ in printed) == sum(
        finding["cost_tokens"] or 0 for finding in lint["findings"]
    )
    assert sum(_number(usd[1:]) for _, usd in printed if usd[0] == "$") == pytest.approx(
        sum(finding["cost_usd"] or 0.0 for finding in lint["findings"]), abs=0.005 * len(printed)
    )
    return Counter({cause: len(found) for cause, found in lost.items()})


def _at(place: Any) -> str:
    return place["path"] + (f" byte {place['offset']:,}" if place["offset"] or (place["was"] and place["now"]) else "")


def _dollars(found: Any) -> str:
    known = [finding["cost_usd"] for finding in found if finding["cost_usd"] is not None]
    return str(Dollars(sum(known) if known else None, len(known) < len(found)))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def table_of_causes(text: str) -> dict[str, tuple[str, str]]:
    """Cause → lost tokens and what they cost, as `report --misses` prints them."""
    row = re.compile(r"^(\w+) +[\d,]+ +([\d,]+) +((?:≥ )?\$[\d,.]+|unknown)", re.MULTILINE)
    return {cause: (tokens, usd) for cause, tokens, usd in row.findall(text)}
