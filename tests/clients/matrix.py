"""Drives real agent clients through `contextkit run` against the local provider and compares what both wrote down.

Run by hand; needs no key and no network:

    python tests/clients/matrix.py [--write] [--only NAME] [--python DIR] [--node-modules DIR] [--keep]

Clients are those on the PATH and in `DIR/.bin` of `--node-modules`; programs in `programs/` run with the first Python of
`--python` (environments, or folders of them) that has their framework, or with Node and `--node-modules`. Each client gets
a home folder of its own and goes through these steps:

turns        two prompts of several turns with tool calls
resumed      a third prompt, in the session resumed by a new process
evicted      a fourth, after the provider forgot its cache
cut          a new session, whose first response is cut behind its first block
interrupted  a new session; Ctrl-C while the provider waits

After each the recording must hold what the provider billed, call by call, and `contextkit run` must exit as its program
did. At the end the verdicts on the recording must be those on the client's own log, where contextkit reads one. `--write`
puts the rows of the clients that ran into docs/reference/clients.md; without it, they are printed. Exits with 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.figures import counted
from contextkit.server.local import LocalServer

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PAGE = ROOT / "docs" / "reference" / "clients.md"
PATIENCE = 120.0
"""Seconds that one step may take."""
KEYS = dict.fromkeys(
    ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    "any-key-0123456789",
)
CLOCK = 30 * 3600
"""Seconds after which no provider remembers a prompt."""
WRAPPER = """#!{python}
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, lambda number, frame: None)
child = subprocess.Popen([{program!r}, *{before!r}, *sys.argv[1:]])
while True:
    try:
        code = child.wait()
        break
    except KeyboardInterrupt:
        pass
