"""What may be called now: a table of phases over a toolbox, and the words for it.

Takes a `Phases` and a `Toolbox`; gives masks, refusals, and what the model is told when a phase begins. Knows nothing
of logs or providers: which mechanism carries a mask is in `providers/masking.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Literal

from contextkit.errors import UsageError
from contextkit.tools.phases import Phase, Phases, fits, split
from contextkit.tools.tool import Tool, Toolbox

Mode = Literal["auto", "required", "specified", "none"]
"""auto: may call what is allowed. required: must call some tool. specified: must call one of a subset. none: no call.
"""
NO_TOOLS: Mapping[str, Tool] = MappingProxyType({})
MOST_BYTES = 120
"""Longest notice: with what a wire writes around it, at most 60 tokens of any model in the table (2.52 bytes a token at
the densest)."""
MOST_CHANGED_BYTES = 140
"""Most that in-band changes may say, ten bytes a tool added for what stands around its name; beyond, a notice is
cheaper."""


@dataclass(frozen=True, slots=True)
class Mask:
    """What may be called in one phase."""

    phase: str
    """Its name, "" where a conversation has no phases."""
    allowed: tuple[str, ...]
    """Names, in the order of the toolbox."""
    mode: Mode
    """Whether a call is allowed, required, or forbidden."""
    is_all: bool
    """Whether every tool is among them."""
    force: bool
    """Whether the provider must enforce it, at a price."""


@dataclass(frozen=True, slots=True)
class PhaseNotice:
    """What the model is told when a phase begins; frozen in the log."""

    text: str
    """A notice, "" where nothing need be said."""
    removed: tuple[str, ...]
    """Tools to withdraw in band, where a provider can."""
    added: tuple[str, ...]
    """Tools to give back in band."""
    is_told: bool
    """Whether `removed` and `added` say it all; else the notice stands beside them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds beside a table of phases, in every phase of it."""

    own: Mapping[str, bytes] = field(default_factory=dict)
    """Tools of the context's memory, name → definition: allowed unless a phase denies them by name."""
    denied: frozenset[str] = frozenset()
    """Names and families that the caller of this sub-agent was not allowed when it was spawned: never allowed."""
    known: frozenset[str] | None = None
    """Of a table inherited from the caller: the names it was made for. Another tool was given to the sub-agent, and is
    allowed."""
    start: str | None = None
    """Of an inherited table: the phase the caller was in."""

    def denies(self, name: str) -> bool:
        """Return whether a tool of that name may be called in no phase."""
        return any(fits(pattern, name) for pattern in self.denied)

    def allows(self, phase: Phase, name: str, body: bytes) -> bool:
        """Return whether a tool may be called in a phase; `body` is its definition, empty where it is not declared."""
        if self.denies(name) or phase.denies(name):
            return False
        is_given = self.known is not None and name not in self.known
        return is_given or (body != b"" and self.own.get(name) == body) or phase.allows(name)


