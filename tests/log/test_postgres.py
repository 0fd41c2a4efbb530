"""A log in Postgres: what two writers, a crash, a lost line or a changed row may and may not do to it."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context
from contextkit.canonical import canonical
from contextkit.errors import ConcurrentAppend, LogCorrupt, LogLocked, StorageError, UsageError
from contextkit.log import rows as reading
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage, create
from contextkit.log.storage import JSONLStorage
from tests.log.postgres_server import Postgres
from tests.log.wire import Wire
from tests.scale import n_examples

psycopg = pytest.importorskip("psycopg", reason='the extra is not installed: pip install "contextkit-sdk[postgres]"')
WRITER = Path(__file__).with_name("postgres_writer.py")
HOSTILE = [
    "x'; drop table entry; --",
    'a"b',
    "%s %(session)s %%",
    "\\",
    " ",
    "ünï ☂ 👩‍👩‍👧",
    "a\nb\tc",
    "\u202e",
    "../../log",
    "s" * 1_000,
    "ß" * 500,
    "{}",
    "session=1&x",
    "\x01\x7f",
    "NULL",
]
Fresh = Callable[[], str]


def filled(postgres: Postgres, session: str, n: int = 5) -> Log:
    log = Log(PostgresStorage(postgres.dsn, session), clock=lambda: 1790000000.25)
    for number in range(n):
        log.append("user", {"n": number})
    return log


def asked(server: Postgres, statement: str, *values: object) -> list[Any]:
    """What the server itself answers; 0 rows for what answers none."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def url(server: Postgres, session: str) -> str:
    return f"{server.dsn}&session={session.replace(' ', '%20')}"


# What stands in the table
# -----------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_design(postgres: Postgres) -> None:
    columns = "select column_name, data_type from information_schema.columns where table_name = 'entry' order by ordinal_position"
    assert asked(postgres, columns) == [
        ("session", "text"),
        ("sequence", "bigint"),
        ("kind", "text"),
        ("at", "double precision"),
        ("body", "bytea"),
        ("prev", "bytea"),
        ("digest", "bytea"),
    ]
    keys = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'entry'::regclass and contype = 'p'"
    assert asked(postgres, keys) == [("PRIMARY KEY (session, sequence)",)]


def test_rows_hold_the_bytes_of_the_jsonl_lines_and_chain_without_us(
    postgres: Postgres, session: str, tmp_path: Path
) -> None:
    bodies = [{"b": 1, "a": [1e-7, 10**30]}, {"text": "né \0 ☂"}, {}]
    with (
        Log(PostgresStorage(postgres.dsn, session), lambda: 7.5) as log,
        Log(JSONLStorage(tmp_path / "log.jsonl"), lambda: 7.5) as file,
    ):
        for body in bodies:
            assert log.append("user", body) == file.append("user", body)
    rows = asked(
        postgres, "select sequence, kind, at, body, prev, digest from entry where session = %s order by 1", session
    )
    before = bytes(16)
    for n, (sequence, kind, at, body, prev, digest) in enumerate(rows):
        assert (sequence, kind, at, body, prev) == (n, "user", 7.5, canonical(bodies[n]), before)
        before = digest
        assert hashlib.blake2b(prev + b"user\0" + b"7.5\0" + body, digest_size=16).digest() == digest
    assert len(rows) == 3


