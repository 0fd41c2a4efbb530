"""The reducers of a conversation: small states that follow its log, and the entries they say must be written next.

A reducer is fed the entries of the kinds it reads, in order, and keeps O(1) state for each. `due()` gives the entry that
must stand in the log before the next request: the phase that answered calls lead to, the refusal of a call that may not
be made, late tools or change events that an epoch took out of the prompt, the plan to recite. All of it is derived from
the log, so a resumed or forked conversation continues where its log ends, and what a crash kept from being written is
found missing and written then. `ServerState` (`providers/server_state.py`) is fed only by requests that continue from
what a server keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, InvalidTool, UsageError
from contextkit.log.content import without_binary
from contextkit.log.entry import REFUSED, Change, Entry, Kind
from contextkit.log.log import Log, Turns
from contextkit.memory.compaction import LeftBehind
from contextkit.providers.adoption import first_difference
from contextkit.providers.late_tools import BY_NAME, check_possible, is_direct, is_possible, searching
from contextkit.providers.masking import NOTHING, Endpoint, Lowered, lower
from contextkit.providers.provider import Provider
from contextkit.terminal import sanitize
from contextkit.tools.late import SEARCH, call_tool, catalogues, is_bridge, through
from contextkit.tools.mask import Limits, Permit
from contextkit.tools.phases import Phases
from contextkit.tools.render import answer
from contextkit.tools.tool import Arguments, Tool, Toolable, Toolbox

if TYPE_CHECKING:
    from contextkit.economics.residency import ResidencyKind
    from contextkit.log.variation import Variation
    from contextkit.memory.memory import Memory
    from contextkit.memory.reference import Reference
    from contextkit.memory.residency import Decision, Surroundings


class Reducer(Protocol):
    """State that follows a log."""

    reads: frozenset[Kind]
    """Kinds of the entries it is fed."""

    def feed(self, entry: Entry) -> None:
        """Take the next entry of one of these kinds."""

    def due(self) -> tuple[Kind, Json] | None:
        """Kind and body of the entry that must be written next, None where nothing is missing."""


# Phases and masks
# ----------------------------------------------------------------------------------------------------------------------


def permit_of(phases: Phases | Permit | None, toolbox: Toolbox, limits: Limits = Limits()) -> Permit | None:  # noqa: B008 (frozen)
    """Join a table of phases with a toolbox. Raises `UsageError` where they do not fit, or it is no table.

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


def _refused_in(reply: Entry) -> Mapping[str, str]:
    """What the entry of a reply says is refused."""
    refused = parse(reply.body).get(REFUSED) if b'"refused":' in reply.body else None
    return refused if isinstance(refused, dict) else {}


_PHASE_KINDS: frozenset[Kind] = frozenset({"phase", "epoch"})
_CALL_KINDS: frozenset[Kind] = frozenset({"assistant", "result"})


