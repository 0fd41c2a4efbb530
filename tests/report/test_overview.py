"""The first screen: it fits, and its amounts are those of `contextkit whatif`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contextkit.cli.report import EXAMPLE, Options, read, records_of
from contextkit.importers.registry import files_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Record
from contextkit.ledger.figures import dollars
from contextkit.report.contents import Contents
from contextkit.report.json import document
from contextkit.report.overview import overview
from contextkit.report.terminal import text
from contextkit.whatif.what_if import LEAST_USD, what_if
from tests.report.made_up import gathered, many_sessions, one_session, with_bodies

MOST_LINES, WIDTH, COMMANDS = 25, 80, 4
"""Lines and columns of the first screen; lines that `contextkit report` adds below it."""


def check(made: Contents, records: list[Record]) -> None:
    page = text(made, WIDTH)
    lines = page.splitlines()
    assert len(lines) + COMMANDS <= MOST_LINES and max(map(len, lines)) <= WIDTH, page
    found, report = what_if(records), json.loads(document(made))
    assert report["what_if"]["together_usd"] == found.together_usd
    if found.recorded_usd:
        assert re.search(rf"^avoidable +{re.escape(dollars(found.together_usd))} ", page, re.MULTILINE)
    savings = {(one.change, one.program or None, one.usd) for one in found.savings}
    rows = [row for row in report["actions"] if row["saves_usd"] is not None]
    assert {(row["name"], row["program"], row["saves_usd"]) for row in rows} <= savings
    assert all(row["saves_usd"] > LEAST_USD for row in rows)
    ranks = [(row["saves_usd"] > row["replay_error_usd"], row["saves_usd"]) for row in rows]
    assert ranks == sorted(ranks, reverse=True), (
        "those beyond the error of the replay first, what saves most before the others"
    )
    numbered = []
    for line in re.findall(r"^\d  .*", page, re.MULTILINE):
        amount = re.search(r"  (\$[\d.,]+)(?: ± \$[\d.,]+)?  \S", line)
        numbered.append((line.split()[1], amount[1] if amount else ""))
    assert [first for first, _ in numbered] == [row["title"].split()[0] for row in report["actions"][: len(numbered)]]
    amounts = [dollars(row["saves_usd"]) if row["saves_usd"] is not None else "" for row in report["actions"]]
    assert [amount for _, amount in numbered] == amounts[: len(numbered)]
    assert bool(numbered) == bool(amounts)
    if len(numbered) < len(amounts):
        assert f"What to change ({len(amounts) - len(numbered)} more: --verbose)" in page


@pytest.mark.parametrize(
    "records", [list(one_session(300)), list(one_session(1_000)), list(many_sessions(40)), list(with_bodies())]
)
def test_report_and_whatif_print_the_same_amounts(records: list[Record]) -> None:
    check(gathered(iter(records))[0], records)


def _of(path: str) -> tuple[Contents, list[Record]]:
    made, _ = read([path], Options("", None, None, "", "terminal", None, False, False), None)
    return made, list(records_of([path], set(), Faults(), None))


def test_the_example_fits_the_first_screen() -> None:
    check(*_of(str(EXAMPLE)))


@pytest.mark.parametrize("folder", ["agent-logs", "pi"])
def test_recorded_sessions_fit_the_first_screen(shared: Path, folder: str) -> None:
    for path in files_at([str(shared / "data" / folder)]):
        check(*_of(path))


@pytest.mark.parametrize("width", [0, 1, 40])
def test_the_first_screen_has_forty_columns_at_least(width: int) -> None:
    lines = list(overview(gathered(with_bodies())[0], width))
    assert max(map(len, lines)) <= 40 and any("What to change" in line for line in lines)