def test_the_table_is_made_once_by_whoever_comes_first(postgres: Postgres) -> None:
    asked(postgres, "create schema if not exists apart")
    place = f"{postgres.dsn}&options=-csearch_path%3Dapart"
    threads = [threading.Thread(target=create, args=(place,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Log(PostgresStorage(place, "x")).append("user", {})
    create(place)
    assert asked(postgres, "select session, sequence from apart.entry") == [("x", 0)]
    assert len(Log(PostgresStorage(postgres.dsn, "x"))) == 0


def test_somebody_elses_table_of_that_name_is_left_alone(postgres: Postgres) -> None:
    asked(postgres, "create schema taken")
    asked(postgres, "create table taken.entry (id int, session text)")
    place = f"{postgres.dsn}&options=-csearch_path%3Dtaken"
    with pytest.raises(StorageError, match="another table `entry` in this schema"):
        create(place)
    with pytest.raises(StorageError, match="make its tables once"):
        Log(PostgresStorage(place, "x"))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_session_may_have_any_name(postgres: Postgres, name: str) -> None:
    log = filled(postgres, name, 2)
    assert filled(postgres, name, 0).digest == log.digest
    log.fork(0, PostgresStorage(postgres.dsn, name[:400] + " forked")).close()
    assert len(filled(postgres, name[:400] + " forked", 0)) == 2
    assert asked(postgres, "select count(*) from entry where session = %s", name) == [(2,)]


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "s" * 1_001, "ß" * 501, None, 5, b"x"])
def test_what_is_no_name_is_refused(postgres: Postgres, name: Any) -> None:
    with pytest.raises(UsageError, match=r"a session"):
        PostgresStorage(postgres.dsn, name)


def test_long_logs_are_read_in_pages(postgres: Postgres, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE", 4)
    for n in (3, 4, 5, 8, 9):
        name = fresh()
        log = filled(postgres, name, n)
        assert list(filled(postgres, name, 0)) == list(log)
        child = log.fork(n - 1, PostgresStorage(postgres.dsn, f"{name} forked"))
        assert list(filled(postgres, f"{name} forked", 0)) == list(child)


def test_a_body_of_many_megabytes(postgres: Postgres, session: str) -> None:
    log = Log(PostgresStorage(postgres.dsn, session))
    entry = log.append("user", {"text": random.Random(1).randbytes(6_000_000).hex()})
    assert filled(postgres, session, 0)[0].body == entry.body


@pytest.mark.parametrize(
    "change",
    [
        "update entry set body = body || ' '::bytea",
        "update entry set body = '{}'",
        "update entry set at = at + 1",
        "update entry set at = 'nan'",
        "update entry set kind = 'notice'",
        "update entry set digest = prev",
        "update entry set prev = digest",
        "update entry set sequence = 77",
        "delete from entry",
        "update entry set body = ''",
    ],
)
def test_a_changed_row_is_named(postgres: Postgres, session: str, change: str) -> None:
    filled(postgres, session)
    asked(postgres, f"{change} where session = %s and sequence = 2", session)
    told = rf"session '{session}', entry [23]: .*restore the session from a backup, or remove its rows from [23] on"
    with pytest.raises(LogCorrupt, match=told):
        filled(postgres, session, 0)


def test_rows_cannot_change_places_between_sessions(postgres: Postgres, fresh: Fresh) -> None:
    one, other = fresh(), fresh()
    filled(postgres, one)
    Log(PostgresStorage(postgres.dsn, other)).append("user", {"other": True})
    asked(postgres, "delete from entry where session = %s and sequence = 0", one)
    asked(postgres, "update entry set session = %s where session = %s", one, other)
    with pytest.raises(LogCorrupt, match="entry 1: it does not follow entry 0"):
        filled(postgres, one, 0)


def test_a_parent_that_is_another_log_is_refused(postgres: Postgres, fresh: Fresh) -> None:
    parent, child = fresh(), fresh()
    filled(postgres, parent).fork(2, PostgresStorage(postgres.dsn, child)).close()
    asked(postgres, "delete from entry where session = %s", parent)
    with pytest.raises(LogCorrupt, match=f"its parent, session '{parent}', is not in this database"):
        filled(postgres, child, 0)
    Log(PostgresStorage(postgres.dsn, parent), lambda: 0.0).append("user", {"another": True})
    with pytest.raises(LogCorrupt, match="its parent"):
        filled(postgres, child, 0)
    asked(postgres, "delete from entry where session = %s", parent)
    asked(postgres, "update entry set session = %s where session = %s", parent, child)
    with pytest.raises(LogCorrupt):
        filled(postgres, parent, 0)  # now its own parent


def test_a_fork_into_another_database_carries_everything(postgres: Postgres, session: str) -> None:
    asked(postgres, "create schema if not exists beside")
    there = f"{postgres.dsn}&options=-csearch_path%3Dbeside"
    create(there)
    filled(postgres, session).fork(2, PostgresStorage(there, session)).close()
    assert asked(postgres, "select count(*) from beside.entry where session = %s", session) == [(4,)]
    assert len(Log(PostgresStorage(there, session))) == 4


# Two writers
# ------------------------------------------------------------------------------------------------------------------


@settings(max_examples=n_examples(6, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["append", "append", "open"])), max_size=14))
def test_of_writers_in_any_order_each_appends_only_to_what_it_knows(
    postgres: Postgres, fresh: Fresh, steps: list[tuple[int, str]]
) -> None:
    """Writers write the very same words at the same time: what tells their entries apart is the order alone."""
    name = fresh()
    with filled(postgres, name, 0) as first, filled(postgres, name, 0) as second, filled(postgres, name, 0) as third:
        writers, model = [first, second, third], 0
        for who, what in steps:
            if what == "open":
                writers[who].close()
                writers[who] = filled(postgres, name, 0)
                assert len(writers[who]) == model
            elif len(writers[who]) == model:
                assert writers[who].append("user", {}).sequence == model
                model += 1
            else:
                told = rf"entry {len(writers[who])} was to follow .* entry {model - 1} is its last; another writer .* open the log again"
                with pytest.raises(ConcurrentAppend, match=told):
                    writers[who].append("user", {})
        for writer in writers:
            writer.close()
    assert len(filled(postgres, name, 0)) == model