class PhaseState:
    """The phase a conversation is in, and which calls it allows."""

    __slots__ = (
        "_is_stale",
        "_late",
        "_log",
        "_next_permit",
        "_refused",
        "_removed",
        "_turns",
        "entry",
        "permit",
        "phase",
        "reads",
    )

    def __init__(self, log: Sequence[Entry], turns: Turns, late: LateTools) -> None:
        self._log, self._turns, self._late = log, turns, late
        self.reads = _PHASE_KINDS
        self.permit: Permit | None = None
        """Table and toolbox; None for a conversation without phases."""
        self.phase: str | None = None
        """The last phase entered."""
        self.entry = -1
        """Sequence of the entry that says so."""
        self._removed: frozenset[str] = frozenset()
        """Tools withdrawn in band, in this epoch."""
        self._is_stale = False
        """Whether an epoch took out what the model was told."""
        self._next_permit: Permit | None = None
        """The permit that an epoch with other tools will bring."""
        self._refused: Mapping[str, str] = {}
        """Calls of the last reply that could not be made when it came → why, as the entry of the reply says."""

    def begin(self, permit: Permit | None) -> None:
        """Continue under this permit. Raises `UsageError` where the log is in a phase the table does not have, or has no
        table for.
        """
        if self.phase is not None and (permit is None or self.phase not in permit.phases):
            raise UsageError(self._unknown_phase(permit))
        self.use(permit)
        if permit is not None and self._turns.last_assistant is not None:
            self._refused = _refused_in(self._log[self._turns.last_assistant])

    def use(self, permit: Permit | None) -> None:
        """Use this permit from here on."""
        self.permit = permit
        self.reads = _PHASE_KINDS if permit is None else _PHASE_KINDS | _CALL_KINDS

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "phase":
            body = parse(entry.body)
            self.phase, self.entry, self._is_stale = body.get("name"), entry.sequence, False
            self._removed = (self._removed | set(body.get("removed", ()))) - set(body.get("added", ()))
        elif entry.kind == "epoch":
            self._removed, self._is_stale = frozenset(), True
            if self._next_permit is not None and "tools" in parse(entry.body):
                self.use(self._next_permit)
                self._next_permit = None
        elif entry.kind == "assistant":
            self._refused = _refused_in(entry)

    def with_refusals(self, reply: dict[str, Json]) -> dict[str, Json]:
        """Add to a reply the reasons for which its calls are refused.

        What the entry says is all that is refused without being run, so a crash, and whatever is done before or after
        it, answers no other call.
        """
        reasons = {call["id"]: self.refusal(call["name"], call["arguments"]) for call in reply["calls"]}
        refused = {call_id: why for call_id, why in reasons.items() if why is not None}
        return {**reply, REFUSED: refused} if refused else reply

    def due(self) -> tuple[Kind, Json] | None:
        """The phase to tell the model, or the answer to a call that may not be made and was not begun."""
        if self.permit is None:
            return None
        if self.phase is None:
            return "phase", self._body(self.permit, self.permit.start, is_first=True)
        if self._is_stale:
            return "phase", self._body(self.permit, self.phase, is_first=True)
        if not self.permit.hidden(self.phase) <= self._removed:  # tools that came late, in a phase without them
            return "phase", self._body(self.permit, self.phase, is_first=False)
        for call in self._turns.open_calls if self._refused else ():
            if call.call_id in self._refused and not call.was_started:
                refusal = answer(InvalidCall(self._refused[call.call_id]), True)
                return "result", {"call_id": call.call_id, "name": call.name, **refusal}
        return self._next_phase(self.permit, self.phase)

    def entering(self, name: str) -> Json | None:
        """Body of the entry that enters a phase by hand, None where it is the present one.

        Raises `UsageError` for a name that is no phase.
        """
        if self.permit is None:
            raise UsageError("this conversation has no phases: give Context(…, phases=Phases(…))")
        self.permit.phases[name]
        return None if name == self.phase else self._body(self.permit, name, is_first=False)

    def renew(self, phases: Phases | None, toolbox: Toolbox, limits: Limits) -> None:
        """Prepare for an epoch with other tools.

        Raises `UsageError` where the table does not fit them, or lacks the present phase.
        """
        table = phases if phases is not None or self.permit is None else self.permit.phases
        if phases is not None:
            limits = replace(limits, known=None, start=None)
        permit = permit_of(table, toolbox, limits)
        if permit is not None and self.phase is not None and self.phase not in permit.phases:
            raise UsageError(self._unknown_phase(permit))
        self._next_permit = permit

    def refusal(self, name: str, arguments: Arguments | None = None) -> str | None:
        """Why a call may not be made now, in words for the model; None where it may.

        The answer for every road to a tool, and the same at every endpoint. With `arguments`, a call of `call_tool` is
        one of the tool that it names too.
        """
        if self.permit is None or self.phase is None:
            return None
        refusal = self.permit.refusal(self.phase, name, self._late)
        target = arguments.get("name") if name == call_tool.name and isinstance(arguments, Mapping) else None
        if refusal is not None or not isinstance(target, str):
            return refusal
        return self.permit.refusal(self.phase, target, (target,))  # one that is not there is answered by the bridge

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        """Of these tools the names, and the families, that a sub-agent spawned now may never call."""
        permit, phase = self.permit, self.phase
        if permit is None or phase is None:
            return frozenset()
        return frozenset(name for name in names if not permit.allows(phase, name)) | frozenset(
            permit.phases[phase].deny
        )

    def lowered(self, provider: Provider, overrides: Mapping[str, Json], toolbox: Toolbox) -> Lowered:
        """The fields by which the next request says what may be called.

        Warns where none of the tools that the phase allows is in `toolbox`, can be found by a search of it, or came late.
        """
        if self.permit is None or self.phase is None:
            return NOTHING
        there = {*toolbox.names, *catalogues(toolbox), *(tool.name for tool in self._late.tools)}
        if missing := self.permit.report_missing(self.phase, sorted(there)):
            warnings.warn(sanitize(missing), stacklevel=3)
        return lower(self.permit, self.phase, provider, overrides, self.entry)

    def _next_phase(self, permit: Permit, phase: str) -> tuple[Kind, Json] | None:
        """The phase that the calls just answered lead to; they count in call order, whatever order the answers came in."""
        last = next((entry for entry in reversed(self._log) if entry.kind != "opened"), None)
        if last is None or last.kind != "result":
            return None
        bodies = [parse(self._log[sequence].body) for sequence in self._turns.answers]
        made = [(body["name"], body["is_error"]) for body in bodies if body["call_id"] not in self._refused]
        target = permit.step(phase, made)
        return None if target == phase else ("phase", self._body(permit, target, is_first=False))

    def _body(self, permit: Permit, phase: str, *, is_first: bool) -> Json:
        change = permit.notice_of(phase, self._removed, is_first=is_first)
        return {
            "name": phase,
            "text": change.text,
            "removed": list(change.removed),
            "added": list(change.added),
            "is_told": change.is_told,
        }

    def _unknown_phase(self, permit: Permit | None) -> str:
        has = "no phases were given" if permit is None else f"the table has {', '.join(permit.phases)}"
        return f"the conversation is in phase {self.phase!r} since entry {self.entry}, and {has}: give phases=Phases(…) with that phase"


