"""LMCache's agent traces: the public ones, and a small one made here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from contextkit.cli.main import cli
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.prompts import prompts_of

FIXTURE = Path(__file__).parent / "fixtures" / "agent_traces" / "greenhouse.jsonl"
PUBLIC = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "agent-traces"
needs_public = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public agent traces are not beside the repository")


def read(path: Path) -> tuple[list[ModelCall], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "agent trace"
    return [one for one in records if isinstance(one, ModelCall)], faults


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return sorted(map(json.loads, file), key=lambda row: row["timestamp"])


def test_what_is_expected_to_be_read_is_what_the_prompt_before_holds() -> None:
    calls, _ = read(FIXTURE)
    sizes = [prompt.n_tokens for _, prompt in prompts_of(calls) if prompt]
    assert [call.predicted.read for call in calls if call.predicted] == [0, *sizes[:-1]]


@needs_public
@pytest.mark.parametrize("path", sorted(PUBLIC.rglob("*.gz")), ids=lambda path: f"{path.parent.name}-{path.name[:4]}")
def test_a_public_trace_equals_an_independent_count(path: Path) -> None:
    said, (calls, _) = rows(path), read(path)
    assert len(calls) == len(said)
    before = b""
    for row, call in zip(said, calls, strict=True):
        said_now = row["input"].encode()
        assert call.predicted and call.predicted.prompt == -(-len(said_now) // 4)
        least = min(len(before), len(said_now))
        shared = next((at for at in range(least) if before[at] != said_now[at]), least)
        exact = -(-shared // 4)
        longest = max(map(len, said_now.split(b"\n\n"))) // 4 + 2
        assert exact - longest <= (call.predicted.read or 0) <= exact
        if said_now.startswith(before):
            assert call.predicted.read == exact
        before = said_now


@needs_public
def test_a_hosted_cache_can_be_asked_what_it_would_have_read() -> None:
    path = str(min((PUBLIC / "miniswe").glob("*.gz")))
    ran = CliRunner().invoke(cli, ["simulate", path, "--cache", "openai", "--model", "gpt-4o", "--json"])
    assert ran.exit_code == 0, ran.output
    outcome = json.loads(ran.stdout)
    calls, _ = read(Path(path))
    endless = sum(call.predicted.read or 0 for call in calls if call.predicted)
    assert outcome["requests"] == len(calls) == 30
    assert 0.95 * endless < outcome["hit_tokens"] <= endless  # whole steps of 128 tokens