@contextmanager
def writing(server: Postgres, session: str, *names: str, n: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that append to one session, started together; killed at the end."""
    command = [sys.executable, str(WRITER), url(server, session)]
    environment = {**os.environ, "PYTHONPATH": str(WRITER.parents[2])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    writers = [subprocess.Popen([*command, name, str(n)], env=environment, text=True, **pipes) for name in names]  # type: ignore[call-overload]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "ready\n", writer.stderr.read()
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        yield writers
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def acknowledged(lines: list[str]) -> dict[int, str]:
    """Sequence → digest of what a writer was told is safe."""
    return {
        int(sequence): digest
        for sequence, digest in (line.split() for line in lines if line.endswith("\n") and line[0].isdigit())
    }


def test_two_processes_lose_and_double_nothing(
    postgres: Postgres, session: str, request: pytest.FixtureRequest
) -> None:
    n = 1_000 if request.config.getoption("--full") else 60
    with writing(postgres, session, "a", "b", n=n) as writers:
        outputs = [writer.communicate(timeout=120) for writer in writers]
    assert [error for _, error in outputs] == ["", ""]
    one, other = (acknowledged(output.splitlines(keepends=True)) for output, _ in outputs)
    assert len(one) == len(other) == n and not one.keys() & other.keys()
    assert {entry.sequence: entry.digest.hex() for entry in filled(postgres, session, 0)} == one | other


# Crashes
# ----------------------------------------------------------------------------------------------------------------------


def test_an_append_waits_for_the_disk_where_the_database_would_not(durable: Postgres) -> None:
    asked(durable, "alter database postgres set synchronous_commit = off")
    storage = PostgresStorage(durable.dsn, "s")
    log = Log(storage)
    for _ in range(5):
        log.append("user", {})
        begun, flushed = asked(
            durable, "select pg_current_wal_insert_lsn() - '0/0', pg_current_wal_flush_lsn() - '0/0'"
        )[0]
        assert flushed == begun
    asked_of_it = storage._server.query("show synchronous_commit", values={}, by=time.monotonic() + 9)
    assert asked_of_it == [("off",)]  # and what else the connection does is left as it was


# Lost lines
# -------------------------------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_is_made_anew(postgres: Postgres, session: str) -> None:
    log = filled(postgres, session, 2)
    for _ in range(2):
        asked(postgres, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'contextkit'")
        log.append("user", {})
    asked(postgres, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'contextkit'")
    assert list(log.storage.load()) == list(log) and len(log) == 4


def test_without_a_server_the_log_stays_as_it_was_until_there_is_one(durable: Postgres) -> None:
    log = filled(durable, "s", 2)
    durable.stop()
    for _ in range(2):
        with pytest.raises(
            StorageError,
            match=r"append again when the server is back|Postgres cannot be reached .*: check that it runs",
        ):
            log.append("user", {})
    assert len(log) == 2
    with pytest.raises(StorageError, match="Postgres cannot be reached"):
        filled(durable, "s", 0)
    durable.start()
    assert log.append("user", {}).sequence == 2
    assert len(filled(durable, "s", 0)) == 3


def test_an_append_nobody_can_vouch_for_says_so_then_and_later(postgres: Postgres, session: str, wire: Wire) -> None:
    log = Log(PostgresStorage(postgres.through(wire), session))
    log.append("user", {"n": 0})
    wire.cuts, wire.is_up = 1, False
    with pytest.raises(
        StorageError,
        match=r"lost while entry 1 was appended, so it may be kept or not .*it is kept once; if it was kept, another one raises Conc",
    ):
        log.append("user", {"n": 1})
    assert len(log) == 1
    wire.is_up = True
    with pytest.raises(ConcurrentAppend, match="the entry that was in doubt when the connection was lost was kept"):
        log.append("user", {"n": 1, "again": True})
    log.close()
    assert [entry.body for entry in filled(postgres, session, 0)] == [b'{"n":0}', b'{"n":1}']


FORKED = """
import os, sys
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage
log, other = (Log(PostgresStorage(sys.argv[1], sys.argv[2] + name)) for name in ("", " of the child"))
log.append("user", {})
if (child := os.fork()) == 0:
    other.append("user", {"child": True})
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
log.append("user", {})
print(len(Log(PostgresStorage(sys.argv[1], sys.argv[2]))), len(Log(PostgresStorage(sys.argv[1], sys.argv[2] + " of the child"))))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_worker_forked_off_does_not_speak_on_its_parents_line(postgres: Postgres, session: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, postgres.dsn, session], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ("2 1\n", 0), ran.stderr


# What the server refuses
# ------------------------------------------------------------------------------------------------------


def test_what_is_wrong_with_the_database_is_said(postgres: Postgres, session: str) -> None:
    asked(postgres, "create schema empty")
    with pytest.raises(
        StorageError,
        match=r"could not be read .*make its tables once, with contextkit\.log\.postgres\.create\(server\)",
    ):
        Log(PostgresStorage(f"{postgres.dsn}&options=-csearch_path%3Dempty", session))
    read_only = Log(PostgresStorage(f"{postgres.dsn}&options=-cdefault_transaction_read_only%3Don", session))
    with pytest.raises(StorageError, match=r"entry 0 could not be appended .*connect to the primary"):
        read_only.append("user", {})
    asked(postgres, "create role reader login")
    asked(postgres, "grant select on entry, last_entry to reader")
    reader = Log(PostgresStorage(postgres.dsn.replace("postgres@", "reader@"), session))
    with pytest.raises(StorageError, match="grant this user select and insert"):
        reader.append("user", {})
    with pytest.raises(StorageError, match=r'database "nowhere" does not exist'):
        Log(PostgresStorage(postgres.dsn.replace("/postgres?", "/nowhere?"), session))
    assert len(read_only) == len(reader) == 0


@pytest.mark.parametrize("level", ["serializable", "repeatable%20read"])
def test_a_stricter_database_changes_nothing(postgres: Postgres, session: str, level: str) -> None:
    place = f"{postgres.dsn}&options=-cdefault_transaction_isolation%3D{level.replace('%20', '%5C%20')}"
    with Log(PostgresStorage(place, session)) as log, Log(PostgresStorage(place, session)) as other:
        log.append("user", {})
        with pytest.raises(ConcurrentAppend):
            other.append("user", {})
        assert log.append("user", {}).sequence == 1


SECRET = "pa5sw0rd"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:p@{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}/x@[::1]:1/db",
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?nonsense=1",
        f"host=127.0.0.1 port=1 password='{SECRET} user=u",
        f"user={SECRET} {SECRET}",
        f"postgresql://u:%zz{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}\0@127.0.0.1:1/db",
    ],
)
def test_no_error_shows_a_password(dsn: str) -> None:
    with pytest.raises((StorageError, UsageError)) as caught:
        Log(PostgresStorage(dsn, "s"))
    shown, fault = "", caught.value
    while fault is not None:
        shown += f"{fault!s} {fault!r}"
        fault = fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)  # type: ignore[assignment]
    assert SECRET not in shown