code = code if code >= 0 else 128 - code
open({code!r}, "w").write(str(code))
open({arguments!r}, "a").write(repr(sys.argv[1:]) + "\\n")
sys.exit(code)
"""
"""Stands for a client under its name, and notes its exit code."""


@dataclass(frozen=True)
class Client:
    """A client, and how it is told what to do."""

    name: str
    command: str
    """Its name on the PATH, or its file in `programs/`."""
    model: str
    first: tuple[str, ...]
    """Arguments of a new session; `{prompt}` and `{model}` are replaced."""
    then: tuple[str, ...] = ()
    """Arguments that resume the last session; empty if it keeps none."""
    tool: str = "look"
    """The tool that is called, which tells calls of the agent from others: titles, suggestions."""
    look: Callable[[int, Path], dict[str, Any]] = lambda page, folder: {"page": page}
    """Arguments of the tool that reads a page."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Files of the home folder."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of every client."""
    module: str = ""
    """Python package that the program needs, as it is imported, or package of Node."""
    distribution: str = ""
    """Package whose version is named, where it is not `module`."""
    has_log: bool = False
    """Whether contextkit reads its own log."""
    endpoint: str = "Anthropic Messages"


def _read(name: str) -> Callable[[int, Path], dict[str, Any]]:
    return lambda page, folder: {name: str(folder / f"page{page}.txt")}


_CODEX = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "{model}")
_AIDER = ("--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-analytics", "--no-git")
_GEMINI_AUTH = '{"security":{"auth":{"selectedType":"gemini-api-key"}}}'
CLIENTS = (
    Client(
        "Claude Code",
        "claude",
        "claude-sonnet-5-5",
        ("-p", "{prompt}", "--model", "{model}", "--allowedTools", "Read"),
        ("-p", "--continue", "{prompt}", "--model", "{model}", "--allowedTools", "Read"),
        tool="Read",
        look=_read("file_path"),
        has_log=True,
    ),
    Client(
        "Claude Code, as to Anthropic",
        "claude",
        "claude-sonnet-5-5",
        ("-p", "{prompt}", "--model", "{model}", "--allowedTools", "Read"),
        ("-p", "--continue", "{prompt}", "--model", "{model}", "--allowedTools", "Read"),
        tool="Read",
        look=_read("file_path"),
        environment={"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"},
        has_log=True,
    ),
    Client(
        "Codex",
        "codex",
        "gpt-5.5",
        ("exec", *_CODEX, "{prompt}"),
        ("exec", "resume", "--last", *_CODEX, "{prompt}"),
        tool="exec_command",
        look=lambda page, folder: {"cmd": f"cat page{page}.txt"},
        has_log=True,
        endpoint="OpenAI Responses",
    ),
    Client(
        "opencode",
        "opencode",
        "anthropic/claude-sonnet-5",
        ("run", "-m", "{model}", "{prompt}"),
        ("run", "-c", "-m", "{model}", "{prompt}"),
        tool="read",
        look=_read("filePath"),
        has_log=True,
    ),
    Client(
        "opencode (OpenAI)",
        "opencode",
        "openai/gpt-5.5",
        ("run", "-m", "{model}", "{prompt}"),
        ("run", "-c", "-m", "{model}", "{prompt}"),
        tool="read",
        look=_read("filePath"),
        has_log=True,
        endpoint="OpenAI Responses",
    ),
    Client(
        "Gemini CLI",
        "gemini",
        "gemini-3.1-pro-preview",
        ("--skip-trust", "-m", "{model}", "-p", "{prompt}"),
        ("--skip-trust", "-m", "{model}", "--resume", "latest", "-p", "{prompt}"),
        tool="read_file",
        look=_read("file_path"),
        settings={".gemini/settings.json": _GEMINI_AUTH},
        has_log=True,
        endpoint="Gemini",
    ),
    Client(
        "Qwen Code",
        "qwen",
        "gpt-5.4",
        ("--auth-type", "openai", "-m", "{model}", "-p", "{prompt}"),
        ("--auth-type", "openai", "-m", "{model}", "--continue", "-p", "{prompt}"),
        tool="read_file",
        look=_read("file_path"),
        has_log=True,
        endpoint="OpenAI Chat",
    ),
    Client(
        "pi",
        "pi",
        "claude-sonnet-5-5",
        ("-p", "--provider", "anthropic", "--model", "{model}", "{prompt}"),
        ("-p", "-c", "--provider", "anthropic", "--model", "{model}", "{prompt}"),
        tool="read",
        look=_read("path"),
        has_log=True,
    ),
    Client(
        "mini-swe-agent",
        "mini",
        "anthropic/claude-sonnet-5-5",
        ("-m", "{model}", "-t", "{prompt}", "-y", "--exit-immediately", "-l", "9"),
        tool="bash",
        look=lambda page, folder: {"command": f"cat page{page}.txt" if page else _SUBMIT},
        module="minisweagent",
        distribution="mini-swe-agent",
    ),
    Client(
        "aider",
        "aider",
        "anthropic/claude-sonnet-5-5",
        (*_AIDER, "--model", "{model}", "--message", "{prompt}"),
        tool="",
        module="aider",
        distribution="aider-chat",
    ),
    Client("LangChain", "langchain_agent.py", "anthropic:claude-sonnet-5-5", (), module="langchain_anthropic"),
    Client(
        "LangChain (OpenAI)",
        "langchain_agent.py",
        "openai:gpt-5.5",
        (),
        module="langchain_openai",
        endpoint="OpenAI Chat",
    ),
    Client("Pydantic AI", "pydantic_agent.py", "anthropic:claude-sonnet-5-5", (), module="pydantic_ai"),
    Client(
        "Pydantic AI (OpenAI)",
        "pydantic_agent.py",
        "openai:gpt-5.5",
        (),
        module="pydantic_ai",
        endpoint="OpenAI Responses",
    ),
    Client(
        "Pydantic AI (Google)",
        "pydantic_agent.py",
        "google:gemini-3.1-pro-preview",
        (),
        module="pydantic_ai",
        endpoint="Gemini",
    ),
    Client("OpenAI Agents", "openai_agent.py", "gpt-5.5", (), module="agents", endpoint="OpenAI Responses"),
    Client("Strands", "strands_agent.py", "anthropic:claude-sonnet-5-5", (), module="strands"),
    Client("Strands (OpenAI)", "strands_agent.py", "openai:gpt-5.5", (), module="strands", endpoint="OpenAI Chat"),
    Client("LiteLLM", "litellm_loop.py", "anthropic/claude-sonnet-5-5", (), module="litellm"),
    Client("LiteLLM (OpenAI)", "litellm_loop.py", "openai/gpt-5.5", (), module="litellm", endpoint="OpenAI Chat"),
    Client(
        "Claude Agent SDK (Python)",
        "claude_agent.py",
        "claude-sonnet-5-5",
        (),
        tool="Read",
        look=_read("file_path"),
        module="claude_agent_sdk",
        has_log=True,
    ),
    Client(
        "Claude Agent SDK (JavaScript)",
        "claude_agent.mjs",
        "claude-sonnet-5-5",
        (),
        tool="Read",
        look=_read("file_path"),
        module="@anthropic-ai/claude-agent-sdk",
        has_log=True,
    ),
    Client("AI SDK", "ai_sdk.mjs", "anthropic:claude-sonnet-5-5", (), module="ai"),
    Client("AI SDK (OpenAI)", "ai_sdk.mjs", "openai:gpt-5.5", (), module="ai", endpoint="OpenAI Responses"),
)
_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Provider:
    """The local provider with a plan for the agent's calls; others are answered with a word."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client, self._folder = client, folder
        self._plan: deque[Any] = deque()
        self.is_asked = threading.Event()
        self.server = LocalServer(replies=self._reply)

    def plan(self, *replies: Any) -> None:
        """Answer the agent's next calls; then say "Done."."""
        self._plan.clear()
        self._plan.extend(replies)
        self.is_asked.clear()

    def look(self, page: int, **more: Any) -> Any:
        """Return a reply that has the agent read a page."""
        text = {"type": "text", "text": f"I read page {page}."}
        if not self._client.tool:
            return {"parts": [text], **more}
        arguments = self._client.look(page, self._folder)
        return {"parts": [text, {"type": "call", "name": self._client.tool, "arguments": arguments}], **more}

    def _reply(self, parsed: Any, body: Any) -> Any:
        if not self._is_agents(body):
            return {"parts": [{"type": "text", "text": "Reading"}]}
        self.is_asked.set()
        if self._plan:
            return self._plan.popleft()
        if self._client.command == "mini":
            return self.look(0)
        return {"parts": [{"type": "text", "text": "Done."}]}

    def _is_agents(self, body: Any) -> bool:
        name = self._client.tool
        return not name or f'"name":"{name}"' in json.dumps(body.get("tools") or [], separators=(",", ":"))