# Late tools
# ----------------------------------------------------------------------------------------------------------------------

_ANNOUNCEMENT = "New tools. Call each with {bridge}, its name and arguments that fit its schema:"
_SEARCH_RESULT = b'"name":"' + SEARCH.encode() + b'"'
"""Occurs in every result of the search."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Tools that are to join."""

    tools: tuple[Tool, ...]
    """All that were given."""
    new: tuple[Tool, ...]
    """Those that were not announced yet."""

    @property
    def body(self) -> Json:
        """Body of the entry that announces the new ones; its text is for providers that are told in words."""
        return {
            "definitions": [tool.definition for tool in self.new],
            "text": _ANNOUNCEMENT.format(bridge=call_tool.name),
        }


class LateTools:
    """The tools announced in one conversation, and those that a search found.

    What was announced stays as it was announced: another definition under the same name is refused, since the model has
    read the first one.
    """

    __slots__ = ("_entries", "_is_stale", "_tools", "found_at")

    reads: frozenset[Kind] = frozenset({"tools", "result", "epoch"})

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._entries: dict[str, int] = {}
        """Name → sequence of the entry that announced it first."""
        self.found_at: dict[str, int] = {}
        """Name that a search found → sequence of the result that holds its definition."""
        self._is_stale = False
        """Whether an epoch took the announcements out of the prompt."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """In the order they came; those nobody has bound since the log was opened have nothing to run."""
        return tuple(self._tools.values())

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "tools":
            for tool in map(Tool.raw, parse(entry.body)["definitions"]):
                self._tools.setdefault(tool.name, tool)
                self._entries.setdefault(tool.name, entry.sequence)
            self._is_stale = False
        elif entry.kind == "result" and _SEARCH_RESULT in entry.body:
            self.found_at.update(dict.fromkeys(_names_in_result(parse(entry.body)), entry.sequence))
        elif entry.kind == "epoch":
            self._begin_epoch(parse(entry.body))

    def _begin_epoch(self, epoch: Json) -> None:
        """Drop what was found with the result that holds it; another tool set drops everything, since what belongs to it
        is in its static prefix.
        """
        first = epoch["keep_from"]
        self.found_at = {name: at for name, at in self.found_at.items() if first is not None and at >= first}
        self._is_stale = bool(self._tools)
        if "tools" in epoch:
            self._tools, self._entries, self.found_at, self._is_stale = {}, {}, {}, False

    def due(self) -> tuple[Kind, Json] | None:
        """The entry that announces all of them anew, None where the prompt still holds them."""
        return ("tools", Arrival(self.tools, self.tools).body) if self._is_stale else None

    def arriving(self, tools: Iterable[Toolable], declared: Iterable[Json]) -> Arrival:
        """Which of `tools` are new beside the definitions `declared` in the static prefix.

        Raises `InvalidTool` for a name that is taken with another definition, or is declared already; `UsageError` for
        no tools at all.
        """
        announced = [tool.definition for tool in self._tools.values()]
        from contextkit.memory.reading import in_declared_form  # a memory's tools may come late, too

        toolbox = Toolbox(in_declared_form(Toolbox(tools), announced)).declared_as(announced)
        if not len(toolbox):
            raise UsageError("no tools were given: late_tools([…]) takes those that have come")
        declared_names = {Tool.raw(definition).name for definition in declared}
        for tool in toolbox:
            if tool.name in declared_names:
                raise InvalidTool(
                    f"tool {tool.name!r} stands in the head already: leave it out, or give it another name"
                )
            if tool.name in self._tools and self._tools[tool.name].body != tool.body:
                path = first_difference(self._tools[tool.name].definition, tool.definition, tool.name)[0]
                raise InvalidTool(
                    f"tool {tool.name!r} was announced by entry {self._entries[tool.name]} with another definition, which the model has "
                    f"read (it differs at {path}): give it another name, or open an epoch with context.retool(…)"
                )
        return Arrival(toolbox.tools, tuple(tool for tool in toolbox if tool.name not in self._tools))

    def bind(self, tools: Iterable[Tool]) -> None:
        """Let these answer their calls, now that they are announced."""
        self._tools.update((tool.name, tool) for tool in tools if tool.name in self._tools)

    def __contains__(self, name: object) -> bool:
        """Return whether a tool of that name was announced, or a search found it, as the log says."""
        return name in self._tools or name in self.found_at

    def entry_of(self, name: str) -> int:
        """Sequence of the entry that announced a tool. Raises `KeyError`."""
        return self._entries[name]

    def answering(self, name: str, arguments: Arguments, toolbox: Toolbox) -> Tool | None:
        """The tool that answers a call: declared, announced, or called through the bridge.

        None where there is none of that name.
        """
        own = toolbox[name] if name in toolbox.names else None
        if own is None:
            return self._tools.get(name) or self.discovered(toolbox).get(name)
        if name == call_tool.name and is_bridge(own.definition):
            return through({**self.discovered(toolbox), **self._tools}, arguments)
        return own

    def discovered(self, toolbox: Toolbox) -> dict[str, Tool]:
        """Tools that a search of the toolbox has found, by name; those it does not have any more are left out."""
        tools = catalogues(toolbox) if self.found_at else {}
        return {name: tools[name] for name in self.found_at if name in tools}

    def share(self, other: LateTools) -> None:
        """Let the functions of another conversation answer, where both announced the same."""
        self.bind(tool for tool in other.tools if tool.name in self._tools and self._tools[tool.name].body == tool.body)


def _names_in_result(result: Json) -> list[str]:
    """Names of the tools whose definitions a search gave."""
    if result["name"] != SEARCH:
        return []
    blocks = [part["block"] for part in result["content"] if part["type"] == "native"]
    return [str(block["name"]) for block in blocks if "name" in block]


def can_join(provider: Provider, declared: Sequence[Json]) -> bool:
    """Return whether a tool can be announced behind these definitions."""
    return is_possible(_endpoint(provider), declared)


def check_joining(provider: Provider, declared: Sequence[Json], body: Json) -> None:
    """Render an announcement once before it is kept for good.

    Raises `UsageError` where nothing can be announced, `InvalidTool` for a tool this provider has no form for.
    """
    check_possible(_endpoint(provider), declared)
    list(provider.render_entry(Entry(0, "tools", canonical(body), 0.0, b"")))


def widened(permit: Permit | None, late: LateTools, provider: Provider, toolbox: Toolbox) -> Permit | None:
    """A permit whose masks cover tools that came late or were found too, where this endpoint calls them by name, not
    through `call_tool`.
    """
    if permit is None:
        return None
    found = late.discovered(toolbox).values() if searching(_endpoint(provider)).calls == BY_NAME else ()
    return permit.widened(
        {tool.name: tool for tool in (*found, *(late.tools if is_direct(_endpoint(provider)) else ()))}
    )


def _endpoint(provider: Provider) -> Endpoint:
    return Endpoint(provider.wire, provider.model, provider.betas)


# Change events
# ----------------------------------------------------------------------------------------------------------------------

_OUTPUT, _EFFORT = "output ", "effort "
"""Subjects of changes of the form of replies, which what reads them relies on, and of how hard the model thinks."""
_LASTING = (_OUTPUT, _EFFORT)
"""Subjects that hold until they are changed again, through every epoch."""


class ChangeEvents:
    """The last change of each kind that the prompt holds."""

    __slots__ = ("_holding", "_last", "_lost")

    reads: frozenset[Kind] = frozenset({"notice", "epoch"})

    def __init__(self) -> None:
        self._last: dict[str, tuple[bytes, int]] = {}
        self._holding: dict[str, bytes] = {}
        """Subject → body of the notice that holds until another one about it comes; temporary ones change nothing here.
        """
        self._lost: dict[str, bytes] = {}
        """Those of them that an epoch took out of the prompt."""

    def feed(self, entry: Entry) -> None:
        """Take the next entry; an epoch takes earlier notices out of the prompt."""
        if entry.kind == "epoch":
            self._last, self._lost = {}, dict(self._holding)
        elif entry.kind == "notice" and (event := (body := parse(entry.body)).get("event")):
            subject = _subject(event)
            self._last[subject] = entry.body, entry.sequence
            if subject in _LASTING and "until" not in body:
                self._holding[subject] = entry.body
                self._lost.pop(subject, None)

    @property
    def output(self) -> Json:
        """The event that sets the form of replies, None where none does."""
        body = self._last[_OUTPUT][0] if _OUTPUT in self._last else self._holding.get(_OUTPUT)
        return None if body is None else parse(body)["event"]

    def due(self) -> tuple[Kind, Json] | None:
        """A notice that an epoch took out and that still holds: the form of replies, the effort."""
        return ("notice", parse(next(iter(self._lost.values())))) if self._lost else None

    def sequence_of(self, change: Change, body: bytes) -> int | None:
        """Sequence of the entry that says the same already, None where it is news."""
        last, sequence = self._last.get(_subject(parse(body)["event"]), (b"", -1))
        return sequence if last == body and not change.is_repeatable else None


def _subject(event: Json) -> str:
    """What an event is about: the last one about it holds."""
    return f"{event['type']} {event.get('path', '') if event['type'] in ('file', 'memory') else ''}"


# Memory
# ----------------------------------------------------------------------------------------------------------------------


class NoMemory:
    """The part of a conversation that has no memory; `MemoryState` (`context/memory_state.py`) is that of one that has."""

    reads: frozenset[Kind] = frozenset()
    memory: Memory | None = None
    variation: Variation | None = None
    can_read = False
    """Whether the model has the tool that reads references: not where the conversation was begun without a memory."""

    @property
    def own(self) -> dict[str, bytes]:
        """The tools of the memory, name → definition: the prompt tells the model to call them."""
        return {}

    @property
    def references(self) -> tuple[Reference, ...]:
        """What this conversation keeps outside the window, in the order it came."""
        return ()

    @property
    def is_listing_due(self) -> bool:
        """Return whether a list of the references follows what the user says next, as a provider's own compaction took it out."""
        return False

    @property
    def plan(self) -> str:
        """The open items of the plan, as they are recited; "" for none."""
        return ""

    @property
    def residencies(self) -> list[str]:
        """How each large result since the last reply lives, and why; one line each."""
        return []

    def check(self, model: str, binds_reasoning: bool, binds_thinking: bool) -> None:
        """Raises `UsageError` where the rules ask for what a model does not take."""

    def follow(self, log: Log) -> None:
        """Index what this log says for searches."""

    def leave(self, log: Log) -> None:
        """Leave out of searches what this log says."""

    def joined(self, toolbox: Toolbox) -> Toolbox:
        """The tools of a conversation and, behind them, those of its memory."""
        return toolbox

    def answering(self, declared: Iterable[Json]) -> Toolbox:
        """The tools that a log declares, answered by those of this memory; the others have nothing to run."""
        return Toolbox(map(Tool.raw, declared))

    def rebound(self, tools: Iterable[Tool]) -> list[Tool]:
        """`tools` with those of a todo list answered by the list of this memory."""
        return list(tools)

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""

    def due(self) -> tuple[Kind, Json] | None:
        """Kind and body of the entry that must be written next."""
        return None

    def left_behind(self, end: int) -> LeftBehind:
        """What the entries before `end` leave outside the window."""
        return LeftBehind("")

    def written(
        self,
        body: Mapping[str, Json],
        source: str | None,
        around: Callable[[], Surroundings],
        kind: ResidencyKind | None = None,
    ) -> Json:
        """Body of a result about to be written; `around` and `kind` are for a memory that has to choose how it lives."""
        check_source(source)
        return {**body, "content": without_binary(body["content"])}

    def is_large(self, body: Mapping[str, Json]) -> bool:
        """Return whether a part of a result is larger than the offload rule leaves in the window."""
        return False

    def residency(
        self,
        body: Mapping[str, Json],
        around: Callable[[], Surroundings],
        *,
        can_delegate: bool,
        kind: ResidencyKind | None = None,
    ) -> Decision | None:
        """How a result is to live; None where it is not large, or there is neither a policy nor a fixed `kind`."""
        return None


def check_source(source: object) -> None:
    """Raise `UsageError` for what does not say where a result came from."""
    if not isinstance(source, str | None):
        raise UsageError(f"source is the URL or path a result came from, not {type(source).__name__}")
