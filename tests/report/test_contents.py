"""What a report holds of a recording that is longer than it can show."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import unescape
from random import Random
from statistics import median

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger import summary
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.report import contents
from contextkit.report.contents import Contents, Gathering, dearest_losses, session_names
from contextkit.report.csv import Calls, write_groups
from contextkit.report.html.columns import Columns
from contextkit.report.html.page import page
from contextkit.report.json import document
from contextkit.report.markdown import markdown
from contextkit.report.terminal import text
from tests.report.made_up import gathered, one_session


def calls_of(model: str, *usages: Usage | None, provider: str = "anthropic") -> Iterator[Record]:
    for number, usage in enumerate(usages):
        at = 1_775_696_400.0 + 10 * number
        yield ModelCall(f"{model}-{number}", "s", model, at, at + 1, at + 2, provider, model, None, usage, None, None)


def report_of(*records: Iterator[Record]) -> Contents:
    gathering = Gathering()
    for some in records:
        gathering.add_all(analyzed_calls(some))
    return gathering.contents("made-up")


def everywhere(made: Contents) -> list[str]:
    return [text(made, 400, is_verbose=True), markdown(made).replace("\\", ""), page(made, Columns())]


def test_missing_usage_is_not_told_as_a_missing_price() -> None:
    made = report_of(calls_of("nobody-lists-this", None, None, None))
    for shown in everywhere(made):
        assert (
            "usage missing in 3 of the 3 calls of nobody-lists-this: the recording does not say what was billed"
            in shown
        )
        assert "no list price" not in shown and "genai-prices" not in shown and "price unknown" not in shown
    assert json.loads(document(made))["calls_without_usage"] == {"nobody-lists-this": 3}


def waits_of(*waits: tuple[int, float | None]) -> Iterator[Record]:
    """A call for each (share of its prompt read in %, seconds to the first byte)."""
    for number, (share, wait) in enumerate(waits):
        at, usage = 1_775_696_400.0 + 100 * number, Usage(1_000 - 10 * share, 10 * share, 0, 0, 10)
        first = None if wait is None else at + wait
        yield ModelCall(f"c{number}", "s", "m", at, first, at + 99, "openai", "gpt-5.1", None, usage, None, None)


def test_waits_for_the_first_token_are_told_apart_by_what_was_read() -> None:
    draw = Random(5)
    reading = [(draw.randint(50, 99), draw.lognormvariate(-0.5, 0.8)) for _ in range(501)]
    others = [(draw.randint(0, 49), draw.lognormvariate(1.2, 0.8)) for _ in range(301)]
    unknown = [(90, None), (90, 0.0), (90, 99.0), (0, -5.0)]  # not recorded, or the reply came in one piece
    made = report_of(waits_of(*draw.sample([*reading, *others, *unknown], 806)))
    waits = json.loads(document(made))["first_tokens"]
    exact = [median(wait for _, wait in some) for some in (reading, others)]
    assert [waits["calls_reading"], waits["calls_other"]] == [501, 301]
    assert [waits["reading_seconds"], waits["other_seconds"]] == pytest.approx(exact, rel=0.02)
    assert waits["difference_seconds"] == pytest.approx(exact[1] - exact[0], rel=0.04)
    line = (
        f"first token, in the median: about {waits['reading_seconds']:.2f} s in 501 calls that read at least half of their "
        f"prompt, about {waits['other_seconds']:.2f} s in 301 calls that read less, {waits['difference_seconds']:.2f} s more"
    )
    assert all(line in unescape(shown) for shown in everywhere(made))
    ahead = Gathering()
    ahead.add_all(analyzed_calls(waits_of((90, 1.0))))
    ahead.copied().add_all(analyzed_calls(waits_of((90, 8.0))))
    alone = ahead.contents("one").summary.first_tokens
    assert alone is not None and (alone.calls_reading, alone.calls_other, alone.other_seconds) == (1, 0, None)
    assert "in 1 call that read at least half of their prompt\n" in text(ahead.contents("one"), 200, is_verbose=True)
    assert "in 1 call" not in text(ahead.contents("one"), 200)  # not on the first screen


def test_the_input_for_each_output_token() -> None:
    made = report_of(calls_of("claude-opus-4-5", Usage(10, 8_970, 1_020, 0, 90), Usage(0, 9_900, 100, 0, 110)))
    assert all("input to output: 100 : 1" in unescape(shown) for shown in everywhere(made))
    shown = json.loads(document(made))
    assert shown["total"]["input_to_output"] == 100.0 and shown["first_tokens"]["calls_reading"] == 2
    silent = json.loads(document(report_of(calls_of("claude-opus-4-5", None))))
    assert silent["total"]["input_to_output"] is None and silent["first_tokens"] is None
    nothing = report_of(calls_of("claude-opus-4-5", None))
    assert not any("input to output" in shown or "first token" in shown for shown in everywhere(nothing))


def test_what_is_missing_is_counted_by_model() -> None:
    bill = Usage(10, 5_000, 20, 0, 30)
    made = report_of(calls_of("nobody-lists-this", bill, bill, None), calls_of("claude-opus-4-5", bill, None))
    for shown in everywhere(made):
        assert "usage missing in 1 of the 3 calls of nobody-lists-this" in shown
        assert "usage missing in 1 of the 2 calls of claude-opus-4-5" in shown
        assert "no price is known for nobody-lists-this (2 calls)" in shown
        assert "price for claude" not in shown
    assert "price unknown for nobody-lists-this" in str(made.summary)


def test_an_unknown_cause_has_no_action() -> None:
    made, columns = gathered(
        calls_of("claude-opus-4-5", Usage(3, 0, 90_000, 0, 9), Usage(3, 0, 90_100, 0, 9), Usage(3, 90_000, 100, 0, 9))
    )
    assert [(miss.cause, miss.cost_usd is not None) for miss in made.summary.losses] == [("unknown", True)]
    shown = json.loads(document(made))
    assert shown["actions"] == [] and [miss["action"] for miss in shown["misses"]] == [None, None]
    assert max(one["saves_usd"] for one in shown["what_if"]["savings"]) < 0 == shown["what_if"]["together_usd"]
    assert "Nothing that a replay or a cause supports" in page(made, columns)
    row = next(line for line in markdown(made).splitlines() if line.startswith("| `unknown`"))
    *_, cost, advice = [part.strip() for part in row.strip("|").split("|")]
    assert cost == "$0.52" and advice == ""
    assert "Lost, cause unknown: $0.52 in 1 call (contextkit proxy --record records why)" in text(made)


@pytest.mark.parametrize(
    ("model", "provider", "is_advised"), [("gpt-4.1", "openai", True), ("gemini-2.5-pro", "google", False)]
)
def test_a_routing_key_is_advised_where_the_provider_takes_one(model: str, provider: str, is_advised: bool) -> None:
    sizes = [(0, 20_000), (19_968, 10_000), (29_952, 10_000), (19_968, 21_000), (40_960, 1_000)]
    usages = [Usage(fresh, read, 0, 0, 9) for read, fresh in sizes]  # the fourth call reads what the first left
    made, columns = gathered(calls_of(model, *usages, provider=provider))
    (loss,) = dearest_losses(made.summary)
    assert loss.cause == "other_server"
    for shown in (page(made, columns), markdown(made).replace("\\", ""), text(made, 400, has_misses=True)):
        assert ("prompt_cache_key" in shown) == ("one server" in shown) == is_advised
    assert ("prompt_cache_key" in document(made)) == is_advised
    assert ("Lost, not in your hands: $0.0225 in 1 call (the provider had lost what" in text(made)) == (not is_advised)


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


# Recorded costs and placeholder outputs
# ---------------------------------------------------------------------------------------------------------------------

OPUS = "claude-opus-4-5"
BILL = Usage(0, 100_000, 0, 0, 2_000)
"""100,000 tokens read at 0.5 and 2,000 generated at 25 a million: $0.10 at list prices."""


def costing(calls: Iterable[Record], *costs: float | None) -> Iterator[Record]:
    """The calls with what each is said to have cost."""
    for call, usd in zip(calls, costs, strict=True):
        assert isinstance(call, ModelCall)
        yield replace(call, billed_usd=usd)


@pytest.mark.parametrize(
    ("costs", "counted", "note"),
    [
        ((None, None), "dollars at list prices", ""),
        (
            (0.13, None),
            "dollars as recorded for 1 of 2 calls, at list prices for the others",
            (
                "cost recorded by the provider or program for 1 of 2 calls: $0.13; list prices give $0.10 for them "
                "(difference $0.0300, +30.0 %)"
            ),
        ),
        (
            (0.1, None),
            "dollars as recorded for 1 of 2 calls, at list prices for the others",
            "for 1 of 2 calls: $0.10; list prices give $0.10 for them (no difference)",
        ),
        (
            (0.05, 0.05),
            "dollars as recorded",
            (
                "cost recorded by the provider or program for 2 of 2 calls: $0.10; list prices give $0.20 for them "
                "(difference -$0.10, -50.0 %)"
            ),
        ),
    ],
)
def test_a_recorded_cost_is_told_once_beside_the_list_prices(
    costs: tuple[float | None, ...], counted: str, note: str
) -> None:
    made = report_of(costing(calls_of(OPUS, BILL, BILL), *costs))
    for shown in map(unescape, everywhere(made)):
        assert re.search(rf"what the provider billed, as recorded; {re.escape(counted)}[.\n]", shown)
        assert shown.count("cost recorded by") == bool(note)
        assert note in shown


def test_recorded_costs_are_compared_with_list_prices_of_the_same_calls_only() -> None:
    made = report_of(costing(calls_of(OPUS, BILL), 0.12), costing(calls_of("nobody-lists-this", BILL), 0.5))
    note = (
        "cost recorded by the provider or program for 2 of 2 calls: $0.62; 1 of them has a list price too: $0.12 recorded, "
        "$0.10 at list prices (difference $0.0200, +20.0 %)"
    )
    for shown in map(unescape, everywhere(made)):
        assert note in shown
        assert "no price is known" not in shown


def test_a_call_without_usage_is_not_said_to_be_in_no_dollar_figure_where_its_cost_is_recorded() -> None:
    made = report_of(costing(calls_of(OPUS, None, None), 0.25, None), calls_of("claude-haiku-4-5", None))
    begin = "the recording does not say what was billed, so they are"
    for shown in everywhere(made):
        assert (
            f"2 of the 2 calls of {OPUS}: {begin} in no token figure, and in the dollars where their cost is" in shown
        )
        assert f"1 of the 1 calls of claude-haiku-4-5: {begin} in no token and no dollar figure" in shown


def cut_calls(*estimates: int | None) -> Iterator[Record]:
    for call, estimate in zip(calls_of(OPUS, *[BILL.with_partial_output()] * len(estimates)), estimates, strict=True):
        assert isinstance(call, ModelCall)
        yield replace(call, output_estimate=estimate)


@pytest.mark.parametrize(
    ("estimates", "note"),
    [
        (
            (42_000, 502_000),
            (
                "output counts of 2 calls are placeholders (≥ 4,000 tokens); by the visible text about 540,000 tokens, which cost "
                "about $13.50 more at list prices; in no total"
            ),
        ),
        (
            (42_000, None, None),
            (
                "output counts of 3 calls are placeholders (≥ 6,000 tokens); by the visible text of 1 of them about 42,000 tokens, "
                "which cost about $1.00 more at list prices; in no total"
            ),
        ),
        ((None,), "output count of 1 call is a placeholder (≥ 2,000 tokens)"),
    ],
)
def test_placeholder_outputs_are_told_once_and_change_no_total(estimates: tuple[int | None, ...], note: str) -> None:
    made = report_of(cut_calls(*estimates))
    for shown in map(unescape, everywhere(made)):
        assert shown.count("placeholder") == 1
        assert note in shown
    total = json.loads(document(made))["total"]
    n = len(estimates)
    assert (total["usage"]["output"], total["cost_usd"]) == (2_000 * n, pytest.approx(0.1 * n))
    assert total["placeholders"]["calls"] == n
    assert total["placeholders"]["tokens_estimated"] == sum(estimate or 0 for estimate in estimates)


def test_csv_has_recorded_and_list_dollars_in_columns_of_their_own() -> None:
    calls, groups = io.StringIO(), io.StringIO()
    gathering = Gathering("model", also=[Calls(calls)])
    gathering.add_all(analyzed_calls(costing(calls_of(OPUS, BILL, BILL), 0.13, None)))
    write_groups(groups, "model", gathering.contents("").summary.groups)
    rows = list(csv.DictReader(io.StringIO(calls.getvalue())))
    columns = [
        [float(row[name]) if row[name] else None for row in rows]
        for name in ("cost_usd", "list_cost_usd", "billed_usd")
    ]
    assert columns == [[0.13, pytest.approx(0.1)], [pytest.approx(0.1)] * 2, [0.13, None]]
    (group,) = csv.DictReader(io.StringIO(groups.getvalue()))
    assert (group["calls_recorded"], group["recorded_usd"]) == ("1", "0.13")
    assert float(group["cost_usd"]) == pytest.approx(0.23)
    assert float(group["list_cost_usd"]) == pytest.approx(0.2)


def test_a_session_is_named_by_its_title_else_its_project_and_time_else_its_id() -> None:
    bill = Usage(3, 0, 9_000, 0, 9)

    def call(session: str, at: float) -> ModelCall:
        return ModelCall(
            f"{session}-1", session, "main", at, at, at, "anthropic", "claude-opus-4-5", None, bill, None, None
        )

    at = 1_775_696_400.0
    records: list[Record] = [
        Remark("project", "4fec7ea0-1", "/src/shop"),
        Remark("title", "4fec7ea0-1", "Fix  the\ncheckout " + "x" * 80),
        call("4fec7ea0-1", at),
        Remark("project", "4fec7ea0-2", "/src/shop"),
        call("4fec7ea0-2", at),
        Remark("program", "5fec7ea0-3", "Codex"),
        call("5fec7ea0-3", at),
        Remark("program", "6fec7ea0-4", "Codex"),
        call("6fec7ea0-4", -1_000.0),
        call("a-session", at),
        Remark("title", "a-key", "token AKIAIOSFODNN7EXAMPLE"),
        call("a-key", at),
    ]
    gathering = Gathering()
    gathering.add_all(analyzed_calls(gathering.adding_remarks(records)))
    names = session_names(gathering.contents("made-up"))
    assert names == {
        "4fec7ea0-1": f"Fix the checkout {'x' * 42}… (4fec7ea0-1)",
        "4fec7ea0-2": "shop 2026-04-09 01:00 (4fec7ea0-2)",
        "5fec7ea0-3": "Codex 2026-04-09 01:00 (5fec7ea0)",
        "6fec7ea0-4": "6fec7ea0-4",
        "a-session": "a-session",
        "a-key": "token AKIA**************** (a-key)",
    }