@pytest.mark.parametrize("server", [None, 5, b"x", object(), "nonsense", "postgresql://h:port/db"])
def test_what_is_no_server_is_refused(server: Any) -> None:
    with pytest.raises(UsageError, match="connection string"):
        PostgresStorage(server, "s")


def test_a_session_can_be_named_by_a_url(postgres: Postgres, fresh: Fresh) -> None:
    name = fresh() + " ü&="
    filled(postgres, name, 3)
    spelled = postgres.dsn.replace("?", "?session=session%20" + name.split()[1] + "%20%C3%BC%26%3D&")
    assert PostgresStorage.at(spelled).session == name
    assert len(Log(PostgresStorage.at(spelled))) == 3
    for nameless in (
        postgres.dsn,
        postgres.dsn + "&session=",
        postgres.dsn + "&session=a&session=b",
        "mysql://h/db?session=a",
    ):
        with pytest.raises(UsageError, match="session"):
            PostgresStorage.at(nameless)


MISSING = """
import sys
sys.modules["psycopg"] = None
from contextkit.log.postgres import PostgresStorage, create
for attempt in (lambda: PostgresStorage("postgresql://h/db", "s"), lambda: PostgresStorage(object(), "s"), lambda: create("")):
    try:
        attempt()
    except Exception as fault:
        print(type(fault).__name__, fault)
"""


