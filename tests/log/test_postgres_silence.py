"""A log in Postgres over a network that goes silent: nothing waits longer than it says, and then the log goes on."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contextkit.errors import ConcurrentAppend, StorageError
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage
from contextkit.log.postgres.connection import MARGIN_SECONDS
from tests.log.postgres_server import Postgres
from tests.log.wire import SILENCES, Wire, wired

WAIT = 0.3
LIMIT = WAIT + MARGIN_SECONDS
BUSY = 1.0
"""Seconds that a busy machine may take to wake a thread up."""
Fresh = Callable[[], str]


def filled(dsn: str, session: str, n: int = 1) -> Log:
    log = Log(PostgresStorage(dsn, session, wait_seconds=WAIT))
    for number in range(n):
        log.append("user", {"n": number})
    return log


def numbers(postgres: Postgres, session: str) -> list[bytes]:
    with Log(PostgresStorage(postgres.dsn, session)) as log:
        return [entry.body for entry in log]


def gives_up(act: Callable[[], object], told: str) -> float:
    """Seconds until `act` raised `StorageError`."""
    begin = time.monotonic()
    with pytest.raises(StorageError, match=told):
        act()
    return time.monotonic() - begin


def at_once(act: Callable[[Any], float], cases: list[Any]) -> dict[Any, float]:
    """Case → seconds it took: all of them wait at the same time."""
    with ThreadPoolExecutor(len(cases)) as threads:
        return dict(zip(cases, threads.map(act, cases), strict=True))


def be_silent(wire: Wire, where: str) -> None:
    wire.be_silent(where)
    if where == "connect":
        wire.reset()


def append_another(log: Log, wire: Wire, postgres: Postgres) -> Log:
    """Append something else than what was given up; a log to go on with."""
    try:
        log.append("user", {"other": 1})
    except ConcurrentAppend:
        log.close()
        return filled(postgres.through(wire), log.storage.session, 0)  # type: ignore[attr-defined]
    return log


def test_an_append_gives_up_in_time_and_the_log_goes_on(postgres: Postgres, fresh: Fresh) -> None:
    def case(named: tuple[str, str]) -> float:
        (where, then), session = named, fresh()
        with wired(postgres.connect) as wire:
            log = filled(postgres.through(wire), session)
            be_silent(wire, where)
            told = r"entry 1 was appended, so it may be kept or not|cannot be reached \(no answer within 2\.3 seconds\)"
            seconds = gives_up(lambda: log.append("user", {"n": 1}), told)
            if then == "again and the same":
                seconds = max(seconds, gives_up(lambda: log.append("user", {"n": 1}), told))
            assert len(log) == 1
            wire.flow()  # what was held back arrives now, with what is said next
            if then == "another":
                log = append_another(log, wire, postgres)
            else:
                log.append("user", {"n": 1})
            assert log.append("user", {"n": 2}).sequence == 2
            assert [entry.body for entry in log] == numbers(postgres, session)
            assert log[1].body == b'{"n":1}' or then == "another"
            log.close()
        return seconds

    cases = [(where, then) for where in SILENCES for then in ("the same", "another")]
    took = at_once(case, [*cases, ("answer", "again and the same")])
    assert min(took.values()) > WAIT and max(took.values()) < LIMIT + BUSY, took


def test_an_append_on_a_connection_that_was_reset_is_sent_again(postgres: Postgres, session: str, wire: Wire) -> None:
    with filled(postgres.through(wire), session) as log:
        for n in (1, 2):
            wire.reset()
            log.append("user", {"n": n})
        wire.cuts = 1
        log.append("user", {"n": 3})
    assert numbers(postgres, session) == [b'{"n":%d}' % n for n in range(4)]


ROADS: dict[str, Callable[[PostgresStorage], object]] = {
    "load": lambda storage: storage.load(),
    "open": lambda storage: Log(storage.beside("another")),
    "list": lambda storage: storage.sessions_below(""),
    "read": lambda storage: storage.read_beside(storage.session),
    "fork": lambda storage: Log(storage).fork(0, storage.beside("forked")),
}


def test_no_road_waits_longer_than_it_says(postgres: Postgres, fresh: Fresh) -> None:
    def case(named: tuple[str, str]) -> float:
        (road, where), session = named, fresh()
        with Log(PostgresStorage(postgres.dsn, session)) as log:
            log.append("user", {"text": "x" * 200_000})  # with all the time that a busy server needs
        with wired(postgres.connect) as wire:
            storage = PostgresStorage(postgres.through(wire), session, wait_seconds=WAIT)
            log = Log(storage)
            be_silent(wire, where)
            seconds = gives_up(lambda: ROADS[road](storage), "no answer within|connection|gone")
            begin = time.monotonic()
            log.close()
            assert time.monotonic() - begin < BUSY
            wire.flow()
            with Log(PostgresStorage(postgres.through(wire), session)) as log:
                assert log.append("user", {"n": 1}).sequence == 1
        return seconds

    took = at_once(case, [(road, where) for road in ROADS for where in SILENCES])
    assert max(took.values()) < LIMIT + BUSY, took


def test_a_name_that_nobody_looks_up_is_given_up(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    real = socket.getaddrinfo

    def silent(host: Any, *more: Any, **named: Any) -> Any:
        if host == "db.invalid":
            is_over.wait()
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    try:
        place = "postgresql://u@db.invalid/d"
        told = r"Postgres cannot be reached \(no answer within 2\.3 seconds\)"
        assert gives_up(lambda: filled(place, session), told) < LIMIT + BUSY
    finally:
        is_over.set()


def test_a_pool_whose_network_goes_silent(postgres: Postgres, session: str, wire: Wire) -> None:
    pools = pytest.importorskip("psycopg_pool")
    with pools.ConnectionPool(postgres.through(wire), min_size=1, max_size=2, open=True) as pool:
        log = Log(PostgresStorage(pool, session, wait_seconds=WAIT))
        log.append("user", {"n": 0})
        wire.be_silent("answer")
        assert gives_up(lambda: log.append("user", {"n": 1}), "cannot be reached|kept or not") < LIMIT + BUSY
        wire.flow()
        deadline = time.monotonic() + 20  # until the pool has found out, too
        while len(log) == 1:
            try:
                log.append("user", {"n": 1})
            except StorageError:
                assert time.monotonic() < deadline
        log.append("user", {"n": 2})
        log.close()
    assert numbers(postgres, session) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']


@pytest.mark.parametrize("where", ["request", "answer"])
def test_an_append_that_is_interrupted_is_kept_once(postgres: Postgres, session: str, wire: Wire, where: str) -> None:
    with filled(postgres.through(wire), session) as log:
        wire.be_silent(where)
        main, begin = threading.get_ident(), time.monotonic()
        threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            log.append("user", {"n": 1})
        assert time.monotonic() - begin < LIMIT
        wire.flow()
        log.append("user", {"n": 1})
        log.append("user", {"n": 2})
    assert numbers(postgres, session) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']


def test_the_longest_wait_is_a_limit_too(postgres: Postgres, session: str) -> None:
    with Log(PostgresStorage(postgres.dsn, session, wait_seconds=1e300)) as log:
        assert log.append("user", {"n": 0}).sequence == 0
