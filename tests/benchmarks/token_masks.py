"""What the token mask and the phases cost: `python -m tests.benchmarks.token_masks`.

1,000 tools over the 200,000 tokens of o200k (extra `offline-tokens`): the vocabulary, a mask, a step of decoding; and
the memory that 100,000 steps from phase to phase leave behind."""

from __future__ import annotations

import random
import time
import tracemalloc

from contextkit import Phase, Phases, Toolbox
from contextkit.tools.mask import Permit
from contextkit.tools.token_mask import TokenMask, Vocabulary

VERBS = ("open", "close", "read", "write", "list", "search", "create", "delete", "update", "merge")
NAMES = [
    f"{place}{n}_{verb}_{thing}"
    for n in range(10)
    for place in ("browser", "github", "notes", "shell", "files")
    for verb in VERBS
    for thing in ("page", "issue")
]
"""1,000 names, as agents have them: families of verbs."""


def build_and_decode() -> None:
    import bpe_openai

    tokens = list(bpe_openai.get_encoding("o200k_base").token_byte_values())
    names, dice = NAMES, random.Random(1)
    began = time.perf_counter()
    vocabulary = Vocabulary(tokens)
    known = time.perf_counter()
    mask = TokenMask(vocabulary, names)
    built = time.perf_counter()
    steps: list[float] = []
    for _ in range(2000):
        ids: list[int] = []
        while not mask.is_done(ids):
            asked = time.perf_counter()
            allowed = mask.allowed_token_ids(ids)
            steps.append(time.perf_counter() - asked)
            ids.append(dice.choice(allowed))
    steps.sort()
    print(
        f"o200k, {len(tokens):,} tokens, {len(names):,} tools: vocabulary {known - began:.2f} s, mask {built - known:.2f} s"
    )
    mean, late = sum(steps) / len(steps), steps[len(steps) * 99 // 100]
    print(f"a step: {mean * 1e6:.1f} µs on average, {late * 1e6:.1f} µs at the 99th percentile of {len(steps):,}")


def walk() -> None:
    names = [f"{family}_{verb}" for family in ("browser", "notes", "report") for verb in ("open", "close")]
    families = ("browser", "notes", "report")
    table = {
        a: Phase(allow=[f"{a}_*"], then={f"{a}_close": b})
        for a, b in zip(families, (*families[1:], families[0]), strict=True)
    }
    permit, dice, here = (
        Permit(Phases(table, "browser"), Toolbox([{"name": name} for name in names])),
        random.Random(7),
        "browser",
    )
    tracemalloc.start()
    before, began = 0, time.perf_counter()
    for step in range(100_000):
        here = permit.step(here, [(dice.choice(names), dice.random() < 0.3)])
        if step == 1000:
            before = tracemalloc.get_traced_memory()[0]
    grown = tracemalloc.get_traced_memory()[0] - before
    print(
        f"100,000 steps from phase to phase: {grown:+,} bytes since the 1,000th, {time.perf_counter() - began:.1f} s traced"
    )
    tracemalloc.stop()


if __name__ == "__main__":
    build_and_decode()
    walk()
