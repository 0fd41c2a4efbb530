"""How fast transcripts of Claude Code and other formats are read, beside `orjson.loads` over the same lines, and
`ccusage`.

    python tests/benchmarks/reading.py                  # 100 MB
    python tests/benchmarks/reading.py --megabytes 1000
    python tests/benchmarks/reading.py --formats all --megabytes 50
    python tests/benchmarks/reading.py --formats raw_pairs,otlp
    python tests/benchmarks/reading.py --ccusage path/to/node_modules/ccusage/dist/index.js

Seconds are of the processor, as other work may run on the machine. A corpus is made in a folder of its own and removed
again: sessions of tool calls with outputs of up to hundreds of kilobytes, several lines a reply, sub-agents in files of
their own. Text is drawn from words with a fixed seed: two runs read the same bytes. Each measure runs in a process of
its own; its peak of memory is that process's. `ccusage` is the npm package, installed by whoever runs this."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SEED = 20_261_121
MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
WORDS = """
the of file error return value function test import class path line prefix cache token module index build request reply assert
raise None self list dict print open read write close loop while await async yield from with as if else not and or
""".split()  # noqa: SIM905 - a list of words
START = 1_767_225_600.0  # 2026-01-01


class Corpus:
    """Writes sessions until enough bytes stand in a folder."""

    def __init__(self, folder: Path, n_bytes: int, seed: int = SEED) -> None:
        self.folder, self.n_bytes, self.random = folder, n_bytes, random.Random(seed)
        self.text = "".join(self._row(number) for number in range(60_000))
        self.written = self.calls = 0

    def write(self) -> int:
        """All of it; gives how many calls it holds."""
        project = self.folder / "projects" / "work"
        project.mkdir(parents=True)
        while self.written < self.n_bytes:
            session = self._id()
            self._session(project / f"{session}.jsonl", session, None, self.random.randint(40, 400))
            for number in range(self.random.choice((0, 0, 1, 2, 4))):
                agent = f"a{number}{session[:6]}"
                self._session(
                    project / session / "subagents" / f"agent-{agent}.jsonl", session, agent, self.random.randint(5, 40)
                )
        return self.calls

    def _row(self, number: int) -> str:
        """A line of a file as the reading tool shows it, numbered, code with its quotes."""
        words = self.random.choices(WORDS, k=self.random.randint(2, 11))
        return f'{number % 2000:6}\u2192{"    " * self.random.randrange(4)}{" ".join(words[:-1])} "{words[-1]}"\n'

    def _id(self) -> str:
        return f"{self.random.getrandbits(128):032x}"

    def _words(self, n: int) -> str:
        at = self.random.randrange(len(self.text) - n)
        return self.text[at : at + n]

    def _session(self, path: Path, session: str, agent: str | None, n_calls: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        at, size, model = START + self.random.random() * 1e7, 18_000, self.random.choice(MODELS)
        with path.open("wb") as file:
            about = {"isSidechain": agent is not None, **({"agentId": agent} if agent else {})}
            parent, cached = None, 0
            for _ in range(n_calls):
                at += self.random.expovariate(1 / 20)
                output = self._words(int(min(300_000, 100 + self.random.paretovariate(1.1) * 700)))
                block = {"tool_use_id": "toolu_" + self._id()[:24], "type": "tool_result", "content": output}
                result = (
                    {"toolUseResult": {"stdout": output, "stderr": "", "interrupted": False}}
                    if self.random.random() < 0.7
                    else {}
                )
                said = {"message": {"role": "user", "content": [block]}}
                parent = self._line(file, session, {"parentUuid": parent, **about, "type": "user"}, at, said, result)
                grown = len(output) // 4 + 60
                size += grown
                parent, at = self._reply(file, session, about, parent, at, model, cached, grown)
                cached = size
                self.calls += 1
            self.written += file.tell()

    def _reply(
        self,
        file: Any,
        session: str,
        about: dict[str, Any],
        parent: str,
        at: float,
        model: str,
        cached: int,
        grown: int,
    ) -> tuple[str, float]:
        """A reply in one to three lines: a thought, words, a tool call."""
        every: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": self._words(self.random.randint(200, 3000)), "signature": self._id() * 12},
            {"type": "text", "text": self._words(self.random.randint(40, 900))},
            {
                "type": "tool_use",
                "id": "toolu_x",
                "name": "Write",
                "input": {"content": self._words(self.random.randint(40, 6000))},
            },
        ]
        blocks = every[self.random.choice((0, 0, 1, 2)) :]
        identity, request = "msg_01" + self._id()[:22], "req_011" + self._id()[:21]
        for number, block in enumerate(blocks):
            at += 1 + self.random.random() * 3
            usage = {
                "input_tokens": 4,
                "cache_creation_input_tokens": grown,
                "cache_read_input_tokens": cached,
                "cache_creation": {"ephemeral_5m_input_tokens": grown, "ephemeral_1h_input_tokens": 0},
                "output_tokens": 5 if number < len(blocks) - 1 else 700,
                "service_tier": "standard",
                "inference_geo": "not_available",
            }
            message = {
                "model": model,
                "id": identity,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": usage,
            }
            said = {"message": message, "requestId": request, "type": "assistant"}
            parent = self._line(file, session, {"parentUuid": parent, **about}, at, said, {})
        return parent, at

    def _line(
        self, file: Any, session: str, first: dict[str, Any], at: float, said: dict[str, Any], last: dict[str, Any]
    ) -> str:
        uuid = self._id()
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rest = {"userType": "external", "cwd": "~/work", "sessionId": session, "version": "2.1.97", "gitBranch": "main"}
        line = json.dumps(
            {**first, **said, "uuid": uuid, "timestamp": when, **last, **rest},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        file.write(line.encode() + b"\n")
        return uuid


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in (".jsonl", ".har"))


def parse_all(folder: Path) -> dict[str, Any]:
    """Every line of the files through `orjson.loads`; what reading them takes is told apart."""
    import orjson

    parsing, start = 0.0, time.process_time()
    for path in _files(folder):
        lines = (
            [path.read_bytes()] if path.suffix == ".har" else path.read_bytes().split(b"\n")
        )  # an archive is one value
        before = time.process_time()
        for line in lines:
            if line:
                orjson.loads(line)
        parsing += time.process_time() - before
    return {
        "seconds": parsing,
        "said": f"and {time.process_time() - start - parsing:.2f} s to read the files and split them",
    }


def read_all(folder: Path) -> dict[str, Any]:
    """Every call, as the importer gives it, opening and reading the files included."""
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import records_in
    from contextkit.importers.source import Faults
    from contextkit.ledger.calls import ModelCall
    from contextkit.prices import bills_writes

    bills_writes("anthropic", MODELS[0])  # loads the price list, which is done once however much is read
    start, calls = time.process_time(), 0
    with seldom_collecting():  # as the command does
        for record in records_in([str(folder)], Faults()):
            calls += isinstance(record, ModelCall)
    return {"seconds": time.process_time() - start, "calls": calls}


def report(folder: Path) -> dict[str, Any]:
    """What `contextkit report` works out, its drawing left out."""
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import records_in
    from contextkit.importers.source import Faults
    from contextkit.ledger.summary import summarise

    start = time.process_time()
    with seldom_collecting():
        summary = summarise(records_in([str(folder)], Faults()))
    return {"seconds": time.process_time() - start, "calls": summary.calls, "said": f"{summary} · {summary.usage}"}


def bills_alone(folder: Path) -> dict[str, Any]:
    """Making a call and its bill out of values that are at hand, 100,000 times: what no reader in Python can save."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.calls import ModelCall

    start = time.process_time()
    for n in range(100_000):
        ModelCall(
            "id",
            "session",
            "main",
            1.0 * n,
            None,
            2.0 * n,
            "anthropic",
            "model",
            None,
            Usage(n, n, n, 0, n),
            None,
            None,
        )
    return {"seconds": (time.process_time() - start) / 100_000}


