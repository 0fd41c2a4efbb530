"""Replay a folder of conformance scenarios: `python -m tests.conformance.run DIR [--json]`.

Prints each scenario's name and whether it passed; exits with 1 where one failed. Engines without an adapter are
skipped, and said so."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.conformance import llamacpp, lmcache, sglang, vllm
from tests.conformance.scenario import Build, Outcome, replay, scenarios

BUILDERS: dict[str, Build] = {
    "vllm-v1": vllm.build,
    "sglang-radix": sglang.build,
    "llama.cpp-server": llamacpp.build,
    "lmcache": lmcache.build,
}
"""Engine → how its reference cache is built; a new engine is a new row."""

WORDS = {True: "pass", False: "FAIL", None: "skip"}


def outcomes(folder: Path) -> list[Outcome]:
    return [replay(scenario, BUILDERS) for scenario in scenarios(folder)]


def _as_json(outcome: Outcome) -> dict[str, object]:
    scenario = outcome.scenario
    row = {"file": scenario.file, "engine": scenario.engine, "name": scenario.name, "passed": outcome.passed}
    return row | ({"detail": outcome.detail} if outcome.detail else {})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Replay conformance scenarios on the reference caches.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    options = parser.parse_args(arguments)
    done = outcomes(options.folder)
    if options.json:
        print(json.dumps([_as_json(outcome) for outcome in done], indent=1))
    else:
        for outcome in done:
            tail = f": {outcome.detail}" if outcome.detail else ""
            print(f"{WORDS[outcome.passed]}  {outcome.scenario.file}  {outcome.scenario.name}{tail}")
    return int(not done or any(outcome.passed is False for outcome in done))


if __name__ == "__main__":
    sys.exit(main())
