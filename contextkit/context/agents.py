"""The agents of one session: names of sub-agents and branches, how many there may be, the folders of their logs, how far
each has come, and what a sub-agent has from its caller.

Names are lanes of the ledger and names of folders. No clock and no chance is in them: the same conversation makes the
same names.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakSet

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, StorageError, UsageError
from contextkit.ledger.calls import Outline
from contextkit.ledger.ledger import LEDGER_NAME, Ledger
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.log.registry import ListedSessions
from contextkit.log.storage import JSONLStorage, cannot_open
from contextkit.tools.mask import Limits
from contextkit.tools.phases import Phase, Phases
from contextkit.tools.tool import Tool, Toolbox

if TYPE_CHECKING:
    from contextkit.memory.filestore import FileMemory
    from contextkit.memory.memory import Memory

AGENTS = "agents"
"""Folder, beside a log, of the folders of its sub-agents."""
ORIGIN_FIELD = "spawned_by"
"""Field of the `opened` entry that holds an `Origin`."""
_NAME = re.compile(r"(?:agent|branch)-(\d+)-[0-9a-f]+")


MAIN = "main"
"""Lane of a conversation that is neither a branch nor a sub-agent."""


def lane_of(log: Sequence[Entry]) -> str:
    """`main`, or the branch this log is."""
    forked = max((entry.sequence for entry in log if entry.kind == "opened"), default=0)
    return f"fork@{forked + 1}" if forked else MAIN


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """How many sub-agents one session may have, and how long their calls wait for each other.

    They hold for the conversation they are given to and for all agents below it, and are kept in the logs.

    >>> AgentLimits(depth=1)
    AgentLimits(depth=1, count=256, running=None, wait_seconds=10.0)
    """

    depth: int = 3
    """Levels of agents below the conversation: 1 forbids its sub-agents to have their own, 0 forbids all."""
    count: int = 256
    """Sub-agents over the life of the session, on all levels."""
    running: int | None = None
    """Sub-agents that are open and not finished at one time; None: as many as `count`."""
    wait_seconds: float = 10.0
    """Longest that a call waits until the response to another one begins, which writes the prefix they share; 0: no
    call waits (`docs/guides/branches.md`, Ask in parallel)."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no limit."""
        for field in fields(self):
            value = getattr(self, field.name)
            is_absent = field.name == "running" and value is None
            is_number = type(value) is int or (field.name == "wait_seconds" and type(value) is float)
            if not is_absent and not (is_number and 0 <= value < float("inf")):
                raise UsageError(f"AgentLimits({field.name}={value!r}): a number from 0")

    def narrowed(self, other: AgentLimits) -> AgentLimits:
        """The lower one of each limit."""
        running = [limit for limit in (self.running, other.running) if limit is not None]
        return AgentLimits(
            min(self.depth, other.depth),
            min(self.count, other.count),
            min(running, default=None),
            min(self.wait_seconds, other.wait_seconds),
        )

    @classmethod
    def of(cls, stored: Json) -> Self | None:
        """The limits that a log stores; None where it stores none, or in a form that is not known."""
        names = {field.name for field in fields(cls)}
        if not isinstance(stored, Mapping):
            return None
        try:
            return cls(**{name: value for name, value in stored.items() if name in names})
        except UsageError:
            return None


LIMITS_FIELD = "agent_limits"
"""Field of the `opened` entry that holds the limits a conversation was begun with."""


def stored_limits(limits: AgentLimits | None) -> dict[str, Json]:
    """The field of the `opened` entry; nothing where none were given."""
    return {} if limits is None else {LIMITS_FIELD: asdict(limits)}


