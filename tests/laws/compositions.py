"""Generated compositions: every feature of a `Context` at once, as a list of operations over a family of conversations.

An operation is a tuple: its name, a number that picks the conversation it is for, and its values. One that makes no
sense yet does nothing, or what comes nearest. `Composition.run` checks the invariants after each operation; what is
checked, and how, is in the methods `_check_…`."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import re
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
from hypothesis import strategies as st

from contextkit import AgentLimits, AnthropicMessages, Budget, Context, FileMemory, OpenAIChat, Phase, Phases, Tool
from contextkit.canonical import parse
from contextkit.errors import BudgetExceeded, ContextKitError, UsageError
from contextkit.log.entry import FileChanged, MemoryUpdated
from contextkit.log.variation import Variation
from contextkit.memory import Compaction, Memory, Offload, Recitation, Residency
from contextkit.providers.late_tools import INLINE_TOOLS
from contextkit.providers.provider import Provider
from contextkit.providers.rendering import binds_reasoning
from contextkit.providers.request import Request
from contextkit.tools.late import call_tool
from contextkit.tools.render import answer as rendered
from contextkit.tools.tool import Call
from tests.laws.conversations import ARGUMENTS, CONTENT, PNG, SYSTEM, TEXT, Operation
from tests.laws.test_mask import BETA, WIRES, accepted, asks_for_an_answer
from tests.laws.test_memory import CHANGES, LARGE
from tests.laws.wires import PROVIDERS, Server, answer

Json = Any

COMPOSED: dict[str, Callable[[], Provider]] = {
    **PROVIDERS,
    "anthropic-in-band": lambda: AnthropicMessages("claude-opus-5-5", max_tokens=1024, betas=[BETA, INLINE_TOOLS]),
    "anthropic-reminder": lambda: AnthropicMessages("claude-sonnet-5", max_tokens=1024),
    "chat-elsewhere": lambda: OpenAIChat("deepseek-flash", max_tokens=1024),
}
"""Name → the provider a composition begins with."""


# Tools and phases
# ----------------------------------------------------------------------------------------------------------------------

HEAD_TOOLS = ("search", "add", "clock")
LATE_TOOLS = ("weather", "quote")
TABLES = {
    has_memory: Phases(
        {
            "look": Phase(["search", "call_tool"], then={"search:error": "count", "search": "all"}),
            "count": Phase(["add"], require=True, then={"add": "look"}),
            "all": Phase(deny=["quo*", "mail_*"], then={"add:ok": "silent", "clock": "count"}),
            "silent": Phase([], by_hand=True),
            "strict": Phase(["clock"], deny=["todo" if has_memory else "search"], force=True, by_hand=True),
        },
        start="look",
    )
    for has_memory in (False, True)
}
"""Whether there is a memory → the table of phases; it speaks of tools that come late, and of some that never come."""
NARROW = Phases(
    {"begin": Phase(["*"], then={"search": "end"}), "end": Phase(["clock", "add"], then={"clock": "begin"})}, "begin"
)
"""A table for sub-agents; it allows more than the caller's often does."""


def definition(name: str) -> Json:
    return {
        "name": name,
        "description": f"The tool {name}.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "a": {}, "b": {}}},
    }


# Values of tools
# ----------------------------------------------------------------------------------------------------------------------


