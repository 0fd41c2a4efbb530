"""JSON, CSV and Markdown: the same figures as the summary, unknown never 0, names never markup or formulas."""

from __future__ import annotations

import csv
import io
import json

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.figures import Count, dollars
from contextkit.ledger.misses import analyzed_calls
from contextkit.report import tables
from contextkit.report.contents import Chosen, Gathering
from contextkit.report.csv import Calls, write_groups
from contextkit.report.diagnosis import is_agreed, provider_says
from contextkit.report.html.page import page
from contextkit.report.json import document
from contextkit.report.markdown import markdown
from contextkit.report.tables import CALLS, Column
from contextkit.report.terminal import text
from tests.report.made_up import START, gathered, many_sessions, one_session


@pytest.mark.parametrize(
    ("cause", "verdict", "said"),
    [
        ("system_changed", "system_changed", "agrees"),
        ("compaction", "messages_changed", "agrees"),
        ("unknown", "tools_changed", "says tools_changed"),
        ("messages_changed", "input_changed", "agrees"),
        ("ttl_expired", "unavailable", "(unavailable)"),
        ("ttl_expired", "", ""),
        ("unknown", "something new", "says something new"),
    ],
)
def test_the_provider_s_verdict_stands_beside_our_cause(cause: str, verdict: str, said: str) -> None:
    assert provider_says(cause, verdict) == said
    assert is_agreed(cause, verdict) == {"agrees": True, "says": False}.get(said.partition(" ")[0])


def test_json_says_of_each_miss_whether_it_lost_something_and_the_count_is_that_of_those() -> None:
    contents, _ = gathered(one_session(600), by="session")
    said = json.loads(document(contents))
    losses = [miss for miss in said["misses"] if miss["is_loss"]]
    assert len(losses) == said["total"]["n_misses"] < len(said["misses"])
    assert all((miss["lost_tokens"] > 0) == miss["is_loss"] for miss in said["misses"])
    assert {miss["session"] for miss in said["misses"]} == {"gpu-prices"}
    assert all(miss["action"] for miss in losses)
    with_verdict = [miss for miss in said["misses"] if miss["verdict"]]
    assert with_verdict and all(miss["is_agreed"] == (miss["cause"] == miss["verdict"]) for miss in with_verdict)
    assert (said["partial"], said["by"], said["faults"]) == (False, "session", [])
    assert said["groups"][0]["calls"] == 600


def test_csv_has_a_row_a_call_that_adds_up_to_the_summary() -> None:
    file = io.StringIO()
    gathering = Gathering(also=[Calls(file)])
    gathering.add_all(analyzed_calls(one_session(300)))
    summary = gathering.contents("").summary
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert list(rows[0]) == [column.name for column in CALLS] and len(rows) == 300
    assert sum(int(row["read"]) for row in rows) == summary.usage.read
    assert sum(float(row["cost_usd"]) for row in rows) == pytest.approx(summary.cost_usd)
    assert sum(int(row["lost_tokens"] or 0) for row in rows) == sum(miss.lost_tokens for miss in summary.misses)
    lost = [int(row["lost_tokens"]) for row in rows if row["is_loss"] == "True"]
    assert lost == [miss.lost_tokens for miss in summary.losses] and len(lost) < sum(row["cause"] != "" for row in rows)
    assert rows[0]["at"] == "2026-04-09T01:00:00.000Z" and rows[0]["project"] == "/home/ada/gpu-prices"


def test_csv_leaves_the_unknown_empty_and_makes_no_formula() -> None:
    file = io.StringIO()
    Calls(file)(
        next(analyzed_calls([ModelCall("=1+1", "@s", "a,\nb", START, None, None, "x", '"m"', None, None, None, None)]))
    )
    row = next(csv.DictReader(io.StringIO(file.getvalue())))
    assert (row["id"], row["session"], row["lane"], row["model"]) == ("'=1+1", "'@s", "a,\nb", '"m"')
    assert row["read"] == row["cost_usd"] == row["cause"] == ""


def test_markdown_says_what_matters_and_bounds_its_tables() -> None:
    contents, _ = gathered(many_sessions(60), by="session")
    assert contents.what_if is not None
    text = markdown(contents)
    assert "and 30 more" in text and "| what to change | saves | in | how |" in text
    assert f"Avoidable\\: {dollars(contents.what_if.together_usd)} " in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows and all(line.endswith("|") for line in rows)


def test_markdown_takes_no_name_for_markup() -> None:
    evil = "a|b [c](http://d) <b>`x`"
    bill = Usage(0, 0, 9_000, 0, 1)
    records = [
        ModelCall(str(i), evil, "main", START + i, None, None, "p", evil, None, bill, None, None) for i in range(2)
    ]
    text = markdown(gathered(iter([Remark("verdict", "1", evil), *records]), evil, by="session")[0])
    assert "<b>" not in text and "](http" not in text and "a\\|b" in text


def test_only_the_calls_chosen_count_but_the_others_leave_their_cache() -> None:
    calls = list(analyzed_calls(one_session(50)))
    later = Gathering(chosen=Chosen(since=calls[10].call.at, until=calls[40].call.at))
    later.add_all(calls)
    summary = later.contents("").summary
    assert summary.calls == 30 and summary.misses == ()
    of = Gathering(chosen=Chosen(session="gpu"))
    of.add_all([*calls, *analyzed_calls(one_session(5, "other"))])
    assert of.contents("").summary.calls == 50


def test_a_report_of_nothing_is_one_in_every_form() -> None:
    contents, _ = gathered(iter(()))
    assert json.loads(document(contents))["total"]["calls"] == 0
    assert "no calls recorded" in markdown(contents)


def test_one_column_shows_in_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Column("replies", lambda row: Count(7 * row.calls), "n_replies")
    monkeypatch.setattr(tables, "SUMS", (*tables.SUMS, replies))
    contents, columns = gathered(many_sessions(3), by="session")
    file = io.StringIO()
    write_groups(file, "session", contents.summary.groups)
    assert [int(row["n_replies"]) for row in csv.DictReader(io.StringIO(file.getvalue()))] == [
        7 * row.calls for row in contents.summary.groups
    ]
    said = json.loads(document(contents))
    assert all(
        row["n_replies"] == 7 * row["calls"]
        for row in [said["total"], *said["sessions"], *said["groups"], *said["projects"], *said["models"]]
    )
    assert "replies" in text(contents, 160, is_verbose=True) and "| replies |" in markdown(contents)
    sessions = page(contents, columns).split('<section id="sessions"')[1].split("</section>")[0]
    assert sessions.count('data-label="replies"') == 3
