"""`contextkit export`: the rows of a Parquet file add up to the report over the same sources."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlretrieve

import anthropic
import pytest

from contextkit.cache.usage import Usage
from contextkit.cli import export
from contextkit.ledger.calls import HEADER, Bodies, ModelCall, Record, encode
from contextkit.server import LocalServer
from tests.cli.conftest import Run, pi_session
from tests.ledger.test_bounds import a_ledger
from tests.scale import n_examples

pytest.importorskip("pyarrow", reason='the extra is not installed: pip install "contextkit-sdk[export]"')
from pyarrow import parquet

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "scale.md"
AT = 1_780_000_000.0


def ledger_at(path: Path, records: list[Record], tail: bytes = b"") -> Path:
    path.write_bytes(HEADER + b"".join(encode(record) + b"\n" for record in records) + tail)
    return path


def a_call(number: int, usage: Usage | None, **fields: Any) -> ModelCall:
    values = {"prompt": None, "error": None, "model": "claude-sonnet-4-5", "billed_usd": None} | fields
    prompt, error, model, billed = values["prompt"], values["error"], values["model"], values["billed_usd"]
    return ModelCall(
        f"c{number}", "s", "main", AT + number, None, None, "anthropic", model, prompt, usage, None, error, billed
    )


def exported(run: Run, out: Path, *arguments: object) -> list[dict[str, Any]]:
    ended = run("export", *arguments, "--out", out)
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = parquet.read_table(out).to_pylist()
    assert f"{len(rows):,} calls written to {out}" in ended.out
    return rows


def total(rows: list[dict[str, Any]], name: str) -> float:
    return math.fsum(row[name] for row in rows if row[name] is not None)


def check_against_report(run: Run, rows: list[dict[str, Any]], *arguments: object) -> None:
    report = json.loads(run("report", *arguments, "--json").out)
    for group, key in [(report["models"], "model"), (report["sessions"], "session")]:
        for row in group:
            check_sums([one for one in rows if one[key] == (row["name"] or None)], row)
    check_sums(rows, report["total"])
    lost = [row for row in rows if row["is_loss"]]
    assert len(lost) == report["total"]["n_misses"] == sum(cause["n"] for cause in report["causes"])
    for cause in report["causes"]:
        mine = [row for row in lost if row["miss_cause"] == cause["cause"]]
        assert (len(mine), total(mine, "lost_tokens")) == (cause["n"], cause["lost_tokens"])
        assert total(mine, "lost_usd") == pytest.approx(cause["cost_usd"] or 0.0)


def check_sums(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    usage = row["usage"]
    assert len(rows) == row["calls"]
    assert sum(one["input_tokens"] is not None for one in rows) == row["calls_with_usage"]
    for ours, theirs in [
        ("uncached_input_tokens", "fresh"),
        ("cache_read_tokens", "read"),
        ("output_tokens", "output"),
    ]:
        is_known = all(one[ours] is not None for one in rows if one["input_tokens"] is not None)
        assert not row["calls_with_usage"] or usage[theirs] == (total(rows, ours) if is_known else None)
    writes = sum((usage["writes"] or {}).values())
    assert total(rows, "cache_write_tokens") == (writes if row["calls_with_usage"] else 0)
    parts = ("cache_write_5m_tokens", "cache_write_1h_tokens", "cache_write_other_tokens")
    assert sum(total(rows, part) for part in parts) == total(rows, "cache_write_tokens")
    for ours, theirs in [
        ("cost_usd", "cost_usd"),
        ("list_cost_usd", "list_cost_usd"),
        ("uncached_cost_usd", "cost_uncached_usd"),
    ]:
        assert (row[theirs] is None) == all(one[ours] is None for one in rows)
        assert total(rows, ours) == pytest.approx(row[theirs] or 0.0)


def test_the_rows_add_up_to_the_report(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "ROW_GROUP", 100)
    ledger, out = ledger_at(tmp_path / "ledger.jsonl", a_ledger()), tmp_path / "calls.parquet"
    rows = exported(run, out, ledger)
    check_against_report(run, rows, ledger)
    assert parquet.ParquetFile(out).num_row_groups == 8
    assert {row["project"] for row in rows} == {"project 0", "project 1", "project 2"}
    assert {row["agent"] for row in rows} == {"main", "scout"}
    one_session = exported(run, out, ledger, "--session", "s1", "--since", "2026-05-28")
    check_against_report(run, one_session, ledger, "--session", "s1", "--since", "2026-05-28")
    assert 0 < len(one_session) < len(rows)


def test_the_rows_of_real_logs_add_up_to_the_report(run: Run, shared: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for packed in sorted((shared / "data" / "agent-logs").rglob("*.jsonl.gz"))[:: n_examples(4, 1)]:
        place = logs / packed.parent.name / packed.stem
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.decompress(packed.read_bytes()))
    rows = exported(run, tmp_path / "calls.parquet", logs)
    check_against_report(run, rows, logs)
    assert {"Claude Code", "Codex"} <= {row["program"] for row in rows}


def test_what_is_unknown_is_null_and_never_zero(run: Run, tmp_path: Path) -> None:
    calls: list[Record] = [
        a_call(0, Usage(5, 0, writes={300: 2_000, 3600: 30, 1800: 7}, output=3)),
        a_call(1, None, error="529 overloaded_error"),
        a_call(2, Usage(5, 9, output=3)),  # nobody says what was written, which has a price
        a_call(3, Usage(5, 0, writes={}, output=1), model="our-own-model"),
        a_call(4, Usage(5, 0, writes={}, output=1, service_tier="batch").with_partial_output(), billed_usd=0.5),
        a_call(5, None, prompt=Bodies(b'{"model":"m"}')),
        a_call(6, None, prompt=Bodies(b'{"model":"m"}'), error="aborted"),
    ]
    rows = exported(run, tmp_path / "calls.parquet", ledger_at(tmp_path / "ledger.jsonl", calls))
    writes = ("cache_write_5m_tokens", "cache_write_1h_tokens", "cache_write_other_tokens", "cache_write_tokens")
    assert [rows[0][name] for name in writes] == [2_000, 30, 7, 2_037]
    assert (rows[1]["is_refused"], rows[1]["error"], rows[1]["output_tokens"]) == (True, "529 overloaded_error", None)
    assert [rows[2][name] for name in ("input_tokens", "cache_read_tokens", "cost_usd", "cache_write_quality")] == [
        None,
        None,
        None,
        "unknown",
    ]
    assert (rows[3]["input_tokens"], rows[3]["cost_usd"], rows[3]["service_tier"]) == (5, None, "standard")
    assert (rows[4]["output_quality"], rows[4]["cost_usd"], rows[4]["is_cost_lower_bound"]) == ("partial", 0.5, False)
    assert rows[4]["service_tier"] == "batch"
    assert rows[5]["prompt_digest"] == rows[6]["prompt_digest"] != rows[0]["prompt_digest"] is None
    assert rows[6]["error"] == "aborted" and not rows[6]["is_refused"]
    assert rows[0]["started_at"].isoformat() == "2026-05-28T20:26:40"


def test_a_filter_does_not_change_the_rows_that_it_leaves(run: Run, tmp_path: Path) -> None:
    ledger, messages = tmp_path / "ledger.jsonl", []
    with LocalServer(now=AT) as server, anthropic.Anthropic(base_url=server.url, api_key="any") as client:
        for number in range(4):
            messages.append({"role": "user", "content": f"Question {number}"})
            client.messages.create(
                model="claude-sonnet-4-5", max_tokens=9, messages=messages, cache_control={"type": "ephemeral"}
            )
            messages.append({"role": "assistant", "content": "An answer."})
            server.clock.advance(100)
        urlretrieve(f"{server.url}/_contextkit/ledger", ledger)
    rows = exported(run, tmp_path / "all.parquet", ledger)
    later = exported(run, tmp_path / "later.parquet", ledger, "--since", "2026-05-28T20:29:00")
    assert len({row["prompt_digest"] for row in rows} - {None}) == 4
    assert later == rows[2:]


def test_no_text_of_a_prompt_is_in_the_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    exported(run, out, pi_session(tmp_path / "session.jsonl", 6))
    table = parquet.read_table(out)
    assert "Read everything" not in str(table.to_pylist())
    assert table.schema.metadata[b"contextkit_export"] == b"1"


def test_the_page_has_each_column_with_its_type() -> None:
    documented = {}
    for names, kinds in re.findall(r"^\| (`[^|]+`) \| ([a-z0-9\[\], ]+) \|", PAGE.read_text("utf-8"), re.MULTILINE):
        columns, types = re.findall(r"`(\w+)`", names), kinds.split(", ")
        documented |= dict(zip(columns, types if len(types) > 1 else types * len(columns), strict=True))
    assert documented == export.COLUMNS


def test_the_queries_of_the_page_say_what_the_report_says(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="a development dependency")
    sent_twice: list[Record] = [a_call(n, Usage(5, 0, writes={}, output=1), prompt=Bodies(b"{}")) for n in range(2)]
    ledger = ledger_at(tmp_path / "ledger.jsonl", [*a_ledger(), *sent_twice])
    exported(run, tmp_path / "calls.parquet", ledger)
    report = json.loads(run("report", ledger, "--by", "model", "--json").out)
    monkeypatch.chdir(tmp_path)
    view, by_model, causes, repeated = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    with duckdb.connect() as connection:
        connection.execute(view)
        found = {row[0]: row[1:] for row in connection.execute(by_model).fetchall()}
        assert found.keys() == {row["name"] for row in report["models"]}
        for row in report["models"]:
            calls, hit_rate, cost_usd, misses, _ = found[row["name"]]
            assert (calls, misses) == (row["calls"], row["n_misses"])
            assert (hit_rate, cost_usd) == (pytest.approx(row["hit_rate"]), pytest.approx(row["cost_usd"]))
        lost = connection.execute(causes).fetchall()
        assert sum(row[2] for row in lost) == report["total"]["n_misses"]
        assert {row[1] for row in lost} == {cause["cause"] for cause in report["causes"]}
        assert [row[1] for row in connection.execute(repeated).fetchall()] == [2]


def test_a_source_that_is_not_read_wholly_ends_with_1(run: Run, tmp_path: Path) -> None:
    session, out = pi_session(tmp_path / "session.jsonl", 6), tmp_path / "calls.parquet"
    damaged = tmp_path / "other.jsonl.gz"
    damaged.write_bytes(gzip.compress(session.read_bytes())[:-20])
    ended = run("export", session, damaged, "--out", out)
    assert (ended.code, run("report", session, damaged).code) == (1, 1)
    assert parquet.read_table(out).num_rows >= 6 and "other.jsonl.gz" in ended.err


def test_without_pyarrow_the_command_names_the_extra(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    ended = run("export", pi_session(tmp_path / "session.jsonl", 6), "--out", tmp_path / "calls.parquet")
    assert ended.code == 2 and 'pip install "contextkit-sdk[export]"' in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]


def test_the_file_is_private_and_takes_the_place_of_nothing_else(run: Run, tmp_path: Path) -> None:
    session, out, link = pi_session(tmp_path / "session.jsonl", 6), tmp_path / "calls.parquet", tmp_path / "link"
    exported(run, out, session)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600 or os.name == "nt"
    before = session.read_bytes()
    link.symlink_to(out)
    for place, message in [(session, "one of the files"), (link, "a link"), ("-", "not standard output")]:
        ended = run("export", tmp_path / "session.jsonl", "--out", place)
        assert ended.code == 2 and message in ended.err
    assert run("export", session, "--session", "another", "--out", out).code == 2
    assert session.read_bytes() == before and parquet.read_table(out).num_rows == 6
    assert {path.name for path in tmp_path.iterdir()} == {"session.jsonl", "calls.parquet", "link"}
