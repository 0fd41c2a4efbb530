"""A workload (system prompt, tools, results, user turns, scripted model) and one run of it against the local provider.

The model is a script (a generator): it is given what a request shows and yields the next reply. It never sees more than
the request holds, so what a framework leaves out of the window has to be read back by a call, and is billed.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
import textwrap
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.memory.offload import EXTRACT
from contextkit.providers.anthropic.blocks import PLACEHOLDER, edited_columns
from contextkit.server import LocalServer
from tests.benchmarks.workloads.text import BYTES_PER_TOKEN, LINE

MODEL = "claude-sonnet-5-5"
START = 1_795_500_000.0
"""24 November 2026: the day the prices are of."""
CALL_TOKENS = 80
TEXT_TOKENS = 300
SUMMARY_TOKENS = 1_500
EXTRACT_TOKENS = 400
WHOLE = 0.995
"""From this share of its tokens on a result counts as shown whole."""
REPLY_SECONDS = 4.0
TOOL_SECONDS = 1.0

Reply = dict[str, Any]
Script = Generator[Reply, "View", None]


class Crash(BaseException):
    """The process of the agent ends here."""


def call(name: str, *, output_tokens: int = CALL_TOKENS, **arguments: Any) -> Reply:
    """A reply that calls one tool."""
    return {
        "parts": [{"type": "call", "name": name, "arguments": arguments}],
        "output_tokens": output_tokens,
        "seconds": REPLY_SECONDS,
    }


def text(words: str, output_tokens: int = TEXT_TOKENS) -> Reply:
    """A reply that ends the turn."""
    return {"parts": [{"type": "text", "text": words}], "output_tokens": output_tokens, "seconds": REPLY_SECONDS}


# What is run
# -----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolSpec:
    """A tool, in no framework's form; `run` takes the arguments by name."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., str]