class Permit:
    """A table of phases over the tools of a conversation: `refusal` decides for every road by which one is called.

    A table may name tools that are not there yet.
    """

    __slots__ = (
        "_declared",
        "_hidden_in",
        "_masks",
        "_removable",
        "_reported",
        "is_in_band",
        "limits",
        "phases",
        "start",
        "toolbox",
    )

    def __init__(
        self, phases: Phases, toolbox: Toolbox, limits: Limits = Limits(), joined: Mapping[str, Tool] = NO_TOOLS
    ) -> None:
        """`toolbox` has the declared tools; `joined` came later and are called by name.

        Raises `UsageError` for a rule on a call its phase forbids. An inherited table is taken as it is.
        """
        self.phases = phases
        self._declared = toolbox
        self.toolbox = toolbox = Toolbox([*toolbox, *joined.values()]) if joined else toolbox
        """Tools that the model calls by name."""
        self.limits = limits
        self._reported = set[str]()
        """Phases that were checked for tools that never came."""
        self.start = limits.start if limits.start is not None and limits.start in phases else phases.start
        """Where a conversation begins."""
        if limits.known is None:
            table_limits = replace(limits, denied=frozenset())  # narrowing from outside is no mistake of the table
            for name in phases:
                _check_rules(name, phases[name], toolbox, table_limits)
        self._masks = {name: _mask(name, phases[name], toolbox, limits) for name in phases}
        self._removable = frozenset(
            tool.name for tool in toolbox if not tool.is_native or "name" in tool.definition["native"]["block"]
        )
        self.is_in_band = self._fits_in_band()
        """Whether tools are withdrawn and given back in band where a provider can: asked for (`force`), or no dearer
        than a notice."""
        self._hidden_in = {name: self._hidden(name) if self.is_in_band else frozenset() for name in phases}

    def widened(self, joined: Mapping[str, Tool]) -> Permit:
        """The same table and limits, over the declared tools and those that came later and are called by name."""
        later = {name: tool for name, tool in joined.items() if name not in self._declared.names}
        if Toolbox([*self._declared, *later.values()]) == self.toolbox:
            return self
        permit = Permit(self.phases, self._declared, self.limits, later)
        permit._reported = self._reported
        return permit

    def denied_own(self) -> dict[str, list[str]]:
        """Phase → tools of the context's own memory that it denies by name."""
        tools = [tool for tool in self.toolbox if self.limits.own.get(tool.name) == tool.body]
        denied = {name: [tool.name for tool in tools if self.phases[name].denies(tool.name)] for name in self.phases}
        return {name: names for name, names in denied.items() if names}

    def mask(self, phase: str) -> Mask:
        """What may be called in `phase`."""
        return self._masks[phase]

    def hidden(self, phase: str) -> frozenset[str]:
        """Tools that are withdrawn in band in `phase`; none where tools are not."""
        return self._hidden_in[phase]

    def allows(self, phase: str, name: str) -> bool:
        """Return whether a tool of that name may be called in `phase`, whether it is there or may come."""
        body = self.toolbox[name].body if name in self.toolbox.names else b""
        return self.limits.allows(self.phases[phase], name, body)

    def refusal(self, phase: str, name: str, later: Container[str] = ()) -> str | None:
        """Why a tool may not be called, in words for the model; None where it may. `later`: names of tools that came
        later.
        """
        if self.limits.denies(name):
            return f"{name!r} may not be called by this agent: the one that spawned it may not call it either"
        if name not in self.toolbox.names and name not in later:
            return f"there is no tool named {name!r}; {self._now(self._masks[phase])}"
        if self.allows(phase, name):
            return None
        return f"{name!r} may not be called in phase {phase!r}; {self._now(self._masks[phase])}"

    def step(self, phase: str, calls: Iterable[tuple[str, bool]]) -> str:
        """The phase after calls (name, is an error) in `phase`, in call order.

        What it does not allow was refused, and leads nowhere.
        """
        here = phase
        for name, is_error in calls:
            if self.allows(phase, name) and self.allows(here, name):
                here = self.phases[here].leads(name, is_error) or here
        return here

    def report_missing(self, phase: str, names: Iterable[str]) -> str | None:
        """A warning where `phase` is used for the first time and none of the tools that it allows is among `names`."""
        if phase in self._reported:
            return None
        self._reported.add(phase)
        allow, there = self.phases[phase].allow, [*names]
        if self.limits.known is not None or not allow or "*" in allow:  # an inherited table speaks of other tools too
            return None
        if any(fits(pattern, name) for pattern in allow for name in there):
            return None
        near = [near for pattern in allow for near in difflib.get_close_matches(pattern, there, n=3)]
        return (
            f"phase {phase!r} allows only {', '.join(allow)}, and no tool with such a name has come: "
            f"{_toolbox_text(near or there)}"
        )

    def notice_of(self, phase: str, removed: frozenset[str], *, is_first: bool) -> PhaseNotice:
        """What is said when `phase` begins and `removed` are withdrawn.

        `is_first`: nothing was said of any phase before.
        """
        mask = self._masks[phase]
        hidden = self.hidden(phase)
        text = "" if is_first and mask.is_all and mask.mode == "auto" else notice(mask, self.toolbox)
        gone, back = hidden - removed, removed - hidden
        is_told = self.is_in_band and not self.phases[phase].require and self._removable.issuperset(self.toolbox.names)
        return PhaseNotice(text, _ordered(gone, self.toolbox), _ordered(back, self.toolbox), is_told)

    def _now(self, mask: Mask) -> str:
        if not mask.allowed:
            return "no tool may be called now: answer in words"
        return f"allowed now: {', '.join(families(mask.allowed, self.toolbox))}"

    def _hidden(self, phase: str) -> frozenset[str]:
        """What is withdrawn in a phase."""
        return self._removable - set(self._masks[phase].allowed)

    def _fits_in_band(self) -> bool:
        """One answer for the whole table, since a tool that was withdrawn stays so until it is given back."""
        if any(self.phases[name].force for name in self.phases):
            return True
        starts = [self._hidden(name) for name in self.phases if name == self.start or self.phases[name].by_hand]
        steps = [
            self._hidden(name) ^ self._hidden(target)
            for name in self.phases
            for target in self.phases[name].then.values()
        ]
        return all(sum(len(tool) + 10 for tool in change) <= MOST_CHANGED_BYTES for change in (*starts, *steps))