MEASURES = {"orjson.loads": parse_all, "read": read_all, "report": report, "bills alone": bills_alone}


def _peak_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def _measured(name: str, folder: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, __file__, "--measure", name, "--folder", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _ccusage(script: Path, folder: Path) -> dict[str, Any]:
    """`ccusage daily --json --offline`, run by node on the same folder; processor time of node and its threads."""
    before = os.times()
    ran = subprocess.run(
        ["node", str(script), "daily", "--json", "--offline"],
        env={**os.environ, "CLAUDE_CONFIG_DIR": str(folder), "LOG_LEVEL": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    after = os.times()
    totals = json.loads(ran.stdout[ran.stdout.index("{") :]).get("totals")
    return {
        "seconds": after.children_user + after.children_system - before.children_user - before.children_system,
        "said": str(totals),
    }


def main() -> None:
    """Make the corpus, measure, print a table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--megabytes", type=int, default=100)
    options.add_argument("--ccusage", type=Path, help="ccusage's dist/index.js")
    options.add_argument("--runs", type=int, default=3, help="of each measure; the fastest counts")
    options.add_argument(
        "--formats", help="`all`, or some of those in logs/, with commas; corpora are made in a folder of their own"
    )
    options.add_argument("--make", help=argparse.SUPPRESS)
    options.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help="a corpus made before, kept; made there where there is none")
    asked = options.parse_args()
    if asked.measure:
        found = MEASURES[asked.measure](asked.folder)
        print(json.dumps({**found, "peak_mb": _peak_mb()}))
        return
    sys.path.insert(0, str(Path(__file__).parents[2]))
    if asked.make:
        from tests.benchmarks.logs import LOGS, Words

        LOGS[asked.make](asked.folder, asked.megabytes * 1_000_000, Words())
        return
    if asked.formats:
        _every_format(asked.formats, asked.megabytes * 1_000_000, asked.runs)
        return
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="contextkit-reading-"))
    try:
        if not (folder / "projects").exists():
            print(f"{Corpus(folder, asked.megabytes * 1_000_000).write():,} calls written")
        _compare(folder, asked.runs, asked.ccusage)
    finally:
        if not asked.folder:
            shutil.rmtree(folder)


def _every_format(named: str, n_bytes: int, runs: int) -> None:
    """A line for each format: its reading against `orjson.loads` over the same bytes."""
    from tests.benchmarks.logs import LOGS

    for name in LOGS if named == "all" else named.split(","):
        with tempfile.TemporaryDirectory(prefix="contextkit-reading-") as made:
            folder = Path(made)
            asked = [
                sys.executable,
                __file__,
                "--make",
                name,
                "--megabytes",
                str(n_bytes // 1_000_000),
                "--folder",
                made,
            ]
            subprocess.run(asked, check=True)  # elsewhere, as the peak of a process counts what its parent held
            megabytes = sum(path.stat().st_size for path in _files(folder)) / 1e6
            parsing, reading, bill = (
                min((_measured(measure, folder) for _ in range(runs)), key=lambda found: float(found["seconds"]))
                for measure in ("orjson.loads", "read", "bills alone")
            )
        most = parsing["seconds"] + bill["seconds"] * reading["calls"]
        each = megabytes * 1e3 / max(1, reading["calls"])
        print(
            f"{name:17} {megabytes:5.0f} MB {each:7.1f} KB a call   orjson {megabytes / parsing['seconds']:6.0f} MB/s   read"
            f" {megabytes / reading['seconds']:6.0f} MB/s   {parsing['seconds'] / reading['seconds']:5.2f} of at most"
            f" {parsing['seconds'] / most:4.2f}   {reading['peak_mb']:4.0f} MB"
        )


def _compare(folder: Path, runs: int, ccusage: Path | None) -> None:
    megabytes = sum(path.stat().st_size for path in _files(folder)) / 1e6
    best = {
        name: min((_measured(name, folder) for _ in range(runs)), key=lambda found: found["seconds"])
        for name in list(MEASURES)[:3]
    }
    if ccusage:
        best["ccusage"] = _ccusage(ccusage, folder)
    print(f"{megabytes:,.0f} MB")
    for name, found in best.items():
        rate = megabytes / found["seconds"]
        against = rate * best["orjson.loads"]["seconds"] / megabytes
        peak = f"{found['peak_mb']:.0f} MB" if "peak_mb" in found else ""
        print(
            f"{name:14} {found['seconds']:8.2f} s {rate:8.0f} MB/s {against:6.2f} x orjson {peak:>8}  {found.get('said', '')}"
        )


if __name__ == "__main__":
    main()