def test_a_missing_extra_names_the_command() -> None:
    ran = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert (
        ran.stdout
        == 'MissingExtra a log in Postgres needs an extra that is not installed: pip install "contextkit-sdk[postgres]"\n'
        * 3
    )
    code = "import sys, contextkit, contextkit.log.postgres; print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Pools
# ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocommit", [False, True])
def test_many_sessions_share_the_connections_of_a_pool(postgres: Postgres, fresh: Fresh, autocommit: bool) -> None:
    pools = pytest.importorskip("psycopg_pool")
    kwargs = {"row_factory": psycopg.rows.dict_row, "autocommit": autocommit}
    with pools.ConnectionPool(postgres.dsn, min_size=2, max_size=2, kwargs=kwargs) as pool:
        logs = [Log(PostgresStorage(pool, fresh())) for _ in range(6)]
        for n in range(4):
            for log in logs:
                assert log.append("user", {"n": n}).sequence == n
        with pool.connection() as connection:  # what limits an append does not limit who uses its connection next
            shown = connection.execute("select current_setting('statement_timeout') as seconds").fetchone()
            assert shown == {"seconds": "0"}
        stale = Log(PostgresStorage(pool, logs[0].storage.session))  # type: ignore[attr-defined]
        logs[0].append("user", {})
        with pytest.raises(ConcurrentAppend):
            stale.append("user", {})
        asked(
            postgres,
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type like 'cl%%'",
        )
        assert [log.append("user", {}).sequence for log in logs] == [5, 4, 4, 4, 4, 4]
        logs[0].close()
        assert logs[1].append("user", {}).sequence == 5
        with pytest.raises(StorageError, match="is closed"):
            logs[0].append("user", {})
    assert len(filled(postgres, logs[0].storage.session, 0)) == 6  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match="Postgres cannot be reached"):
        logs[1].append("user", {})


def test_a_pool_that_is_awaited_is_refused(postgres: Postgres) -> None:
    pools = pytest.importorskip("psycopg_pool")
    with pytest.raises(UsageError, match=r"must be a psycopg_pool\.ConnectionPool, not AsyncConnectionPool"):
        PostgresStorage(pools.AsyncConnectionPool(postgres.dsn, open=False), "s")


# As its user meets it
# ---------------------------------------------------------------------------------------------------------


def test_a_conversation_goes_from_worker_to_worker(postgres: Postgres, session: str) -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)
    bodies = []
    for said in ("one", "two", "three"):
        with Context(provider, system="Be terse.", log=Log(PostgresStorage(postgres.dsn, session))) as context:
            context.user(said)
            bodies.append(context.request().body)
    assert [body.count(b'"role":"user"') for body in bodies] == [1, 1, 1]
    with Context(provider, log=Log(PostgresStorage(postgres.dsn, session))) as context:
        stale = Context(provider, log=Log(PostgresStorage(postgres.dsn, session)))
        context.user("four")
        before = stale.request().body
        with pytest.raises(ConcurrentAppend):
            stale.user("four")
        assert stale.request().body == before == bodies[-1]


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "postgres_workers.py"


