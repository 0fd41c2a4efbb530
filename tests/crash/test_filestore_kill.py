"""A process killed at any moment of a write leaves no half file, loses nothing it was told is safe, and dangles no
reference."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from contextkit.errors import FileErased
from contextkit.memory.filestore import FileMemory

WRITER = Path(__file__).with_name("filestore_writer.py")
State = dict[str, str]


def killed_writer(root: Path, seed: int) -> list[list[str]]:
    """What a writer said before it was killed, whole lines only."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(root), str(seed)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        first = writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.15))
        writer.kill()
        lines = [first, *writer.stdout]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def after(state: State, act: list[str], forgotten: set[str]) -> State:
    """Path → digest, when one act is done."""
    kind, *fields = act
    if kind == "write":
        return {**state, fields[0]: fields[1]}
    if kind == "forget":
        forgotten.add(fields[0])
        return state
    left = {path: digest for path, digest in state.items() if path != fields[0]}
    return {**left, fields[1]: state[fields[0]]} if kind == "rename" else left


def test_kill_9_in_a_file_store_loses_nothing_that_was_acknowledged(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    n_kills = 200 if request.config.getoption("--full") else 3
    counted: Counter[str] = Counter()
    state: State = {}
    kept: set[str] = set()
    forgotten: set[str] = set()
    for seed in range(n_kills):
        root = tmp_path / str(seed // 10)  # ten kills to a store: recovery must not harm the next one either
        if not root.exists():
            state, kept, forgotten = {}, set(), set()
        open_act: list[str] | None = None
        for word, *fields in killed_writer(root, seed):
            if word == "begin":
                open_act = fields
                continue
            assert open_act is not None
            state, counted["acknowledged"] = after(state, open_act, forgotten), counted["acknowledged"] + 1
            kept.update(state.values())
            open_act = None
        litter = len(list((root / ".contextkit/unfinished").iterdir()))
        memory = FileMemory(root)
        found = {row.path: hashlib.sha256(memory.read_bytes(row.path)).hexdigest() for row in memory.list()}
        unsure: set[str] = set()
        allowed = [state] if open_act is None else [state, after(state, open_act, unsure)]
        assert found in allowed, "a write was lost, or is there by half"
        counted.update(
            {"cut short": open_act is not None, "done unacknowledged": found != state, "left unfinished": litter}
        )
        for digest in kept - forgotten - unsure:
            assert hashlib.sha256(memory.version(digest)).hexdigest() == digest, "an old version is lost"
        for path in (path for path in found if path.startswith("refs/")):
            assert memory.version(json.loads(memory.read(path))["digest"]), "a reference dangles"
        for digest in forgotten:
            with pytest.raises(FileErased):
                memory.version(digest)
        state = found
        kept.update(found.values())
        memory.write("probe", "x")  # the next writer clears what the last one left, and counts right
        memory.delete("probe")
        assert list((root / ".contextkit/unfinished").iterdir()) == []
    print(f"{n_kills} kills: {dict(counted)}; no half file, no lost write, no dangling reference")
    assert counted["acknowledged"] > n_kills