Bill = tuple[str, int, object, int, int]
"""Model, and what was read, written by lifetime, neither, and generated."""


def bill(call: ModelCall) -> Bill | str:
    """Return what a call was billed, or why it has no bill."""
    usage = call.usage
    if usage is None:
        return f"{call.model}: {call.error or 'no usage'}"
    return call.model, usage.read, usage.writes, usage.fresh, usage.output


def recorded_bill(call: ModelCall, billed: Sequence[Bill | str]) -> Bill | str:
    """Return the bill of a recorded call; if its response was cut, that of the call of the same input whose output it began."""
    own = bill(call)
    if isinstance(own, tuple) and call.usage is not None and call.usage.quality("output") == "partial":
        begun = (one for one in billed if one[:-1] == own[:-1] and isinstance(one, tuple) and one[-1] >= own[-1])
        return next(begun, own)
    return own


def calls_of(*paths: Path) -> list[ModelCall]:
    """Return the calls of recordings that are there."""
    there = [str(path) for path in paths if path.exists()]
    return [record for record in records_in(there, Faults()) if isinstance(record, ModelCall)] if there else []


@dataclass
class Result:
    """What came of one client."""

    client: Client
    version: str
    cells: dict[str, str] = field(default_factory=dict)
    """Step → `yes`, or what differs."""
    details: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return all(cell.startswith(("yes", "–")) for cell in self.cells.values())


