"""A real Postgres server in a folder of its own, from the packages of the system, reached through a socket in that
folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.log.wire import Wire

PLACES = [
    *sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name.split(".")[0])),
    None,
]
"""Where Debian keeps the servers, the newest first; then what is on PATH."""
WHY_NOT = "no PostgreSQL server is installed: apt-get install postgresql"


def binary(name: str) -> str | None:
    """A program of the server's package."""
    return next((found for place in PLACES if (found := shutil.which(name, path=place and str(place)))), None)


def as_whom() -> dict[str, Any]:
    """initdb and postgres refuse to be run by root."""
    return (
        {"user": "postgres", "group": "postgres", "extra_groups": []}
        if hasattr(os, "geteuid") and os.geteuid() == 0
        else {}
    )


class Postgres:
    """One server: started, stopped, killed, started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder, self.settings = folder, settings
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def connect(self) -> socket.socket:
        """A connection to it, for a wire."""
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.connect(f"{self.folder}/.s.PGSQL.5432")
        except OSError:
            upstream.close()
            raise
        return upstream

    @staticmethod
    def through(wire: Wire) -> str:
        """How to reach it through a wire."""
        return f"postgresql://postgres@127.0.0.1:{wire.port}/postgres?sslmode=disable&gssencmode=disable"

    def start(self) -> Postgres:
        """Start it, and wait until it answers."""
        deadline = time.monotonic() + 20
        self._launch()
        while not self.is_ready():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            if self.process is None or self.process.poll() is not None:  # what a crash left over has not noticed it yet
                self._launch()
            time.sleep(0.02)
        return self

    def _launch(self) -> None:
        options = [
            option
            for setting in ("listen_addresses=", "max_connections=60", *self.settings)
            for option in ("-c", setting)
        ]
        command = [str(binary("postgres")), "-D", str(self.folder / "data"), "-k", str(self.folder), *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **as_whom())

    def is_ready(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.dsn):
            return True
        return False

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT ends every connection and stops; SIGKILL is a crash, which its children notice by themselves."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None


@contextlib.contextmanager
def new_server(template: Path | None, *settings: str) -> Iterator[Postgres]:
    """A server with a fresh data folder, copied where one was made already."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: the path of a socket has at most 103 bytes
    server = Postgres(folder, *settings)
    try:
        if as_whom():
            shutil.chown(folder, "postgres", "postgres")
        made = ["cp", "-R", str(template), str(folder / "data")] if template else initdb(folder / "data")
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **as_whom())
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def initdb(data: Path) -> list[str]:
    """How a data folder is made."""
    options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    return [str(binary("initdb")), "-D", str(data), *options]


def require() -> None:
    """Skip, saying why, where there is no server or no driver."""
    pytest.importorskip("psycopg", reason='the extra is not installed: pip install "contextkit-sdk[postgres]"')
    if os.name == "nt" or not (binary("initdb") and binary("postgres")):
        pytest.skip(WHY_NOT)
