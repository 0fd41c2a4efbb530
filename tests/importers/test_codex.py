"""Rollouts of Codex: the growth of the totals is the bill, each step once, whatever is repeated, forked or broken."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import NO_COUNT, Usage
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.summary import summarise

ROLLOUT = Path(__file__).parent / "fixtures" / "codex" / "rollout-2026-07-03T18-15-10-019c846c.jsonl"
SESSION = "019c846c-made-up"


def lines() -> list[str]:
    return ROLLOUT.read_text(encoding="utf-8").splitlines()


def put(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    records = records_in([str(path)], Faults() if faults is None else faults)
    return [record for record in records if isinstance(record, ModelCall)]


def totals(found: list[ModelCall]) -> tuple[int, int, int]:
    usages = [call.usage for call in found if call.usage]
    read = sum(usage.read or 0 for usage in usages)
    return sum(usage.fresh or 0 for usage in usages) + read, read, sum(usage.output or 0 for usage in usages)


def count(at: str, total: dict[str, int] | None, last: dict[str, int] | None) -> str:
    info = {"total_token_usage": total, "last_token_usage": last}
    return json.dumps(
        {"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}}, separators=(",", ":")
    )


def use(prompt: int, cached: int, output: int, **more: int) -> dict[str, int]:
    return {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": output, **more}


@pytest.mark.parametrize("seed", range(5))
def test_repeated_and_reordered_events_never_count_twice(tmp_path: Path, seed: int) -> None:
    rows, dice = lines(), random.Random(seed)
    body = rows[1:] + dice.sample(rows[1:], 5)
    dice.shuffle(body)
    prompt, read, output = totals(calls(put(tmp_path / "mixed.jsonl", [rows[0], *body])))
    assert prompt <= 52275 and read <= 20864 and output <= 450


def test_totals_that_fall_are_said_and_counted_anew(tmp_path: Path) -> None:
    rows = [
        lines()[0],
        count("2026-07-03T18:20:00Z", use(1000, 0, 10), use(1000, 0, 10)),
        count("2026-07-03T18:21:00Z", use(300, 100, 5), use(300, 100, 5)),
        count("2026-07-03T18:22:00Z", use(700, 300, 9), use(400, 200, 4)),
    ]
    faults = Faults()
    found = calls(put(tmp_path / "a.jsonl", rows), faults)
    assert totals(found) == (1700, 300, 19)
    assert [(fault.line, fault.what) for fault in faults.kept] == [
        (3, "cumulative counts fell; counted anew from here")
    ]


def test_a_fork_repeats_its_parent_and_only_its_own_calls_count(tmp_path: Path) -> None:
    fork = json.loads(lines()[0])
    fork["payload"] |= {"id": "fork", "forked_from_id": SESSION}
    own = count("2026-07-03T19:00:00Z", use(60275, 22864, 500), use(8000, 2000, 50))
    put(tmp_path / "rollout-1.jsonl", lines())
    put(tmp_path / "rollout-2.jsonl", [json.dumps(fork, separators=(",", ":")), *lines(), own])
    faults = Faults()
    found = calls(tmp_path, faults)
    assert totals(found) == (60275, 22864, 500)
    assert (found[-1].id, found[-1].session) == ("fork/1", "fork")
    assert any("counted once" in fault.what for fault in faults.kept)


def test_writes_and_what_is_not_said(tmp_path: Path) -> None:
    rows = [
        lines()[0],
        count("2026-07-03T18:20:00Z", use(1000, 200, 10, cache_write_input_tokens=700), None),
        count("2026-07-03T18:21:00Z", None, {"input_tokens": 50, "output_tokens": 5}),
    ]
    usages = [call.usage for call in calls(put(tmp_path / "a.jsonl", rows))]
    assert usages == [Usage(fresh=100, read=200, writes={1800: 700}, output=10), Usage(output=5)]


def test_a_sub_agent_is_a_lane_of_who_started_it(tmp_path: Path) -> None:
    head = json.loads(lines()[0])
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1, "agent_nickname": "Basil"}}}
    head["payload"] |= {"id": "child", "source": spawned}
    path = put(
        tmp_path / "a.jsonl",
        [json.dumps(head, separators=(",", ":")), count("2026-07-03T18:20:00Z", use(9, 0, 1), None)],
    )
    records = list(records_in([str(path)], Faults()))
    assert Remark("agent", f"{SESSION}/child", "Basil") in records
    assert [(call.session, call.lane) for call in records if isinstance(call, ModelCall)] == [(SESSION, "child")]


@pytest.mark.parametrize(
    ("bad", "said", "kept"),
    [
        (lambda line: line[:120], "cut", 4),  # the totals of the next event hold it
        (lambda line: line.replace("2026-07-03", "1970-01-01"), "clock", 4),
        (lambda line: line.replace('"cached_input_tokens":16768', '"cached_input_tokens":31768'), "more read", 4),
        (lambda line: line.replace('"input_tokens":29275', '"input_tokens":29276'), "the growth stands", 4),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_reading_goes_on(
    tmp_path: Path, bad: Any, said: str, kept: int
) -> None:
    rows = lines()
    place = next(number for number, row in enumerate(rows) if "29275" in row)
    rows[place] = bad(rows[place])
    faults = Faults()
    found = calls(put(tmp_path / "bad.jsonl", rows), faults)
    assert len(found) == kept
    assert (faults.kept[0].line, said in faults.kept[0].what) == (place + 1, True)


def test_a_rollout_that_was_written_anew_with_blanks_says_the_same(tmp_path: Path) -> None:
    path = put(tmp_path / "blanks.jsonl", [json.dumps(json.loads(row)) for row in lines()])
    assert list(records_at(str(path))[1]) == list(records_at(str(ROLLOUT))[1])


def test_a_call_that_was_interrupted_is_billed_as_a_call_of_its_own(tmp_path: Path) -> None:
    rows = lines()
    place = next(number for number, row in enumerate(rows) if "29275" in row)
    whole = calls(put(tmp_path / "whole.jsonl", rows))
    del rows[place]
    faults = Faults()
    found = calls(put(tmp_path / "interrupted.jsonl", rows), faults)
    assert [call.usage for call in found] == [call.usage for call in whole]
    assert [call.error for call in found].count("aborted") == 1
    assert any("interrupted call" in str(fault) for fault in faults.kept)


def test_a_turn_tells_the_reasoning_of_the_turn_before(tmp_path: Path) -> None:
    def spoken(at: str, prompt: int, total: int, reasoning: int) -> str:
        event = json.loads(count(at, use(total, 0, 10 * total), use(prompt, 0, 10 * prompt)))
        event["payload"]["info"]["last_token_usage"]["reasoning_output_tokens"] = reasoning
        return json.dumps(event, separators=(",", ":"))

    def user(at: str) -> str:
        event = {"timestamp": at, "type": "event_msg", "payload": {"type": "user_message", "message": "go on"}}
        return json.dumps(event, separators=(",", ":"))

    rows = [
        lines()[0],
        user("2026-07-03T18:20:00Z"),
        spoken("2026-07-03T18:20:10Z", 1000, 1000, 300),
        spoken("2026-07-03T18:20:20Z", 1100, 2100, 50),
        user("2026-07-03T18:21:00Z"),
        spoken("2026-07-03T18:21:10Z", 1200, 3300, 7),
        spoken("2026-07-03T18:21:20Z", 1300, 4600, 0),
        user("2026-07-03T18:22:00Z"),
        spoken("2026-07-03T18:22:10Z", 1400, 6000, 0),
    ]
    records = records_in([str(put(tmp_path / "turns.jsonl", rows))], Faults())
    said = [
        (remark.about[-1], remark.text) for remark in records if isinstance(remark, Remark) and remark.kind == "turn"
    ]
    assert said == [("1", "0"), ("3", "350"), ("5", "7")]


def settings(at: str, tier: str | None) -> str:
    """As Codex writes the settings of a thread: a tier that nobody set is left out."""
    said = {"model": "gpt-5.5", "model_provider_id": "openai", **({} if tier is None else {"service_tier": tier})}
    payload = {"type": "thread_settings_applied", "thread_settings": said}
    return json.dumps({"timestamp": at, "type": "event_msg", "payload": payload}, separators=(",", ":"))


def test_the_service_tier_that_codex_asks_for_holds_until_it_asks_for_another(tmp_path: Path) -> None:
    rows = [
        json.dumps({"timestamp": AT.format(0), "type": "session_meta", "payload": {"id": "a"}}, separators=(",", ":"))
    ]
    rows.append(json.dumps({"timestamp": AT.format(1), "type": "turn_context", "payload": {"model": "gpt-5.5"}}))
    for number, tier in enumerate(("default", "priority", "fast", "flex", None), 1):
        total = use(1_000 * number, 0, 10 * number)
        rows += [settings(AT.format(10 * number), tier), count(AT.format(10 * number + 5), total, use(1_000, 0, 10))]
    rows.append(count(AT.format(59), use(6_000, 0, 60), use(1_000, 0, 10)))
    found = calls(put(tmp_path / "a.jsonl", rows))
    assert [call.usage and call.usage.service_tier for call in found] == ["", "priority", "priority", "flex", "", ""]
    standard = summarise(found[:1]).cost_usd
    assert standard
    # priority costs twice the list price, flex half of it
    assert summarise(found).cost_usd == pytest.approx(standard * (1 + 2 + 2 + 0.5 + 1 + 1))


AT = "2026-07-03T18:15:{:02}Z"


def test_growth_beyond_a_damaged_total_is_unknown_and_never_the_whole_total(tmp_path: Path) -> None:
    rows = [
        *lines()[:2],
        count("2026-07-03T18:15:20.000Z", use(1_000, 800, 10), use(1_000, 800, 10)),
        count("2026-07-03T18:15:30.000Z", {**use(2_100, 0, 20), "cached_input_tokens": -5}, None),
        count("2026-07-03T18:15:40.000Z", use(3_300, 2_900, 30), None),
    ]
    faults = Faults()
    found = calls(put(tmp_path / "rollout.jsonl", rows), faults)
    assert [call.usage and call.usage.read for call in found] == [800, None, None]
    assert (4, NO_COUNT) in {(fault.line, fault.what) for fault in faults.kept}