def spec(name: str, description: str, run: Callable[..., str], **properties: str) -> ToolSpec:
    """A tool whose arguments are all required; `properties` maps each name to its JSON type."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind, "description": f"The {key}."} for key, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, run)


@dataclass(frozen=True)
class Turn:
    """What the user says, after how long a pause; `late` are tools that have become known before it."""

    content: tuple[str, ...]
    pause_seconds: float = 0.0
    late: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True)
class Fact:
    """Something planted in a result: `code` is told once, on the page `key`."""

    key: str
    title: str
    code: str

    @property
    def name(self) -> str:
        """The part of the title that no other page has."""
        names = re.findall(r"[A-Z][a-z]{5,} [A-Z][a-z]{5,}", self.title)
        return names[-1] if names else self.title


@dataclass
class Workload:
    """Everything a contender is given. Mutable state (which page comes next) lives in `tools`: build one for each run."""

    name: str
    title: str
    system: str
    tools: list[ToolSpec]
    turns: list[Turn]
    script: Callable[[View], Script]
    pages: Mapping[str, str] = field(default_factory=dict)
    """Key → the whole text of a result whose lines are counted."""
    facts: tuple[Fact, ...] = ()
    phases: Mapping[str, str] = field(default_factory=dict)
    """Phase → prefix of the tools it allows, in order; a call of `<prefix>done` leads to the next."""
    compact_at_tokens: int | None = None
    """The window an agent may use before it has to compact."""
    subtasks: tuple[str, ...] = ()
    """Tasks of sub-agents that start together, each over `system`."""
    lane: Callable[[View], str] = lambda view: ""
    """Which conversation a request belongs to, where there are several."""
    real_wait_seconds: float = 0.0
    """How long the first reply of each lane takes by the real clock, so that calls overlap."""
    answered: dict[str, str] | None = None
    """Key of each fact → how the script reached it, where the script asks for them."""


# What the model sees
# -----------------------------------------------------------------------------------------------------------------------------


class Index:
    """Lines of pages in the texts seen so far, by text, so that no text is searched twice."""

    def __init__(self) -> None:
        self._by_text: dict[str, dict[str, frozenset[int]]] = {}
        self.seen: dict[str, set[int]] = {}
        """Key → numbers of the lines that at least one request has shown."""

    def lines(self, words: str) -> dict[str, frozenset[int]]:
        found = self._by_text.get(words)
        if found is None:
            by_key: dict[str, set[int]] = {}
            for key, number in LINE.findall(words):
                by_key.setdefault(key, set()).add(int(number))
            found = {key: frozenset(numbers) for key, numbers in by_key.items()}
            self._by_text[words] = found
            for key, numbers in found.items():
                self.seen.setdefault(key, set()).update(numbers)
        return found


class View:
    """What one Messages request shows: its texts, its tools, and how a result that is not shown whole is read back."""

    def __init__(self, body: Mapping[str, Any], index: Index, cleared: Collection[str] = ()) -> None:
        """`cleared` are ids of calls whose results the provider takes out before the model reads the request."""
        self._index = index
        self._parameters = {
            tool["name"]: set((tool.get("input_schema") or {}).get("properties", ()))
            for tool in body.get("tools", ())
            if "name" in tool
        }
        self.tools: set[str] = set(self._parameters)
        self.system = "\n".join(_texts(body.get("system", ""), ()))
        self._results = _results(body["messages"])
        self.by_role = [(message["role"], _texts(message["content"], cleared)) for message in body["messages"]]

    @cached_property
    def texts(self) -> list[str]:
        return [words for _, group in self.by_role for words in group]

    @property
    def last(self) -> str:
        return "\n".join(self.by_role[-1][1])

    @property
    def asks_for_summary(self) -> bool:
        words = self.by_role[-1][1]
        places = [self.system[:500], *([words[-1][:6_000], words[-1][-3_000:]] if words else [])]
        return any(_ASKS_FOR_SUMMARY.search(place) for place in places)

    @property
    def asks_for_extract(self) -> bool:
        """Whether contextkit's side call asks what a large result holds."""
        words = self.by_role[-1][1]
        return bool(words) and EXTRACT in words[-1]

    def note(self) -> None:
        """Count every line this request shows as seen."""
        for words in self.texts:
            self._index.lines(words)

    def lines(self, key: str) -> set[int]:
        """Numbers of the lines of the page `key` that this request shows."""
        shown: set[int] = set()
        for words in self.texts:
            shown |= self._index.lines(words).get(key, frozenset())
        return shown

    def holds(self, words: str) -> bool:
        return any(words in one for one in self.texts)

    def tool(self, name: str) -> str:
        """The name under which the request knows a tool (an MCP server puts its own in front)."""
        if name in self.tools:
            return name
        return next((one for one in sorted(self.tools) if one.endswith(f"__{name}")), name)

    def stand_in(self, key: str, title: str = "") -> tuple[str, str] | None:
        """Reader and handle of the newest text that stands for the page `key`, or of the line that lists it."""
        for words in reversed(self.texts):
            if key not in self._index.lines(words) and f"{key}." not in words and not (title and title in words):
                continue
            if "read_reference" in self.tools and (listed := _listed(words, f"{key}.", title)):
                return "read_reference", listed
            for reader, pattern in _STAND_INS:
                if reader in self.tools and key in self._index.lines(words) and (found := pattern.search(words)):
                    return reader, found.group(1)
        for arguments, words in reversed(self._results):
            if key in arguments and (found := _STAND_INS[0][1].search(words)) and "read_reference" in self.tools:
                return "read_reference", found.group(1)
        return None

    def index_of_references(self) -> str | None:
        """The reference of a list of all references, where the prompt names one."""
        found = (_INDEX.search(words) for words in reversed(self.texts))
        return next((match.group(1) for match in found if match), None)

    def reading(self, key: str, missing: set[int]) -> Reply | None:
        """The call that reads lines of `key` back; None where nothing in the request leads to them."""
        found = self.stand_in(key)
        if found is None:
            return None
        reader, handle = found
        first, last = min(missing), max(missing)
        count = last - first + 1
        if reader == "read_reference":
            return call(reader, id=handle, start_line=first, n_lines=count)
        if reader == "read_file":
            return call(reader, file_path=handle, offset=first - 1, limit=count)
        return call(reader, handle=handle, offset=first - 1, limit=count)

    def searching(self, key: str, title: str, words: str) -> Reply | None:
        """The call that looks for `words` in what stands for the page `key`, where its reader can search."""
        found = self.stand_in(key, title)
        if found is None:
            return None
        reader, handle = found
        for parameter, argument in (("find", "id"), ("pattern", "handle")):
            if parameter in self._parameters.get(reader, ()):
                return call(reader, **{argument: handle, parameter: words})
        return None


