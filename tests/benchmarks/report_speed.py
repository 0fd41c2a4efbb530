"""How long `contextkit report --json` takes beside `ccusage claude daily --offline --json`, and how many calls a second
`contextkit whatif --json` replays.

    python -m tests.benchmarks.report_speed
    python -m tests.benchmarks.report_speed --logs ~/.claude/projects --megabytes 350 --runs 5

The logs (by default the real transcripts beside the checkout) are unpacked into a folder of its own, and repeated with
other ids until there are so many megabytes, so that every copy is counted. Each program is a process of its own; they
take turns, and the fastest run of each counts, in seconds by the clock and of the processor, children included. The ratio
is of what each takes longer than for the smallest log alone. `ccusage` is the one on PATH; without it there is no ratio.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-logs" / "claude-code"
TARGET = 1.8
"""Times as long as ccusage, by the clock, start-up left out."""
_IDS = re.compile(rb"\b(?:msg_|req_)\w{2}|\b[0-9a-f]{2}(?=[0-9a-f]{6}-[0-9a-f]{4}-)")


def corpus(logs: Path, folder: Path, n_bytes: int) -> list[Path]:
    """Unpack `logs` to `folder/all/projects/p1`, copy them with other ids to `p2`, … until there are `n_bytes`, and the
    smallest one to `folder/one/projects/p1`; give the folders of all.
    """
    first = folder / "all" / "projects" / "p1"
    first.mkdir(parents=True)
    for file in sorted([*logs.rglob("*.jsonl"), *logs.rglob("*.jsonl.gz")]):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        name = "-".join(file.relative_to(logs).parts).removesuffix(".gz")
        (first / name).write_bytes(data)
    size = sum(file.stat().st_size for file in first.iterdir())
    if not size:
        sys.exit(f"{logs}: no transcripts (.jsonl, .jsonl.gz) in this folder; name one with --logs")
    copies = [first.with_name(f"p{number}") for number in range(2, max(1, round(n_bytes / size)) + 1)]
    for number, copy in enumerate(copies, 2):
        copy.mkdir()
        for file in first.iterdir():
            data = _IDS.sub(lambda found, number=number: found[0][:-2] + b"%02x" % number, file.read_bytes())
            (copy / file.name).write_bytes(data)
    one = folder / "one" / "projects" / "p1"
    one.mkdir(parents=True)
    shutil.copy(min(first.iterdir(), key=lambda file: file.stat().st_size), one)
    return [first, *copies]


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Seconds by the clock and of the processor that a command takes, and what it prints."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measured(folder: Path, runs: int) -> dict[tuple[str, str], tuple[float, float, bytes]]:
    """(Program, `all` or `one`) → its fastest seconds by the clock, of the processor, and its figures."""
    ccusage = shutil.which("ccusage")
    commands = {"report": [sys.executable, "-m", "contextkit", "report", "--json"]}
    if ccusage:
        commands["ccusage"] = [ccusage, "claude", "daily", "--offline", "--json"]
    else:
        print("ccusage is not on PATH: no ratio (npm install ccusage, and put node_modules/.bin on PATH)")
    best: dict[tuple[str, str], tuple[float, float, bytes]] = {}
    for _ in range(runs):
        for name, command in commands.items():
            for logs in ("all", "one"):
                paths = [str(folder / logs / "projects")] if name == "report" else []
                wall, processor, printed = timed([*command, *paths], {"CLAUDE_CONFIG_DIR": str(folder / logs)})
                old = best.get((name, logs), (wall, processor, b""))
                best[name, logs] = min(wall, old[0]), min(processor, old[1]), printed
    return best


def input_tokens(figures: dict[str, Any]) -> int:
    """Input tokens of all calls, as the report counts them."""
    usage = figures["total"]["usage"]
    return int(usage["fresh"] + usage["read"] + usage["write_5m"] + usage["write_1h"])


def main() -> None:
    """Print both programs' seconds, their ratios, and the rate of `whatif`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--logs", type=Path, default=LOGS, help="folder of transcripts, plain or packed with gzip")
    options.add_argument("--megabytes", type=int, default=350)
    options.add_argument("--runs", type=int, default=5)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = corpus(asked.logs, folder, asked.megabytes * 1_000_000)
        size = sum(file.stat().st_size for file in (folder / "all" / "projects").rglob("*.jsonl"))
        best = measured(folder, asked.runs)
        figures = json.loads(best["report", "all"][2])
        n_calls = figures["total"]["calls"]
        print(f"{size / 1e6:,.0f} MB in {len(parts)} copies, {n_calls:,} calls, {os.cpu_count()} processors")
        for (program, logs), (wall, processor, _) in best.items():
            print(f"{program:<8} {logs} {wall:6.2f} s by the clock, {processor:6.2f} s of the processor")
        if ("ccusage", "all") in best:
            wall, processor = (
                (best["report", "all"][i] - best["report", "one"][i])
                / (best["ccusage", "all"][i] - best["ccusage", "one"][i])
                for i in (0, 1)
            )
            print(
                f"report / ccusage: {wall:.2f} by the clock (at most {TARGET} is the aim), {processor:.2f} of the processor"
            )
            totals = json.loads(best["ccusage", "all"][2])["totals"]
            theirs = totals["inputTokens"] + totals["cacheReadTokens"] + totals["cacheCreationTokens"]
            print(f"input tokens: report {input_tokens(figures):,}, ccusage {theirs:,}")
        whatif = [sys.executable, "-m", "contextkit", "whatif", "--json", str(parts[0])]
        wall, processor = min(timed(whatif, {})[:2] for _ in range(max(1, asked.runs // 2)))
        print(
            f"whatif: {n_calls:,} calls in {wall:.2f} s by the clock, start-up included: {n_calls / wall:,.0f} a second"
        )


if __name__ == "__main__":
    main()
