"""What compacting before a pause would have saved, by hand and on a real session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contextkit import prices
from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.report import pauses as module
from contextkit.report.pauses import Pauses, PauseSavings

START = 1_765_000_000.0
OPUS = "claude-opus-4-5"


def call(number: int, at: float, read: int, written: int, model: str = OPUS) -> ModelCall:
    usage, start = Usage(0, read, written, 0, 0), START + at
    return ModelCall(
        f"s/{number}", "s", "main", start, start + 1, start + 2, "anthropic", model, None, usage, None, None
    )


def session(model: str = OPUS) -> Iterator[Record]:
    """A head of 10,000 tokens that grows to 100,000, a pause of ten minutes, ten more calls and a compaction."""
    yield call(0, 0, 0, 10_000, model)
    for number in range(1, 91):
        yield call(number, 20 * number, 9_000 + 1_000 * number, 1_000, model)
    yield call(91, 2_400, 0, 101_000, model)
    for number in range(1, 11):
        yield call(91 + number, 2_400 + 20 * number, 100_000 + 1_000 * number, 1_000, model)
    yield Remark("compaction", "s/102", "summary")
    for number in range(102, 142):
        yield call(number, 2_700 + 20 * (number - 102), 30_000, 1_000, model)


def savings(records: Iterable[Record]) -> PauseSavings | None:
    pauses = Pauses()
    for one in analyzed_calls(records):
        pauses.add(one)
    return pauses.savings()


def test_a_pause_by_hand() -> None:
    found = savings(session())
    removed = 100_000 - 10_000 - 3_000 - 20_000
    summary_usd = (100_000 * 0.5 + 3_000 * 25) / 1e6
    assert found is not None
    assert found.saved_usd == pytest.approx((removed * 6.25 + 10 * removed * 0.5) / 1e6 - summary_usd)
    assert (found.sessions, found.grade) == (1, "estimated")
    assert "would have saved $0.63 in 1 session (estimated: a summary of 3,000 tokens" in str(found)


def test_nothing_is_said_without_a_pause_or_a_price() -> None:
    assert savings(list(session())[:91]) is None
    assert savings(session("somebody-elses-7b")) is None


def always_late(n: int) -> Iterator[Record]:
    """Each call behind a pause, the prompt growing by 100 tokens."""
    return (call(number, 600 * number, 0, 50_000 + 100 * number) for number in range(n))


def test_the_work_does_not_grow_with_the_square_of_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    n_priced = 0

    def counting(*arguments: object) -> Price:
        price = price_of(*arguments)  # type: ignore[arg-type]

        def counted(usage: Usage) -> float | None:
            nonlocal n_priced
            n_priced += 1
            return price(usage)

        return counted

    calls = list(analyzed_calls(always_late(400)))
    price_of = prices.price_of
    monkeypatch.setattr(prices, "price_of", counting)
    pauses = Pauses()
    for one in calls:
        pauses.add(one)
    estimated = pauses.savings()
    assert n_priced < 15 * len(calls)
    monkeypatch.setattr(module, "GROWTH", 0)
    exact = savings(always_late(400))
    assert estimated is not None and exact is not None
    assert estimated.saved_usd == pytest.approx(exact.saved_usd, rel=0.02)


def test_a_cold_call_with_another_prompt_repeats_no_history() -> None:
    def request(number: int) -> Bodies:
        body = {"model": OPUS, "system": f"Document {number}. " * 40_000, "cache_control": {"type": "ephemeral"}}
        return Bodies(json.dumps({**body, "messages": [{"role": "user", "content": "Sum it up."}]}).encode())

    batch = [replace(call(n, 600 * n, 0, 100_000), prompt=request(n)) for n in range(4)]
    assert savings(batch) is None
    assert savings(replace(one, prompt=None) for one in batch) is not None


def test_a_real_session_in_every_face(shared: Path) -> None:
    from contextkit.report.contents import Gathering
    from contextkit.report.json import document
    from contextkit.report.markdown import markdown
    from contextkit.report.terminal import text

    gathering = Gathering()
    records = records_in([str(shared / "data" / "pi" / "before-compaction.jsonl")], Faults())
    gathering.add_all(analyzed_calls(records))
    contents = gathering.contents("a session")
    assert contents.pauses is not None and 0.3 < contents.pauses.saved_usd < 20 and contents.pauses.sessions == 1
    assert '"compacting_before_pauses":{"saved_usd":3.6' in document(contents)
    assert "compacting before a pause would have saved" in text(contents, 200)
    assert "compacting before a pause would have saved" in markdown(contents)