_STAND_INS = (
    ("read_reference", re.compile(r'read_reference\(id="([0-9a-f]{16})"')),
    ("read_file", re.compile(r"saved in the filesystem at this path: (\S+)")),
    ("read_tool_result", re.compile(r"stored to handle '([^']+)'")),
)
"""Tools that read a result back, and the words by which its preview names it."""
_INDEX = re.compile(r"^([0-9a-f]{16}): .*index of all", re.MULTILINE)


def _listed(words: str, *names: str) -> str | None:
    """The reference in whose line of a list one of `names` stands."""
    for line in words.splitlines():
        if re.match(r"[0-9a-f]{16}: ", line) and any(name and name in line for name in names):
            return line[:16]
    return None


_ASKS_FOR_SUMMARY = re.compile(
    "Context Extraction Assistant|context summarization assistant|[Ww]rite a summary of this conversation"
)
"""Words of the instructions by which contenders ask for a summary."""


def _results(messages: Any) -> list[tuple[str, str]]:
    """Arguments of each answered call, and the text of its result."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    arguments = {block["id"]: str(block["input"]) for block in blocks if block.get("type") == "tool_use"}
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return [(arguments.get(one["tool_use_id"], ""), "\n".join(_texts(one.get("content"), ()))) for one in results]


def _texts(content: Any, cleared: Collection[str]) -> list[str]:
    """Texts of a message's content, tool results included, each block by itself."""
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in content or ():
        if block.get("type") == "text":
            found.append(block["text"])
        elif "content" in block and block.get("tool_use_id") not in cleared:
            found += _texts(block["content"], ())
    return found


def read_whole(view: View, key: str, n_lines: int, again: Reply) -> Generator[Reply, View, View]:
    """Read the page `key` until the request shows all of it.

    Where nothing in the request leads to the rest, the tool that gave it is called once more (`again`).
    """
    whole = set(range(1, n_lines + 1))
    missing = whole - view.lines(key)
    while missing:
        reply = view.reading(key, missing)
        if reply is None:
            view = yield again
            return view
        view = yield reply
        left = whole - view.lines(key)
        if len(left) >= len(missing):
            return view
        missing = left
    return view


def look_up(view: View, fact: Fact, found: dict[str, str]) -> Generator[Reply, View, View]:
    """Look for a planted fact by what the request offers; `found[key]` says how it was reached, or is missing."""
    if view.holds(fact.code):
        found[fact.key] = "window"
        return view
    words = f"access code of {fact.title}"
    if "memory_search" in view.tools:
        view = yield call("memory_search", query=words)
        if view.holds(fact.code):
            found[fact.key] = "search"
            return view
        # Its own question and search are found too; a model does not open those.
        for hit, line in re.findall(r"^(\S+) line (\d+) \((?!user|assistant)", view.last, re.MULTILINE)[:3]:
            view = yield call("memory_read", id=hit, start_line=max(1, int(line) - 2), n_lines=10)
            if view.holds(fact.code):
                found[fact.key] = "search"
                return view
    if "search_conversation_history" in view.tools:
        view = yield call("search_conversation_history", query=words)
        if not view.holds(fact.code):
            view = yield call("search_conversation_history", query=fact.name)
    elif "grep" in view.tools:
        view = yield call("grep", pattern=words, path="/", output_mode="content")
    if view.holds(fact.code):
        found[fact.key] = "search"
        return view
    if view.stand_in(fact.key, fact.title) is None and (index := view.index_of_references()):
        view = yield call("read_reference", id=index)
    reply = view.searching(fact.key, fact.title, "access code")
    if reply is not None:
        view = yield reply
        if view.holds(fact.code):
            found[fact.key] = "reference"
            return view
    for _ in range(8):
        before = view.lines(fact.key)
        reply = view.reading(fact.key, set(range(1, 999)) - before)
        if reply is None:
            return view
        view = yield reply
        if view.holds(fact.code):
            found[fact.key] = "reference"
            return view
        if view.lines(fact.key) <= before:
            return view
    return view