def run_example(**environment: str) -> str:
    """What the example prints, in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "DATABASE_URL"))}
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE.name],
        cwd=EXAMPLE.parent,
        env={**clean, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_example_hands_a_conversation_from_process_to_process(
    postgres: Postgres, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--full"):
        pytest.skip("starts four processes: run with --full")
    pytest.importorskip("uvicorn", reason="the example needs the extra `server`")
    said = run_example(DATABASE_URL=postgres.dsn)
    assert said.count("of its prompt from cache") == 3 and "read 0 of" not in said
    assert "ConcurrentAppend: session 'example " in said
    assert said.endswith(
        "['0 opened', '1 user', '2 assistant', '3 result', '4 assistant', '5 user', '6 assistant', '7 user', '8 assistant', '9 user']\n"
    )


def test_the_example_says_what_it_needs(example: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert example("postgres_workers") == (
        "skipped: no Postgres server is given; set DATABASE_URL, or pass postgresql://user@host/database\n"
    )


# What is deleted at the end, and who waits for a lock
# ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_deleted", [1, 3])
def test_rows_deleted_at_the_end_are_noticed(postgres: Postgres, session: str, n_deleted: int) -> None:
    filled(postgres, session)
    asked(postgres, "delete from entry where session = %s and sequence >= %s", session, 5 - n_deleted)
    with pytest.raises(
        LogCorrupt,
        match=rf"it ended with entry 4, and the table has {5 - n_deleted} entries: its last rows were deleted",
    ):
        filled(postgres, session, 0)
    asked(postgres, "delete from last_entry where session = %s", session)  # as the message says
    assert len(filled(postgres, session, 1)) == 6 - n_deleted


def test_a_last_row_that_was_replaced_by_another_is_noticed(postgres: Postgres, session: str) -> None:
    filled(postgres, session)
    row = asked(postgres, "delete from last_entry where session = %s returning sequence, digest", session)
    asked(postgres, "delete from entry where session = %s and sequence = 4", session)
    Log(PostgresStorage(postgres.dsn, session)).append("user", {"another": True})
    asked(postgres, "update last_entry set sequence = %s, digest = %s where session = %s", *row[0], session)
    with pytest.raises(LogCorrupt, match="the table has another one there"):
        filled(postgres, session, 0)


def test_rows_deleted_at_the_end_of_a_fork_are_noticed(postgres: Postgres, fresh: Fresh) -> None:
    parent, child = fresh(), fresh()
    with filled(postgres, parent).fork(2, PostgresStorage(postgres.dsn, child)) as fork:
        fork.append("user", {"more": 1})
    with Log(PostgresStorage(postgres.dsn, child)) as fork:
        fork.append("user", {"more": 2})
    asked(postgres, "delete from entry where session = %s and sequence = 5", child)
    with pytest.raises(LogCorrupt, match="it ended with entry 5"):
        filled(postgres, child, 0)


def test_a_session_that_was_deleted_as_a_whole_can_be_begun_anew(postgres: Postgres, session: str) -> None:
    filled(postgres, session)
    asked(postgres, "delete from entry where session = %s", session)
    assert asked(postgres, "select * from last_entry where session = %s", session) == []
    assert len(filled(postgres, session, 2)) == 2


def test_a_database_that_an_older_version_made_gets_its_last_entries(postgres: Postgres) -> None:
    asked(postgres, "create schema older")
    place = f"{postgres.dsn}&options=-csearch_path%3Dolder"
    create(place)
    with Log(PostgresStorage(place, "x"), lambda: 0.0) as log:
        log.append("user", {})
        log.append("user", {})
    asked(postgres, "drop table older.last_entry")
    with pytest.raises(StorageError, match=r"make its tables once, with contextkit\.log\.postgres\.create\(server\)"):
        Log(PostgresStorage(place, "x"))
    create(place)
    assert len(Log(PostgresStorage(place, "x"))) == 2
    assert asked(postgres, "select session, first, sequence from older.last_entry") == [("x", 0, 1)]


LOCKS = {
    "the same entry": "insert into entry select session, 5, kind, at, body, prev, digest from entry where session = '{}' and sequence = 4",
    "the table": "lock table entry in access exclusive mode",
    "the last entry": "select * from last_entry where session = '{}' for update",
}


@pytest.mark.parametrize("statement", LOCKS.values(), ids=LOCKS)
def test_an_append_waits_for_a_lock_as_long_as_it_is_told(postgres: Postgres, session: str, statement: str) -> None:
    filled(postgres, session).close()
    storage = PostgresStorage.at(f"{url(postgres, session)}&wait_seconds=0.3")
    log = Log(storage)
    with psycopg.connect(postgres.dsn) as other:
        other.execute(statement.format(session))
        for _ in range(2):
            with pytest.raises(
                LogLocked, match=r"entry 5 waited 0\.3 seconds for a lock that another transaction holds .* nothing was"
            ):
                log.append("user", {"late": True})
        other.rollback()
    assert log.append("user", {"late": True}).sequence == 5
    assert len(filled(postgres, session, 0)) == 6


@pytest.mark.parametrize("wait", ["0", "-1", "soon", "inf"])
def test_how_long_to_wait_is_seconds(postgres: Postgres, session: str, wait: str) -> None:
    with pytest.raises(UsageError, match="wait_seconds"):
        PostgresStorage.at(f"{url(postgres, session)}&wait_seconds={wait}")
