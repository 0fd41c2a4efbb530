"""The log as its user meets it: append, index, fork."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.canonical import canonical, parse
from contextkit.errors import LogCorrupt, UsageError
from contextkit.log.log import Log
from contextkit.log.storage import JSONLStorage

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)

ROWS = st.tuples(st.sampled_from(["user", "notice"]), st.integers(0, 3), st.sampled_from([0.0, 1.0]))


def filled(log: Log, n: int = 4) -> Log:
    for number in range(n):
        log.append("user", {"n": number}, at=float(number))
    return log


def child_of(path: Path) -> Path:
    """A fork at entry 2 of a log on disk, in a folder beside it, with one entry of its own."""
    with filled(Log.open(path / "a" / "log.jsonl")) as parent, parent.fork(2, path / "b" / "log.jsonl") as child:
        child.append("user", {"own": True})
    return path / "b" / "log.jsonl"


@given(st.lists(JSON, max_size=5))
def test_what_is_appended_is_what_is_there(bodies: list[Any]) -> None:
    log = Log()
    for body in bodies:
        log.append("user", body)
    assert [entry.body for entry in log] == [canonical(body) for body in bodies]
    assert log[1:3] == list(log)[1:3]


@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_digests_are_equal_exactly_when_logs_are(rows: list[tuple[Any, int, float]], data: st.DataObject) -> None:
    other_rows = data.draw(st.just(rows) | st.lists(st.sampled_from(rows), min_size=1, max_size=4))
    one, other = Log(), Log()
    for log, written in ((one, rows), (other, other_rows)):
        for kind, value, at in written:
            log.append(kind, {"v": value}, at=at)
    assert (one.digest == other.digest) == (rows == other_rows)


def test_the_body_is_frozen_when_it_is_written() -> None:
    log, body = Log(clock=lambda: 7.0), {"content": ["before"]}
    entry = log.append("user", body)
    body["content"].append("after")
    assert entry.body == b'{"content":["before"]}' and entry.at == 7.0


def test_a_fork_shares_entries_and_then_names_its_parent() -> None:
    parent = filled(Log())
    child = parent.fork(parent[1])
    assert all(mine is theirs for mine, theirs in zip(child[:2], parent[:2], strict=True))
    assert child[2].kind == "opened"
    assert parse(child[2].body) == {"parent": {"path": None, "sequence": 1, "digest": parent[1].digest.hex()}}
    assert len(parent) == 4 and len(parent.fork(-1)) == 5


def test_a_fork_on_disk_reads_its_parent_and_goes_on(tmp_path: Path) -> None:
    path = child_of(tmp_path)
    assert path.read_bytes().count(b"\n") == 2
    with Log.open(path) as child:
        assert [parse(entry.body).get("n") for entry in child] == [0, 1, 2, None, None]
        assert parse(child[3].body)["parent"]["path"] == "../a/log.jsonl"
        child.append("user", {})
    (tmp_path / "moved").mkdir()
    for name in "a", "b":
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert len(list(JSONLStorage.read(tmp_path / "moved" / "b" / "log.jsonl"))) == 6


def test_a_parent_may_grow_or_break_behind_the_fork(tmp_path: Path) -> None:
    path = child_of(tmp_path)
    with (tmp_path / "a" / "log.jsonl").open("ab") as parent:
        parent.write(b"garbage\ngarbage\n")
    assert len(list(JSONLStorage.read(path))) == 5


def test_a_different_parent_is_refused(tmp_path: Path) -> None:
    path = child_of(tmp_path)
    (tmp_path / "a" / "log.jsonl").unlink()
    with Log.open(tmp_path / "a" / "log.jsonl") as impostor:
        for _ in range(4):
            impostor.append("user", {"n": "other"})
    with pytest.raises(LogCorrupt, match="is not the parent it was forked from"):
        Log.open(path)
    path.replace(tmp_path / "a" / "log.jsonl")
    with pytest.raises(LogCorrupt, match="line 1"):
        Log.open(tmp_path / "a" / "log.jsonl")  # now its own parent


def test_a_fork_needs_an_entry_of_this_log() -> None:
    log, other = filled(Log()), filled(Log(), 2)
    other.append("notice", {})
    for place in (4, -5, other[2]):
        with pytest.raises(UsageError, match="cannot fork at entry"):
            log.fork(place)
