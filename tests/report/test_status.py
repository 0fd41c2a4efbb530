"""The state of a session: the figures of the report on the same calls, however they are fed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import remarked_records_at
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.summary import summarise
from contextkit.report.status import Sessions

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-logs"
AT = 1_775_696_400.0


def calls(*usages: Usage, session: str = "s", lane: str = "main", model: str = "gpt-5.1") -> list[Record]:
    provider = "anthropic" if "claude" in model else "openai"
    times = [AT + 20 * number for number in range(len(usages))]
    return [
        ModelCall(f"{session}{lane}{at}", session, lane, at, at + 1, at + 2, provider, model, None, usage, None, None)
        for at, usage in zip(times, usages, strict=True)
    ]


def check(records: Sequence[Record]) -> Sessions:
    """Compare with the report; without prices, as both have their own way to them."""
    sessions, summary = Sessions(), summarise(records, by="session")
    sessions.add(records)
    names = [record.session for record in records if isinstance(record, ModelCall)]
    states = {state.session: state for state in sessions.states(lambda *_: None)}
    assert states.keys() == set(names)
    for row in summary.groups:
        state, loss = states[row.name], states[row.name].last_loss
        assert state.hit_rate == row.hit_rate
        lost = [miss for miss in summary.losses if names[miss.index] == row.name]
        last = max(lost, key=lambda miss: (miss.at, miss.index), default=None)
        number = last and names[: last.index + 1].count(row.name)
        assert (loss and (loss.call, loss.cause, loss.at)) == (last and (number, last.cause, last.at))
    return sessions


@pytest.mark.skipif(not LOGS.is_dir(), reason="the recorded logs are not here")
@pytest.mark.parametrize("program", ["claude-code", "codex", "copilot-cli", "gemini-cli", "2026-11-27"])
def test_recorded_sessions_stand_as_the_report_says(program: str) -> None:
    files = [file for file in sorted((LOGS / program).rglob("*")) if file.is_file() and ".json" in file.name]
    assert files
    for file in files[:20]:
        check(list(remarked_records_at(str(file))))


def test_what_a_later_call_shows_of_a_miss_is_said_of_it() -> None:
    read = Usage(fresh=2_000, read=20_000, writes={}, output=9)
    missed = Usage(fresh=22_500, read=0, writes={}, output=9)
    records = calls(Usage(fresh=20_500, read=0, writes={}, output=9), read, missed)
    [state] = check(records).states()
    assert state.last_loss is not None and state.last_loss.cause == "unknown"
    older = Usage(fresh=2_000, read=21_888, writes={}, output=9)
    [state] = check([*records, *calls(*[older] * 4)[3:]]).states()
    assert state.last_loss is not None and state.last_loss.cause == "other_server"


def test_a_copy_goes_on_by_itself() -> None:
    records = calls(*[Usage(3, 0, 40_000, 0, 9), Usage(3, 40_000, 900, 0, 9)], model="claude-opus-4-5")
    sessions = Sessions()
    sessions.add(records)
    before = sessions.states()
    ahead = sessions.copied()
    ahead.add(calls(Usage(3, 0, 45_000, 0, 9), lane="other", model="claude-opus-4-5"))
    assert sessions.states() == before != ahead.states()


def test_the_cache_is_that_of_the_main_lane() -> None:
    opus = "claude-opus-4-5"
    side = calls(Usage(3, 0, 9_000, 0, 9), lane="side", model=opus)
    main = calls(Usage(3, 0, 40_000, 0, 9), model=opus)
    [alone], [both], [reversed_] = check(side).states(), check([*main, *side]).states(), check([*side, *main]).states()
    assert alone.cached_tokens == 9_000 and both.cached_tokens == reversed_.cached_tokens == 40_000
