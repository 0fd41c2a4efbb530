"""Our block cache against vLLM itself: `python -m tests.conformance.against_vllm PEERS [--streams N] [--kinds A,B]
[--keep DIR]`.

PEERS is where vLLM's sources lie; nothing of it is imported elsewhere, or kept here:

    pip install --no-deps --target PEERS vllm==0.33.0

Each stream is a random configuration and random operations in the order a scheduler may issue them. The real,
unmodified manager does them first; what it answered, and all of its state after each operation, becomes the scenario
that the runner of this folder then replays on ours. The first stream that differs is printed, and kept as a scenario
file where `--keep` says. Exit code 1 where any differs."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path

from tests.benchmarks.peer_vllm import ENTRY, called
from tests.conformance.real_vllm import load_with_images
from tests.conformance.run import BUILDERS
from tests.conformance.scenario import Scenario, replay
from tests.conformance.vllm_streams import KINDS, stream

HARMLESS = {"get_current_vllm_config_or_none", "register_custom_kv_cache_specs", "is_local_first_rank"}
"""Hollow things vLLM calls to ask for managers that others have registered, and who logs."""


def _seen(scenario: Scenario) -> Counter[str]:
    """What happened in a stream, so that one can see that something did."""
    seen, size = Counter[str](), max(group["block_size"] for group in scenario.config["groups"])
    for op in scenario.ops:
        expect = op["expect"]
        seen["operations"] += 1
        seen["lookups that hit"] += bool(expect.get("cached_tokens"))
        seen["hits inside a block"] += (
            expect.get("cached_tokens", 0) % size != 0 and "hash_block_size" in scenario.config
        )
        seen["blocks evicted"] += len(expect.get("evicted_blocks", []))
        seen["allocations refused"] += op["op"] == "allocate" and not expect["ok"]
        seen["preemptions"] += op["op"] == "preempt"
        seen["loads from a connector"] += "external_tokens" in op and expect["ok"]
    return seen


def _keep(folder: Path, scenario: Scenario) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    row = {name: value for name, value in asdict(scenario).items() if name in ("name", "config", "ops")}
    path = folder / f"vllm-{scenario.name}.json"
    document = {"engine": scenario.engine, "engine_version": scenario.version, "scenarios": [row]}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Random streams on vLLM's own KV-cache manager, replayed on ours.")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first stream")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--keep", type=Path, help="folder for the streams that differ, as scenario files")
    parser.add_argument("--all", action="store_true", help="keep all of them")
    options = parser.parse_args(arguments)
    site = options.peers.resolve()
    if not (site / ENTRY).is_file():
        print(f"no {ENTRY} in {site}: pip install --no-deps --target PEERS vllm==0.33.0, and pass PEERS")
        return 2
    version = next((found.version for found in distributions(name="vllm", path=[str(site)])), "of unknown version")
    logging.disable(logging.WARNING)  # the engine warns of every refused reset
    vllm, kinds, began = load_with_images(site), options.kinds.split(","), time.perf_counter()
    called.clear()
    did, failed, seen = Counter[str](), Counter[str](), Counter[str]()
    for number in range(options.first, options.first + options.streams):
        kind = kinds[number % len(kinds)]
        scenario = stream(vllm, number, kind)
        outcome = replay(scenario, BUILDERS)
        did[kind] += 1
        seen += _seen(scenario)
        if options.keep and options.all:
            _keep(options.keep, scenario)
        if not outcome.passed:
            failed[kind] += 1
            if failed[kind] <= 3:
                kept = f" ({_keep(options.keep, scenario)})" if options.keep else ""
                print(f"DIFFERS  {scenario.name}{kept}: {outcome.detail[:600]}")
    assert set(called) <= HARMLESS, f"hollow, but called: {set(called)}"
    for kind in kinds:
        print(f"  {kind:14} {did[kind]:6} streams, {failed[kind]} differ")
    print("  " + ", ".join(f"{n:,} {what}" for what, n in seen.items()))
    print(
        f"vLLM {version}: {sum(did.values())} streams in {time.perf_counter() - began:.0f} s, {sum(failed.values())} differ"
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
