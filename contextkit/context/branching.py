"""How a conversation branches, sends sub-agents, and goes on with another model: what they share is read from cache.

It has no rule of its own: bytes are shared by the log and the tracks, what each branch costs is in the ledger, told apart by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from contextkit.canonical import parse
from contextkit.context.conversation import Conversation
from contextkit.context.fan_out import FanOut
from contextkit.errors import UsageError
from contextkit.ledger.ledger import Ledger
from contextkit.log.content import content_parts
from contextkit.log.entry import Entry
from contextkit.log.postgres import PostgresStorage, is_url
from contextkit.log.storage import folder_at
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.providers.adoption import check_switch
from contextkit.providers.provider import Provider
from contextkit.providers.settings.affinity import routing
from contextkit.providers.stateful.continuing import apart
from contextkit.simulator.account import Account
from contextkit.tools.phases import Phases


class Branching(Conversation):
    """A conversation that others branch off."""

    def fork(self, at: Entry | int | None = None, folder: str | Path | None = None) -> Self:
        """A branch that shares everything up to `at` (undo, edit, regenerate): same bytes, so the shared prefix is read from cache."""
        root = None if folder is None or is_url(folder) else folder_at(folder)
        place = PostgresStorage.at(folder) if is_url(folder) else None if root is None else root / "log.jsonl"
        with ExitStack() as opened:
            log = opened.enter_context(self.log.fork(-1 if at is None else at, place))
            ledger = opened.enter_context(Ledger() if root is None else Ledger.open(root / "ledger.jsonl"))
            other = type(self)(
                apart(self.provider), log=log, ledger=ledger, clock=self._clock, phases=self._permission.permit, memory=self.memory,
                variation=self._keeping.variation,
            )  # fmt: skip
            opened.pop_all()
        other.toolbox = self.toolbox
        other._late.share(self._late)
        other._widen()
        other._account.share(self._account)
        self._continuity.share(other._continuity)
        return other

    def spawn(
        self, task: Any, *, provider: Provider | None = None, system: Any = None, tools: Iterable[Any] | None = None,
        phases: Phases | None = None, memory: Memory | FileMemory | None = None,
    ) -> Self:  # fmt: skip
        """A sub-agent with a log of its own and `task` as its first user turn; what it costs is in this context's ledger and summary.

        Without `system` and `tools` it has this conversation's head and memory, and reads the head from cache; with either, its own.
        """
        if system is None and tools is None:
            system, tools = parse(self.log[self._turns.head_system].body)["system"] or None, self.toolbox
            memory = self.memory if memory is None else memory
        other = type(self)(
            apart(self.provider) if provider is None else provider, system=system, tools=tools, phases=phases, memory=memory,
            clock=self._clock, session=self._session, lane=f"spawn-{self.log.digest.hex()[:8]}-{next(self._spawned)}@{self._clock():g}",
        )  # fmt: skip
        other._root = self._root
        other._bill(self)
        other._append("user", {"content": content_parts(task)})
        return other

    def fan_out(self, tasks: int | Sequence[Any]) -> FanOut:
        """Branches that share every byte said so far and one ledger: as many as there are `tasks`, each with its own, or so many of them.

        `send` and `asend` of what this gives ask all of them, so that the shared part is written once. Raises `UsageError` for none.
        """
        if isinstance(tasks, bool | str | bytes | Mapping) or not isinstance(tasks, int | Iterable):
            raise UsageError(f"fan_out takes a list of tasks, or how many branches, not {type(tasks).__name__}")
        said = [None] * tasks if isinstance(tasks, int) else list(tasks)
        branches = [self._branch(number) for number in range(len(said))]
        for branch, task in zip(branches, said, strict=True):
            if task is not None:
                branch._append("user", {"content": content_parts(task)})
        return FanOut(branches)

    def _branch(self, number: int) -> Self:
        other = self.fork()
        other._account = Account(Ledger(), other._session, f"branch-{number}-{self.log.digest.hex()[:8]}", self._clock)
        other._bill(self)
        other._n_shared = other._turns.epoch, len(other._turns.ordered)
        return other

    def switch(self, provider: Provider) -> Entry | None:
        """Another model or endpoint answers from here on; None where it is the one that answers already, with other parameters.

        Declared, with the tokens it cannot read from its cache. The head and all that was said are kept; another model's thinking is left
        out where it is read. The track of the model before stays, so that coming back finds what is still cached.
        Raises `InvalidTool` for a tool the new endpoint has no words for.
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
        return self._append("switch", {**told, "rewrites_tokens": (usage.prompt or 0) - (usage.read or 0), "templates": templates})

    def _bill(self, caller: Branching) -> None:
        """What it costs is in the caller's ledger."""
        self.ledger, self._owned = caller.ledger, (self.log,)
        self._account.keep_with(caller._account)