class ScriptedModel:
    """Answers requests by the workload's script; one generator a lane."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._lanes: dict[str, Script] = {}
        self._lock = threading.Lock()
        self.index = Index()
        self.last_view: View | None = None
        self.n_side_calls = 0
        self.n_after_end = 0

    def __call__(self, parsed: Any, body: Mapping[str, Any]) -> Reply:
        with self._lock:
            view = View(body, self.index, _cleared(parsed, body))
            if view.asks_for_summary:
                self.n_side_calls += 1
                view.note()
                return text("Summary: the task goes on as planned; everything read so far is noted.", SUMMARY_TOKENS)
            if view.asks_for_extract:
                self.n_side_calls += 1
                view.note()
                return text("An extract of the page: its figures, names and what follows from them.", EXTRACT_TOKENS)
            own = {tool.name for tool in self._workload.tools}
            if own and not any(name in own or name.split("__")[-1] in own for name in view.tools):
                self.n_side_calls += 1
                return text("Agent at work", 10)
            view.note()
            self.last_view = view
            return self._named(view, self._next(view))

    def _next(self, view: View) -> Reply:
        lane = self._workload.lane(view)
        script = self._lanes.get(lane)
        try:
            if script is None:
                self._lanes[lane] = script = self._workload.script(view)
                return {**next(script), "wait_seconds": self._workload.real_wait_seconds}
            return script.send(view)
        except StopIteration:
            self.n_after_end += 1
            return text("There is nothing left to do.")

    def _named(self, view: View, reply: Reply) -> Reply:
        parts = []
        for part in reply["parts"]:
            if part["type"] == "call" and part["name"] not in view.tools and "call_tool" in view.tools:
                parts.append({**part, "name": "call_tool", "arguments": _bridged(part)})
            elif part["type"] == "call":
                parts.append({**part, "name": view.tool(part["name"])})
            elif "final_answer" in view.tools:  # smolagents: a turn ends by this call
                parts.append({"type": "call", "name": "final_answer", "arguments": {"answer": part["text"]}})
            else:
                parts.append(part)
        return {**reply, "parts": parts}


def _cleared(parsed: Any, body: Mapping[str, Any]) -> set[str]:
    """Ids of calls whose results context editing takes out of this request."""
    if not body.get("context_management"):
        return set()
    columns, _ = edited_columns(parsed.layout, parsed.params)
    blocks = [json.loads(columns.body(index)) for index in range(len(columns))]
    placeholder = [{"type": "text", "text": PLACEHOLDER}]
    return {block["tool_use_id"] for block in blocks if "tool_use_id" in block and block.get("content") == placeholder}


def _bridged(part: Reply) -> dict[str, Any]:
    """Arguments of `call_tool`, by which contextkit's late tools are called."""
    return {"name": part["name"], "arguments": part["arguments"]}


# One run
# -----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """A framework with its settings, and the code a user writes for it."""

    name: str
    settings: str
    run: Callable[[Job], None]
    code: tuple[Callable[..., Any], ...] = ()
    """Functions whose lines a user would write; tools and the benchmark's own wiring are not among them."""
    packages: tuple[str, ...] = ()
    is_own: bool = False
    """contextkit."""
    is_compared: bool = True
    """False for code that no documentation shows, or a run that breaks a limit of the workload: it is only listed."""
    is_recommended: bool = False
    """The one setting of contextkit that its documentation advises for this kind of work, whatever comes out best."""
    remark: str = ""

    @property
    def n_lines(self) -> int:
        return sum(map(_n_code_lines, self.code))


