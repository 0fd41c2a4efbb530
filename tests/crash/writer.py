"""Appends to a log until it is killed; prints a line for each entry once it is safe."""

from __future__ import annotations

import random
import sys

from contextkit.log.log import Log


def write(path: str, seed: int) -> None:
    sizes = random.Random(seed)
    with Log.open(path) as log:
        while True:
            size = sizes.choice([0, 10, 1_000, 100_000, 1_000_000])
            entry = log.append("user", {"content": [{"type": "text", "text": "x" * size}]})
            print(entry.sequence, entry.digest.hex(), flush=True)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