def limits_of(limits: AgentLimits | None, log: Sequence[Entry], origin: Origin | None) -> AgentLimits:
    """The limits of a conversation: those given, else those its log stores, else the default.

    Those of a sub-agent that is opened by itself are what its caller's were, and `limits` only narrows them. Raises
    `UsageError` for what is no `AgentLimits`.
    """
    if not isinstance(limits, AgentLimits | None):
        raise UsageError(f"agents is a contextkit.AgentLimits, not {type(limits).__name__}")
    if origin is not None:
        inherited = origin.limits or AgentLimits()
        return inherited if limits is None else inherited.narrowed(limits)
    if limits is not None:
        return limits
    stored = parse(log[0].body).get(LIMITS_FIELD) if len(log) else None
    return AgentLimits.of(stored) or AgentLimits()


class AgentRegistry:
    """The sub-agents and branches that write into one ledger: numbers them and holds them to their limits.

    Their own sub-agents share it.
    """

    __slots__ = ("_folder", "_last", "_ledger", "_lock", "_n_spawned", "limits", "open")

    def __init__(
        self, limits: AgentLimits = AgentLimits(), ledger: Ledger | None = None, folder: Path | None = None
    ) -> None:
        """`ledger` and `folder` (of agents) are those of the conversation that the limits were given to."""
        self._ledger, self._folder = ledger, folder
        self._last: int | None = None
        self._n_spawned: int | None = None
        self._lock = Lock()
        self.limits = limits
        self.open = WeakSet[Any]()
        """Contexts of sub-agents that are not closed."""

    def next(self, kind: str, digest: bytes, ledger: Ledger, folder: Path | None = None) -> str:
        """A name that neither a row of `ledger` nor a folder in `folder` has; `digest` is that of the log it leaves.

        >>> AgentRegistry().next("agent", bytes(16), Ledger())
        'agent-1-000000000000'
        """
        with self._lock:
            if self._last is None:
                self._last = max((number_in(call.lane) for call in ledger), default=0)
            used = max(map(number_in, agents_in(folder)), default=0)
            self._last = max(self._last, used) + 1
            return f"{kind}-{self._last}-{digest.hex()[:12]}"

    def check(self, depth: int, n: int) -> None:
        """Raise `UsageError` where `n` more sub-agents, `depth` levels below the conversation of the session, are more
        than the limits allow.
        """
        with self._lock:
            self._check(depth, n)

    @contextmanager
    def admitting(self, depth: int) -> Iterator[None]:
        """While the block runs, one more sub-agent is made; one whose making fails does not count. Raises as `check`."""
        with self._lock:
            n_spawned = self._check(depth, 1)
            self._n_spawned = n_spawned + 1
        try:
            yield
        except BaseException:
            with self._lock:
                self._n_spawned -= 1
            raise

    def _check(self, depth: int, n: int) -> int:
        """How many sub-agents the session has had."""
        if self._n_spawned is None:
            self._n_spawned = len({*_agent_lanes(self._ledger), *all_agents_in(self._folder)})
        limits, n_spawned = self.limits, self._n_spawned
        n_running = 0 if limits.running is None else sum(not agent.finished for agent in list(self.open))
        reasons = {
            "depth": (depth > limits.depth, f"it would be on level {depth} of agents"),
            "count": (n_spawned + n > limits.count, f"the session has had {n_spawned} sub-agents"),
            "running": (
                limits.running is not None and n_running + n > limits.running,
                f"{n_running} sub-agents are running: finish or close one first",
            ),
        }
        for name, (is_over, what) in reasons.items():
            if is_over:
                raise UsageError(
                    f"no sub-agent was spawned ({n} asked for): {what}, and the limit is {name}={getattr(limits, name)}",
                    in_code=f"do the task here, or raise the limit where the session is opened: agents=AgentLimits({name}=…)",
                )
        return n_spawned


def _agent_lanes(ledger: Ledger | None) -> Iterator[str]:
    rows = () if ledger is None else ledger.calls
    return (call.lane for call in rows if call.lane.startswith("agent-") and number_in(call.lane))


def number_in(lane: str) -> int:
    """The number in a name; 0 for a lane that was named otherwise.

    >>> number_in("agent-12-00ff"), number_in("main")
    (12, 0)
    """
    match = _NAME.fullmatch(lane)
    return int(match[1]) if match else 0


