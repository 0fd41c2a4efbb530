"""Sessions of opencode: a database and an older folder made here; totals equal a count that reads their JSON alone."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.errors import UnreadableLog
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark

FIXTURES = Path(__file__).parent / "fixtures" / "opencode"
DATABASE, FOLDER = FIXTURES / "opencode.db", FIXTURES / "storage"


def read(*paths: Path) -> tuple[list[ModelCall], list[Remark], Faults]:
    faults = Faults()
    held = list(records_in([str(path) for path in paths], faults))
    return [one for one in held if isinstance(one, ModelCall)], [one for one in held if isinstance(one, Remark)], faults


def test_what_stands_in_the_folder_and_in_the_database_is_counted_once(tmp_path: Path) -> None:
    database = sqlite3.connect(DATABASE)
    name, session, data = database.execute("select id, session_id, data from message where id = 'msg_2'").fetchone()
    path = tmp_path / "msg_2.json"
    path.write_text(json.dumps({"id": name, "sessionID": session, **json.loads(data)}), "utf-8")
    calls, _, faults = read(DATABASE, path)
    assert len(calls) == 7 and faults.kept[-1].what == "1 of its calls were read before; counted once"


def test_a_packed_database_and_one_that_is_being_written(tmp_path: Path) -> None:
    packed, live = tmp_path / "opencode.db.gz", tmp_path / "live.db"
    packed.write_bytes(gzip.compress(DATABASE.read_bytes()))
    shutil.copy(DATABASE, live)
    writer = sqlite3.connect(live)
    writer.execute("pragma journal_mode=wal")
    writer.execute("update message set data = json_set(data, '$.tokens.input', 99) where id = 'msg_2'")
    writer.commit()
    assert len(read(packed)[0]) == 7
    first = read(live)[0][0].usage
    assert first is not None and first.fresh == 99
    writer.close()


def test_rows_without_json_are_faults_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    shutil.copy(DATABASE, path)
    database = sqlite3.connect(path)
    database.execute("update message set data = '{\"role\":\"assis' where id = 'msg_3'")
    database.execute("update message set data = json_set(data, '$.new', 1, '$.providerID', 'mine') where id = 'msg_6'")
    database.commit()
    database.close()
    calls, _, faults = read(path)
    assert [call.id for call in calls] == ["msg_2", "msg_5", "msg_6", "msg_9", "msg_9/1", "msg_8"]
    assert [(fault.line > 0, fault.what[:23]) for fault in faults.kept] == [(True, "a row without an object")]


def test_another_database_is_said_to_be_another(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = sqlite3.connect(path)
    database.execute("create table notes (id)")
    database.close()
    with pytest.raises(UnreadableLog, match=r"not opencode's \(no such table: session\)"):
        list(records_at(str(path))[1])


def exported(name: str, parent: str = "") -> dict[str, object]:
    """What `opencode export` writes of a session, as of version 1.2."""
    tokens = {"total": 7_387, "input": 7_174, "output": 213, "reasoning": 118, "cache": {"read": 0, "write": 0}}
    step = {"type": "step-finish", "cost": 0.0171885, "tokens": tokens}
    said = {"providerID": "openai", "modelID": "gpt-5.3-codex", "agent": "build", "tokens": {"input": 1, "output": 1}}
    times = {"created": 1_773_381_665_478, "completed": 1_773_381_670_137}
    messages = [
        {"info": {"id": f"msg_{name}1", "role": "user", "time": {"created": 1_773_381_665_474}}, "parts": []},
        {"info": {"id": f"msg_{name}2", "role": "assistant", "time": times, **said}, "parts": [{"type": "text"}, step]},
    ]
    about = {"id": f"ses_{name}", "projectID": "p", "directory": "~/greenhouse", "title": "Watering"}
    return {"info": {**about, **({"parentID": parent} if parent else {})}, "messages": messages}


def test_an_export_is_a_session_and_that_of_a_sub_agent_a_lane(tmp_path: Path) -> None:
    for name, parent in (("a", ""), ("b", "ses_a")):
        (tmp_path / f"{name}.json").write_text(json.dumps(exported(name, parent), indent=2), encoding="utf-8")
    calls, remarks, faults = read(tmp_path / "a.json", tmp_path / "b.json")
    assert [(call.session, call.lane, call.usage, call.billed_usd) for call in calls] == [
        ("ses_a", "main", Usage(7_174, 0, 0, 0, 213), 0.0171885),
        ("ses_a", "ses_b", Usage(7_174, 0, 0, 0, 213), 0.0171885),
    ]
    assert {(remark.kind, remark.about, remark.text) for remark in remarks} == {
        ("project", "ses_a", "~/greenhouse"),
        ("title", "ses_a", "Watering"),
        ("agent", "ses_a/ses_b", "build"),
    }
    assert not len(faults)


def test_a_damaged_export_is_a_fault_and_raises_nothing(tmp_path: Path) -> None:
    told = exported("a")
    told["messages"] = [None, {"info": 5, "parts": {}}, *told["messages"], {"info": {"role": "assistant"}}]  # type: ignore[misc]
    (tmp_path / "a.json").write_text(json.dumps(told), encoding="utf-8")
    assert len(read(tmp_path / "a.json")[0]) == 1


ZEROS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def test_a_reply_whose_counters_are_all_0_is_a_call_of_unknown_usage_and_a_shell_command_is_none(
    tmp_path: Path,
) -> None:
    about = {"role": "assistant", "providerID": "opencode", "modelID": "m", "tokens": ZEROS, "cost": 0}
    started = {"type": "step-start"}
    parts: dict[str, list[dict[str, object]]] = {
        "msg_replied": [started, {"type": "reasoning"}, {"type": "step-finish", "tokens": ZEROS, "cost": 0}],
        "msg_cut": [started, {"type": "text"}],
        "msg_shell": [{"type": "tool", "tool": "bash"}],
    }
    messages = {
        name: {**about, "id": name, "sessionID": "ses_1", "time": {"created": 1_773_381_665_000 + number}}
        for number, name in enumerate(parts)
    }

    export = tmp_path / "export.json"
    sent = [{"info": messages[name], "parts": parts[name]} for name in parts]
    export.write_text(json.dumps({"info": {"id": "ses_1", "projectID": "p"}, "messages": sent}), "utf-8")

    folder, database = tmp_path / "storage", tmp_path / "a.db"
    rows = sqlite3.connect(database)
    rows.executescript(
        "create table session (id, parent_id, directory, title);"
        "create table message (id, session_id, time_created, data);"
        "create table part (id, message_id, session_id, data);"
    )
    for name, message in messages.items():
        rows.execute("insert into message values (?, 'ses_1', ?, ?)", (name, name, json.dumps(message)))
        path = folder / "message" / "ses_1" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(message), "utf-8")
        for number, part in enumerate(parts[name]):
            rows.execute("insert into part values (?, ?, 'ses_1', ?)", (number, name, json.dumps(part)))
            path = folder / "part" / name / f"prt_{number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"sessionID": "ses_1", **part}), "utf-8")
    rows.commit()
    rows.close()

    for log in (export, folder, database):
        calls, _, faults = read(log)
        assert {(call.id, call.usage, call.error) for call in calls} == {
            ("msg_replied", None, None),
            ("msg_cut", None, None),
        }
        assert not len(faults)
