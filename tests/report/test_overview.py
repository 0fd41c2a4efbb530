"""The first screen: it fits, and its amounts are those of `contextkit whatif`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contextkit.cli.report import EXAMPLE
from contextkit.importers.registry import files_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.figures import dollars
from contextkit.ledger.misses import analyzed_calls
from contextkit.report.contents import Contents, Gathering
from contextkit.report.json import document
from contextkit.report.terminal import text
from contextkit.whatif.what_if import LEAST_USD, Replays, what_if
from tests.report.made_up import gathered, many_sessions, one_session, with_bodies

MOST_LINES, WIDTH, COMMANDS = 25, 80, 4
"""Lines and columns of the first screen; lines that `contextkit report` adds below it."""


def check(made: Contents, records: list[object]) -> None:
    page = text(made, WIDTH)
    lines = page.splitlines()
    assert len(lines) + COMMANDS <= MOST_LINES and max(map(len, lines)) <= WIDTH, page
    found, report = what_if(records), json.loads(document(made))  # type: ignore[arg-type]
    assert report["what_if"] == json.loads(json.dumps(report["what_if"]))
    assert report["what_if"]["together_usd"] == found.together_usd
    if found.recorded_usd:
        assert re.search(rf"^avoidable +{re.escape(dollars(found.together_usd))} ", page, re.MULTILINE)
    savings = {(one.change, one.program or None, one.usd) for one in found.savings}
    rows = [row for row in report["actions"] if row["saves_usd"] is not None]
    assert {(row["name"], row["program"], row["saves_usd"]) for row in rows} <= savings
    assert [row["saves_usd"] for row in rows] == sorted((row["saves_usd"] for row in rows), reverse=True)
    assert all(row["saves_usd"] > LEAST_USD for row in rows)
    shown = re.findall(r"^[123]  .*?  (\$[\d.,]+)(?: ± \$[\d.,]+)?  \S", page, re.MULTILINE)
    assert shown == [dollars(row["saves_usd"]) for row in rows[:3]]


@pytest.mark.parametrize(
    "records", [list(one_session(300)), list(one_session(1_000)), list(many_sessions(40)), list(with_bodies())]
)
def test_report_and_whatif_print_the_same_amounts(records: list[object]) -> None:
    check(gathered(iter(records))[0], records)  # type: ignore[arg-type]


def _of(path: str) -> tuple[Contents, list[object]]:
    records = list(records_in([path], Faults()))
    replays = Replays()
    gathering = Gathering(also=[replays.add])
    gathering.add_all(analyzed_calls(gathering.adding_remarks(records)))
    return gathering.contents(Path(path).name, what_if=replays.result()), list(records)


def test_the_example_fits_the_first_screen() -> None:
    check(*_of(str(EXAMPLE)))


@pytest.mark.parametrize("folder", ["agent-logs", "pi"])
def test_recorded_sessions_fit_the_first_screen(shared: Path, folder: str) -> None:
    for path in files_at([str(shared / "data" / folder)]):
        check(*_of(path))
