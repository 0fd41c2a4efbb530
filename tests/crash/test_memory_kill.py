"""A conversation killed at any moment of offloading dangles no reference: a content is durable before the entry that
names it."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest

from contextkit.canonical import parse
from contextkit.memory.offload import bytes_of
from contextkit.memory.reference import references_of
from tests.crash.memory_writer import opened, page

WRITER = Path(__file__).with_name("memory_writer.py")


def killed_writer(folder: Path, seed: int) -> list[tuple[int, int]]:
    """The (sequence, number of the call) of every result a writer said was safe before it was killed."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(seed)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        first = writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.25))
        writer.kill()
        lines = [first, *writer.stdout]
    assert writer.returncode in (-9, 1), "the writer ended by itself"  # 1: what Windows says of a killed process
    rows = [line.split() for line in lines if line.endswith("\n")]
    return [(int(sequence), int(number)) for _, sequence, number in rows]


def test_kill_9_while_results_go_to_files_dangles_no_reference(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    n_kills = 200 if request.config.getoption("--full") else 3
    counted: Counter[str] = Counter()
    for seed in range(n_kills):
        folder = tmp_path / str(seed // 10)  # ten kills to a conversation: recovery must not harm the next one either
        acknowledged = killed_writer(folder, seed)
        assert acknowledged, "the writer failed"
        litter = len(list((folder / "memory/.contextkit/unfinished").iterdir()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            context = opened(str(folder))
        with context:
            memory = context.memory
            assert memory is not None and memory.todo is not None
            for sequence, number in acknowledged:
                assert context.restore(sequence) == [{"type": "text", "text": page(number)}], "a result is lost"
            for entry in context.log:
                for reference in references_of(entry):
                    assert hashlib.sha256(bytes_of(reference, memory.files)).hexdigest() == reference.digest
                    counted["references"] += 1
                if entry.kind == "result":
                    number = int(parse(entry.body)["call_id"].removeprefix("call-"))
                    assert context.restore(entry) == [{"type": "text", "text": page(number)}]
                    counted["results"] += 1
            assert all(item.text.startswith("step ") for item in memory.todo.items)
            assert context.calls or context.request().body
        counted.update({"torn lines": len(caught), "left unfinished": litter, "acknowledged": len(acknowledged)})
    print(f"{n_kills} kills: {dict(counted)}; every reference restores, every acknowledged result is there")
    assert counted["references"] > n_kills
