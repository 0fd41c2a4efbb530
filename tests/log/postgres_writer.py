"""Appends to a session until it is killed, or `n` entries of its own are in; prints a line for each once it is safe."""

from __future__ import annotations

import random
import sys

from contextkit.errors import ConcurrentAppend
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage


def write(url: str, name: str, n: int) -> None:
    sizes = random.Random(name)
    log, kept, overtaken = Log(PostgresStorage.at(url)), 0, 0
    print("ready", flush=True)
    sys.stdin.readline()
    while kept < n:
        text = f"{name} {kept}" + "x" * sizes.choice([0, 10, 1_000, 100_000])
        try:
            entry = log.append("user", {"content": [{"type": "text", "text": text}]})
        except ConcurrentAppend:
            log.close()
            log, overtaken = Log(PostgresStorage.at(url)), overtaken + 1
            continue
        kept += 1
        print(entry.sequence, entry.digest.hex(), flush=True)
    print("overtaken", overtaken, flush=True)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]))