class Trial:
    """One client in a home folder of its own."""

    def __init__(self, client: Client, program: list[str], version: str, folder: Path, path: str) -> None:
        self.client, self._version = client, version
        self._home, self._work, bin_folder = folder / "home", folder / "work", folder / "bin"
        for made in (self._home, self._work, bin_folder):
            made.mkdir(parents=True, exist_ok=True)
        for page in range(1, 9):
            (self._work / f"page{page}.txt").write_text(f"Page {page}. " + f"Tide {page} was measured at noon. " * 90)
        subprocess.run(["git", "init", "-q", "."], cwd=self._work, check=True)
        for name, text in client.settings.items():
            (self._home / name).parent.mkdir(parents=True, exist_ok=True)
            (self._home / name).write_text(text)
        self._code, self._arguments = folder / "code", folder / "arguments"
        self._started = bin_folder / Path(client.command).name
        self._started.write_text(
            WRAPPER.format(
                python=sys.executable,
                program=program[0],
                before=program[1:],
                code=str(self._code),
                arguments=str(self._arguments),
            )
        )
        self._started.chmod(0o755)
        self._recording, self._output = folder / "recording.jsonl", folder / "output"
        self.provider = Provider(client, self._work)
        self._path = path
        self.result = Result(client, version)

    def run(self) -> Result:
        """Go through the steps."""
        client, provider = self.client, self.provider
        with provider.server:
            for name, step in self._steps():
                began = time.monotonic()
                try:
                    step(name)
                except (subprocess.TimeoutExpired, OSError) as fault:
                    self.result.cells[name] = f"no: {type(fault).__name__}"
                self.result.seconds[name] = time.monotonic() - began
            if client.has_log:
                self._compare_verdicts()
        return self.result

    def _steps(self) -> Iterator[tuple[str, Callable[[str], None]]]:
        look = self.provider.look
        is_one_process = not self.client.then and not self.client.first
        done = {"parts": [{"type": "text", "text": "Done."}]}
        before = [look(6)] if self.client.tool else []

        def turns(name: str) -> None:
            if is_one_process:
                self.provider.plan(look(1), look(2), done, look(3), done)
                self._check(name, ["Read two pages.", "Read one more."])
            elif self.client.then:
                self.provider.plan(look(1), look(2), done)
                self._check(name, ["Read two pages."])
            else:
                self.provider.plan(look(1), look(2), look(3))
                self._check(name, ["Read three pages."])

        def resumed(name: str) -> None:
            self.provider.plan(look(4))
            self._check(name, ["Read another."], is_new=False)

        def evicted(name: str) -> None:
            if "refused" in self.result.cells["resumed"]:
                return  # its session cannot go on
            self.provider.server.clock.advance(CLOCK)
            self.provider.plan(look(5))
            self._check(name, ["Read the last."], is_new=False)

        def cut(name: str) -> None:
            self.provider.plan(*before, look(7, fault={"kind": "cut", "after_parts": 1}))
            self._check(name, ["Read the sixth and the seventh page."])

        def interrupted(name: str) -> None:
            self.provider.plan(*before, look(8, wait_seconds=20))
            self._check(name, ["Read the sixth and the eighth page."], interrupt_at=len(before) + 1)

        yield "turns", turns
        if self.client.then:
            yield "resumed", resumed
            yield "evicted", evicted
        yield "cut", cut
        yield "interrupted", interrupted

    def _check(self, name: str, prompts: list[str], *, is_new: bool = True, interrupt_at: int = 0) -> None:
        """Run one process, and compare the recording and the exit code with the provider's ledger and the program's."""
        n_billed, n_recorded = len(self.provider.server.ledger), len(calls_of(self._recording))
        self._code.unlink(missing_ok=True)
        code = self._process(self._arguments_for(prompts, is_new=is_new), interrupt_at)
        billed = [bill(call) for call in self.provider.server.ledger.calls[n_billed:]]
        calls = calls_of(self._recording)[n_recorded:]
        refused = [call for call in calls if call.is_refused]
        broken = [call for call in calls if call.error in ("aborted", "cut") and call.usage is None]
        recorded = [recorded_bill(call, billed) for call in calls if call not in broken and call not in refused]
        unknown = list((Counter(billed) - Counter(recorded)).elements())
        recorded += unknown[: len(broken)]  # billed, though the response ended before it said what
        own = int(self._code.read_text()) if self._code.exists() else None
        wrong = []
        if own != code:
            wrong.append(f"exit code {code}, the program's was {own}")
        if Counter(billed) != Counter(recorded):
            wrong.append(f"{len(recorded)} calls recorded, {len(billed)} billed, not the same")
            only_billed, only_recorded = Counter(billed) - Counter(recorded), Counter(recorded) - Counter(billed)
            self.result.details.append(f"{name}: only billed {list(only_billed.elements())}")
            self.result.details.append(f"{name}: only recorded {list(only_recorded.elements())}")
        if not calls:
            wrong.append("no call")
        ends = "".join(f", 1 {call.error} without a bill" for call in broken)
        ends += "".join(f", 1 refused ({call.error})" for call in refused)
        fine = f"yes, {counted(len(billed), 'call')}{ends}{f', exit code {code}' if code else ''}"
        self.result.cells[name] = f"no: {'; '.join(wrong)}" if wrong else fine
        if wrong:
            self.result.details.append(f"{name}: output ends with {self._output.read_text(errors='replace')[-400:]!r}")

    def _arguments_for(self, prompts: list[str], *, is_new: bool) -> list[str]:
        client = self.client
        if not client.first:
            return [client.model, *prompts]
        fill = {"{prompt}": prompts[0], "{model}": client.model}
        return [fill.get(part, part) for part in (client.first if is_new else client.then)]

    def _process(self, arguments: list[str], interrupt_at: int) -> int:
        """Run the client in a session of its own; Ctrl-C goes to the whole of it, as a terminal's does."""
        command = [sys.executable, "-m", "contextkit.cli.main", "run", "--record", str(self._recording), "--"]
        url = self.provider.server.url
        environment = {
            "PATH": f"{self._started.parent}:{self._path}",
            "HOME": str(self._home),
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            **KEYS,
            "ANTHROPIC_BASE_URL": url,
            "OPENAI_BASE_URL": f"{url}/v1",
            "GOOGLE_GEMINI_BASE_URL": url,
            "MSWEA_CONFIGURED": "true",
            **self.client.environment,
        }
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(self._started), *arguments],
                cwd=self._work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if interrupt_at:
                self._interrupt(process, interrupt_at)
            try:
                return process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise

    def _interrupt(self, process: subprocess.Popen[bytes], at_call: int) -> None:
        for _ in range(at_call):
            while not self.provider.is_asked.wait(0.2) and process.poll() is None:
                pass
            self.provider.is_asked.clear()
        time.sleep(1.0)
        for _ in range(3):  # some want it twice
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(6.0)
                except subprocess.TimeoutExpired:
                    continue

    # Verdicts

    def _compare_verdicts(self) -> None:
        recorded, logged = self._report(str(self._recording)), self._report("--since", "2d")
        left = Counter(map(_bill_of_row, logged))
        shared, only_recorded = [], []
        for row in recorded:
            is_logged = left[_bill_of_row(row)] > 0
            left[_bill_of_row(row)] -= is_logged
            (shared if is_logged else only_recorded).append(row)
        mine, theirs = _verdicts(shared), _verdicts(logged)
        text = []
        if missing := list(left.elements()):
            text.append(f"{len(missing)} calls of the log are not recorded so")
            self.result.details.append(f"log: only there {missing}")
            self.result.details.append(f"log: only recorded {[_bill_of_row(row) for row in only_recorded]}")
        has_prompts = not any(text in row["where"] for row in logged for text in _WITHOUT)
        if mine != theirs and (has_prompts or _causes(mine) != _causes(theirs)):
            text.append(f"verdicts differ: {_shown(mine - theirs)} recorded, {_shown(theirs - mine)} in the log")
        if text:
            self.result.cells["log"] = f"no: {'; '.join(text)}"
            return
        notes = [] if mine == theirs else [f"log, without whole prompts: {_shown(theirs)}"]
        if only_recorded:
            notes.append(f"only recorded: {counted(len(only_recorded), 'call')}, {_shown(_verdicts(only_recorded))}")
        self.result.cells["log"] = "; ".join([f"yes, {_shown(mine)}", *notes])

    def _report(self, *arguments: str) -> list[dict[str, str]]:
        """Return a row for each call of `contextkit report --csv`."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)),
        }
        command = [sys.executable, "-m", "contextkit.cli.main", "report", "--csv", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self._home, timeout=PATIENCE, check=False
        )
        if done.returncode:
            self.result.details.append(f"report {' '.join(arguments)}: {done.stderr[-300:]}")
        return list(csv.DictReader(done.stdout.splitlines()))


_WITHOUT = ("was not recorded", "not in the record")
"""How a report says that a log has no prompts, or not all of them: what was cached is then an estimate."""
Verdicts = Counter[tuple[str, int]]
"""Cause and lost tokens of each loss."""


def _verdicts(rows: Sequence[Mapping[str, str]]) -> Verdicts:
    return Counter((row["cause"], int(row["lost_tokens"])) for row in rows if row["is_loss"] == "True")


def _causes(verdicts: Verdicts) -> Counter[str]:
    return Counter(cause for cause, _ in verdicts.elements())


def _bill_of_row(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("model", "fresh", "read", "write_5m", "write_1h", "output"))


def _shown(verdicts: Verdicts) -> str:
    return ", ".join(f"{cause} {tokens:,}" for cause, tokens in sorted(verdicts.elements())) or "no loss"


# Which clients are there
# ---------------------------------------------------------------------------------------------------------------------


def found(
    client: Client, pythons: Sequence[Path], node_modules: Path | None, path: str
) -> tuple[list[str], str] | None:
    """Return how a client is started, and its version; None if it is not installed."""
    if client.command.endswith(".mjs"):
        described = node_modules and node_modules / client.module / "package.json"
        node = shutil.which("node", path=path)
        if not node or not described or not described.exists():
            return None
        return [node, str(PROGRAMS / client.command)], json.loads(described.read_text())["version"]
    if client.module:
        ask = (
            f"import importlib, importlib.metadata as m; importlib.import_module({client.module!r});"
            f"print(m.version({client.distribution!r} or m.packages_distributions()[{client.module!r}][0]))"
        )
        for python in pythons:
            done = subprocess.run([python, "-W", "ignore", "-c", ask], capture_output=True, text=True, check=False)
            if not done.returncode:
                version = done.stdout.strip().splitlines()[-1]
                is_program = client.command.endswith(".py")
                started = (
                    [str(python), str(PROGRAMS / client.command)]
                    if is_program
                    else [str(python.parent / client.command)]
                )
                return started, version
        return None
    program = shutil.which(client.command, path=path)
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            env={"PATH": path, "HOME": home},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    version = re.search(r"\d+\.\d+[\w.-]*", done.stdout + done.stderr)
    return [program], version[0] if version else "?"


COLUMNS = {
    "turns": "turns",
    "resumed": "resumed",
    "evicted": "cache evicted",
    "cut": "cut response",
    "interrupted": "Ctrl-C",
    "log": "verdicts, as in its own log",
}
"""Step → title of its column."""


def row_of(result: Result) -> str:
    """Return a line of the table."""
    cells = [result.cells.get(name, "–").removeprefix("yes, ").replace("|", "\\|") for name in COLUMNS]
    told = [result.client.name, result.version, result.client.endpoint, time.strftime("%Y-%m-%d"), *cells]
    return f"| {' | '.join(told)} |"


def page(rows: Mapping[str, str]) -> str:
    """Return the page with the rows of clients, by name."""
    titles = ["client", "version", "endpoint", "tried on", *COLUMNS.values()]
    table = [
        f"| {' | '.join(titles)} |",
        "|---" * len(titles) + "|",
        *(rows[one.name] for one in CLIENTS if one.name in rows),
    ]
    return "\n".join([HEAD, *table, ""])


def rows_of(text: str) -> dict[str, str]:
    """Return the rows of a page, by name."""
    return {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}


HEAD = """# Clients that `contextkit run` was tried with

