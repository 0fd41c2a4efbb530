"""Our tiers' policies against LMCache's own: `python -m tests.conformance.against_lmcache PEERS [--streams N]`.

PEERS is where LMCache's sources lie; nothing of it is imported elsewhere, or kept here:

    pip install --no-deps --target PEERS lmcache==0.5.6
    pip install sortedcontainers

Each stream is random operations in an order LMCache's CPU backend may do them. The real policy does them first; what it
answered becomes the scenario that the runner of this folder then replays on ours. The first stream that differs is
printed. Exit code 1 where any differs."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.conformance.real_lmcache import RealLmcache, load
from tests.conformance.run import BUILDERS
from tests.conformance.scenario import Scenario, replay

Op = dict[str, Any]
POLICIES = ("LRU", "LFU", "FIFO", "MRU")
CHANGES = ("put", "put", "put", "hit", "hit", "hit", "pin", "unpin", "remove", "evict_candidates", "evict")
"""What an operation may be, as often as it stands here."""


def _operation(draw: random.Random, there: list[int]) -> Op:
    name = draw.choice(CHANGES) if there else "put"
    if name.startswith("evict"):
        return {"op": name, "n": draw.choice([1, 1, 2, 3, 64])}
    key = draw.randrange(12) if name == "put" else draw.choice(there)
    return {"op": name, "key": key} | (
        {"pinned": draw.random() < 0.2} if name == "put" and key not in there else {"pinned": False}
    )


def stream(real: RealLmcache, draw: random.Random) -> list[Op]:
    """Operations with what the real policy answered."""
    ops = []
    for _ in range(draw.randint(5, 60)):
        op = _operation(draw, list(real.held))
        ops.append({**op, "expect": real.run(op)})
    keys = real.run({"op": "evict", "n": 64})
    return [*ops, {"op": "evict", "n": 64, "expect": keys}]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Replay random operations on LMCache's policies and on ours.")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--streams", type=int, default=1000, help="how many for each policy")
    options = parser.parse_args(arguments)
    make, began, n_ops = load(options.peers), time.perf_counter(), 0
    for policy in POLICIES:
        for number in range(options.streams):
            ops = stream(RealLmcache(make, policy), random.Random(f"{policy} {number}"))
            n_ops += len(ops)
            outcome = replay(Scenario("", "lmcache", "0.5.6", f"{policy} {number}", {"policy": policy}, ops), BUILDERS)
            if not outcome.passed:
                print(f"{policy} {number}: {outcome.detail}", json.dumps(ops), sep="\n")
                return 1
    print(
        f"{len(POLICIES)} policies, {options.streams} streams each, {n_ops} operations, all equal ({time.perf_counter() - began:.0f} s)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
