"""Totals of real transcripts: equal to a count of their lines that knows nothing of ours, and to `ccusage`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise

Totals = dict[tuple[str, str], tuple[int, ...]]
"""(day, model) → calls, tokens fresh, read, written, generated."""


def ours(paths: list[str]) -> Totals:
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for record in records_in(paths, Faults()):
        if not isinstance(record, ModelCall) or record.usage is None:
            continue
        usage, row = record.usage, found[_day(record.at), record.model]
        counts = (1, usage.fresh or 0, usage.read or 0, usage.written or 0, usage.output or 0)
        row[:] = [total + count for total, count in zip(row, counts, strict=True)]
    return {key: tuple(row) for key, row in found.items()}


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _replies(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if record.get("type") == "progress" and record["data"].get("type") == "agent_progress":
            record = record["data"]["message"]
        if record.get("type") == "assistant" and record["message"].get("model") != "<synthetic>":
            yield record


def claude_code(path: Path) -> dict[str, tuple[int, ...]]:
    """Model → its counters: every line parsed, of each (message, request) the line with most output."""
    best: dict[tuple[str, str | None], tuple[str, tuple[int, ...]]] = {}
    for record in _replies(path):
        message = record["message"]
        usage = message["usage"]
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        counts = tuple(usage.get(name) or 0 for name in names)
        key = message["id"], record.get("requestId")
        if key not in best or counts[3] > best[key][1][3]:
            best[key] = message["model"], counts
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for model, counts in best.values():
        sums[model] = [total + count for total, count in zip(sums[model], (1, *counts), strict=True)]
    return {model: tuple(row) for model, row in sums.items()}


def codex(path: Path) -> tuple[int, ...]:
    """Fresh, read and generated tokens by the last, cumulative totals of a rollout."""
    last: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        payload = json.loads(line).get("payload") or {}
        if payload.get("type") == "token_count" and payload.get("info"):
            last = payload["info"]["total_token_usage"]
    return last["input_tokens"] - last["cached_input_tokens"], last["cached_input_tokens"], last["output_tokens"]


def by_model(totals: Totals) -> dict[str, tuple[int, ...]]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for (_, model), row in totals.items():
        sums[model] = [total + count for total, count in zip(sums[model], row, strict=True)]
    return {model: tuple(row) for model, row in sums.items()}


@pytest.fixture
def logs(shared: Path, tmp_path: Path) -> Path:
    """The given logs, unpacked as the programs that wrote them lay them out."""
    folder = tmp_path / "logs"
    for agent, place in (("claude-code", "claude/projects/p"), ("codex", "codex/sessions/2026/07/01")):
        (folder / place).mkdir(parents=True)
        for packed in (shared / "data" / "agent-logs" / agent).glob("*.jsonl.gz"):
            name = packed.stem if agent == "claude-code" else f"rollout-{packed.stem}"
            (folder / place / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


def test_each_transcript_of_claude_code_is_counted_whole(logs: Path) -> None:
    paths = sorted((logs / "claude" / "projects" / "p").iterdir())
    assert paths
    assert {path.name: by_model(ours([str(path)])) for path in paths} == {
        path.name: claude_code(path) for path in paths
    }


def placeholders(path: Path) -> tuple[int, int]:
    """Replies whose line with most output says no `stop_reason`, and their output."""
    best: dict[tuple[str, str | None], tuple[int, bool]] = {}
    for record in _replies(path):
        message = record["message"]
        key, output = (message["id"], record.get("requestId")), message["usage"].get("output_tokens") or 0
        if key not in best or output >= best[key][0]:
            best[key] = output, message.get("stop_reason", "") is None
    return sum(is_open for _, is_open in best.values()), sum(output for output, is_open in best.values() if is_open)


def test_placeholder_outputs_of_claude_code_are_counted_and_stay_in_the_totals(logs: Path) -> None:
    paths = sorted((logs / "claude" / "projects" / "p").iterdir())
    rows = {path.name: summarise(records_in([str(path)], Faults())).total for path in paths}
    assert {name: (row.placeholders.calls, row.placeholders.tokens) for name, row in rows.items()} == {
        path.name: placeholders(path) for path in paths
    }
    assert sum(row.placeholders.calls for row in rows.values()) > 4_000
    for row in rows.values():
        estimate = row.placeholders
        assert estimate.calls_estimated == estimate.calls
        assert estimate.tokens_estimated >= estimate.tokens
        assert (estimate.hidden_usd is not None) == bool(estimate.calls)


def test_each_rollout_of_codex_adds_up_to_its_own_totals(logs: Path) -> None:
    for path in sorted((logs / "codex").rglob("*.jsonl")):
        rows = ours([str(path)]).values()
        assert tuple(sum(row[place] for row in rows) for place in (1, 2, 4)) == codex(path), path.name


def test_ccusage_counts_the_same(logs: Path, tmp_path: Path) -> None:
    """Every transcript by itself and all together, by day and model; `npm install ccusage` brings the command."""
    ccusage = shutil.which("ccusage")
    if ccusage is None:
        pytest.skip("ccusage is not installed")
    folder = logs / "claude" / "projects" / "p"
    apart = tmp_path / "projects" / "p"
    apart.mkdir(parents=True)
    for path in [*sorted(folder.iterdir()), folder]:
        home = logs / "claude" if path == folder else tmp_path
        if path != folder:
            shutil.copy(path, apart / path.name)
        said = subprocess.run(
            [ccusage, "claude", "daily", "--offline", "--json", "--timezone", "UTC"],
            env={**os.environ, "CLAUDE_CONFIG_DIR": str(home)},
            capture_output=True,
            check=True,
        )
        counted = {
            (day["date"], row["modelName"]): (
                row["inputTokens"],
                row["cacheReadTokens"],
                row["cacheCreationTokens"],
                row["outputTokens"],
            )
            for day in json.loads(said.stdout)["daily"]
            for row in day["modelBreakdowns"]
        }
        assert {key: row[1:] for key, row in ours([str(path)]).items()} == counted, path.name
        if path != folder:
            (apart / path.name).unlink()


LAID_OUT = {
    "copilot": ("agent-logs/copilot-cli", ".copilot/session-state/{name}/events.jsonl"),
    "gemini": ("agent-logs/gemini-cli", ".gemini/tmp/p/chats/session-{name}.json"),
    "pi": ("pi", ".pi/agent/sessions/p/{name}.jsonl"),
}
"""Agent in the words of ccusage → its real logs, and where the agent would have them under its home."""


@pytest.mark.parametrize("agent", LAID_OUT)
def test_ccusage_counts_the_same_of_other_agents(agent: str, shared: Path, tmp_path: Path) -> None:
    """By model, what was sent; and all tokens together, as ccusage shows thoughts in its total alone.

    It leaves out calls whose input nobody says, and so does this comparison.
    """
    ccusage = shutil.which("ccusage")
    if ccusage is None:
        pytest.skip("ccusage is not installed")
    folder, place = LAID_OUT[agent]
    given = [path for path in sorted((shared / "data" / folder).iterdir()) if ".json" in path.name]
    paths = []
    for path in given:
        data = path.read_bytes()
        paths.append(tmp_path / place.format(name=path.name.split(".")[0]))
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(gzip.decompress(data) if path.suffix == ".gz" else data)
    said = subprocess.run(
        [ccusage, agent, "daily", "--offline", "--json"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    report = json.loads(said.stdout)
    counted: dict[str, list[int]] = defaultdict(lambda: [0] * 3)
    for row in (row for day in report["daily"] for row in day["modelBreakdowns"]):
        model, names = (
            row["modelName"].removeprefix(f"[{agent}] "),
            ("inputTokens", "cacheReadTokens", "cacheCreationTokens"),
        )
        counted[model] = [total + row[name] for total, name in zip(counted[model], names, strict=True)]
    found: dict[str, list[int]] = defaultdict(lambda: [0] * 3)
    total = 0
    for record in records_in([str(path) for path in paths], Faults()):
        usage = record.usage if isinstance(record, ModelCall) else None
        if isinstance(record, ModelCall) and usage is not None and usage.prompt is not None:
            counts = (usage.fresh or 0, usage.read or 0, usage.written or 0)
            found[record.model] = [one + other for one, other in zip(found[record.model], counts, strict=True)]
            total += sum(counts) + (usage.output or 0)
    assert total == report["totals"]["totalTokens"] > 0
    assert {key: row for key, row in counted.items() if any(row)} == dict(found)
