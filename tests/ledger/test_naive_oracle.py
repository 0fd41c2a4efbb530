"""A real session replayed, call by call against a provider worked out from the sent bytes alone, and against Claude's
own record."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from contextkit.canonical import canonical
from contextkit.context import Context
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.providers.request import Request
from tests.benchmarks.replay import MODELS, figures_of, replayed
from tests.ledger.naive_oracle import Oracle

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "replay.md"
MARKERS = re.compile(rb',"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}')
BEGUN_AFTER_SECONDS = 2.0
COMPACTED = [174, 304]
"""Calls right behind the two recorded compactions, counted from 1."""
Bill = tuple[int, int, int, int]


@dataclass
class Recorded:
    """What the file says of one call, read without contextkit."""

    stop: str
    bill: Bill | None
    seconds: float

    @property
    def begins(self) -> bool:
        """Whether the provider had begun to answer when it was given up."""
        return self.stop != "aborted" or self.bill is not None or self.seconds >= BEGUN_AFTER_SECONDS


@dataclass
class Watch:
    """Looks at every request before it leaves."""

    oracle: Oracle
    recorded: list[Recorded]
    bills: list[Bill] = field(default_factory=list)
    before: bytes = b""
    moved: list[int] = field(default_factory=list)
    """Calls whose bytes do not begin with those of the call before."""

    def __call__(self, request: Request) -> None:
        body, call = request.body, len(self.bills) + 1
        said = MARKERS.sub(b"", body)
        said = said[said.index(b'"tools":[') :].rstrip(b"]}")
        if not said.startswith(self.before):
            self.moved.append(call)
        self.before = said
        self.bills.append(self.oracle.bill(body, request.at, self.recorded[call - 1].begins))


@pytest.fixture(scope="module")
def session(shared: Path) -> Path:
    return shared / "data" / "pi" / "before-compaction.jsonl"


@pytest.fixture(scope="module")
def recorded(session: Path) -> list[Recorded]:
    lines = (json.loads(line) for line in session.read_text("utf-8").splitlines())
    return [_call(line) for line in lines if line.get("message", {}).get("role") == "assistant"]


def _call(line: dict[str, Any]) -> Recorded:
    said, usage = line["message"], line["message"]["usage"]
    bill = (usage["input"], usage["cacheRead"], usage["cacheWrite"], 0)
    ended = datetime.fromisoformat(line["timestamp"]).timestamp()
    return Recorded(said["stopReason"], bill if any(bill) else None, ended - said["timestamp"] / 1000)


@pytest.mark.parametrize("provider", MODELS)
def test_a_real_session_is_billed_as_the_rules_say(
    provider: str, session: Path, recorded: list[Recorded], request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--full"):
        pytest.skip("the whole session: with --full")
    watch = Watch(oracle_of(provider), recorded)
    with over_http(session, provider) as figures:
        context, ledger = replayed(session, provider, observe=watch)
    assert figures == json.loads(canonical(figures_of(summarise(ledger), ledger)))
    assert figures["calls"] == 484
    ours = [bill_of(recorded.usage) for recorded in ledger]
    assert len(ours) == len(recorded) == 484
    assert [
        (call, *pair) for call, pair in enumerate(zip(ours, watch.bills, strict=True), 1) if pair[0] != pair[1]
    ] == []
    check_that_failed_replies_are_billed_and_not_kept(context, ledger, recorded)
    check_that_only_compactions_break_the_prefix(context, watch)
    check_agreement_with_the_record(provider, ours, ledger, recorded)


@pytest.mark.parametrize("provider", MODELS)
def test_the_beginning_of_a_real_session_is_billed_as_the_rules_say(
    provider: str, session: Path, recorded: list[Recorded], tmp_path: Path
) -> None:
    """150 lines, 68 calls, where the whole session takes --full."""
    path = tmp_path / "beginning.jsonl"
    path.write_bytes(b"".join(session.read_bytes().splitlines(keepends=True)[:150]))
    watch = Watch(oracle_of(provider), recorded)
    _, ledger = replayed(path, provider, observe=watch)
    ours = [bill_of(recorded.usage) for recorded in ledger]
    assert (len(ours), watch.moved) == (68, []) and any(bill[1] for bill in ours)
    failed = [said.stop in ("aborted", "error") for said in recorded[:68]]
    assert [exchange.error is not None for exchange in ledger] == failed
    assert [
        (call, *pair) for call, pair in enumerate(zip(ours, watch.bills, strict=True), 1) if pair[0] != pair[1]
    ] == []


def oracle_of(provider: str) -> Oracle:
    return Oracle({"anthropic": "anthropic_messages"}.get(provider, provider.replace("-", "_")))


@contextmanager
def over_http(session: Path, provider: str) -> Iterator[dict[str, Any]]:
    """Replay through the real client over HTTP, in a process beside the body of the `with`; filled in when it is done."""
    figures: dict[str, Any] = {}
    command = [sys.executable, "-m", "tests.benchmarks.replay", str(session), provider]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        yield figures
        out, err = process.communicate(timeout=180)
    assert (process.returncode, err) == (0, b"")
    figures.update(json.loads(out))


def bill_of(usage: Any) -> Bill:
    return usage.fresh, usage.read, usage.write_5m, usage.write_1h


def check_that_failed_replies_are_billed_and_not_kept(
    context: Context, ledger: Ledger, recorded: list[Recorded]
) -> None:
    failed = [call for call, said in enumerate(recorded) if said.stop in ("aborted", "error")]
    assert len(failed) == 19
    assert [call for call, recorded in enumerate(ledger) if recorded.error is not None] == failed
    assert all((ledger[call].usage.prompt or 0) > 0 for call in failed)  # type: ignore[union-attr]
    assert sum(entry.kind == "assistant" for entry in context.log) == 465


def check_that_only_compactions_break_the_prefix(context: Context, watch: Watch) -> None:
    assert watch.moved == COMPACTED
    epochs = [json.loads(entry.body)["reason"] for entry in context.log if entry.kind == "epoch"]
    assert epochs == ["compaction", "compaction"]


# Against the record
# ----------------------------------------------------------------------------------------------------------------------


def check_agreement_with_the_record(provider: str, ours: list[Bill], ledger: Ledger, recorded: list[Recorded]) -> None:
    """docs/research/replay.md says what a collapse is, and lists every call on which the two differ."""
    billed = [call for call, said in enumerate(recorded, 1) if said.bill]
    theirs = collapses((call, said.bill) for call, said in enumerate(recorded, 1) if said.bill)
    replay = collapses((call, ours[call - 1]) for call in billed)
    assert len(billed) == 471
    assert theirs - replay == deviations_on_the_page(provider)
    assert replay - theirs == set()
    assert 1 - len(theirs ^ replay) / (len(billed) - 1) >= 0.98
    summary, rate = summarise(ledger), hit_rate(said.bill for said in recorded if said.bill)
    assert round(rate, 5) == 0.97004
    assert (summary.hit_rate or 0) >= rate
    assert f"| {summary.hit_rate:.5f} | ${summary.cost_usd:.2f} | ${summary.cost_uncached_usd:.2f} |" in PAGE.read_text(
        "utf-8"
    )


def collapses(bills: Iterable[tuple[int, Bill]]) -> set[int]:
    """Calls that read less than half of what the call before had left in the cache, or of their own prompt where that
    is smaller."""
    found: set[int] = set()
    left = 0
    for call, bill in bills:
        if bill[1] < min(left, sum(bill)) / 2:
            found.add(call)
        left = sum(bill[1:])
    return found


def hit_rate(bills: Iterable[Bill]) -> float:
    sums = [sum(column) for column in zip(*bills, strict=True)]
    return sums[1] / sum(sums)


def deviations_on_the_page(provider: str) -> set[int]:
    """Numbers in the first column of the page's table; OpenAI's longer lifetime adds the call behind the longest gap."""
    table = PAGE.read_text("utf-8").partition("## Every deviation")[2].partition("\n##")[0]
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    return listed | ({252} if provider != "anthropic" else set())


def test_aborted_replies_without_a_bill_had_written_the_cache_from_two_seconds_on(
    session: Path, recorded: list[Recorded]
) -> None:
    """What the next read shows, where nothing else stands between: longer than the last bill left, or not."""
    grew: dict[bool, list[float]] = {True: [], False: []}
    for before, now, after in zip(recorded, recorded[1:], recorded[2:], strict=False):
        if now.stop == "aborted" and not now.bill and before.bill and after.bill and after.bill[1]:
            grew[after.bill[1] > sum(before.bill[1:])].append(round(now.seconds, 2))
    assert sorted(grew[True]) == [2.12, 2.13, 2.48]
    assert sorted(grew[False]) == [0.0, 0.0, 0.14, 0.56, 0.87, 1.09]