def agents_in(folder: Path | None) -> list[str]:
    """Names of the sub-agents whose logs are in a folder, in the order they were spawned; none where it cannot be read."""
    if folder is None:
        return []
    try:
        return sorted((path.name for path in folder.iterdir() if number_in(path.name)), key=number_in)
    except OSError:
        return []


def all_agents_in(folder: Path | None) -> list[str]:
    """Names of the sub-agents in a folder and of theirs, on all levels."""
    if folder is None:
        return []
    names = agents_in(folder)
    return [*names, *chain.from_iterable(all_agents_in(folder / name / AGENTS) for name in names)]


def session_name(session: str, lane: str) -> str:
    """The session, in a database, that holds the log of a sub-agent."""
    return f"{session}/{AGENTS}/{lane}"


def has_entries(log: Path) -> bool:
    """Return whether the file of a log holds an entry, or something that must be looked at.

    The remains of a failed append are no entry.
    """
    try:
        return next(JSONLStorage.read(log), None) is not None
    except FileNotFoundError:
        return False
    except (OSError, StorageError):
        return True


def check_log_is_there(log: Log, ledger: Ledger) -> None:
    """Raises `StorageError` for a log without an entry beside calls of a conversation: begun anew, it would continue
    under their bills.

    A ledger that `watch` or the proxy wrote holds whole bodies instead of outlines, and needs no log.
    """
    n_calls = 0 if len(log) else sum(isinstance(call.prompt, Outline) for call in ledger)
    if n_calls:
        storage = log.storage
        place, beside = str(storage.path), LEDGER_NAME
        from contextkit.log.sqlite import SQLiteStorage

        if isinstance(storage, SQLiteStorage):
            place, beside = f"session {storage.session!r} of {storage.file}", "the ledger"
        raise StorageError(
            f"{place} is missing or empty, but {beside} beside it records {n_calls} call{'s' * (n_calls > 1)}: put the "
            "log back from a copy to go on, or move the ledger away (or name another folder) to begin anew"
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """What a sub-agent has from its caller, as the first entry of its log holds it; no prompt shows it."""

    lane: str
    """Its own lane in the ledger, and its id; of no other agent of the session."""
    session: str
    """The caller's session."""
    root: str
    """Digest (hex) of the caller's first entry: both are sent to the same machine."""
    denied: frozenset[str] = frozenset()
    """Names the caller was not allowed when it spawned this agent, and was itself denied."""
    table_names: frozenset[str] | None = None
    """Names the caller's table of phases covers, where the agent inherited it; stored as `known`."""
    phase: str | None = None
    """The phase the caller was in, where the agent inherited the table."""
    plan: str | None = None
    """Path of its todo list, where it shares the caller's files."""
    depth: int = 1
    """Levels below the conversation of the session."""
    limits: AgentLimits | None = None
    """Those of the session when it was spawned; None in logs that do not say."""
    has_tools_only: bool = False
    """Whether its table of phases is `TOOLS_ONLY`, which nobody gave it."""
    call: str | None = None
    """Id of the caller's call that its reply answers, where it was spawned for one."""
    model: str | None = None
    """The model of the caller's endpoint it was spawned with, where that was named."""

    @property
    def body(self) -> Json:
        """As the log holds it."""
        return {
            "lane": self.lane,
            "session": self.session,
            "root": self.root,
            "denied": sorted(self.denied),
            "known": None if self.table_names is None else sorted(self.table_names),
            "phase": self.phase,
            "plan": self.plan,
            "depth": self.depth,
            "limits": None if self.limits is None else asdict(self.limits),
            **({"tools_only": True} if self.has_tools_only else {}),
            **({} if self.call is None else {"call": self.call}),
            **({} if self.model is None else {"model": self.model}),
        }

    @classmethod
    def of(cls, log: Sequence[Entry]) -> Self | None:
        """The origin that a log names; None for a conversation nobody spawned."""
        body = parse(log[0].body).get(ORIGIN_FIELD) if len(log) and log[0].kind == "opened" else None
        if not isinstance(body, Mapping):
            return None
        names = body.get("known")
        return cls(
            body["lane"],
            body["session"],
            body["root"],
            frozenset(body.get("denied", ())),
            None if names is None else frozenset(names),
            body.get("phase"),
            body.get("plan"),
            body.get("depth", 1),
            AgentLimits.of(body.get("limits")),
            body.get("tools_only", False),
            body.get("call"),
            body.get("model"),
        )

    def tool_limits(self, own: Mapping[str, bytes]) -> Limits:
        """The limits beside its table of phases; `own` are the tools of its memory."""
        return Limits(own, self.denied, self.table_names, self.phase)


def as_memory(memory: Memory | FileMemory | None) -> Memory | None:
    """`memory`, or one over a bare store."""
    if memory is None:
        return None
    from contextkit.memory.memory import Memory

    return Memory.of(memory)


def memory_of(memory: Memory | FileMemory | None, origin: Origin | None) -> Memory | None:
    """The memory of a conversation; that of a sub-agent has a plan of its own, unless it was given with one."""
    whole = as_memory(memory)
    if whole is None:
        return None
    has_plan = whole.todo is not None and whole.todo.name != whole.todo.path
    return whole if origin is None or origin.plan is None or has_plan else whole.with_plan(origin.plan)


# Tools of a sub-agent
# ----------------------------------------------------------------------------------------------------------------------

TOOLS_ONLY = Phases({"agent": Phase()}, start="agent")
"""Table of an agent that may call some of its caller's tools, where the caller has no phases: what it may not call is
denied beside the table."""


def table_of(phases: Any, origin: Origin | None, phase: str | None) -> Any:
    """The table of phases of a conversation: the one given, else the one that goes with its origin.

    A sub-agent whose process died before it entered a phase is still denied what it was denied.
    """
    if phases is not None or origin is None:
        return phases
    return TOOLS_ONLY if origin.has_tools_only or (origin.denied and phase is None) else None


def subset_of(tools: Iterable[Any], whole: Toolbox) -> tuple[Toolbox, frozenset[str]] | None:
    """`whole` with the functions of `tools`, and the names it has beyond them; None where `tools` has another tool, or
    one with another definition.
    """
    listed = Toolbox(tools).declared_as(whole.definitions())
    if any(tool.name not in whole.names or whole[tool.name].body != tool.body for tool in listed):
        return None
    joined = Toolbox(listed[tool.name] if tool.name in listed.names else tool for tool in whole)
    return joined, frozenset(whole.names) - frozenset(listed.names)


def functions_for(declared: Sequence[Json], tools: Toolbox, own: Mapping[str, bytes]) -> list[Tool] | None:
    """Tools with these definitions; None where one of them is missing, or is one of a memory (`own`)."""
    by_body = {tool.body: tool for tool in tools.declared_as(declared) if own.get(tool.name) != tool.body}
    bodies = [canonical(definition) for definition in declared]
    return [by_body[body] for body in bodies] if all(body in by_body for body in bodies) else None


# How far a sub-agent has come
# ----------------------------------------------------------------------------------------------------------------------

ENDED = frozenset({"done", "truncated", "refused", "overflow"})
"""Why a reply ended, where nothing remains to be asked."""
AgentStatus = Literal["finished", "waiting", "calling", "damaged"]
"""finished: the model has had its last word. waiting: a request is due. calling: calls are open. damaged: its log cannot
be read."""


@dataclass(frozen=True, slots=True)
class AgentState:
    """How far a sub-agent has come, as its log says."""

    lane: str
    """Its name; `context.agent(lane)` opens it."""
    status: AgentStatus
    """finished, waiting, calling or damaged."""
    open_calls: tuple[str, ...] = ()
    """Ids of calls nobody has answered, in call order."""
    stop: str | None = None
    """Why its last reply ended; None before the first."""
    call: str | None = None
    """Id of the caller's call that its reply answers, where it was spawned for one."""
    is_open: bool = False
    """Whether this process has it open."""
    damage: str = ""
    """Why its log cannot be read."""

    @property
    def finished(self) -> bool:
        """Return whether the model has had its last word."""
        return self.status == "finished"


def read_state(lane: str, log: Path) -> AgentState:
    """The state that the file of a log says: its first line and those from its last reply on are read.

    Takes no lock; what cannot be read is `damaged`. Raises `StorageError` where as many files are open as may be.
    """
    return _state_in(lane, lambda: (JSONLStorage.read(log), JSONLStorage.read_backwards(log)))


def read_session_state(lane: str, storage: ListedSessions) -> AgentState:
    """`read_state` of a log that is a session beside the one of its caller."""

    def read() -> tuple[Iterator[Entry], Iterator[Entry]]:
        entries = storage.read_beside(session_name(storage.session, lane))
        return iter(entries), reversed(entries)

    return _state_in(lane, read)


def _state_in(lane: str, read: Callable[[], tuple[Iterator[Entry], Iterator[Entry]]]) -> AgentState:
    """`read` gives the entries from the first one on, and from the last."""
    try:
        forwards, backwards = read()
        first = next(forwards, None)
        origin = None if first is None else Origin.of([first])
        if origin is None:
            return AgentState(lane, "damaged", damage="it is empty, or not the log of a sub-agent")
        state = _state_from_end(lane, backwards)
        return replace(state, call=origin.call)
    except OSError as fault:
        if fault.errno in (errno.EMFILE, errno.ENFILE):
            raise cannot_open(Path(fault.filename or lane), fault) from fault
        return AgentState(lane, "damaged", damage=f"{type(fault).__name__}: {fault}")
    except (StorageError, KeyError, TypeError, AttributeError, ValueError) as fault:
        return AgentState(lane, "damaged", damage=f"{type(fault).__name__}: {fault}")


def _state_from_end(lane: str, entries: Iterator[Entry]) -> AgentState:
    """The state that entries from the last one backwards say, up to what the last reply answers."""
    answered, users = set[str](), list[int]()
    reply: Mapping[str, Json] | None = None
    for entry in entries:
        if reply is not None and entry.sequence <= reply["after"]:
            break
        if entry.kind == "user":
            users.append(entry.sequence)
        elif entry.kind == "result" and reply is None:
            answered.add(parse(entry.body)["call_id"])
        elif entry.kind == "assistant" and reply is None:
            reply = parse(entry.body)
    if reply is None:
        return AgentState(lane, "waiting")
    open_calls = tuple(call["id"] for call in reply["calls"] if call["id"] not in answered)
    is_due = bool(users) or bool(reply["calls"]) or reply["stop"] not in ENDED
    status: AgentStatus = "calling" if open_calls else "waiting" if is_due else "finished"
    return AgentState(lane, status, open_calls, reply["stop"])


def state_of(agent: Any) -> AgentState:
    """The state of a sub-agent that this process has open."""
    open_calls = tuple(agent._turns.open)
    status: AgentStatus = "calling" if open_calls else "finished" if agent.finished else "waiting"
    return AgentState(agent.lane, status, open_calls, agent.stop, agent._origin.call, is_open=True)


def final_reply(agent: Any) -> object:
    """The value that answers a call with what a sub-agent said last.

    An error for the model where its last reply has no text. Raises `UsageError` while the agent has more to do.
    """
    if not agent.finished:
        raise UsageError(
            f"sub-agent {agent.lane!r} is not finished: send its requests and answer its calls until agent.finished, or give a text"
        )
    text = str(agent.last_text)
    return text or InvalidCall(f"the sub-agent ended without an answer (stop: {agent.stop})")