`tests/clients/matrix.py` starts each client with [`contextkit run`](cli.md), the [local provider](../guides/local-provider.md) in place of
its own, and compares: after every step the recording equals the provider's bills, call by call and token by token, and the exit code is the
client's; one that is not 0 is named. Where something differed, the cell begins with "no".

A resumed session runs in a second process; before "cache evicted", which resumes it again, the provider forgets what it had cached; a cut
response ends in mid-stream; Ctrl-C comes while the provider waits. "Without a bill" are calls whose response ended before it said what was
billed. The last column has the losses that `contextkit report` finds both in the recording and in the client's own log; "only recorded"
are calls that the log leaves out: titles, warm-ups, what was cut.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--python", action="append", default=[], type=Path)
    parser.add_argument("--node-modules", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    pythons = [Path(sys.executable)]
    for folder in options.python:
        pythons += sorted([*folder.glob("bin/python"), *folder.glob("*/bin/python")])
    node_modules = options.node_modules.resolve() if options.node_modules else None
    path = os.environ["PATH"] if node_modules is None else f"{node_modules / '.bin'}:{os.environ['PATH']}"
    results = []
    for client in CLIENTS:
        if options.only and not client.name.lower().startswith(tuple(map(str.lower, options.only))):
            continue
        there = found(client, pythons, node_modules, path)
        if there is None:
            print(f"{client.name}: not installed", file=sys.stderr)
            continue
        folder = Path(tempfile.mkdtemp(prefix="clients-"))
        if node_modules is not None and client.command.endswith(".mjs"):
            (folder / "work").mkdir()
            (folder / "work" / "node_modules").symlink_to(node_modules)
        began = time.monotonic()
        result = Trial(client, there[0], there[1], folder, path).run()
        print(f"{client.name} {result.version} ({time.monotonic() - began:.0f} s)", file=sys.stderr)
        for name, cell in result.cells.items():
            print(f"  {name}: {cell} ({result.seconds.get(name, 0):.0f} s)", file=sys.stderr)
        for detail in result.details:
            print(f"    {detail}", file=sys.stderr)
        if options.keep:
            print(f"  kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        results.append(result)
        if options.write:
            before = rows_of(PAGE.read_text()) if PAGE.exists() else {}
            PAGE.write_text(page({**before, client.name: row_of(result)}))
    if not options.write:
        print(page({result.client.name: row_of(result) for result in results}))
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