def notice(mask: Mask, toolbox: Toolbox) -> str:
    """What the model is told of a mask, in at most `MOST_BYTES` bytes.

    >>> box = Toolbox([{"name": "page_open"}, {"name": "page_close"}, {"name": "search"}])
    >>> notice(Mask("look", ("page_open", "page_close"), "auto", False, False), box)
    'Phase look: call only page_*.'
    >>> notice(Mask("end", (), "none", False, False), box)
    'Phase end: call no tool, answer in words.'
    """
    head, tail = _WORDS[mask.mode, mask.is_all]
    head = f"Phase {mask.phase}: {head}"
    listed = (
        ""
        if mask.is_all or not mask.allowed
        else _listed(families(mask.allowed, toolbox), MOST_BYTES - len(head) - len(tail))
    )
    return f"{head}{listed}{tail}"


_WORDS: dict[tuple[Mode, bool], tuple[str, str]] = {
    ("auto", False): ("call only ", "."),
    ("auto", True): ("every tool may be called.", ""),
    ("required", True): ("call a tool now, any of them.", ""),
    ("specified", False): ("call one of ", " now."),
    ("none", False): ("call no tool, answer in words.", ""),
    ("none", True): ("call no tool, answer in words.", ""),
}
"""Mode, whether every tool is meant → what stands before the list of tools and behind it."""


def families(names: Iterable[str], toolbox: Toolbox) -> list[str]:
    """Names, whole families as one, in the order of the toolbox."""
    given = frozenset(names)
    complete = {
        family: members
        for family, members in toolbox.families.items()
        if len(members) > 1 and given.issuperset(members)
    }
    whole = {member: f"{family}_*" for family, members in complete.items() for member in members}
    return list(dict.fromkeys(whole.get(name, name) for name in toolbox.names if name in given))


def _listed(names: list[str], room: int) -> str:
    """As many of `names` as there is room for."""
    for count in range(len(names), 0, -1):
        rest = f" and {len(names) - count} more" if count < len(names) else ""
        said = ", ".join(names[:count]) + rest
        if len(said) <= room:
            return said
    return f"{len(names)} tools, a refusal names them"


def _ordered(names: frozenset[str], toolbox: Toolbox) -> tuple[str, ...]:
    return tuple(name for name in toolbox.names if name in names)


def _mask(name: str, phase: Phase, toolbox: Toolbox, limits: Limits) -> Mask:
    allowed = tuple(tool.name for tool in toolbox if limits.allows(phase, tool.name, tool.body))
    is_all = len(allowed) == len(toolbox)
    mode: Mode = "none" if not allowed else "auto" if not phase.require else "required" if is_all else "specified"
    return Mask(name, allowed, mode, is_all, phase.force)


def _check_rules(name: str, phase: Phase, toolbox: Toolbox, limits: Limits) -> None:
    for rule in phase.then:
        pattern = split(rule)[0]
        is_allowed = (limits.allows(phase, tool.name, tool.body) for tool in toolbox if fits(pattern, tool.name))
        if not phase.may_allow(pattern) and not any(is_allowed):
            raise UsageError(
                f"phase {name!r} waits for {rule!r}, a call it does not allow: put the tool in allow, or leave the rule out"
            )


def _toolbox_text(names: Iterable[str]) -> str:
    shown: Iterator[str] = iter(names)
    first = list(islice(shown, 5))
    more = ", …" if next(shown, None) is not None else ""
    return f"the toolbox has {', '.join(first)}{more}" if first else "the toolbox is empty, give tools=[…]"