class Hostile:
    """An object nothing can be done with."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class FailsToSay(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _cycle() -> Json:
    value: list[Json] = []
    value.append(value)
    return value


def _deep() -> Json:
    value: Json = "bottom"
    for _ in range(1_200):
        value = [value]
    return value


def _exhausting() -> Iterator[int]:
    yield 1
    raise ValueError("cannot go on")


PICTURE = {"type": "image", "media_type": "image/png", "data": PNG}
ODD: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "bytes": lambda: b"\x00\xff\xfe",
    "text in bytes": lambda: b"row 1\nrow 2\n" * 200,
    "picture": lambda: b"\x89PNG\r\n\x1a\n" + bytes(50),
    "pdf": lambda: b"%PDF-1.4\n%" + bytes(range(200)),
    "not a number": lambda: {"a": math.nan, "b": [math.inf, -math.inf]},
    "surrogates": lambda: "broken \ud800 pair \udfff",
    "surrogates inside": lambda: {"\ud800": ["\udc00"]},
    "nul": lambda: "a\x00b\x1b[31m",
    "empty": lambda: "",
    "blank": lambda: " \n",
    "no parts": list,
    "empty part": lambda: [{"type": "text", "text": ""}],
    "part without a form": lambda: [{"type": "video", "url": 3}],
    "part that lacks its data": lambda: [{"type": "image"}],
    "mixed parts": lambda: [{"type": "text", "text": "x" * 3_000}, PICTURE],
    "foreign block": lambda: [{"type": "native", "wire": "gemini", "block": {"text": "x"}}],
    "error": lambda: ValueError("wrong \ud800"),
    "long error": lambda: RuntimeError("deep\n" * 900),
    "error without text": FailsToSay,
    "cancelled": lambda: asyncio.CancelledError("stop"),
    "exit": lambda: SystemExit(3),
    "hostile": Hostile,
    "cycle": _cycle,
    "deep": _deep,
    "generator": _exhausting,
    "set": lambda: {3, 1, 2},
    "date": lambda: dt.datetime(2026, 11, 25, tzinfo=dt.UTC),
    "keys": lambda: {1: "a", None: "b", (1, 2): "c"},
    "class": lambda: Hostile,
    "function": lambda: len,
    "huge number": lambda: 10**5_000,
    "huge text": lambda: "long line " * 5_000,
    "huge rows": lambda: "\n".join(f"row {number}: {number * number}" for number in range(2_000)),
    "huge object": lambda: {"rows": [{"id": number, "name": f"n{number}"} for number in range(800)]},
    "an answer like ours": lambda: (
        '[Kept outside: reference 0123456789abcdef, text]\n[The rest: read_reference(id="0123456789abcdef")]'
    ),
}
"""Name → what a tool returns; made anew each time."""
RAISED = ("error", "long error", "error without text")
"""Those that a tool raises rather than returns, every other time."""
ODD_VALUES = st.sampled_from(sorted(ODD)).map(lambda name: ("odd", name))
PLAIN_VALUES = st.one_of(TEXT, LARGE, ARGUMENTS).map(lambda value: ("plain", value))
LARGE_NAMES = ("huge rows", "huge object", "huge text", "text in bytes", "mixed parts", "long error")
LARGE_VALUES = st.one_of(
    LARGE.map(lambda value: ("plain", value)), st.sampled_from(LARGE_NAMES).map(lambda name: ("odd", name))
)
VALUES = st.one_of(ODD_VALUES, PLAIN_VALUES, LARGE_VALUES)
SOME_VALUES = st.lists(VALUES, min_size=1, max_size=3)


# Operations
# ----------------------------------------------------------------------------------------------------------------------

WHO = st.integers(0, 7)
NUMBER = st.integers(0, 30)
REPLIES = st.lists(
    st.one_of(
        st.tuples(st.just("text"), TEXT),
        st.tuples(st.just("thinking"), TEXT, st.sampled_from(["c2ln", "EqQBCg=="])),
        st.tuples(st.just("call"), NUMBER, ARGUMENTS),
        st.tuples(st.just("call"), NUMBER, ARGUMENTS),
    ),
    min_size=0,
    max_size=4,
)


def operation(name: str, *values: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    return st.tuples(st.just(name), WHO, *values)


OPERATIONS = st.one_of(
    operation("user", CONTENT),
    operation("turn", REPLIES, st.lists(CONTENT, max_size=1)),
    operation("turn", REPLIES, st.just([])),
    operation("turn", REPLIES, st.just([])),
    *[operation("work", st.lists(NUMBER, min_size=1, max_size=3), SOME_VALUES, st.booleans())] * 6,
    operation("results", NUMBER, SOME_VALUES),
    operation("run_calls", SOME_VALUES),
    operation("delegate", VALUES, TEXT),
    operation("answer_by_agent"),
    operation("interrupt"),
    operation("notice", st.sampled_from([*CHANGES, MemoryUpdated("todo.md"), FileChanged("b.py", "1")]), st.booleans()),
    operation("plan", st.sampled_from(["add", "done"]), st.integers(1, 3)),
    operation("pin", TEXT, st.sampled_from(["constraint", "decision", "fact"])),
    operation("unpin", NUMBER),
    operation("failed", st.sampled_from(["refused", "cut", "retry"])),
    operation("wait", st.sampled_from([1.0, 40.0, 400.0, 4_000.0])),
    operation("enter", st.sampled_from(sorted(TABLES[True]))),
    operation("late", st.integers(1, 3), st.booleans()),
    operation("spawn", st.sampled_from(["same", "subset", "own", "table", "provider", "all"]), TEXT),
    operation("fork", NUMBER),
    operation("fan_out", st.integers(1, 2), TEXT),
    operation("compact", st.sampled_from(["text", "side", "kept", "policy"]), TEXT, NUMBER),
    operation("compact_results", st.integers(1, 3)),
    operation("switch", st.sampled_from(sorted(COMPOSED))),
    operation("resystem", TEXT),
    operation("crash"),
)


@dataclass(frozen=True)
class Setup:
    """What a composition begins with."""

    provider: str
    has_phases: bool = True
    has_memory: bool = True
    residency: str | None = None
    by_tool: str | None = None
    drops_reasoning: bool = True
    plan_stays: bool = True
    varies: bool = False
    has_pin_tool: bool = False
    compact_at: int | None = None
    has_policy: bool = False
    budget_tokens: int | None = None


def setups(provider: str) -> st.SearchStrategy[Setup]:
    often = st.sampled_from([True, True, True, False])
    return st.builds(
        Setup,
        st.just(provider),
        has_phases=often,
        has_memory=often,
        residency=st.sampled_from([None, "auto", "stay", "pass", "delegate"]),
        by_tool=st.sampled_from([None, "stay", "pass", "reference"]),
        drops_reasoning=st.booleans(),
        plan_stays=st.booleans(),
        varies=st.booleans(),
        has_pin_tool=st.booleans(),
        compact_at=st.sampled_from([None, 3_000, 6_000]),
        has_policy=st.booleans(),
        budget_tokens=st.sampled_from([None, 20_000, 100_000, 10**9]),
    )


def operations(n_most: int = 14) -> st.SearchStrategy[list[Operation]]:
    return st.lists(OPERATIONS, min_size=3, max_size=n_most)


# Conversations
# ----------------------------------------------------------------------------------------------------------------------


@dataclass
class Sent:
    """One request that left, and what of it every later one of its epoch repeats."""

    request: Request
    model: tuple[str, str]
    epoch: int
    kept: bytes


@dataclass(eq=False)
class Member:
    """One conversation of the family."""

    context: Context
    name: str
    parent: Member | None = None
    table: Phases | None = None
    denied: frozenset[str] = frozenset()
    """Names and families of tools that it may call in no phase."""
    table_names: frozenset[str] | None = None
    """Tools that its caller had, where it inherited the table: any other was given to it."""
    reopening: dict[str, Any] = field(default_factory=dict)
    """What `context.agent` needs to open it again."""
    is_kept: bool = True
    """Whether it outlives a crash."""
    sent: list[Sent] = field(default_factory=list)
    is_agent: bool = False

    @property
    def is_of_fork(self) -> bool:
        """Whether it is a fork or stands below one: what it sends is in no log and no ledger once the process has died."""
        is_fork = not self.is_kept and self.name.startswith("fork")
        return is_fork or (self.parent is not None and self.parent.is_of_fork)


def asked(context: Context) -> Request | None:
    """The next request; None where the budget has no room for it."""
    with suppress(BudgetExceeded):
        return context.request()
    return None


def open_calls(context: Context) -> list[tuple[str, str, bool]]:
    return [(call.id, call.name, call.was_started) for call in context.calls]


_numbers = count()


@dataclass
class Composition:
    """A family of conversations on its way."""

    setup: Setup
    clock_at: float = 1_000_000.0
    server: Server = field(default_factory=Server)
    is_thorough: bool = False
    """Whether every request is given to the local provider too."""

    def __post_init__(self) -> None:
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="composition-", dir=place))
        self.store = f"memory://composition-{next(_numbers)}"
        self.n_calls = self.n_sent = 0
        self.is_exact = True
        """Whether the ledger holds every call so far: not behind a crash that lost a fork's."""
        self.has_fork_calls = False
        self.values: list[Any] = []
        self.ran: list[str] = []
        """Names of tools whose function has run."""
        self.budget = None if self.setup.budget_tokens is None else Budget(tokens=self.setup.budget_tokens)
        self.provider = COMPOSED[self.setup.provider]()
        self.returned: list[tuple[Member, int, Json]] = []
        self.table = TABLES[self.setup.has_memory] if self.setup.has_phases else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table denies a tool of the memory
            main = self._open(self.provider, SYSTEM, [*HEAD_TOOLS, "call_tool"])
        self.members = [Member(main, "main", table=self.table)]
        self.members[0].context.user("Find the three cheapest GPUs.")

    # What it is made of

    def memory(self) -> Memory | None:
        setup = self.setup
        if not setup.has_memory:
            return None
        by_tool: Any = {} if setup.by_tool is None else {"search": setup.by_tool}
        rules = [setup.residency, *by_tool.values()]
        needs = binds_reasoning(COMPOSED[setup.provider]()) and "pass" in rules
        drops = setup.drops_reasoning or needs
        residency: Any = setup.residency
        if residency is not None or by_tool:
            residency = Residency(residency or "auto", by_tool=by_tool, drops_reasoning=drops, delegates=True)
        stays = setup.plan_stays or self.provider.model.binds_thinking
        return Memory(
            FileMemory(self.store),
            offload=Offload(above_tokens=300, preview_tokens=50),
            recitation=Recitation(every_replies=2, every_calls=4, beyond_tokens=2_000, stays=stays),
            residency=residency,
            has_pin_tool=setup.has_pin_tool,
        )

    def tool(self, name: str) -> Tool:
        return Tool.raw(definition(name), run=partial(self._run_tool, name))

    def _run_tool(self, name: str, arguments: Any) -> object:
        self.ran.append(name)
        kind, value = self.values[0] if self.values else ("plain", "nothing left")
        self.values = self.values[1:] + self.values[:1]
        if kind == "plain":
            return value
        made = ODD[value]()
        if value in RAISED and isinstance(made, Exception):
            raise made
        return made

    def tools(self, names: Sequence[str] = HEAD_TOOLS) -> list[Tool]:
        return [*map(self.tool, names), call_tool]

    def _open(self, provider: Provider, system: Any, names: Sequence[str]) -> Context:
        """The first conversation, begun or opened again with the tools it has."""
        setup, memory = self.setup, self.memory()
        own = {} if memory is None else {tool.name: tool for tool in memory.tools()}
        own[call_tool.name] = call_tool
        policy = Compaction(at_tokens=setup.compact_at, on_lost="ignore") if setup.has_policy else None
        return Context.open(
            self.folder / "main",
            provider,
            system=system,
            tools=[own[name] if name in own else self.tool(name) for name in names],
            clock=lambda: self.clock_at,
            phases=self.table,
            memory=memory,
            variation=Variation(3, is_always=True, errors=True, introductions=True) if setup.varies else None,
            compact=policy,
            budget=self.budget,
            agents=AgentLimits(depth=2, count=8, wait_seconds=0),
        )

    # Running

    def run(self, given: Sequence[Operation]) -> Composition:
        """Carry out all of them, check after each, then ask once more in every conversation."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for name, who, *values in given:
                    member = self.members[who % len(self.members)]
                    epochs = {one.name: one.context._turns.epoch for one in self.members}
                    changed = getattr(self, f"_{name}")(member, *values)
                    for one in self.members:
                        if one.name in epochs and not changed:
                            assert one.context._turns.epoch == epochs[one.name], f"{name} opened an epoch"
                        self._check(one)
                for member in list(self.members):
                    self._settle(member)
                    if self._request(member) is not None:
                        self._probe(member)
                        self._turn(member, [("text", "That is all.")], [])
                self._crash(self.members[0])
                for member in list(self.members):
                    self._check(member)
                    self._settle(member)
                    self._check_survival(member)
                    self._turn(member, [("text", "Done.")], [])
                self._check_results()
                self._check_budget()
        finally:
            self.close()
        return self

    def close(self) -> None:
        for member in reversed(self.members):
            member.context.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        stored = fsspec.filesystem("memory")
        if stored.exists(self.store):  # it looks through every file of the process, so those of others cost time
            stored.rm(self.store, recursive=True)

    def _settle(self, member: Member) -> None:
        """Nothing open, and somebody has spoken."""
        context = member.context
        for call in context.calls:
            context.result(call, "done")
        if not context._turns.has_pending_user:
            context.user("Go on.")

    def _request(self, member: Member) -> Request | None:
        """The next request, the same when asked twice; None where the budget has no room for it."""
        request = asked(member.context)
        if request is not None:
            assert member.context.request().body == request.body
            self._check_tail(member, request)
        return request

    def _bill(self, member: Member, request: Request) -> Any:
        """The request leaves: what it is billed, as predicted."""
        if member.is_of_fork:
            self.has_fork_calls = True
        billed = self.server.bill(request.wire, request.body, self.clock_at)
        predicted = request.predicted
        if self.is_exact:
            assert (predicted.read, predicted.prompt) == (billed.read, billed.prompt), member.name
        else:
            assert predicted.prompt == billed.prompt
        self.n_sent += 1
        is_served = request.provider in ("anthropic", "openai", "bedrock", "gemini", "google")
        if is_served and (self.is_thorough or self.n_sent % 4 == 0):
            self._check_served(request)
        return billed

    def _check_served(self, request: Request) -> None:
        left = _Left(request, request.body)
        if asks_for_an_answer(left) and request.wire in WIRES:
            outcome = accepted(left)
            assert outcome.status == 200, outcome.chunks[0][:300]

    # Checks

    def _check_tail(self, member: Member, request: Request) -> None:
        """A request is the one before it and a tail, but for what was shown once."""
        layout, context = request.layout, member.context
        turns = context._turns
        n = layout.n
        columns = layout.columns
        while n and columns.entries[n - 1] >= 0 and _is_movable(context, columns.entries[n - 1]):
            n -= 1
        temporary = {*turns.shown_once, *turns.passing}
        n_kept = next((place for place in range(layout.n) if columns.entries[place] in temporary), layout.n)
        wire = bytes(columns.wire[: layout.n_bytes])
        assert all(mark.segment < n_kept for mark in layout.breakpoints)
        n_kept = min(n_kept, n)
        provider = context.provider
        model = provider.wire, provider.model.name
        before = next((one for one in reversed(member.sent) if (one.model, one.epoch) == (model, request.epoch)), None)
        if before is not None:
            assert wire.startswith(before.kept), _difference(before.kept, wire)
        kept = wire[: columns.ends[n_kept - 1]] if n_kept else b""
        member.sent.append(Sent(request, model, request.epoch, kept))

    def _names(self, member: Member) -> list[str]:
        context = member.context
        return [*context.toolbox.names, *(tool.name for tool in context._late.tools)]

    def _own_names(self, member: Member) -> frozenset[str]:
        return frozenset(member.context._memory.own)

    def _is_allowed(self, member: Member, name: str) -> bool:
        """Whether the table and the caller allow a tool now, said independently of the code under test."""
        if any(fnmatchcase(name, pattern) for pattern in member.denied):
            return False
        phase = member.context.phase
        if member.table is None or phase is None:
            return True
        row = member.table[phase]
        if member.table_names is not None and name not in member.table_names:
            return not row.denies(name)
        return not row.denies(name) if name in self._own_names(member) else row.allows(name)

    def _check(self, member: Member) -> None:
        context = member.context
        for name in context.toolbox.names:
            assert context._may_call(name) == self._is_allowed(member, name), (member.name, context.phase, name)
        for call in context.calls:
            assert self._is_allowed_call(member, call) or call.refusal is not None, call
        parent = member.parent
        if parent is not None and member.is_agent:
            assert member.denied >= parent.denied & set(self._names(member))

    def _is_allowed_call(self, member: Member, call: Call) -> bool:
        return all(self._is_allowed(member, name) for name in _called_names(call))

    def _invited(self, member: Member, request: Request) -> list[tuple[str, dict[str, Json]]]:
        """The calls that a prompt invites, with arguments that fit."""
        context, text = member.context, "\n".join(_strings(parse(request.body).get(_messages_field(request.wire), [])))
        own, invited = self._own_names(member), list[tuple[str, dict[str, Json]]]()
        for reference in context._memory.references:
            if f'read_reference(id="{reference.id}"' in text or f"{reference.id}: " in text:
                invited.append(("read_reference", {"id": reference.id}))
        if "Still to do (" in text and "todo" in own:
            invited.append(("todo", {"action": "add", "items": ["one more"]}))
        phase = context.phase
        denied = set() if phase is None or member.table is None else set(member.table[phase].deny)
        invited = [(name, arguments) for name, arguments in invited[:6] if name not in denied | member.denied]
        allowed = request.mask.allowed if hasattr(request.mask, "allowed") else ()
        return [*invited, *((name, {"query": "x"}) for name in sorted(allowed or ()) if name in HEAD_TOOLS)]

    def _probe(self, member: Member) -> None:
        """On a branch the model calls everything that the prompt invites: nothing is refused, nothing raises."""
        request = self._request(member)
        invited = [] if request is None else self._invited(member, request)
        if not invited:
            return
        side = member.context.fork()
        request = asked(side)
        if request is None:
            return
        said = [("call", f"probe_{number}", *one) for number, one in enumerate(invited)]
        billed = self._bill(Member(side, "fork of " + member.name, is_kept=False), request)
        side.receive(answer(request.wire, f"probe{self.n_sent}", said, billed), request)
        open_names = {call.id for call in side.calls}
        for number, (name, arguments) in enumerate(invited):
            assert f"probe_{number}" in open_names, (name, arguments, member.context.phase)
        for call in side.calls:
            assert call.tool is not None, call.name
            value: object = "done"
            if call.name == "read_reference":
                value = call.run()
                kind = side.memory.references.named(call.arguments["id"]).kind if side.memory else ""
                assert not isinstance(value, Exception) or kind in ("image", "pdf", "binary"), value
            side.result(call, value)
        side.close()

    def _check_survival(self, member: Member) -> None:
        """What `survival` claims, tried out."""
        context = member.context
        report = context.survival()
        assert not report.lost
        request = asked(context)
        if request is None:
            return
        shown = "\n".join(_strings(parse(request.body)))
        reader = context.toolbox["read_reference"] if "read_reference" in context.toolbox.names else None
        for item in report.items:
            if item.kind == "call":
                continue
            if item.status == "verbatim":
                assert item.text in shown, item
            elif item.status == "restorable_by_model" and item.how.startswith("read_reference("):
                assert reader is not None and self._is_allowed(member, "read_reference")
                name = item.how.split('"')[1]
                assert not isinstance(reader.run({"id": name}), Exception)
                restored = context.restore(name).decode()
                assert item.kind == "reference" or item.text in restored, item
                where = item.how.rpartition("named in ")[2] if "named in" in item.how else None
                source = shown if where is None else context.restore(where).decode()
                assert name in source, item
            elif item.status == "restorable_by_model":
                assert self._is_allowed(member, item.how.split()[2] if item.how.startswith("the tool") else "memory")
            elif item.kind == "reference":
                assert isinstance(context.restore(item.text), bytes)

    def _check_results(self) -> None:
        """What tools returned comes back."""
        for member, sequence, content in self.returned:
            if member in self.members:
                restored = member.context.restore(sequence)
                assert json.loads(json.dumps(restored)) == json.loads(json.dumps(content))

    def _check_budget(self) -> None:
        if self.budget is not None and self.budget.tokens is not None:
            assert self.budget.spent.tokens <= self.budget.tokens

    # Operations: each gives whether it may have opened an epoch

    def _user(self, member: Member, content: Json) -> None:
        member.context.user(content)

    def _turn(self, member: Member, replies: Sequence[Any], late: Sequence[Json]) -> None:
        self._settle(member)
        request = self._request(member)
        if request is None:
            return
        billed = self._bill(member, request)
        for content in late:
            member.context.user(content)
        said = self._said(member, replies)
        member.context.receive(answer(request.wire, f"r{self.n_sent}", said, billed), request)
        self.clock_at += 2.0

    def _work(self, member: Member, numbers: Sequence[int], values: list[Any], delegates: bool) -> None:
        """The model calls tools that it may call, and their results come."""
        names = [name for name in member.context.toolbox.names if self._is_allowed(member, name)]
        if not names:
            return
        places = [self._names(member).index(names[number % len(names)]) for number in numbers]
        self._turn(member, [("call", place, {"query": str(n)}) for place, n in zip(places, numbers, strict=True)], [])
        if delegates:
            self._delegate(member, values[0], "What does it say?")
        self._results(member, 0, values)

    def _said(self, member: Member, replies: Sequence[Any]) -> list[Json]:
        said: list[Json] = []
        for kind, *rest in replies:
            if kind != "call":
                said.append((kind, *rest))
                continue
            self.n_calls += 1
            number, arguments = rest
            names = [*self._names(member), "weather", "no_such_tool"]
            name = names[number % len(names)]
            said.append(("call", f"call_{self.n_calls}", name, self._arguments(member, name, number, arguments)))
        return said

    def _arguments(self, member: Member, name: str, number: int, arguments: Json) -> Json:
        references = member.context._memory.references
        if name == "read_reference" and references:
            return {"id": references[number % len(references)].id}
        if name == "todo":
            return {"action": "add", "items": [f"item {number}"]}
        if name == "memory":
            return {"command": "view", "path": "/memories"}
        if name == "pin":
            return {"text": f"Keep {number}.", "kind": "fact"}
        if name == "call_tool":
            return {"name": LATE_TOOLS[number % 2], "arguments": {"query": "x"}}
        return arguments

    def _results(self, member: Member, seed: int, values: list[Any]) -> None:
        for index, call in enumerate(member.context.calls):
            if call.name in self._own_names(member):
                entry = member.context.result(call, call.run())
                continue
            kind, value = values[(seed + index) % len(values)]
            made = value if kind == "plain" else ODD[value]()
            entry = member.context.result(call, made)
            if kind == "plain":
                self.returned.append((member, entry.sequence, rendered(value)["content"]))

    def _run_calls(self, member: Member, values: list[Any]) -> None:
        self.values, self.ran = list(values), []
        allowed = [call for call in member.context.calls if self._is_allowed_call(member, call)]
        asyncio.run(member.context.run_calls())
        assert not member.context.calls
        assert {name for call in allowed for name in _called_names(call)}.issuperset(self.ran)

    def _delegate(self, member: Member, value: Any, question: str) -> None:
        context = member.context
        calls = context.calls
        if not calls or context.memory is None:
            return
        kind, made = value
        made = made if kind == "plain" else ODD[made]()
        context.residency(calls[0], made)
        try:
            side = context.delegate(calls[0], made, question)
        except UsageError:
            context.result(calls[0], made)
            return
        if not self._summary(side):
            side = "no room"
        context.result(calls[0], side)

    def _summary(self, side: Context) -> bool:
        """Let the model answer a side branch; whether the budget had room."""
        request = asked(side)
        if request is None:
            return False
        billed = self._bill(Member(side, "side", is_kept=True), request)
        side.receive(answer(request.wire, f"s{self.n_sent}", [("text", "In short.")], billed), request)
        return True

    def _answer_by_agent(self, member: Member) -> None:
        calls = member.context.calls
        if not calls:
            return
        done = (
            agent.context
            for agent in self.members
            if agent.is_agent and agent.parent is member and agent.context.finished
        )
        member.context.result(calls[0], next(done, "no agent"))

    def _interrupt(self, member: Member) -> None:
        member.context.interrupt("the user stopped it")

    def _notice(self, member: Member, change: Any, until_user: bool) -> None:
        member.context.notice(change, until_user=until_user)

    def _plan(self, member: Member, action: str, number: int) -> None:
        memory = member.context.memory
        if memory is None or memory.todo is None:
            return
        if action == "add" or number > len(memory.todo.items):
            memory.todo.add([f"step {number}"])
        else:
            memory.todo.mark([number], "done")

    def _pin(self, member: Member, text: str, kind: Any) -> None:
        member.context.pin(text, kind)

    def _unpin(self, member: Member, number: int) -> None:
        pins = member.context.pins
        if pins:
            member.context.unpin(member.context.log[pins[number % len(pins)].entry])

    def _failed(self, member: Member, how: str) -> None:
        self._settle(member)
        request = self._request(member)
        if request is None:
            return
        if how == "cut":
            self._bill(member, request)
            member.context.failed("cut", request, has_begun=True)
            return
        member.context.failed("overloaded_error" if how == "refused" else "aborted", request)
        if how == "retry":
            again = self._request(member)
            assert again is None or again.body == request.body

    def _wait(self, member: Member, seconds: float) -> None:
        self.clock_at += seconds

    def _enter(self, member: Member, phase: str) -> None:
        if member.table is None:
            return
        names = list(member.table)
        member.context.enter(phase if phase in member.table else names[len(phase) % len(names)])

    def _late(self, member: Member, which: int, allow_epoch: bool) -> bool:
        tools = [self.tool(name) for bit, name in enumerate(LATE_TOOLS, 1) if which & bit]
        try:
            member.context.late_tools(tools)
        except UsageError:
            is_new = not any(tool.name in member.context.toolbox.names for tool in tools)
            if allow_epoch and not member.is_agent and is_new:
                member.context.late_tools(tools, allow_epoch=True)
                return True
        return False

    def _spawn(self, member: Member, how: str, task: str) -> None:
        if len(self.members) > 6:
            return
        context, options, table = member.context, dict[str, Any](), member.table
        names = set(self._names(member))
        own = self._own_names(member)
        denied = {name for name in names if not self._is_allowed(member, name)} | member.denied
        if member.table is not None and context.phase is not None:
            denied |= set(member.table[context.phase].deny)
        table_names = None if member.table is None else member.table_names or frozenset(names)
        reopening: dict[str, Any] = {}
        if how == "subset":
            options["tools"] = [self.tool("search")]
            denied |= set(context.toolbox.names) - {"search"} - own
        elif how == "own":
            options["system"], options["tools"] = "You are another. " * 80, self.tools(("search", "clock", "add"))
            if self.setup.has_memory:
                options["memory"] = reopening["memory"] = self.memory()
            reopening["tools"] = options["tools"]
        elif how == "table":
            options["phases"] = reopening["phases"] = table = NARROW
            table_names = None
        elif how == "provider":
            options["provider"] = COMPOSED["anthropic-reminder"]()
        try:
            tasks = [task, "Another."] if how == "all" else [task]
            agents = list(context.spawn_all(tasks, **options))
        except UsageError:  # as deep, or as many, as the limits allow
            assert member.is_agent or len(self.members) > 4 or how == "provider"
            return
        for agent in agents:
            known = (table, frozenset(denied), table_names, reopening, member.is_kept)
            self.members.append(Member(agent, agent.lane, member, *known, is_agent=True))
            if how in ("same", "all") and agent.provider.wire == context.provider.wire:
                assert agent.toolbox.definitions() == context.toolbox.definitions()

    def _branched(self, member: Member, branch: Context, name: str) -> Member:
        """A member for a branch of everything that was said here."""
        own = Member(branch, name, member, member.table, member.denied, member.table_names, is_kept=False)
        own.sent = list(member.sent) if name.startswith(("fork", "branch")) else []
        self.members.append(own)
        return own

    def _fork(self, member: Member, number: int) -> None:
        if len(self.members) > 6 or member.context.calls:
            return
        self._branched(member, member.context.fork(), f"fork-{len(self.members)}-{self.n_sent}")

    def _fan_out(self, member: Member, n: int, task: str) -> None:
        if len(self.members) > 6 or member.context.calls:
            return
        for branch in member.context.fan_out([task] * n):
            self._branched(member, branch, f"branch-{branch.lane}")

    def _compact(self, member: Member, how: str, text: str, number: int) -> bool:
        context = member.context
        self._settle(member)
        if how in ("policy", "side"):
            side = context.compacting() if how == "policy" else context.summarising()
            if side is None or not self._summary(side):
                return False
            context.compact(side)
        elif how == "kept":
            replies = [entry.sequence for entry in context.log if entry.kind == "assistant"]
            context.compact(text, replies[-1 - number % len(replies)] if replies else None)
        else:
            context.compact(text)
        self._check_reachable(member)
        return True

    def _check_reachable(self, member: Member) -> None:
        """Behind a compaction with a memory the model reads everything again that it may."""
        context = member.context
        if context.memory is None or not self._is_allowed(member, "read_reference") or not context._memory.can_read:
            return
        for item in context.survival().items:
            assert item.is_readable or item.how == "not text, so no tool shows it", item

    def _compact_results(self, member: Member, n_kept: int) -> bool:
        context = member.context
        if context.memory is None or not context._memory.can_read:
            return False
        self._settle(member)
        replies = [entry.sequence for entry in context.log if entry.kind == "assistant"]
        context.compact_results(replies[-n_kept] if n_kept <= len(replies) else 0, above_tokens=20)
        return True

    def _switch(self, member: Member, name: str) -> None:
        epoch = member.context._turns.epoch
        try:
            member.context.switch(COMPOSED[name]())
        except ContextKitError:
            assert member.context._turns.epoch == epoch

    def _resystem(self, member: Member, text: str) -> bool:
        member.context.resystem(text + SYSTEM)
        return True

    def _crash(self, member: Member) -> None:
        """The process dies: what is in memory is gone, the rest goes on where it was."""
        bodies, calls, stays = {}, {}, list[Member]()
        self.is_exact = self.is_exact and not self.has_fork_calls
        for one in self.members:
            calls[one.name] = open_calls(one.context)
            if one.is_kept and not calls[one.name]:
                with suppress(BudgetExceeded):
                    bodies[one.name] = one.context.request().body, len(one.context.log)
        main = self.members[0]
        providers = {one.name: one.context.provider for one in self.members}
        names = main.context.toolbox.names
        for one in reversed(self.members):
            one.context.close()
        if self.budget is not None:
            self.budget = Budget(tokens=self.setup.budget_tokens)
        main.context = self._open(providers["main"], None, names)
        for one in self.members:
            if not one.is_kept:
                continue
            if one.is_agent:
                assert one.parent is not None
                options = {**one.reopening, "provider": providers[one.name]}
                one.context = one.parent.context.agent(one.name, **options)
            stays.append(one)
        self.members = stays
        for one in stays:
            announced = [self.tool(tool.name) for tool in one.context._late.tools]
            if announced:
                one.context.late_tools(announced)
            assert open_calls(one.context) == calls[one.name]
            self._check_reopened(one, *bodies.get(one.name, (None, 0)))

    def _check_reopened(self, member: Member, body: bytes | None, n_entries: int) -> None:
        """A conversation that was opened again asks what it asked before; a plan that changed meanwhile is recited."""
        context = member.context
        if context.calls:
            return
        news = [entry for entry in context.log[n_entries:] if n_entries]
        assert all(entry.kind == "notice" and b'"recitation"' in entry.body for entry in news)
        request = asked(context)
        if request is not None and body is not None and not news:
            again, before = request.body, body
            if self.budget is not None:
                again, before = (_LIMIT.sub(b"", one, count=1) for one in (again, before))
            assert again == before, _difference(before, again)


# Reduction
# ----------------------------------------------------------------------------------------------------------------------


def fault(setup: Setup, given: Sequence[Operation]) -> tuple[str, str, int] | None:
    """Kind, file and line of what a composition raises; None where it raises nothing."""
    try:
        Composition(setup).run(given)
    except Exception as error:  # noqa: BLE001 - its kind and place are what is asked for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return type(error).__name__, frame.filename, frame.lineno or 0
    return None


def reduced(setup: Setup, given: list[Operation], most_seconds: float) -> tuple[Setup, list[Operation]]:
    """The composition without the operations and the settings that its fault does not need, as far as the time goes.

    It takes out halves, quarters, … and single operations, then sets fields of the setup to their defaults, until
    nothing more can go.
    """
    ends_at, wanted = time.monotonic() + most_seconds, fault(setup, given)
    plain = Setup(setup.provider)

    def fails(one: Setup, operations: list[Operation]) -> bool:
        return time.monotonic() < ends_at and fault(one, operations) == wanted

    size = len(given)
    while size:
        shorter = ([*given[:at], *given[at + size :]] for at in range(0, len(given), size))
        less = next((one for one in shorter if fails(setup, one)), None)
        given, size = (given, size // 2) if less is None else (less, min(size, len(less)))
    for one in fields(plain):
        simpler = replace(setup, **{one.name: getattr(plain, one.name)})
        setup = simpler if simpler != setup and fails(simpler, given) else setup
    return setup, given


@dataclass(frozen=True)
class _Left:
    """A request as `accepted` takes it."""

    request: Request
    body: bytes


def _called_names(call: Call) -> list[str]:
    """The tool that the model called, and the one it called through it."""
    target = call.arguments.get("name") if call.name == call_tool.name and isinstance(call.arguments, Mapping) else None
    return [call.name, target] if isinstance(target, str) else [call.name]


def _messages_field(wire: str) -> str:
    return {"openai_responses": "input", "gemini": "contents"}.get(wire, "messages")


def _is_movable(context: Context, sequence: int) -> bool:
    """Whether an entry at the very end may still be moved behind what is said next."""
    entry = context.log[sequence]
    return entry.kind in ("phase", "tools") or b'"event":' in entry.body


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


_LIMIT = re.compile(rb'"max_?[a-zA-Z_]*[tT]okens":[0-9]+,?')
"""Output limit of a body: a budget that is smaller than the request's most sets it to what is left."""


def _difference(one: bytes, other: bytes) -> str:
    """Where two bodies differ."""
    at = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"at byte {at} of {len(one)} and {len(other)}: {one[at - 60 : at + 80]!r} is {other[at - 60 : at + 80]!r}"
