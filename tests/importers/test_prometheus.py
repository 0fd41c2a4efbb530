"""Scrapes of vLLM and SGLang: a row an interval, restarts, times, several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.misses import analyzed_calls

LABELS = '{engine="0",model_name="m"}'


def rows(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    records = records_in([str(path)], Faults() if faults is None else faults)
    return [record for record in records if isinstance(record, ModelCall)]


def page(sent: float, read: float, output: float, labels: str = LABELS, when: str = "") -> str:
    counts = (
        ("prefix_cache_queries_total", sent),
        ("prefix_cache_hits_total", read),
        ("generation_tokens_total", output),
    )
    return "".join(f"vllm:{name}{labels} {count}{when}\n" for name, count in counts)


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_that_add_up_calls_are_never_misses(tmp_path: Path) -> None:
    seen = [(0, 0, 0), (90_000, 80_000, 1), (180_000, 81_000, 2)]
    text = "".join(page(*counts, when=f" {1775696400 + n}000") for n, counts in enumerate(seen))
    records = list(records_in([str(put(tmp_path / "a.prom", text))], Faults()))
    assert [record.kind for record in records if isinstance(record, Remark)] == ["sum"]
    found = list(analyzed_calls(records))
    assert [(row.index, row.miss) for row in found] == [(0, None), (1, None)]


def test_several_files_of_one_server_follow_one_another(tmp_path: Path) -> None:
    for number, counts in enumerate([(100, 40, 5), (300, 200, 9), (310, 205, 10)], 1):
        put(tmp_path / f"metrics-{number:03}.prom", f"# 2026-04-09T01:00:{number:02}Z\n" + page(*counts))
    faults = Faults()
    found = rows(tmp_path, faults)
    assert [row.usage and row.usage.prompt for row in found] == [100, 200, 10]
    assert {row.session for row in found} == {"metrics-#.prom"} and len({row.id for row in found}) == 3
    assert [fault.what for fault in faults.kept] == ["one scrape only: its row is all since the server was started"]


def test_engines_are_lanes(tmp_path: Path) -> None:
    two = '{engine="1",model_name="m"}'
    text = page(10, 5, 1) + page(20, 5, 1, two) + page(30, 15, 2) + page(40, 25, 2, two)
    faults = Faults()
    found = rows(put(tmp_path / "a.prom", text), faults)
    assert [(row.lane, row.usage and row.usage.prompt) for row in found] == [("m engine 0", 20), ("m engine 1", 20)]
    assert "no time" in faults.kept[0].what


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (page(10, 5, 1) + page(20, 50, 2), "more read"),
        (page(10, 5, 1) + "vllm:prefix_cache_hits_total{" + "\n" + page(20, 7, 2), "no sample"),
        (page(10, 5, 1) + page(float("nan"), 7, 2), "no count"),
        (page(10, 5, 1, when=" 1775696400000") + page(20, 7, 2, when=" 1775696300000"), "earlier"),
        (page(10, 5, 1, when=" 5000") + page(20, 7, 2, when=" 9000"), "no time"),
    ],
)
def test_what_is_wrong_is_said_and_reading_goes_on(tmp_path: Path, text: str, said: str) -> None:
    faults = Faults()
    assert len(rows(put(tmp_path / "a.prom", text), faults)) == 1
    assert any(said in fault.what for fault in faults.kept)


def test_what_the_engine_does_not_count_is_unknown(tmp_path: Path) -> None:
    text = f"vllm:generation_tokens_total{LABELS} 5\nvllm:generation_tokens_total{LABELS} 9\n"
    [row] = rows(put(tmp_path / "a.prom", text))
    assert row.usage == Usage(output=4)


OFF = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="False",engine="0"} 1.0\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            OFF + page(0, 0, 5) + OFF.replace("False", "True"),
            'is off (enable_prefix_caching="False"): start vLLM with `--e',
        ),
        (page(0, 0, 1) + page(0, 0, 2), "seems off (tokens were generated, no prompt was looked up): start vLLM with"),
        (
            page(50_000, 0, 1) + page(150_000, 0, 2),
            "may be off, or no two prompts begin alike (0 of 150,000 tokens read)",
        ),
        (
            "sglang:prompt_tokens_total 150000\nsglang:cached_tokens_total 0\n",
            "may be off, or no two prompts begin alike (0 of 150,000 tokens read): start SGLang without `--disable-radix-c",
        ),
        (OFF.replace("False", "True") + page(150_000, 16, 2), ""),
        (page(0, 0, 0) + page(99_999, 0, 0), ""),
        ("sglang:prompt_tokens_total 150000\n", ""),
    ],
)
def test_an_engine_without_prefix_caching_is_said_once(tmp_path: Path, text: str, said: str) -> None:
    faults = Faults()
    rows(put(tmp_path / "a.prom", text + text), faults)
    about = [fault.what for fault in faults.kept if fault.what.startswith("prefix caching")]
    assert len(about) == bool(said) and all(said in what for what in about)


def test_an_engine_that_looks_no_prompt_up_does_not_say_what_was_sent(tmp_path: Path) -> None:
    for text, output in ((page(0, 0, 5), 5), (page(0, 0, 5) + page(0, 0, 9), 4)):
        assert [row.usage for row in rows(put(tmp_path / "off.prom", text), Faults())] == [Usage(output=output)]
    last = rows(put(tmp_path / "on.prom", page(0, 0, 0) + page(64, 16, 5) + page(64, 16, 9)), Faults())[-1]
    assert last.usage == Usage(fresh=0, read=0, write_5m=0, write_1h=0, output=4)  # nothing was sent in that interval