def _n_code_lines(function: Callable[..., Any]) -> int:
    """Lines of a function without blank lines, comments and its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    source = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    lines = [line.strip() for line in source.splitlines()]
    return sum(1 for line in lines if line and not line.startswith(("#", "@")))


class Job(AbstractContextManager["Job"]):
    """One run: a server with the workload's model, and what a contender needs to reach it."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.model = ScriptedModel(workload)
        self.server = LocalServer(self.model, now=START)
        self._folder = tempfile.TemporaryDirectory(prefix="workload-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.server.stop()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def ledger(self) -> Ledger:
        return self.server.ledger

    def turns(self, start: int = 0) -> Iterator[Turn]:
        """The user's turns, each after its pause on the simulated clock."""
        for turn in self.workload.turns[start:]:
            self.server.clock.advance(turn.pause_seconds)
            yield turn

    def run_tool(self, name: str, arguments: Mapping[str, Any], specs: Sequence[ToolSpec] = ()) -> str:
        """Run a tool of the workload; it takes a second of the simulated clock."""
        self.server.clock.advance(TOOL_SECONDS)
        known = [*self.workload.tools, *(tool for turn in self.workload.turns for tool in turn.late), *specs]
        return next(tool for tool in known if tool.name == name).run(**arguments)


@dataclass(frozen=True)
class Row:
    """What one run came to."""

    workload: str
    contender: str
    settings: str
    cost_usd: float | None
    hit_rate: float | None
    largest_window: int
    calls: int
    seen_tokens: float | None
    """Mean tokens of each result that some request showed; None where the workload counts none."""
    result_tokens: float | None
    facts: dict[str, int]
    """Ways by which planted facts are reached → how many; empty where the workload plants none."""
    n_lines: int
    is_own: bool
    is_compared: bool
    remark: str
    error: str = ""
    is_recommended: bool = False

    @property
    def seen_share(self) -> float:
        if self.seen_tokens is None or not self.result_tokens:
            return 1.0
        return self.seen_tokens / self.result_tokens

    @property
    def is_whole(self) -> bool:
        """Whether the model saw every result whole and no planted fact is lost."""
        return self.seen_share >= WHOLE and not self.facts.get("lost")


def run(contender: Contender, workload: Workload) -> Row:
    """Run a workload with a contender. An exception becomes a row that names it."""
    error = ""
    with Job(workload) as job:
        try:
            contender.run(job)
        except Exception as fault:  # noqa: BLE001  (a contender that fails is a result)
            error = f"{type(fault).__name__}: {str(fault)[:200]}"
        return measure(contender, job, error)


def measure(contender: Contender, job: Job, error: str = "") -> Row:
    """The row of a run that has ended."""
    workload, index = job.workload, job.model.index
    summary = summarise(job.ledger)
    windows = [record.usage.prompt or 0 for record in job.ledger if record.usage]
    seen = result = None
    if workload.pages:
        tokens = [_tokens_shown(page, index.seen.get(key, set())) for key, page in workload.pages.items()]
        seen = sum(tokens) / len(tokens)
        result = sum(len(page) / BYTES_PER_TOKEN for page in workload.pages.values()) / len(workload.pages)
    remarks = [contender.remark] if contender.remark else []
    if job.model.n_after_end:
        remarks.append(f"{job.model.n_after_end} calls after the script's end")
    return Row(
        workload.name,
        contender.name,
        contender.settings,
        summary.cost_usd,
        summary.hit_rate,
        max(windows, default=0),
        len(windows),
        seen,
        result,
        reachable(job),
        contender.n_lines,
        contender.is_own,
        contender.is_compared,
        "; ".join(remarks),
        error,
        contender.is_recommended,
    )


def _tokens_shown(page: str, numbers: set[int]) -> float:
    lines = page.split("\n")
    return sum(len(line) + 1 for number, line in enumerate(lines, 1) if number in numbers) / BYTES_PER_TOKEN


def reachable(job: Job) -> dict[str, int]:
    """How many planted facts the model can still reach from the last request, by way; `lost` are the others.

    Where the script asked for them the answers count; else the last request is searched for the code, for a reference
    to its page, and for a tool that searches.
    """
    facts, view = job.workload.facts, job.model.last_view
    if not facts or view is None:
        return {}
    answered = job.workload.answered
    ways: list[str] = []
    for fact in facts:
        if answered is not None:
            ways.append(answered.get(fact.key, "lost"))
        elif view.holds(fact.code):
            ways.append("window")
        elif view.stand_in(fact.key, fact.title) or view.index_of_references():
            ways.append("reference")
        elif view.tools & {"memory_search", "grep", "search_conversation_history"}:
            ways.append("search")
        else:
            ways.append("lost")
    return {way: ways.count(way) for way in ("window", "reference", "search", "lost") if way in ways}
