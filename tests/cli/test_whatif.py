"""`contextkit whatif` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.cli.whatif import text
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.whatif.what_if import what_if
from tests.cli.conftest import Run


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for number, (after, read, written) in enumerate([(0, 0, 20_000), (60, 20_000, 1_000), (460, 0, 22_000)]):
            usage, at = Usage(10, read, written, 0, 100), 1_765_000_000 + after
            ledger.append(
                ModelCall(
                    f"a/{number}",
                    "a",
                    "main",
                    at,
                    at + 1,
                    at + 5,
                    "anthropic",
                    "claude-opus-4-5",
                    None,
                    usage,
                    None,
                    None,
                )
            )
    return path


def test_every_fix_in_one_table(run: Run, recorded: Path) -> None:
    ended = run("whatif", recorded)
    assert (ended.code, ended.err) == (0, "")
    page = " ".join(ended.out.split())
    assert "3 of 3 calls have a bill and a price; at list prices they cost $0.29" in page
    assert "difference $0.00" in page
    assert "sorted-tools needs request bodies: 3 calls: neither a body nor an outline in the record" in page
    assert "lifetime: from start | from end" in page


def test_one_fix_as_json(run: Run, recorded: Path) -> None:
    ended = run("whatif", recorded, "--fix", "lifetime", "--model", "claude-sonnet-4-5", "--json")
    found = json.loads(ended.out)
    assert [answer["fix"] for answer in found["answers"]] == ["lifetime", "prices-of claude-sonnet-4-5"]
    first = found["answers"][0]
    assert first["after_usd"] == pytest.approx(0.248150)
    assert first["low_usd"] <= first["after_usd"] <= first["high_usd"]
    assert (first["answered_from"], first["needs"]) == ("usage and times", "usage and times")
    assert len(first["readings"]) == 2
    assert found["interrupted"] is False


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--fix", "magic"], "'magic' is no fix: use one of lifetime"),
        (["--model", "claude-opus-9"], "no price for model 'claude-opus-9'"),
    ],
)
def test_what_was_typed_wrong_is_one_line(run: Run, recorded: Path, args: list[str], said: str) -> None:
    ended = run("whatif", recorded, *args)
    assert ended.code == 2
    assert said in ended.err and ended.err.count("\n") == 1


def test_a_file_in_a_folder_that_cannot_be_read_is_told_and_passed_over(run: Run, recorded: Path) -> None:
    recorded.with_name("other.jsonl").write_text("no log\n", "utf-8")
    recorded.rename(recorded.with_name("calls.jsonl"))
    ended = run("whatif", recorded.parent, "--fix", "lifetime")
    assert ended.code == 0
    assert "3 of 3 calls" in ended.out
    assert "other.jsonl" in ended.err


@pytest.mark.parametrize("width", [40, 60, 90, 160])
def test_no_line_is_wider_than_the_terminal(recorded: Path, width: int) -> None:
    page = text(what_if(Ledger.read(recorded)), width)
    assert max(map(len, page.splitlines())) <= width
    assert "lifetime" in page and "$0.25" in page


def test_nothing_with_a_price(run: Run, tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.jsonl").close()
    ended = run("whatif", tmp_path / "ledger.jsonl")
    assert (ended.code, ended.out.split(":")[0]) == (
        0,
        "0 calls, none with a bill, a price and a row in the model table",
    )
