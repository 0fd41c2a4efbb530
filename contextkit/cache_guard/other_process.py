"""A second pytest process with another hash seed, in which the tests that call a model run once more.

It collects what this one does, then waits: the parent sends the id of a test, and is sent the calls it made.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import TYPE_CHECKING

from contextkit.cache_guard.recording import SentCall, as_json, from_json

if TYPE_CHECKING:
    import pytest

OPTION = "--cache-guard-child"
_KEY = "CONTEXTKIT_CACHE_GUARD_KEY"
_START_SECONDS = 120.0
_TEST_SECONDS = 300.0
_STEP_SECONDS = 0.2
_HASH_SEED = "PYTHONHASHSEED"


class OtherProcess:
    """The process, started with the first test that is run in it; one that does not answer is not asked again."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._is_gone = False
        self.is_missing = False
        """Whether a test could not be run there."""

    def calls_of(self, nodeid: str) -> list[SentCall] | None:
        """Run a test there and return its calls; None where it did not run."""
        try:
            if self._connection is None and not self._is_gone:
                self._start()
            if self._connection is None:
                self.is_missing = True
                return None
            self._connection.send_bytes(nodeid.encode())
            if not self._connection.poll(_TEST_SECONDS):
                raise TimeoutError
            return from_json(json.loads(self._connection.recv_bytes()))
        except (OSError, EOFError):
            self.is_missing = True
            self.stop()
            return None

    def stop(self) -> None:
        """End it."""
        self._is_gone = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            try:
                self._process.wait(_STEP_SECONDS * 50)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _start(self) -> None:
        key = secrets.token_hex(16)
        listener = Listener(authkey=key.encode())
        seed = "2" if os.environ.get(_HASH_SEED) == "1" else "1"
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with the arguments of this run
            [sys.executable, "-m", "pytest", *_arguments(self._config), f"{OPTION}={listener.address}"],
            cwd=self._config.invocation_params.dir,
            env={**os.environ, _HASH_SEED: seed, _KEY: key},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        accepted: list[Connection] = []
        waiting = Thread(target=lambda: accepted.append(listener.accept()), daemon=True)
        waiting.start()
        for _ in range(round(_START_SECONDS / _STEP_SECONDS)):
            waiting.join(_STEP_SECONDS)
            if accepted or self._process.poll() is not None:
                break
        listener.close()
        if not accepted:
            raise TimeoutError
        self._connection = accepted[0]


def _arguments(config: pytest.Config) -> Sequence[str]:
    """Return the arguments of this run, which a worker of pytest-xdist has from the process that started it."""
    own = getattr(config, "workerinput", {}).get("mainargv")
    arguments = list(own[1:]) if own else [str(one) for one in config.invocation_params.args]
    kept = [one for one in arguments if one not in ("--pdb", "--trace")]
    if config.pluginmanager.hasplugin("xdist"):
        kept.append("-n0")
    if config.getoption("basetemp"):  # pytest empties it
        kept.append(f"--basetemp={config.getoption('basetemp')}-other")
    if config.pluginmanager.hasplugin("logging"):  # it would empty this run's file
        kept.append(f"--log-file={os.devnull}")
    return [*kept, "-p", "contextkit.pytest_plugin"]


class Serving:
    """Plugin of the second process: runs the tests that it is asked for, and nothing else."""

    def __init__(
        self, address: str, calls_of: Callable[[pytest.Item], list[SentCall]], stop: Callable[[], object]
    ) -> None:
        """`calls_of` runs a test and returns its calls; `stop` is called at the end."""
        self._address, self._calls_of, self._stop = address, calls_of, stop

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve until the parent closes the connection; leave without the reports of a run."""
        items = {item.nodeid: item for item in session.items}
        with Client(self._address, authkey=os.environ.pop(_KEY).encode()) as connection:
            while True:
                try:
                    nodeid = connection.recv_bytes().decode()
                except EOFError:
                    break
                item = items.get(nodeid)
                session._setupstate.teardown_exact(item)
                calls = [] if item is None else self._calls_of(item)
                connection.send_bytes(json.dumps(as_json(calls)).encode())
        session._setupstate.teardown_exact(None)
        self._stop()
        sys.stdout.flush()
        os._exit(0)
