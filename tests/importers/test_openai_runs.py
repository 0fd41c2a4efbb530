"""Runs in OpenAI's message format: tau-bench's public results, and small ones made here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, ModelCall

FIXTURE = Path(__file__).parent / "fixtures" / "openai_runs" / "runs.json"
PUBLIC = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tau-bench" / "gpt-4o-airline.json.gz"


def read(path: Path) -> tuple[list[ModelCall], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "OpenAI-format runs"
    return [one for one in records if isinstance(one, ModelCall)], faults


def sent(call: ModelCall) -> list[dict[str, object]]:
    assert isinstance(call.prompt, Bodies)
    return list(json.loads(call.prompt.request)["messages"])


def test_a_call_was_sent_what_stands_before_its_answer() -> None:
    runs, (calls, faults) = json.loads(FIXTURE.read_text("utf-8")), read(FIXTURE)
    assert [sent(call) for call in calls] == [runs[0]["traj"][:2], runs[0]["traj"][:4], runs[1]["traj"][:2]]
    assert all(call.usage is None for call in calls)
    assert [fault.what for fault in faults.kept] == ["2 of its runs say no time; their calls are put a second apart"]


@pytest.mark.skipif(not PUBLIC.is_file(), reason="tau-bench's results are not beside the repository")
def test_public_results_equal_an_independent_count() -> None:
    with gzip.open(PUBLIC, "rt", encoding="utf-8") as file:
        runs = json.load(file)
    calls, _ = read(PUBLIC)
    assert len({call.session for call in calls}) == len(runs) == 200
    assert sum(len(run["traj"]) for run in runs) == 5_308
    answers = [
        (run["traj"], index)
        for run in runs
        for index, message in enumerate(run["traj"])
        if message["role"] == "assistant"
    ]
    assert len(calls) == len(answers) == 2_454
    for call, (messages, index) in zip(calls, answers, strict=True):
        assert sent(call) == messages[:index]


def test_lines_of_conversations(tmp_path: Path) -> None:
    hello, hi, yes = ({"role": role, "content": "x"} for role in ("assistant", "user", "assistant"))
    run = {"messages": [hello, hi, yes]}
    dated = {"messages": [{**hi, "timestamp": 1775696615}, {**yes, "timestamp": 1775696617}]}
    path = tmp_path / "a.jsonl"
    path.write_text(
        "\n".join(map(json.dumps, (run, run, {**dated, "model": "gpt-5.2"}, {"messages": 3}))) + '\n{"messages": [',
        "utf-8",
    )
    calls, faults = read(path)
    assert [len(sent(call)) for call in calls] == [2, 1]  # a greeting is no call, and a run is counted once
    assert (calls[1].at, calls[1].model, calls[1].provider) == (1775696617.0, "gpt-5.2", "openai")
    assert {fault.line for fault in faults.kept} == {0, 4, 5}


def test_a_file_that_was_cut_gives_the_runs_before_the_cut(tmp_path: Path) -> None:
    text = FIXTURE.read_text("utf-8")
    path = tmp_path / "a.json"
    path.write_text(text[: text.index('"task_id": 1') + 60], "utf-8")
    calls, faults = read(path)
    assert len(calls) == 2 and any("cut" in fault.what for fault in faults.kept)
