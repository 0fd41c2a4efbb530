"""What a report holds of a recording that is longer than it can show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger import summary
from contextkit.ledger.calls import Exchange, Record
from contextkit.ledger.misses import analyzed_calls
from contextkit.report import contents
from contextkit.report.contents import Contents, Gathering
from contextkit.report.html.columns import Columns
from contextkit.report.html.page import page
from contextkit.report.json import document
from contextkit.report.markdown import markdown
from contextkit.report.terminal import text
from tests.report.made_up import gathered, one_session


def calls_of(model: str, *usages: Usage | None) -> Iterator[Record]:
    for number, usage in enumerate(usages):
        at = 1_775_696_400.0 + 10 * number
        yield Exchange(f"{model}-{number}", "s", model, at, at + 1, at + 2, "anthropic", model, None, usage, None, None)


def report_of(*records: Iterator[Record]) -> Contents:
    gathering = Gathering()
    for some in records:
        gathering.add_all(analyzed_calls(some))
    return gathering.contents("made-up")


def everywhere(made: Contents) -> list[str]:
    return [text(made, 400), markdown(made).replace("\\", ""), page(made, Columns())]


def test_missing_usage_is_not_told_as_a_missing_price() -> None:
    made = report_of(calls_of("nobody-lists-this", None, None, None))
    for shown in everywhere(made):
        assert (
            "usage missing in 3 of the 3 calls of nobody-lists-this: the recording does not say what was billed"
            in shown
        )
        assert "no list price" not in shown and "genai-prices" not in shown and "price unknown" not in shown
    assert json.loads(document(made))["calls_without_usage"] == {"nobody-lists-this": 3}


def test_what_is_missing_is_counted_by_model() -> None:
    bill = Usage(10, 5_000, 20, 0, 30)
    made = report_of(calls_of("nobody-lists-this", bill, bill, None), calls_of("claude-opus-4-5", bill, None))
    for shown in everywhere(made):
        assert "usage missing in 1 of the 3 calls of nobody-lists-this" in shown
        assert "usage missing in 1 of the 2 calls of claude-opus-4-5" in shown
        assert "no price is known for nobody-lists-this (2 calls)" in shown
        assert "price for claude" not in shown
    assert "price unknown for nobody-lists-this" in str(made.summary)


def test_an_unknown_cause_has_no_savings() -> None:
    made, columns = gathered(
        calls_of("claude-opus-4-5", Usage(3, 0, 90_000, 0, 9), Usage(3, 0, 90_100, 0, 9), Usage(3, 90_000, 100, 0, 9))
    )
    assert [(miss.cause, miss.cost_usd is not None) for miss in made.summary.losses] == [("unknown", True)]
    cell = re.search(r'data-label="the fix saves"[^>]*>(?:<div>)?(.*?)</', page(made, columns))
    assert cell is not None and cell[1] == "unknown"
    row = next(line for line in markdown(made).splitlines() if line.startswith("| `unknown`"))
    cost, saving, _ = [part.strip() for part in row.strip("|").split("|")[-3:]]
    assert cost.startswith("$") and saving == "unknown"


def test_whose_the_misses_were_is_kept_for_those_in_the_report_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_MISSES", 20)
    monkeypatch.setattr(summary, "MOST_MISSES", 20)
    made = [record for number in range(150) for record in one_session(2, f"session {number}")]
    gathering = Gathering()
    gathering.add_all(analyzed_calls(made))
    found = gathering.contents("all")
    assert found.summary.total.calls == 300 and len(found.summary.misses) == 20
    assert len(found.sessions) <= 41
    assert all(found.sessions[miss.index] == miss.exchange_id.rpartition("-")[0] for miss in found.summary.misses)
