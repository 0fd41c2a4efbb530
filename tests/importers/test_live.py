"""Files that are followed: read on from where they were read to, whatever is done to them, to the figures of reading
them whole."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from contextkit.canonical import canonical
from contextkit.importers.live import LiveFiles
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.report.json import summary_json
from tests.importers.test_codex import count, use
from tests.report.made_up import one_session

FIXTURES = Path(__file__).parent / "fixtures"
FOLLOWED = [
    path
    for name in ("claude_code", "codex", "raw_pairs", "otel")
    for path in sorted((FIXTURES / name).rglob("*.jsonl"))
]
READ_WHOLE = (
    FIXTURES / "har" / "session.har",
    FIXTURES / "litellm" / "spend_logs.json",
    FIXTURES / "prometheus" / "vllm.prom",
)
MEGABYTES = {False: 12, True: 200}
"""Whether `--full` was given → size of the file that grows."""


def whole(*files: Path) -> tuple[bytes, int]:
    faults = Faults()
    return canonical(summary_json(summarise(records_in(map(str, files), faults)))), len(faults)


def told(records: Iterable[Record]) -> bytes:
    return canonical(summary_json(summarise(records)))


@pytest.mark.parametrize("file", FOLLOWED, ids=lambda path: f"{path.parent.name}-{path.stem[:12]}")
@pytest.mark.parametrize("seed", range(1))
def test_a_file_that_grows_anyhow_is_read_like_the_whole(file: Path, seed: int, tmp_path: Path) -> None:
    data, draw, path = file.read_bytes(), random.Random(seed), tmp_path / file.name
    cuts = sorted(draw.randrange(len(data)) for _ in range(12))
    files, records = LiveFiles(), list[Record]()
    path.touch()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        with path.open("ab") as growing:
            growing.write(data[start:end])
        assert not files.is_past([str(path)])
        records += files.news([str(path)])
        told([*records, *files.waiting()])
    known = {record.id for record in records if isinstance(record, ModelCall)}
    assert not known & {record.id for record in files.waiting() if isinstance(record, ModelCall)}
    records += files.rest()
    assert (told(records), len(files.faults)) == whole(path)


@pytest.mark.parametrize("file", FOLLOWED, ids=lambda path: f"{path.parent.name}-{path.stem[:12]}")
def test_what_is_held_back_is_shown_at_once(file: Path, tmp_path: Path) -> None:
    path, files = tmp_path / file.name, LiveFiles()
    path.write_bytes(file.read_bytes())
    records = [*files.news([str(path)]), *files.waiting()]
    assert told(records) == whole(path)[0]


@pytest.mark.parametrize("file", READ_WHOLE, ids=lambda path: path.parent.name)
def test_what_is_no_file_of_lines_is_read_once_and_anew_when_it_was_written(file: Path, tmp_path: Path) -> None:
    path, files = tmp_path / file.name, LiveFiles()
    path.write_bytes(file.read_bytes())
    assert told(files.news([str(path)])) == whole(path)[0] and not list(files.news([str(path)]))
    assert not files.is_past([str(path)])
    path.write_bytes(file.read_bytes() + b"\n")
    assert files.is_past([str(path)])


def lines_of(session: str, n: int) -> bytes:
    """A rollout of so many calls."""
    head = json.dumps(
        {"timestamp": "2026-07-03T18:15:00Z", "type": "session_meta", "payload": {"id": session}}, separators=(",", ":")
    )
    steps = ((use(100 * i, 50 * i, 5 * i), use(100, 50, 5), f"2026-07-03T18:15:{i:02}Z") for i in range(1, n + 1))
    return "".join(line + "\n" for line in (head, *(count(at, total, last) for total, last, at in steps))).encode()


def test_a_file_that_was_cut_replaced_or_removed_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"

    def followed() -> LiveFiles:
        path.write_bytes(lines_of("a", 6))
        files = LiveFiles()
        assert len(list(files.news([str(path)]))) >= 6 and not files.is_past([str(path)])
        return files

    files = followed()
    with path.open("ab") as file:
        file.write(b'{"half')
    assert not files.is_past([str(path)]) and not list(files.news([str(path)]))
    files = followed()
    os.truncate(path, 100)
    assert files.is_past([str(path)])
    files = followed()
    path.write_bytes(lines_of("b", 9))  # in its place, and longer
    assert files.is_past([str(path)])
    files = followed()
    path.rename(tmp_path / "live.jsonl.1")
    path.write_bytes(lines_of("a", 7))
    assert files.is_past([str(path)])
    files = followed()
    path.unlink()
    assert files.is_past([str(path)]) and files.is_past([])


def test_files_that_come_later_join_and_calls_told_twice_count_once(tmp_path: Path) -> None:
    one, other, files = tmp_path / "one.jsonl", tmp_path / "other.jsonl", LiveFiles()
    one.write_bytes(lines_of("a", 3))
    assert sum(isinstance(record, ModelCall) for record in files.news([str(one)])) == 3
    other.write_bytes(lines_of("a", 5))
    names = [str(one), str(other)]
    assert not files.is_past(names)
    assert sum(isinstance(record, ModelCall) for record in files.news(names)) == 2
    assert len(files.faults) == 0  # what is said of a file as a whole is said at its end
    list(files.rest())
    assert any("counted once" in what for what in files.faults.counts)


def test_a_broken_line_in_a_live_ledger_is_said_where_it_would_be(tmp_path: Path) -> None:
    path, files = tmp_path / "ledger.jsonl", LiveFiles()
    with Ledger.open(path) as kept:
        for record in one_session(3):
            kept.append(record) if isinstance(record, ModelCall) else kept.remark(record)
    with path.open("ab") as file:
        file.write(b'{"id":"torn')
    assert len(list(files.news([str(path)]))) >= 3 and not len(files.faults)
    list(files.rest())
    assert [fault.what for fault in files.faults.kept] == ["an unfinished line; every line before it is whole"]


def test_following_a_large_file_costs_what_was_added(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path, files = tmp_path / "live.jsonl", LiveFiles()
    filler = b'{"timestamp":"2026-07-03T18:15:00Z","type":"response_item","payload":{"type":"message","role":"user","content":"%b"}}\n'
    with path.open("wb") as file:
        file.write(lines_of("a", 3))
        for _ in range(MEGABYTES[pytestconfig.getoption("--full")]):
            file.write(filler % (b"x" * 1_000) * 900)
    start = time.process_time()
    assert sum(isinstance(record, ModelCall) for record in files.news([str(path)])) == 3
    all_of_it = time.process_time() - start
    start = time.process_time()
    for _ in range(20):
        with path.open("ab") as file:
            file.write(filler % b"news")
        assert not files.is_past([str(path)])
        assert not [*files.news([str(path)]), *files.waiting()]
    assert (time.process_time() - start) / 20 < all_of_it / 4
