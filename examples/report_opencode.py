"""What sessions of opencode read from the cache, and what opencode says they cost.

    python examples/report_opencode.py ~/.local/share/opencode/opencode.db

Without a path it reads a made-up database of two calls.
"""

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise


def reply(number: int, read: int, write: int) -> dict[str, object]:
    """A message of the assistant with its bill."""
    at = 1_767_225_600_000 + number * 20_000
    tokens = {"input": 12, "output": 80, "reasoning": 0, "cache": {"read": read, "write": write}}
    model = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
    return {
        "role": "assistant",
        "time": {"created": at, "completed": at + 4_000},
        **model,
        "cost": 0.02,
        "tokens": tokens,
    }


def made_up(folder: str) -> str:
    """The tables that a report reads, with the columns it looks at."""
    path = Path(folder) / "opencode.db"
    database = sqlite3.connect(path)
    database.execute("create table session (id text, parent_id text, directory text, title text)")
    database.execute("create table message (id text, session_id text, time_created integer, data text)")
    database.execute("create table part (id text, message_id text, session_id text, data text)")
    database.execute("insert into session values ('ses_1', null, '~/greenhouse', 'Ferns')")
    for number, said in enumerate((reply(1, 0, 14_000), reply(2, 14_000, 600))):
        database.execute("insert into message values (?, 'ses_1', ?, ?)", (f"msg_{number}", number, json.dumps(said)))
    database.commit()
    database.close()
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    records = list(records_in(sys.argv[1:] or [made_up(folder)], faults))
    cost = sum(record.billed_usd or 0 for record in records if isinstance(record, ModelCall))
    summary = summarise(records)
    print(f"{summary.calls} calls, ${cost:.2f} by the log: {summary}")
    for fault in faults.kept:
        print(fault)
