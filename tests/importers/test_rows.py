"""Objects out of files however they stand there, and put in the order of their times."""

from __future__ import annotations

import gzip
import io
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.importers import rows as ordering
from contextkit.importers.registry import records_in
from contextkit.importers.rows import in_time, rows
from contextkit.importers.source import Faults, Source
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise

ROWS: list[dict[str, Any]] = [{"a": 1, "text": 'x"}]{\\'}, {"a": 2, "inner": [{"b": [1, {}]}]}, {"a": 3}]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, ROWS)),
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\n".join(json.dumps(row, indent=4) for row in ROWS),
        "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]",
        json.dumps({"data": ROWS, "meta": 1}),
        json.dumps({"data": ROWS}, indent=1),
        "\ufeff" + json.dumps(ROWS),
        "\ufeff\r\n" + "\r\n".join(map(json.dumps, ROWS)),
    ],
)
def test_every_way_to_write_objects(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a"
    path.write_text(text, "utf-8", newline="")
    source = Source(str(path))
    assert [row for _, row in rows(source, {"data": 2})] == ROWS
    assert not len(source.faults)


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]", "utf-8", newline="")
    assert [line for line, _ in rows(Source(str(path)))] == [2, 3, 4]


def test_no_cut_is_fatal_and_no_half_row_is_given(tmp_path: Path) -> None:
    texts = (json.dumps(ROWS, indent=1), json.dumps({"data": ROWS}), "\n".join(map(json.dumps, ROWS)))
    for (number, text), cut in product(enumerate(texts), range(1, 60)):
        path = tmp_path / f"{number}"
        path.write_text(text[:-cut], "utf-8", newline="")
        source = Source(str(path))
        found = [row for _, row in rows(source, {"data": 2})]
        assert found == ROWS[: len(found)]
        is_whole_lines = number == 2 and "\n" in text[-cut - 1 :][:2]  # nothing tells that a line is missing
        assert len(found) == 3 or len(source.faults) or is_whole_lines


FIXTURES = Path(__file__).parent / "fixtures"
FOLDERS = ("agent_traces", "langfuse", "litellm", "openai_runs", "otel")


@pytest.mark.parametrize(
    "path", sorted(path for folder in FOLDERS for path in (FIXTURES / folder).iterdir()), ids=lambda path: path.name
)
def test_by_a_pipe_and_packed_a_file_is_the_same(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "x.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(path.read_bytes()))))
    totals = [summarise(records_in([name], Faults())).total for name in (str(path), "-", str(packed))]
    assert totals[0] == totals[1] == totals[2] and totals[0].calls > 0


@pytest.mark.parametrize(
    "path", sorted(path for folder in FOLDERS for path in (FIXTURES / folder).iterdir()), ids=lambda path: path.name
)
@pytest.mark.parametrize("share", [0.5])
def test_a_cut_file_is_never_fatal_and_never_counts_more(tmp_path: Path, path: Path, share: float) -> None:
    cut = tmp_path / path.name
    data = path.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    ids = [record.id for record in records_in([str(path)], Faults()) if isinstance(record, ModelCall)]
    faults = Faults()
    found = [record.id for record in records_in([str(cut), str(path)], faults) if isinstance(record, ModelCall)]
    assert len(found) == len(set(found)) and set(ids) >= {name for name in found if cut.stem not in name}
    assert len(faults)


def test_a_table_with_blank_lines_inside_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,said,n\na,"one\n\ntwo",5\nb,"{""k"":1}",\nc,d\n"e', "utf-8", newline="")
    source = Source(str(path))
    assert list(rows(source)) == [(2, {"id": "a", "said": "one\n\ntwo", "n": 5}), (5, {"id": "b", "said": {"k": 1}})]
    assert [fault.line for fault in source.faults.kept] == [6, 7]


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 70))
def test_nothing_is_lost_or_doubled_in_whatever_order(times: list[int], window: int) -> None:
    before, ordering.WINDOW = ordering.WINDOW, window
    try:
        source = Source("none")
        given = [(line, (time, line)) for line, time in enumerate(times, 1)]
        found = [item for _, item in in_time(source, given, lambda item: float(item[0]))]
    finally:
        ordering.WINDOW = before
    assert sorted(found) == sorted(item for _, item in given)
    if window >= len(times) or not len(source.faults):
        assert [time for time, _ in found] == sorted(times)
