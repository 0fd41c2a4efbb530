"""What a context holds, and how it begins, branches and ends: a log, a toolbox, a provider, its tracks and a ledger.

Takes folders, request bodies and other conversations; says nothing itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from contextkit.canonical import Json, parse
from contextkit.context.folder import check_log_is_there
from contextkit.context.lanes import Lanes
from contextkit.context.origin import KEY, Origin
from contextkit.errors import HeadChanged, MemoryRefused, StorageError, UsageError
from contextkit.ledger.account import Account
from contextkit.ledger.ledger import Ledger
from contextkit.log.content import content_parts
from contextkit.log.entry import Changes, Entry, Kind
from contextkit.log.log import Log, check_clock
from contextkit.log.postgres import PostgresStorage, is_url
from contextkit.log.storage import folder_at
from contextkit.log.turns import Turns
from contextkit.log.variation import Variation
from contextkit.memory.filestore import FileMemory
from contextkit.memory.keeping import Keeping
from contextkit.memory.memory import Memory
from contextkit.prompt.planner import Known, Planned
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.adoption import (
    MAIN,
    adopt,
    check_fresh,
    check_head,
    check_provider,
    lane_of,
    opening,
    renewed,
)
from contextkit.providers.late_tools import LateTools, can_join, check_joining, widened
from contextkit.providers.masking import Permission, permit_of
from contextkit.providers.provider import Provider
from contextkit.providers.rendering import PromptStore
from contextkit.providers.server_state import Continuity
from contextkit.providers.settings import routing
from contextkit.tools.adopt import adopted
from contextkit.tools.mask import Limits, Permit
from contextkit.tools.phases import Phases
from contextkit.tools.toolbox import Toolbox


class Conversation:
    """The five values of a `Context`, opened and closed."""

    def __init__(
        self,
        provider: Provider,
        *,
        system: Any = None,
        tools: Iterable[Any] | None = None,
        log: Log | None = None,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.time,
        session: str | None = None,
        lane: str | None = None,
        allow_new_head: bool = False,
        phases: Phases | Permit | None = None,
        memory: Memory | FileMemory | None = None,
        variation: Variation | None = None,
        _origin: Origin | None = None,
    ) -> None:
        """A conversation in memory, or over the log and ledger given.

        Raises `HeadChanged` when they were begun with another head, `UsageError` when `phases` do not fit the tools or
        the log.
        """
        check_provider(provider, log)
        check_clock(clock)
        self._provider = provider
        self.log = Log(clock=clock) if log is None else log
        self._origin = origin = Origin.of(self.log) if len(self.log) else _origin
        self._keeping = Keeping(_memory_of(memory, origin), variation, self.log)
        self._keeping.check(provider.model.name, provider.model.binds_thinking)
        given = Toolbox(() if tools is None else tools)
        has_own_plan = origin is not None and origin.plan is not None
        self.toolbox = self._keeping.joined(Toolbox(self._keeping.rebound(given)) if has_own_plan else given)
        permit = permit_of(phases, self.toolbox, self._limits())
        self._permission = Permission(None, ())
        self.ledger = Ledger() if ledger is None else ledger
        self._owned: tuple[Log | Ledger, ...] = (self.log, self.ledger)
        self._clock, self._lock, self._prompts, self._turns = clock, Lock(), PromptStore(), Turns.over(self.log)
        self._n_shared = 0, 0
        self._owes: dict[str, bool] | None = None
        """How `_follow` is to be called before anything else is written; None where nothing is owed."""
        self._refused_late: dict[str, Entry] = {}
        """Refusals of calls that could not be written when the calls came; who asked for the calls meanwhile may answer
        them too."""
        self._late, self._changes, self._continuity = LateTools(self.log), Changes(self.log), Continuity(self.log)
        parts = None if system is None else content_parts(system)
        definitions = None if tools is None and (memory is None or len(self.log)) else self.toolbox.definitions()
        if not len(self.log):
            body = opening(provider, parts or [], definitions or [])
            self._append("opened", body if origin is None else {**body, KEY: origin.body})
        self._keeping.follow(self.log)
        self._session = session or (self.log[0].digest.hex() if origin is None else origin.session)
        self._root = self.log[0].digest if origin is None else bytes.fromhex(origin.root)
        """What this conversation and all its branches share, and a resume finds again."""
        own_lane = lane_of(self.log)
        self._lane = lane or (own_lane if origin is None or own_lane != MAIN else origin.lane)
        self._lanes, self._agents = Lanes(), WeakSet[Conversation]()
        self._account = Account(self.ledger, self._session, self._lane, clock)
        try:
            check_head(self.log, self._turns, provider, parts, definitions)
        except HeadChanged:
            if not allow_new_head:
                raise
            self._renew("head", parts, definitions)
        self._permit(permit)

    @classmethod
    def open(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """The conversation kept in `folder` (`log.jsonl`, `ledger.jsonl`), begun when it is not there.

        `postgresql://…/db?session=x` keeps the log in a database; the ledger is in memory then, unless `ledger=` is
        given. Raises `LogLocked` while another process holds it, `LogCorrupt` when a line was changed, `StorageError`
        when the log is gone and its ledger is not, `HeadChanged` as above.
        """
        check_provider(provider)
        check_clock(options.get("clock", time.time))
        clock = {"clock": options["clock"]} if "clock" in options else {}
        with ExitStack() as opened:
            if is_url(folder):
                log = opened.enter_context(Log(PostgresStorage.at(folder), **clock))
            else:
                root = folder_at(folder)
                log = opened.enter_context(Log.open(root / "log.jsonl", **clock))
                ledger = opened.enter_context(Ledger.open(root / "ledger.jsonl"))
                check_log_is_there(root, log, ledger)
                options = {"ledger": ledger, **options}
            context = cls(provider, log=log, **options)
            opened.pop_all()
        return context

    @classmethod
    async def aopen(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """`open`, off the event loop."""
        return await asyncio.to_thread(cls.open, folder, provider, **options)

    @classmethod
    def from_messages(
        cls,
        provider: Provider,
        body: Json,
        *,
        tools: Iterable[Any] | None = None,
        folder: str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Adopt the request body a loop has built so far; `tools` gives the functions that run what it declares.

        Of `body` it takes system, tools and messages: parameters are those of `provider`, and the layout places its own
        marks.
        """
        system, definitions, turns = adopt(provider, body)
        phases = options.pop("phases", None)
        toolbox = Toolbox(adopted(definitions, () if tools is None else tools))
        given = {"system": system or None, "tools": toolbox, **options}
        context = cls(provider, **given) if folder is None else cls.open(folder, provider, **given)
        with ExitStack() as opened:
            opened.callback(context.close)
            check_fresh(context.log)
            permit = permit_of(phases, context.toolbox, context._limits())
            for turn in turns:
                context._append(turn.kind, turn.body)
            context._permit(permit)  # last: what the model called before, somebody has answered
            opened.pop_all()
        return context

    @property
    def provider(self) -> Provider:
        """Whom the next request asks; another one takes effect with it.

        Setting what is no adapter raises `UsageError`, and so does another endpoint's once something was said: `switch`
        declares that.
        """
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        check_provider(provider)
        if provider.wire != self._provider.wire and len(self.log) > 1:
            raise UsageError(
                f"provider speaks {provider.wire}, and this conversation {self._provider.wire}: context.switch(provider) goes to another "
                "endpoint, and says in the log what that costs"
            )
        self._provider = provider

    @property
    def memory(self) -> Memory | None:
        """What it keeps outside the window; None where it was given no memory."""
        return self._keeping.memory

    @property
    def lane(self) -> str:
        """Its name in the ledger, and the id of a sub-agent: `main`, `agent-1-…`, `branch-2-…`, `fork@…`.

        Unique in its session.
        """
        return self._lane

    def close(self) -> None:
        """Let other processes open the folder, and those of its sub-agents."""
        for agent in list(self._agents):
            agent.close()
        for held in self._owned:  # a sub-agent leaves the ledger to its caller
            held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def plan(self) -> Planned:
        """What the next request marks, for how long and why; `context.plan.explain()` says it in words."""
        with self._lock:
            choice = self._prompts.choice(self.log, self._turns, self.provider, self._known(), self._shared())
            route = routing(self.provider, self._laid_out(), self._root)
        return Planned(choice, self.provider.model, route.key, route.why)

    def _laid_out(self) -> PromptLayout:
        return self._prompts.layout(self.log, self._turns, self.provider, self._shared(), self._known())

    def _shared(self) -> int:
        epoch, n_shared = self._n_shared
        return n_shared if epoch == self._turns.epoch else 0

    def _known(self) -> Known:
        return self._account.known(self.provider.model, self.log[-1].at, self._turns.epoch)

    def _append(self, kind: Kind, body: Json) -> Entry:
        with self._lock:
            self._settle()
            entry = self._keep(kind, body)
            self._owes = {"refuses": kind == "assistant"}
            if kind == "assistant":
                self._refused_late.clear()
            with suppress(
                OSError, StorageError, MemoryRefused
            ):  # the entry is durable: who calls again would write it twice
                self._settle(is_late=False)
        return entry

    def _settle(self, *, is_late: bool = True) -> None:
        """Write what must stand behind the last entry.

        `is_late`: what could not be written with it, as the disk was full.
        """
        if self._owes is None:
            return
        n = len(self.log)
        try:
            self._follow(**self._owes)
            self._owes = None
        finally:
            if is_late:
                results = (entry for entry in self.log[n:] if entry.kind == "result")
                self._refused_late.update((parse(entry.body)["call_id"], entry) for entry in results)

    def _keep(self, kind: Kind, body: Json) -> Entry:
        self._turns.check(kind, body)
        entry = self.log.append(kind, body)
        self._turns.feed(entry)
        self._permission.feed(entry)
        n_found = self._late.n_found
        self._late.feed(entry)
        if self._late.n_found != n_found:
            self._widen()
        self._changes.feed(entry)
        self._keeping.feed(entry)
        return entry

    def _follow(self, *, refuses: bool) -> None:
        """Write what must stand behind the entry just kept: answers to calls that may not be made, the phase that
        answers lead to.
        """
        while (due := self._due(refuses=refuses)) is not None:
            self._keep(*due)

    def _due(self, *, refuses: bool) -> tuple[Kind, Json] | None:
        told = self._permission.due(self.log, self._turns, refuses=refuses) or self._late.due() or self._changes.due()
        return told or self._keeping.due(self._turns)

    def _limits(self) -> Limits:
        """What holds beside the table of phases."""
        own = self._keeping.own
        return Limits(own) if self._origin is None else self._origin.limits(own)

    def _permit(self, permit: Permit | None) -> None:
        """Go on in the phase the log says, the first one if it says none; write what a crash kept from being written."""
        with self._lock:
            self._permission = Permission(widened(permit, self._late, self.provider, self.toolbox), self.log)
            self._follow(refuses=True)

    def _enter(self, phase: str) -> Entry:
        with self._lock:
            self._settle()
            body = self._permission.entering(phase)
            return self.log[self._permission.entry] if body is None else self._keep("phase", body)

    def _can_join(self) -> bool:
        return can_join(self.provider, parse(self.log[self._turns.head_tools].body)["tools"])

    def _join(self, tools: Iterable[Any]) -> Entry:
        with self._lock:
            self._settle()
            head = parse(self.log[self._turns.head_tools].body)["tools"]
            arrival = self._late.arriving(tools, head)
            if arrival.new:
                check_joining(self.provider, head, arrival.body)
                self._keep("tools", arrival.body)
            self._late.bind(arrival.tools)
            self._widen()
            return self.log[max(self._late.entry_of(tool.name) for tool in arrival.tools)]

    def _widen(self) -> None:
        self._permission.permit = widened(self._permission.permit, self._late, self.provider, self.toolbox)

    def _epoch(
        self, reason: str, summary: Json, keep_from: int | None, *, first: int | None = None, **more: Json
    ) -> Entry:
        """A declared break; `first`: the entry whose bytes change first, where not all do."""
        with self._lock:
            price = self._prompts.n_tokens(self.log, self._turns, self.provider, first)
        body = {"reason": reason, "summary": summary, "keep_from": keep_from, "rewrites_tokens": price, **more}
        return self._append("epoch", {**body, "templates": {self.provider.wire: self.provider.template}})

    def _renew(self, reason: str, system: Json | None, tools: Json | None) -> Entry:
        return self._epoch(reason, [], 0, **renewed(self.provider, system, tools))


def _memory_of(memory: Memory | FileMemory | None, origin: Origin | None) -> Memory | None:
    """The memory of a conversation; that of a sub-agent has a plan of its own, unless it was given with one."""
    if memory is None:
        return None
    whole = Memory.of(memory)
    has_plan = whole.todo is not None and whole.todo.name != whole.todo.path
    return whole if origin is None or origin.plan is None or has_plan else whole.with_plan(origin.plan)
