"""What a conversation allows now, read from its log, and what must be written there next.

Takes a permit and the entries of a log; gives bodies of `phase` and `result` entries. A phase is an entry like any
other, so a resumed or forked conversation is in the phase its log says; what a crash kept from being written is found
missing and written then.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from contextkit.canonical import Json, parse
from contextkit.errors import InvalidCall, UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.log.turns import Turns
from contextkit.providers.masking.lowering import NOTHING, Lowered, lower
from contextkit.providers.provider import Provider
from contextkit.terminal import sanitize
from contextkit.tools.late.bridge import call_tool
from contextkit.tools.mask import Limits, Permit
from contextkit.tools.phases import Phases
from contextkit.tools.render import answer
from contextkit.tools.tool import Arguments, Tool
from contextkit.tools.toolbox import Toolbox


def permit_of(phases: Phases | Permit | None, toolbox: Toolbox, limits: Limits = Limits()) -> Permit | None:  # noqa: B008 (frozen)
    """A table joined with a toolbox. Raises `UsageError` where they do not fit, or it is no table.

    Warns of a table that denies tools of the context's own memory, which the prompt tells the model to call.
    """
    if not isinstance(phases, Phases | Permit | None):
        raise UsageError(f"phases is a contextkit.Phases, not {type(phases).__name__}")
    if not isinstance(phases, Phases):
        return phases
    permit = Permit(phases, toolbox, limits)
    for phase, names in permit.denied_own().items():
        text = (
            f"phase {phase!r} denies {', '.join(names)}, tools of this context's memory: previews and references tell the model to call "
            "them, and each such call will be refused; leave them out of deny, or switch that part of the memory off"
        )
        warnings.warn(sanitize(text), stacklevel=4)
    return permit


class Permission:
    """The phase of one conversation; fed every entry of its log, in order."""

    __slots__ = ("_is_stale", "_removed", "_renewed", "entry", "permit", "phase")

    def __init__(self, permit: Permit | None, log: Iterable[Entry]) -> None:
        """Raises `UsageError` where the log is in a phase the table does not have, or has no table for."""
        self.permit = permit
        """Table and toolbox; None for a conversation without phases."""
        self.phase: str | None = None
        """The last phase entered."""
        self.entry = -1
        """Sequence of the entry that says so."""
        self._removed: frozenset[str] = frozenset()
        """Tools withdrawn in band, in this epoch."""
        self._is_stale = False
        """Whether an epoch took out what the model was told."""
        self._renewed: Permit | None = None
        """The permit that an epoch with other tools is to bring."""
        for entry in log:
            self.feed(entry)
        self._check()

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "phase":
            body = parse(entry.body)
            self.phase, self.entry, self._is_stale = body.get("name"), entry.sequence, False
            self._removed = (self._removed | set(body.get("removed", ()))) - set(body.get("added", ()))
        elif entry.kind == "epoch":
            self._removed, self._is_stale = frozenset(), True
            if self._renewed is not None and "tools" in parse(entry.body):
                self.permit, self._renewed = self._renewed, None

    def due(self, log: Sequence[Entry], turns: Turns, *, refuses: bool) -> tuple[Kind, Json] | None:
        """The entry that must stand behind those there are, None where nothing is missing.

        `refuses`: answer the calls that may not be made; only where nobody can be running them.
        """
        if self.permit is None:
            return None
        if self.phase is None:
            return "phase", self._body(self.permit, self.permit.start, is_first=True)
        if self._is_stale:
            return "phase", self._body(self.permit, self.phase, is_first=True)
        refused = self._refused(turns) if refuses else None
        return ("result", refused) if refused is not None else self._moved(log, turns)

    def entering(self, name: str) -> Json | None:
        """Body of the entry that enters a phase by hand, None where it is the one there is.

        Raises `UsageError` for what is no phase.
        """
        if self.permit is None:
            raise UsageError("this conversation has no phases: give Context(…, phases=Phases(…))")
        self.permit.phases[name]
        return None if name == self.phase else self._body(self.permit, name, is_first=False)

    def renew(self, phases: Phases | None, toolbox: Toolbox, limits: Limits) -> None:
        """Get ready for an epoch with other tools.

        Raises `UsageError` where the table does not fit them, or lacks the present phase.
        """
        table = phases if phases is not None or self.permit is None else self.permit.phases
        if phases is not None:
            limits = replace(limits, known=None, start=None)
        renewed = permit_of(table, toolbox, limits)
        if renewed is not None and self.phase is not None and self.phase not in renewed.phases:
            raise UsageError(self._unknown(renewed))
        self._renewed = renewed

    def refusal(self, name: str, arguments: Arguments | None = None) -> str | None:
        """Why a call may not be made now, in words for the model; None where it may.

        With `arguments`, a call of `call_tool` is refused too where it names a tool that the caller of this agent could
        not call.
        """
        if self.permit is None or self.phase is None:
            return None
        target = arguments.get("name") if name == call_tool.name and isinstance(arguments, Mapping) else None
        if isinstance(target, str) and target in self.permit.limits.denied:
            return f"{target!r} may not be called by this agent: the one that spawned it may not call it either"
        return self.permit.refusal(self.phase, name)

    def forbids(self, tool: Tool) -> bool:
        """Whether a tool of this conversation may not be called now, neither by its name nor, where it came late,
        through `call_tool`.
        """
        if self.permit is None or self.phase is None:
            return False
        if tool.name in self.permit.toolbox.names:
            return self.permit.refusal(self.phase, tool.name) is not None
        has_bridge = call_tool.name in self.permit.mask(self.phase).allowed
        allows = self.permit.limits.allows(self.permit.phases[self.phase], tool)
        return tool.name in self.permit.limits.denied or not (allows or has_bridge)

    def lowered(self, provider: Provider, overrides: Mapping[str, Json]) -> Lowered:
        """What the next request says of what may be called."""
        if self.permit is None or self.phase is None:
            return NOTHING
        return lower(self.permit, self.phase, provider, overrides, self.entry)

    def _refused(self, turns: Turns) -> Json | None:
        """The answer to the first open call that may not be made and was not begun."""
        for call in turns.open_calls:
            why = None if call.was_started else self.refusal(call.name, call.arguments)
            if why is not None:
                return {"call_id": call.call_id, "name": call.name, **answer(InvalidCall(why), True)}
        return None

    def _moved(self, log: Sequence[Entry], turns: Turns) -> tuple[Kind, Json] | None:
        """The phase that the calls just answered lead to; they count in call order, whatever order the answers came in."""
        last = next((entry for entry in reversed(log) if entry.kind != "opened"), None)
        if last is None or last.kind != "result" or self.permit is None or self.phase is None:
            return None
        bodies = (parse(log[sequence].body) for sequence in turns.answers)
        target = self.permit.step(self.phase, [(body["name"], body["is_error"]) for body in bodies])
        return None if target == self.phase else ("phase", self._body(self.permit, target, is_first=False))

    def _body(self, permit: Permit, phase: str, *, is_first: bool) -> Json:
        told = permit.told(phase, self._removed, is_first=is_first)
        return {
            "name": phase,
            "text": told.text,
            "removed": list(told.removed),
            "added": list(told.added),
            "is_told": told.is_told,
        }

    def _check(self) -> None:
        if self.phase is not None and (self.permit is None or self.phase not in self.permit.phases):
            raise UsageError(self._unknown(self.permit))

    def _unknown(self, permit: Permit | None) -> str:
        has = "no phases were given" if permit is None else f"the table has {', '.join(permit.phases)}"
        return f"the conversation is in phase {self.phase!r} since entry {self.entry}, and {has}: give phases=Phases(…) with that phase"
