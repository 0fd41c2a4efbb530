"""The report of SQLite files that hold the ledgers of many sessions."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contextkit import AnthropicMessages, Context
from contextkit.cli.main import cli
from contextkit.errors import LogCorrupt, UnreadableLog
from contextkit.importers.registry import ledger_at, records_in
from contextkit.importers.source import DAMAGED, Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.prompts import prompts_of

SYSTEM = "You are careful. " * 500
N_CALLS = 3


def reply(number: int, read: int, written: int) -> dict[str, Any]:
    usage = {
        "input_tokens": 5,
        "output_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    content = [{"type": "text", "text": "ok"}]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def conversation(place: str, with_agent: bool = False) -> str:
    """A conversation of three calls; gives its id in reports."""
    with Context.open(place, AnthropicMessages("claude-sonnet-5-5", max_tokens=64), system=SYSTEM) as context:
        for number in range(N_CALLS):
            context.user(f"Question {number}.")
            context.receive(reply(number, 2_000 if number else 0, 0 if number else 2_000), context.request())
        if with_agent:
            agent = context.spawn("Look it up.")
            agent.receive(reply(9, 2_000, 0), agent.request())
        return context.ledger[0].session


def report(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def shown(*arguments: object) -> Any:
    return json.loads(report(*arguments, "--json").stdout)


def prompts(calls: Iterable[ModelCall]) -> list[int | None]:
    """Size of each call's prompt, rebuilt from the rows before it."""
    return [None if prompt is None else prompt.n_tokens for _, prompt in prompts_of(calls)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "agents.db"


def change(file: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(file)
    with database:
        database.execute(statement, values)
    database.close()


def test_each_session_of_a_file_is_a_conversation_as_in_a_ledger_of_its_own(file: Path, tmp_path: Path) -> None:
    ids = [conversation(f"sqlite:///{file}?session={name}", name == "b") for name in ("a", "b")]
    for name in ("a", "b"):
        conversation(str(tmp_path / "folders" / name), name == "b")
    contents, folders = shown(file, "--by", "session"), shown(tmp_path / "folders", "--by", "session")
    assert sorted(row["name"] for row in contents["groups"]) == sorted(ids)
    assert sorted(row["calls"] for row in contents["groups"]) == [N_CALLS, N_CALLS + 1]
    assert contents["total"] == {**folders["total"], "name": contents["total"]["name"]}
    assert contents["hit_rates"] == folders["hit_rates"] and contents["n_faults"] == 0
    assert [miss["cause"] for miss in contents["misses"]] == [miss["cause"] for miss in folders["misses"]]


def test_sessions_that_take_turns_keep_their_prompts_apart(file: Path) -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
    places = [f"sqlite:///{file}?session={name}" for name in ("a", "b")]
    with (
        Context.open(places[0], provider, system=SYSTEM) as one,
        Context.open(places[1], provider, system="B.") as other,
    ):
        for number in range(N_CALLS):
            for context in (one, other):
                context.user(f"Question {number}.")
                context.receive(reply(number, 0, 2_000), context.request())
        alone = [prompts(context.ledger) for context in (one, other)]
    ours = prompts(record for record in records_in([str(file)], Faults()) if isinstance(record, ModelCall))
    assert None not in ours and (ours[::2], ours[1::2]) == tuple(alone) and alone[0][0] != alone[1][0]


def test_a_file_is_read_while_its_first_transaction_is_only_in_the_log_ahead(file: Path) -> None:
    place = f"sqlite:///{file}?session=a"
    with Context.open(place, AnthropicMessages("claude-sonnet-5-5", max_tokens=64), system=SYSTEM) as context:
        context.user("Hello.")
        context.receive(reply(1, 0, 2_000), context.request())
        assert file.with_name("agents.db-wal").stat().st_size > 0
        assert shown(file)["total"]["calls"] == shown(file.parent)["total"]["calls"] == 1


def test_a_folder_gives_its_sqlite_files_and_passes_over_those_of_others(file: Path) -> None:
    conversation(f"sqlite:///{file}?session=a")
    conversation(f"sqlite:///{file.with_name('more.sqlite')}?session=a")
    change(file.with_name("theirs.db"), "create table t (x)")
    contents = shown(file.parent)
    assert (contents["total"]["calls"], contents["faults"]) == (2 * N_CALLS, [])
    refused = report(file.with_name("theirs.db"))
    assert refused.exit_code != 0 and "is the SQLite file of another program" in str(refused.stderr)


def test_a_damaged_row_is_left_out_and_named(file: Path) -> None:
    for name in ("a", "b"):
        conversation(f"sqlite:///{file}?session={name}")
    change(file, "update call set line = substr(line, 2) where number = 2")
    contents = shown(file)
    assert contents["total"]["calls"] == 2 * N_CALLS - 1
    assert contents["faults"] == [{"file": str(file), "line": 2, "what": DAMAGED}]
    with pytest.raises(LogCorrupt, match=r"agents\.db line 2: a damaged row"):
        ledger_at(file)


def test_the_report_goes_on_behind_a_damaged_file(file: Path) -> None:
    conversation(f"sqlite:///{file}?session=a")
    damaged = file.with_name("damaged.db")
    shutil.copy(file, damaged)
    with damaged.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * (damaged.stat().st_size - 4096))
    contents = shown(file.parent)
    assert contents["total"]["calls"] == N_CALLS
    [fault] = contents["faults"]
    assert fault["file"] == str(damaged) and "is damaged" in fault["what"]
    ended = report(file.parent)
    assert ended.exit_code == 0 and str(damaged) in ended.stderr


def test_what_sqlite_cannot_look_into_is_refused(file: Path) -> None:
    conversation(f"sqlite:///{file}?session=a")
    packed = file.with_name("agents.db.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    with pytest.raises(UnreadableLog, match="give the plain file"):
        list(records_in([str(packed)], Faults()))


def test_a_ledger_can_be_made_of_a_file(file: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        conversation(f"sqlite:///{file}?session={name}")
    assert report(file, "--to", tmp_path / "ledger.jsonl").exit_code == 0
    made, read = shown(tmp_path / "ledger.jsonl"), shown(file)
    assert made["hit_rates"] == read["hit_rates"] and made["total"]["cost_usd"] == read["total"]["cost_usd"]
