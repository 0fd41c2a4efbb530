"""`contextkit whatif` as it is typed."""

from __future__ import annotations

import json
import re
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


def test_every_change_in_one_table(run: Run, recorded: Path) -> None:
    ended = run("whatif", recorded)
    assert (ended.code, ended.err) == (0, "")
    page = " ".join(ended.out.split())
    assert "3 of 3 calls have a bill and a price; at list prices they cost $0.29" in page
    assert "by the rules of the caches: $0.29, a difference of $0.00; 0 misses and 0 reads" in page
    assert "with all changes that the readers can make: $0.25, $0.0382 less" in page
    assert re.search(r"longer-lifetime .* \$0\.0382 ", ended.out)


def test_a_change_and_a_model_as_json(run: Run, recorded: Path) -> None:
    ended = run("whatif", recorded, "--change", "longer-lifetime", "--model", "claude-sonnet-4-5", "--json")
    found = json.loads(ended.out)
    (saving,), (model,) = found["savings"], found["models"]
    assert (saving["change"], saving["agents"], saving["sessions"]) == ("longer-lifetime", "main", ["a"])
    assert found["recorded_usd"] - saving["saves_usd"] == pytest.approx(0.248150)
    assert found["together_usd"] == pytest.approx(saving["saves_usd"])
    assert model["name"] == "claude-sonnet-4-5"
    assert model["low_usd"] == model["after_usd"] == model["high_usd"] == pytest.approx(0.6 * found["recorded_usd"])
    assert (found["calls"], found["calls_with_price"], found["interrupted"]) == (3, 3, False)
    alone = json.loads(run("whatif", recorded, "--model", "claude-sonnet-4-5", "--json").out)
    assert alone["savings"] == [] and alone["models"] == found["models"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--change", "magic"], "'magic' is no change: use one of longer-lifetime, shorter-lifetime, compact-first"),
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
    ended = run("whatif", recorded.parent, "--change", "longer-lifetime")
    assert ended.code == 0
    assert "3 of 3 calls" in ended.out
    assert "other.jsonl" in ended.err


@pytest.mark.parametrize("width", [40, 60, 90, 160])
def test_no_line_is_wider_than_the_terminal(recorded: Path, width: int) -> None:
    page = text(what_if(Ledger.read(recorded)), width)
    assert max(map(len, page.splitlines())) <= width
    assert "longer-lifetime" in page and "$0.25" in page


def test_nothing_with_a_price(run: Run, tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.jsonl").close()
    ended = run("whatif", tmp_path / "ledger.jsonl")
    assert (ended.code, ended.out.split(":")[0]) == (
        0,
        "0 calls, none with a bill and a price",
    )
