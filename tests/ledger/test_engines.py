"""Other engines over a ledger say what this process says: DuckDB, and one process a session."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass, replace
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.errors import LogCorrupt
from contextkit.ledger import summary as summary_module
from contextkit.ledger.calls import Exchange, Outline, Record, Remark, decode, encode
from contextkit.ledger.duckdb_ledger import COLUMNS, judged_rows
from contextkit.ledger.ledger import HEADER
from contextkit.ledger.misses import Miss, analyzed_calls
from contextkit.ledger.summary import GROUPS, Tally, dearest, summarise

MODELS = (
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-5.1"),
    ("google", "gemini-2.5-pro"),
    ("", "a-model-of-ours"),
)
START = 1_780_000_000.0


def a_ledger(n_sessions: int = 12) -> list[Record]:
    """Sessions that take turns: sub-agents, models of every kind, misses, unknown bills, recorded costs, placeholder
    outputs, remarks of every kind.
    """
    draw, records, sizes = random.Random(7), list[Record](), defaultdict[tuple[str, str], int](int)
    for n in range(n_sessions):
        records.append(Remark("project", f"s{n}", f"project {n % 3}"))
        records.append(Remark("agent", f"s{n}/sub", "scout"))
    records.append(Remark("sum", "s3/main", "an interval of counters"))
    records.append(Remark("sum", "s2/main", "an interval of counters of a model with price tiers"))
    for number in range(60 * n_sessions):
        session, lane = f"s{draw.randrange(n_sessions)}", draw.choice(("main", "main", "sub"))
        provider, model = MODELS[(int(session[1:]) + (draw.random() < 0.05)) % len(MODELS)]
        at, read = START + number * 40.0 * draw.random() * 20, sizes[session, lane]
        grown = draw.randrange(300, 9000)
        sizes[session, lane] = read + grown
        read, grown = (0, read + grown) if draw.random() < 0.1 else (read, grown)
        writes = (grown, 0) if provider == "anthropic" else (None, None)
        fresh = 4 if provider == "anthropic" else grown
        usage = (
            Usage(fresh, read, *writes, output=None if draw.random() < 0.02 else 300) if draw.random() < 0.95 else None
        )
        if usage and session == "s2":
            usage = replace(usage, fresh=190_000)
        if usage and number % 7 == 0:
            usage = usage.with_partial_output()
        billed_usd = (0.0, 0.0125, 0.5)[number % 3] if number % 11 < 2 else None
        estimate = 450 if number % 14 == 0 else None
        if draw.random() < 0.05:
            records.append(Remark(draw.choice(("verdict", "compaction", "setting")), f"c{number}", "system_changed"))
        call = Exchange(f"c{number}", session, lane, at, at + 1, at + 9, provider, model, None, usage, None, None)
        records.append(replace(call, billed_usd=billed_usd, output_estimate=estimate))
    return records


def written(path: Path, records: list[Record], tail: bytes = b"") -> Path:
    path.write_bytes(HEADER + b"".join(encode(record) + b"\n" for record in records) + tail)
    return path


def is_like(one: Any, other: Any) -> bool:
    """Equal, dollars to a billionth: they are added up in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if is_dataclass(one):
        return type(one) is type(other) and all(
            is_like(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(is_like, one, other))
    return bool(one == other)


@pytest.mark.parametrize("by", ["", *GROUPS])
def test_duckdb_gives_the_summary_of_this_process(by: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    from contextkit.ledger.duckdb_ledger import summarise_files

    records = a_ledger()
    found = summarise_files([str(written(tmp_path / "ledger.jsonl", records, b'{"id":"cut'))], by)
    expected = summarise(records, by)
    assert expected.losses
    assert 0 < expected.total.recorded.calls_with_list_price < expected.total.recorded.calls
    assert 0 < expected.total.placeholders.calls_estimated < expected.total.placeholders.calls
    added_up = next(row for row in expected.lanes if row.name == "s2/main")
    assert added_up.calls_with_partial_cost > added_up.placeholders.calls
    assert found.n_unread == 1
    for field in fields(expected):
        assert is_like(getattr(expected, field.name), getattr(found.summary, field.name)), field.name
    calls = list(analyzed_calls(records))
    assert found.sessions == {miss.index: calls[miss.index].exchange.session for miss in expected.misses}
    assert found.verdicts == {
        miss.index: calls[miss.index].verdict for miss in expected.misses if calls[miss.index].verdict
    }


def test_duckdb_reads_prompts_that_stand_as_differences_and_several_files(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    from contextkit.ledger.duckdb_ledger import summarise_files

    def call(number: int, keep: int, digests: list[str], usage: Usage) -> Exchange:
        n = range(len(digests))
        prompt = Outline(
            keep,
            ("aa", "bb", "cc"),
            (0, 1),
            tuple(digests),
            tuple(9000 * (keep + i + 1) for i in n),
            tuple(n),
            tuple(n),
            (),
        )
        at = START + number
        return Exchange(f"c{number}", "s", "main", at, None, at, "anthropic", MODELS[0][1], prompt, usage, None, None)

    records = [
        call(0, 0, ["01", "02"], Usage(0, 0, 18_000, 0, 5)),
        call(1, 2, ["03"], Usage(0, 18_000, 9000, 0, 5)),
        call(2, 0, ["11", "12", "13"], Usage(0, 0, 27_000, 0, 5)),
    ]
    files = [str(written(tmp_path / "one.jsonl", [*records[:2]])), str(written(tmp_path / "two.jsonl", [*records[2:]]))]
    found = summarise_files(files).summary
    assert [miss.cause for miss in found.misses] == ["first_write", "system_changed"]
    assert is_like(found, summarise(records))


def test_an_empty_ledger_has_an_empty_summary(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    from contextkit.ledger.duckdb_ledger import summarise_files

    assert is_like(summarise_files([str(written(tmp_path / "ledger.jsonl", []))]).summary, summarise([]))


def rows_of(lines: list[bytes]) -> list[dict[str, Any]]:
    return list(judged_rows(lines))


def in_processes(groups: Iterable[list[bytes]]) -> list[dict[str, Any]]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return [row for rows in pool.map(rows_of, groups) for row in rows]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_sessions_judged_in_processes_of_their_own_say_what_the_whole_says() -> None:
    records = a_ledger()
    lines = [encode(record) for record in records]
    sessions = {record.id: record.session for record in records if isinstance(record, Exchange)}
    groups = defaultdict[str, list[bytes]](list)
    for record, line in zip(records, lines, strict=True):
        about = sessions.get(record.about, record.about.split("/")[0]) if isinstance(record, Remark) else record.session
        groups[about].append(line)
    whole = rows_of(lines)
    assert by_id(in_processes(groups.values())) == by_id(whole)
    assert len(whole) == len(sessions)
    assert any(row["lost_tokens"] for row in whole)
    assert list(whole[0]) == list(COLUMNS)


def test_the_lines_put_together_by_session_say_what_the_whole_says(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    from contextkit.ledger.duckdb_ledger import write_by_session

    records, to = a_ledger(), tmp_path / "it's.parquet"
    assert write_by_session([str(written(tmp_path / "ledger.jsonl", records))], str(to)) == len(records)
    rows = (
        duckdb.connect().execute("SELECT session, line FROM read_parquet(?) ORDER BY session, n", [str(to)]).fetchall()
    )
    groups = [[line.encode() for _, line in group] for _, group in groupby(rows, key=lambda row: row[0])]
    assert by_id(in_processes(groups)) == by_id(rows_of([encode(record) for record in records]))


def test_a_count_that_no_call_has_is_a_damaged_line() -> None:
    whole, line = (
        encode(Exchange("a", "s", "main", START, None, None, "", "m", None, Usage(fresh, 0, 0, 0, 1), None, None))
        for fresh in (10**15, 10**25)
    )
    again = decode(whole)
    assert isinstance(again, Exchange)
    assert again.usage is not None
    assert again.usage.fresh == 10**15
    with pytest.raises(LogCorrupt, match="no natural number"):
        decode(line)
    with pytest.raises(LogCorrupt, match="not JSON"):
        decode(line[:-4])


# Bounds
# ---------------------------------------------------------------------------------------------------------------------


def test_a_long_recording_keeps_a_bounded_number_of_rates_and_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    records = a_ledger(6)
    exact = summarise(records)
    monkeypatch.setattr(summary_module, "MOST_RATES", 32)
    monkeypatch.setattr(summary_module, "MOST_MISSES", 10)
    tally = Tally()
    for call in analyzed_calls(records):
        tally.add(call)
    bounded = tally.summary()
    assert bounded.total == exact.total
    assert 32 <= len(bounded.hit_rates) <= 64
    together = -(-len(exact.hit_rates) // len(bounded.hit_rates))
    together = 1 << (together - 1).bit_length()
    first = [rate for rate in exact.hit_rates[:together] if rate is not None]
    assert bounded.hit_rates[0] is not None
    assert abs(bounded.hit_rates[0] - sum(first) / len(first)) < 0.1
    assert bounded.misses == tuple(dearest(exact.misses, 10))
    assert [miss.index for miss in bounded.misses] == sorted(miss.index for miss in bounded.misses)


def test_the_dearest_misses_keep_their_order() -> None:
    def misses() -> Iterator[Miss]:
        for index, cost in enumerate((0.5, None, 2.0, 1.0)):
            yield Miss(str(index), index, "main", START, "unknown", 9, 0, 9, cost, "", False)

    assert [miss.index for miss in dearest([*misses()], 2)] == [2, 3]
