"""A process killed at any moment loses nothing it was told is safe, and at most the one entry it was not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from contextkit.log.log import Log

WRITER = Path(__file__).with_name("writer.py")


def killed_writer(path: Path, seed: int) -> list[tuple[int, str]]:
    """The (sequence, digest) a writer acknowledged before it was killed."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(path), str(seed)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        first = writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.06))
        writer.kill()
        lines = [first, *writer.stdout]
    rows = [line.split() for line in lines if line.endswith("\n")]
    return [(int(sequence), digest) for sequence, digest in rows]


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    n_kills = 200 if request.config.getoption("--full") else 3
    start, n_entries, n_torn, n_unacknowledged = 0, 0, 0, 0
    for seed in range(n_kills):
        path = tmp_path / f"{seed // 10}.jsonl"  # ten kills to a log: recovery must not harm the next one either
        start = start if path.exists() else 0
        acknowledged = killed_writer(path, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log = Log.open(path)
        with log:
            assert [sequence for sequence, _ in acknowledged] == list(range(start, start + len(acknowledged)))
            assert all(log[sequence].digest.hex() == digest for sequence, digest in acknowledged)
            assert len(log) - start - len(acknowledged) in (0, 1)
            n_unacknowledged += len(log) - start - len(acknowledged)
            n_entries, n_torn, start = n_entries + len(acknowledged), n_torn + len(caught), len(log)
    kept = f"0 lost, {n_unacknowledged} kept unacknowledged, {n_torn} torn lines set aside"
    print(f"{n_kills} kills, {n_entries} entries acknowledged, {kept}")
