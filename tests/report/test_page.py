"""The page: nothing fetched, everything escaped, every chart with a table behind it, bounded however much was recorded."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.ledger.figures import dollars as money
from contextkit.report.html.charts import MOST_CALLS, MOST_SESSIONS
from contextkit.report.html.page import page
from contextkit.whatif.what_if import what_if
from tests.report.made_up import OPUS, START, gathered, many_sessions, one_session, with_bodies
from tests.scale import n_examples


class Parsed(HTMLParser):
    """What a browser would make of the page."""

    VOID = frozenset({"meta", "rect", "path", "br", "input", "wbr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is closed where it is not open"

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


@pytest.fixture(scope="module")
def thousand() -> str:
    return page(*gathered(one_session(1_000)))


N_SESSIONS = n_examples(120, 300)


@pytest.fixture(scope="module")
def many() -> str:
    return page(*gathered(many_sessions(N_SESSIONS), by="day"))


def test_the_page_is_one_well_formed_file_that_names_no_address(thousand: str) -> None:
    parsed = Parsed(thousand)
    assert parsed.open == []
    loading = {"src", "srcset", "data", "poster", "action", "formaction", "background", "cite", "manifest", "ping"}
    assert [(tag, held) for tag, held in parsed.tags if loading & held.keys()] == []
    assert all((held.get("href") or "#").startswith("#") for _, held in parsed.tags)
    assert not {"link", "img", "iframe", "object", "embed", "base", "audio", "video"} & {tag for tag, _ in parsed.tags}


def test_the_policy_refuses_everything_but_the_page_s_own_scripts_and_style(thousand: str) -> None:
    parsed = Parsed(thousand)
    policy = next(
        held["content"]
        for tag, held in parsed.tags
        if tag == "meta" and held.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy and policy.startswith("default-src 'none';") and "unsafe" not in policy
    bodies = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", thousand, re.DOTALL)
    assert len(bodies) == 3
    for body in bodies:
        assert b64encode(sha256(body.encode()).digest()).decode() in policy


def test_names_from_a_recording_are_text_wherever_they_stand() -> None:
    evil = "</script><img src=x onerror=alert(1)>\"'`${1}\u2028"
    body = Bodies(b'{"model":"m","messages":[{"role":"user","content":"the secret prompt"}]}')
    bill = Usage(1, 0, 9_000, 0, 1)
    records = [
        Remark("project", evil, evil),
        Remark("agent", f"{evil}/{evil}", evil),
        *(
            ModelCall(f"{evil}{i}", evil, evil, START + i, None, None, evil, evil, body, bill, None, evil)
            for i in range(3)
        ),
        Remark("verdict", "last", evil),
        ModelCall("last", evil, evil, START + 9, None, None, evil, evil, body, bill, None, evil),
    ]
    contents, columns = gathered(iter(records), evil)
    text = page(replace(contents, faults=((evil, 1, evil),), n_faults=1), columns)
    parsed = Parsed(text)
    assert "img" not in {tag for tag, _ in parsed.tags} and parsed.open == []
    assert sum(tag == "script" for tag, _ in parsed.tags) == 3
    assert "secret prompt" not in text
    assert embedded(text)["sessions"][0]["name"] == evil.replace("\u2028", "\\u2028")  # no invisible character


def embedded(text: str) -> Any:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_numbers_behind_the_charts_are_those_of_the_summary(thousand: str) -> None:
    contents, _ = gathered(one_session(1_000))
    data = embedded(thousand)
    session, total = data["sessions"][0], contents.summary.usage
    assert (sum(session["read"]), sum(session["write"]), sum(session["fresh"])) == (
        total.read,
        total.write_5m,
        total.fresh,
    )
    assert sum(session["usd"]) == pytest.approx(contents.summary.cost_usd, rel=1e-4)
    lost = [miss for miss in session["misses"].values() if miss["lost"]]
    assert len(lost) == contents.summary.total.n_misses and sum(miss["lost"] for miss in lost) == sum(
        miss.lost_tokens for miss in contents.summary.losses
    )
    points = data["time"]["models"][0]["points"]
    assert sum(point[4] for point in points) == 1_000 and sum(point[2] for point in points) == total.prompt


def test_each_miss_has_its_place_its_cost_and_what_to_change(thousand: str) -> None:
    assert "prompt 150,848 → 22,773 tokens" in thousand and "the provider&#x27;s diagnosis: " in thousand
    misses = embedded(thousand)["sessions"][0]["misses"].values()
    advice = {miss["cause"]: miss["advice"] for miss in misses}
    assert advice == {
        "first_write": "",
        "compaction": "",
        "ttl_expired": "",  # the longer lifetime costs more than it saves here
        "system_changed": "Keep the system prompt as it began",
        "messages_changed": "Only append to the conversation",
    }
    cells = re.findall(r"<(?:td|th)[^>]*>(?:<div>)?Keep the system prompt as it began<", thousand)
    assert len(cells) == 4, "an action, a cause, two misses"


def test_a_break_is_quoted_where_bodies_were_recorded_and_no_secret_with_it() -> None:
    text = page(*gathered(with_bodies()))
    miss = embedded(text)["sessions"][0]["misses"]["1"]
    assert miss["cause"] == "system_changed" and "It is 10:30" in miss["was"] and "It is 10:31" in miss["now"]
    assert miss["was"].endswith('It is 10:30."}') and len(miss["was"]) < 100
    assert "Zm9v" not in text and "You are careful" not in text
    assert "<span>was <code>" in text and "turn 0 &lt;b&gt;" not in text and "turn 0 \\u003cb" not in text


def test_a_key_at_the_break_itself_is_covered() -> None:
    def records() -> Iterator[Record]:
        for record in with_bodies(3):
            assert isinstance(record, ModelCall) and isinstance(record.prompt, Bodies)
            body = record.prompt.request.replace(b"key sk-ant", b"k%b sk-ant" % record.id[-1:].encode())
            yield replace(record, prompt=Bodies(body))

    text = page(*gathered(records()))
    assert "sk-****" in embedded(text)["sessions"][0]["misses"]["1"]["now"] and "Zm9v" not in text


def test_what_a_change_saves_is_what_whatif_says_of_the_same_records() -> None:
    text = page(*gathered(with_bodies()))
    (saving,) = what_if(with_bodies(), ["fixed-system"]).savings
    assert saving.usd > 0.05
    cell = re.search(r'data-label="saves"[^>]*>(?:<div>)?(.*?)<', text)
    assert cell and cell[1] == money(saving.usd)


def test_a_page_stays_small_and_says_what_it_leaves_out(many: str, thousand: str) -> None:
    assert len(thousand) < 400_000 and len(many) < 700_000
    drawn = embedded(many)["sessions"]
    assert len(drawn) == MOST_SESSIONS
    assert f"The {MOST_SESSIONS} dearest of {N_SESSIONS} sessions can be drawn" in many
    assert f"and {N_SESSIONS - 50} more, less dear" in many
    assert drawn[0]["cost"] == max(session["cost"] for session in drawn)


def test_a_session_longer_than_a_page_holds_shows_its_last_calls() -> None:
    text = page(*gathered(one_session(MOST_CALLS + 500)))
    session = embedded(text)["sessions"][0]
    assert (session["start"], len(session["at"]), session["calls"]) == (500, MOST_CALLS, MOST_CALLS + 500)
    assert all(0 <= int(place) < MOST_CALLS for place in session["misses"])
    assert len(text) < 1_200_000


def test_a_session_that_missed_all_the_time_shows_its_last_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextkit.report.html.charts.MOST_MISSES", 3)
    session = embedded(page(*gathered(with_bodies(8))))["sessions"][0]
    assert len(session["misses"]) == 3 and session["start"] + len(session["at"]) == session["calls"] == 8
    assert max(map(int, session["misses"])) == len(session["at"]) - 1


def test_tables_have_headings_names_and_stay_tables_on_narrow_screens(many: str) -> None:
    parsed = Parsed(many)
    kinds = [tag for tag, _ in parsed.tags]
    assert kinds.count("table") == kinds.count("caption") >= 5
    assert all(held.get("role") == "table" for tag, held in parsed.tags if tag == "table")
    assert all(held.get("scope") in ("col", "row") for tag, held in parsed.tags if tag == "th")
    ids = [held["id"] for _, held in parsed.tags if "id" in held]
    assert len(ids) == len(set(ids))
    assert {held["aria-labelledby"] for _, held in parsed.tags if "aria-labelledby" in held} <= set(ids)


def test_the_tree_adds_up(many: str) -> None:
    contents, columns = gathered(many_sessions(N_SESSIONS))
    tree = many[many.index('id="tree"') :]
    tops = re.findall(r'<span class="kind">project</span>.*?<span class="cost">(?:≥ )?\$([\d.,]+)</span>', tree)
    assert sum(float(top.replace(",", "")) for top in tops) == pytest.approx(
        contents.summary.cost_usd, abs=0.02 * len(tops)
    )
    assert "researcher (a1)" in tree and len(columns.sessions) == N_SESSIONS


@pytest.mark.parametrize("usage", [None, Usage(None, 5, None, None, None)])
def test_what_nobody_said_is_unknown_and_never_0(usage: Usage | None) -> None:
    text = page(
        *gathered(iter([ModelCall("a", "s", "main", START, None, None, "anthropic", OPUS, None, usage, None, None)]))
    )
    session = embedded(text)["sessions"][0]
    assert session["write"] == [None] and session["usd"] == [None]
    assert "<dd>unknown</dd>" in text and "$0.00" not in text.partition("<script")[0]


def test_no_calls_is_a_page_too_and_a_partial_one_says_so() -> None:
    contents, columns = gathered(iter(()))
    assert "no calls recorded" in page(contents, columns)
    assert "Partial: reading was cut short" in page(replace(contents, is_partial=True), columns)
