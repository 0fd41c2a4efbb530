"""The fingerprints in docs/research/truth hold no text, are those the page says they are, and those of the logs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contextkit.cli.validate import command
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.summary import summarise
from tests.ledger.test_anonymize import check_only_public_strings
from tests.scale import cases

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "research" / "truth"
NAMES = ("claude-code", "codex", "copilot-cli", "gemini-cli", "pi")
ROW = re.compile(
    r"^\| `([a-z-]+)\.jsonl\.gz` \| [^|]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| (\S+) \| (\S+) \|$", re.MULTILINE
)


def read(*paths: Path) -> list[Record]:
    return list(records_in(map(str, paths), Faults()))


def test_the_page_lists_what_is_there() -> None:
    rows = {row[0]: row[1:] for row in ROW.findall((FOLDER / "README.md").read_text("utf-8"))}
    assert sorted(rows) == sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.gz")) == sorted(NAMES)
    for name, said in rows.items():
        records = read(FOLDER / f"{name}.jsonl.gz")
        calls = [record for record in records if isinstance(record, ModelCall)]
        sessions, billed = len({call.session for call in calls}), summarise(records).calls_with_usage
        days = [datetime.fromtimestamp(end(call.at for call in calls), UTC).date().isoformat() for end in (min, max)]
        assert said == (*(f"{n:,}" for n in (sessions, len(calls), billed)), *days)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_in_them(name: str) -> None:
    check_only_public_strings(read(FOLDER / f"{name}.jsonl.gz"))
    assert (FOLDER / f"{name}.jsonl.gz").stat().st_size < 300_000


@pytest.mark.parametrize("name", cases([name for name in NAMES if name != "claude-code"], NAMES))
def test_they_are_those_of_the_logs(name: str, shared: Path) -> None:
    source = shared / "data" / "pi" if name == "pi" else shared / "data" / "agent-logs" / name
    logs, published = summarise(read(source), "day"), summarise(read(FOLDER / f"{name}.jsonl.gz"), "day")
    assert published.total == logs.total and published.groups == logs.groups
    assert published.hit_rates == logs.hit_rates and published.models == logs.models
    blank = {"exchange_id": "", "lane": "", "where": ""}
    assert [replace(miss, **blank) for miss in published.misses] == [replace(miss, **blank) for miss in logs.misses]


def test_the_table_of_predictions_is_what_the_command_writes(capsys: pytest.CaptureFixture[str]) -> None:
    command.main([str(FOLDER), "--markdown"], standalone_mode=False)
    written = re.search(r"## By model and month\n\n(.*?)\n\n##", capsys.readouterr().out, re.DOTALL)
    page = (FOLDER / "README.md").read_text("utf-8")
    shown = re.search(r"<!-- predictions: begin[^\n]*\n(.*?)\n<!-- predictions: end -->", page, re.DOTALL)
    assert written and shown and shown[1] == written[1]
