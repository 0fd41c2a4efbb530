"""How a conversation branches, sends sub-agents, and goes on with another model: what they share is read from cache.

It has no rule of its own: bytes are shared by the log and the tracks, what each branch costs is in the ledger, told
apart by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from contextkit.canonical import Json, canonical, parse
from contextkit.context.conversation import Conversation
from contextkit.context.fan_out import FanOut
from contextkit.context.lanes import AGENTS, has_entries, ids_in
from contextkit.context.origin import Origin
from contextkit.errors import UsageError
from contextkit.ledger.account import Account
from contextkit.ledger.ledger import Ledger
from contextkit.log.content import content_parts
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage, is_url
from contextkit.log.storage import folder_at
from contextkit.log.turns import Turns
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.providers.adoption import check_switch
from contextkit.providers.provider import Provider
from contextkit.providers.server_state import apart
from contextkit.providers.settings import routing
from contextkit.tools.late import catalogues
from contextkit.tools.phases import Phases
from contextkit.tools.toolbox import Toolbox


class Branching(Conversation):
    """A conversation that others branch off."""

    def fork(self, at: Entry | int | None = None, folder: str | Path | None = None) -> Self:
        """A branch that shares everything up to `at` (undo, edit, regenerate): same bytes, so the shared prefix is read
        from cache.
        """
        return self._forked(at, folder, self.memory)

    def _forked(self, at: Entry | int | None, folder: str | Path | None, memory: Memory | None) -> Self:
        root = None if folder is None or is_url(folder) else folder_at(folder)
        place = PostgresStorage.at(folder) if is_url(folder) else None if root is None else root / "log.jsonl"
        with ExitStack() as opened:
            log = opened.enter_context(self.log.fork(-1 if at is None else at, place))
            ledger = opened.enter_context(Ledger() if root is None else Ledger.open(root / "ledger.jsonl"))
            other = type(self)(
                apart(self.provider),
                log=log,
                ledger=ledger,
                clock=self._clock,
                phases=self._permission.permit,
                memory=memory,
                variation=self._keeping.variation,
            )
            opened.pop_all()
        other.toolbox = self.toolbox
        other._late.share(self._late)
        other._widen()
        other._account.share(self._account)
        self._continuity.share(other._continuity)
        return other

    def spawn(
        self,
        task: Any,
        *,
        provider: Provider | None = None,
        system: Any = None,
        tools: Iterable[Any] | None = None,
        phases: Phases | None = None,
        memory: Memory | FileMemory | None = None,
    ) -> Self:
        """A sub-agent with a log of its own and `task` as its first user turn.

        What it costs is in this context's ledger and summary.

        Without `system` and `tools` it has this conversation's head and memory, and reads the head from cache; with
        either, its own.

        It is never allowed more than this conversation is now: it inherits the table of phases and the present phase,
        and `phases` can only narrow what is allowed. A tool of this conversation that may not be called in its present
        phase may not be called by the sub-agent in any phase, also where `tools` gives it one of that name; a tool that
        this conversation does not have is allowed. What this conversation enters later changes nothing for the
        sub-agent.

        Its log is a folder below this one's (`agents/<lane>`, in Postgres a session of that name); where this log is in
        memory, so is its own. `context.agent(lane)` opens it again. Its todo list is its own.
        """
        content = content_parts(task)
        if system is None and tools is None:
            system, tools = parse(self.log[self._turns.head_system].body)["system"] or None, self.toolbox
            memory = self.memory if memory is None else memory
        permit = self._permission.permit
        table = phases if phases is not None or permit is None else permit.phases
        with ExitStack() as opened:
            lane, log = self._agent_log()
            opened.enter_context(log)
            origin = self._origin_for(lane, memory, is_inherited=phases is None)
            if memory is not None and origin.plan is not None:
                memory = Memory.of(memory).with_plan(origin.plan)
            other = type(self)(
                apart(self.provider) if provider is None else provider,
                system=system,
                tools=tools,
                phases=table,
                memory=memory,
                log=log,
                clock=self._clock,
                session=self._session,
                _origin=origin,
            )
            other._bill(self)
            other._append("user", {"content": content})
            opened.pop_all()
        self._agents.add(other)
        return other

    @property
    def agents(self) -> list[str]:
        """Lanes of the sub-agents whose logs are in this conversation's folder, in the order they were spawned.

        A folder without an entry is none: the process died, or the disk was full, before the sub-agent was there.
        """
        folder = self._agents_folder()
        return [lane for lane in ids_in(folder) if folder is not None and has_entries(folder / lane / "log.jsonl")]

    def agent(
        self,
        lane: str,
        *,
        provider: Provider | None = None,
        tools: Iterable[Any] | None = None,
        phases: Phases | None = None,
        memory: Memory | FileMemory | None = None,
    ) -> Self:
        """Open a sub-agent again, also after a crash, by its lane; what it costs is in this context's ledger.

        `tools` gives the functions of an agent that has its own tools, `phases` its table where it was given one.
        Raises `UsageError` where no sub-agent of that lane is kept, `LogLocked` while it is open.
        """
        folder, storage = self._agents_folder(), self.log.storage
        with ExitStack() as opened:
            if isinstance(storage, PostgresStorage):
                log = opened.enter_context(Log(storage.beside(_session_name(storage.session, lane)), self._clock))
            elif folder is not None and lane in ids_in(folder):
                log = opened.enter_context(Log.open(folder / lane / "log.jsonl", self._clock))
            else:
                raise UsageError(f"there is no sub-agent {lane!r} here: context.agents names those whose logs are kept")
            origin = Origin.of(log)
            if origin is None:
                raise UsageError(f"there is no sub-agent {lane!r} here: its log is empty, or somebody else's")
            if tools is None and canonical(_head_tools(log)) == canonical(self.toolbox.definitions()):
                tools, memory = self.toolbox, self.memory if memory is None else memory
            if memory is not None and origin.plan is not None:
                memory = Memory.of(memory).with_plan(origin.plan)
            permit = self._permission.permit
            if phases is None and origin.known is not None and permit is not None:
                phases = permit.phases
            other = type(self)(
                apart(self.provider) if provider is None else provider,
                tools=tools,
                phases=phases,
                memory=memory,
                log=log,
                clock=self._clock,
                session=self._session,
            )
            other._bill(self)
            other._account.resume()
            opened.pop_all()
        self._agents.add(other)
        return other

    def _origin_for(self, lane: str, memory: Memory | FileMemory | None, *, is_inherited: bool) -> Origin:
        """What a sub-agent has from this conversation as it is now."""
        permission = self._permission
        permit, phase = permission.permit, permission.phase
        tools = {tool.name: tool for tool in (*self.toolbox, *self._late.tools, *catalogues(self.toolbox).values())}
        denied = frozenset(name for name, tool in tools.items() if permission.forbids(tool)) | self._limits().denied
        known = None
        if is_inherited and permit is not None:
            known = frozenset(tools) if permit.limits.known is None else permit.limits.known
        plan = self._plan_for(lane, memory)
        return Origin(lane, self._session, self._root.hex(), denied, known, None if known is None else phase, plan)

    def _plan_for(self, lane: str, memory: Memory | FileMemory | None) -> str | None:
        """Path of a sub-agent's todo list where it would be this conversation's own; None where it is another already."""
        own = None if self.memory is None else self.memory.todo
        theirs = None if memory is None else Memory.of(memory).todo
        if own is None or theirs is None or (own.root, own.path) != (theirs.root, theirs.path):
            return None
        return f"{AGENTS}/{lane}/{own.name.rpartition('/')[2]}"

    def _agents_folder(self) -> Path | None:
        path = self.log.storage.path
        return None if path is None else path.parent / AGENTS

    def _agent_log(self) -> tuple[str, Log]:
        """An id and an empty log for a sub-agent, kept where this conversation's log is."""
        folder, storage = self._agents_folder(), self.log.storage
        while True:
            lane = self._lanes.next("agent", self.log.digest, self.ledger, folder)
            if isinstance(storage, PostgresStorage):
                log = Log(storage.beside(_session_name(storage.session, lane)), self._clock)
            elif folder is not None:
                log = Log.open(folder_at(folder / lane) / "log.jsonl", self._clock)
            else:
                log = Log(clock=self._clock)
            if not len(log):
                return lane, log
            log.close()  # another process, or an earlier one, took this id

    def fan_out(self, tasks: int | Sequence[Any]) -> FanOut:
        """Branches that share every byte said so far and one ledger: as many as there are `tasks`, each with its own,
        or so many of them.

        `send` and `asend` of what this gives ask all of them, so that the shared part is written once. Raises
        `UsageError` for none.
        """
        if isinstance(tasks, bool | str | bytes | Mapping) or not isinstance(tasks, int | Iterable):
            raise UsageError(f"fan_out takes a list of tasks, or how many branches, not {type(tasks).__name__}")
        said = [None] * tasks if isinstance(tasks, int) else list(tasks)
        branches = [self._branch() for _ in said]
        for branch, task in zip(branches, said, strict=True):
            if task is not None:
                branch._append("user", {"content": content_parts(task)})
        return FanOut(branches)

    def _branch(self) -> Self:
        lane = self._lanes.next("branch", self.log.digest, self.ledger)
        other = self._forked(None, None, self._memory_for(lane))
        other.toolbox = Toolbox(other._keeping.rebound(self.toolbox))
        other._late.bind(other._keeping.rebound(other._late.tools))
        other._lane = lane
        other._account = Account(Ledger(), other._session, other._lane, self._clock)
        other._bill(self)
        other._n_shared = other._turns.epoch, len(other._turns.ordered)
        return other

    def _memory_for(self, lane: str) -> Memory | None:
        """The memory of a branch that runs beside others: with a copy of the plan, since each goes on with its own."""
        path = self._plan_for(lane, self.memory)
        if self.memory is None or self.memory.todo is None or path is None:
            return self.memory
        memory = self.memory.with_plan(path)
        if text := self.memory.todo.markdown:
            memory.files.write(path, text)
        return memory

    def switch(self, provider: Provider) -> Entry | None:
        """Another model or endpoint answers from here on.

        None where it is the one that answers already, with other parameters.

        Declared, with the tokens it cannot read from its cache. The head and all that was said are kept; another
        model's thinking is left out where it is read. The columns of the model before stays, so that coming back finds
        what is still cached. Raises `InvalidTool` for a tool the new endpoint has no words for.
        """
        check_switch(self.log, self._turns, provider)
        before, self._provider = self.provider, provider
        told = {name: {"wire": one.wire, "model": one.model.name} for name, one in (("to", provider), ("from", before))}
        if told["to"] == told["from"]:
            return None
        with self._lock:
            layout = self._laid_out()
            usage = self._account.quote(provider, layout, routing(provider, layout, self._root).fields)
        templates = {**parse(self.log[self._turns.head_templates].body)["templates"], provider.wire: provider.template}
        entry = self._append(
            "switch", {**told, "rewrites_tokens": (usage.prompt or 0) - (usage.read or 0), "templates": templates}
        )
        self._widen()  # the new endpoint may let late tools be called by name, or not
        return entry

    def _bill(self, caller: Branching) -> None:
        """What it costs is in the caller's ledger."""
        self.ledger, self._owned, self._lanes = caller.ledger, (self.log,), caller._lanes
        self._account.keep_with(caller._account)


def _session_name(session: str, lane: str) -> str:
    return f"{session}/{AGENTS}/{lane}"


def _head_tools(log: Log) -> Json:
    return parse(log[Turns.over(log).head_tools].body)["tools"]
