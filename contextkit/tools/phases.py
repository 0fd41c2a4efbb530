"""Phases: which tools may be called when, as a table with nothing hidden.

Takes a table of phases, gives the next phase for a call and its outcome, and a diagram. Knows no tools, no log, no
provider: a `Permit` (`mask.py`) joins a table with a toolbox.

Tool definitions stand first in every prompt, so taking one out re-bills everything behind it. A phase moves the
permission instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contextkit.errors import UsageError

OUTCOMES = ("ok", "error")
"""What a call may come to; `then` names one behind a colon."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,32}")
"""A phase is named in every notice, so its name is short."""
_PATTERN = re.compile(r"[^*:\s]+\*?|\*")


@dataclass(frozen=True, slots=True)
class Phase:
    """What may be called, and which call leads where.

    >>> Phase(allow=["browser_*", "notes_read"], require=True, then={"browser_close:ok": "report"}).allows("browser_open")
    True
    """

    allow: Iterable[str] = ("*",)
    """Names, or families: `browser_*`, `*` for all; of tools that are there or that come later. An empty list forbids
    every call."""
    require: bool = False
    """Whether the model must call one of them. Providers that cannot force it are told so in words."""
    then: Mapping[str, str] = field(default_factory=dict)
    """Call → phase: `name`, `name:ok`, `name:error`, with a family for the name if need be."""
    by_hand: bool = False
    """Whether only `context.enter` leads here."""
    force: bool = False
    """Whether the provider must enforce it where it can, also where that costs cached tokens (`docs/guides/masking.md`)."""
    deny: Iterable[str] = ()
    """Names or families that may not be called, whatever `allow` says, also of tools that come later; the only way to
    forbid a tool of the context's own memory."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no pattern, no rule, or cannot be met."""
        object.__setattr__(self, "allow", tuple(_patterns(self.allow)))
        object.__setattr__(self, "deny", tuple(_patterns(self.deny, "deny")))
        object.__setattr__(self, "then", MappingProxyType(dict(_rules(self.then))))
        for name in ("require", "by_hand", "force"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is True or False, not {type(getattr(self, name)).__name__}")
        if self.require and not self.allow:
            raise UsageError(
                "a phase that allows nothing cannot require a call: name tools in allow, or leave require out"
            )

    def allows(self, name: str) -> bool:
        """Return whether a call of that name may be made."""
        return any(fits(pattern, name) for pattern in self.allow) and not self.denies(name)

    def denies(self, name: str) -> bool:
        """Return whether `deny` names it, or a family it is of."""
        return any(fits(pattern, name) for pattern in self.deny)

    def may_allow(self, pattern: str) -> bool:
        """Return whether a tool of this name or family, one that is there or one to come, could be called.

        >>> phase = Phase(allow=["mail_*"], deny=["mail_send*"])
        >>> [phase.may_allow(pattern) for pattern in ("*", "mail_read", "mail_s*", "mail_send", "mail_sending_*", "web_*")]
        [True, True, True, False, False, False]
        """
        narrower = (
            pattern if fits(one, pattern) else one for one in self.allow if fits(one, pattern) or fits(pattern, one)
        )
        return any(not self.denies(one) for one in narrower)

    def leads(self, call: str, is_error: bool) -> str | None:
        """Where a call leads, None for nowhere.

        The most exact rule wins: the name with the outcome, the name, then families, the longest first, with the
        outcome before without.

        >>> phase = Phase(then={"page_*": "a", "page_open:error": "b", "page_*:error": "c"})
        >>> [phase.leads("page_open", True), phase.leads("page_close", True), phase.leads("page_open", False), phase.leads("x", False)]
        ['b', 'c', 'a', None]
        """
        outcome = OUTCOMES[is_error]
        matching = (rule for rule in sorted(self.then, key=_exactness) if _matches(rule, call, outcome))
        return next((self.then[rule] for rule in matching), None)


@dataclass(frozen=True, slots=True, init=False)
class Phases:
    """A table of phases and the one a conversation starts in; frozen.

    >>> phases = Phases({
    ...     "browse": Phase(allow=["browser_*"], require=True, then={"browser_close": "report"}),
    ...     "report": Phase(allow=["report_*"], then={"report_send:error": "browse"}),
    ... }, start="browse")
    >>> phases.next("browse", "browser_close"), phases.next("report", "report_send", is_error=True)
    ('report', 'browse')
    """

    table: Mapping[str, Phase]
    """Name → phase, in the order written."""
    start: str
    """Where a conversation begins."""

    def __init__(self, table: Mapping[str, Phase], start: str) -> None:
        """Raises `UsageError` for an empty table, a rule that leads to no phase of it, and a phase nobody reaches."""
        _check_table(table, start)
        object.__setattr__(self, "table", MappingProxyType(dict(table)))
        object.__setattr__(self, "start", start)
        reached = _reached(self)
        if unreached := [name for name in table if name not in reached]:
            what = f"nothing leads to phase {unreached[0]!r}"
            raise UsageError(f"{what}: name it in a `then`, or say Phase(…, by_hand=True) and context.enter it")

    def __getitem__(self, name: str) -> Phase:
        """The phase of that name. Raises `UsageError` where there is none."""
        if not isinstance(name, str) or name not in self.table:
            raise UsageError(f"there is no phase {name!r}: the table has {', '.join(self.table)}")
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.table

    def __len__(self) -> int:
        return len(self.table)

    def next(self, phase: str, call: str, is_error: bool = False) -> str:
        """The phase after a call in `phase` has come to its outcome.

        The same one where no rule fits or the call was not allowed.
        """
        here = self[phase]
        return here.leads(call, is_error) or phase if here.allows(call) else phase

    def mermaid(self) -> str:
        """The table as a Mermaid state diagram.

        >>> print(Phases({"a": Phase(allow=["x"], then={"x:ok": "b"}), "b": Phase(allow=[])}, start="a").mermaid())
        stateDiagram-v2
            state "a: x" as a
            state "b: nothing" as b
            [*] --> a
            a --> b: x ok
        """
        states = [f'state "{name}: {_allowed(phase)}" as {_id(name)}' for name, phase in self.table.items()]
        starts = [f"[*] --> {_id(self.start)}"]
        by_hand = [
            f"[*] --> {_id(name)}: by hand"
            for name, phase in self.table.items()
            if phase.by_hand and name != self.start
        ]
        edges = [
            f"{_id(name)} --> {_id(target)}: {rule.replace(':', ' ')}"
            for name in self
            for rule, target in self[name].then.items()
        ]
        return "\n    ".join(["stateDiagram-v2", *states, *starts, *by_hand, *edges])


def fits(pattern: str, name: str) -> bool:
    """Return whether `name` is the one a pattern names, or of its family; a family too, where all of it is.

    >>> fits("browser_*", "browser_open"), fits("browser", "browser_open"), fits("*", "anything")
    (True, False, True)
    """
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def split(rule: str) -> tuple[str, str]:
    """The name or family of a rule, and its outcome, "" for any.

    >>> split("browser_close:ok"), split("browser_*")
    (('browser_close', 'ok'), ('browser_*', ''))
    """
    name, _, outcome = rule.partition(":")
    return name, outcome


def _matches(rule: str, call: str, outcome: str) -> bool:
    pattern, wanted = split(rule)
    return fits(pattern, call) and wanted in ("", outcome)


def _exactness(rule: str) -> tuple[bool, int, bool]:
    pattern, outcome = split(rule)
    return pattern.endswith("*"), -len(pattern), not outcome


def _patterns(given: object, field: str = "allow") -> Iterator[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f'{field} is a list of tool names and families (["browser_*", "notes_read"]), not {type(given).__name__}'
        )
    for pattern in given:
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            raise UsageError(
                f"{field}: {pattern!r} is no tool name and no family (browser_*: its beginning and one star at the end)"
            )
        yield pattern


def _rules(then: object) -> Iterator[tuple[str, str]]:
    if not isinstance(then, Mapping):
        raise UsageError(
            f'then is a dict from a call to a phase ({{"browser_close:ok": "report"}}), not {type(then).__name__}'
        )
    for rule, target in then.items():
        name, _, outcome = rule.partition(":") if isinstance(rule, str) else ("", "", "")
        if not _PATTERN.fullmatch(name) or (":" in rule and outcome not in OUTCOMES):
            raise UsageError(
                f"then: {rule!r} is no call: write name, name:ok or name:error; a family (browser_*) may stand for the name"
            )
        if not isinstance(target, str):
            raise UsageError(f"then: {rule!r} leads to the name of a phase, not to {type(target).__name__}")
        yield rule, target


def _check_table(table: object, start: object) -> None:
    if not isinstance(table, Mapping) or not table:
        raise UsageError("phases are a dict from name to Phase(…), with one phase at least")
    for name, phase in table.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"phase {name!r}: a name is 1 to 32 of a-z A-Z 0-9 _ -")
        if not isinstance(phase, Phase):
            raise UsageError(f"phase {name!r} is a Phase(…), not {type(phase).__name__}")
        for rule, target in phase.then.items():
            if target not in table:
                raise UsageError(f"phase {name!r}: {rule!r} leads to {target!r}, and there is no such phase")
    if not isinstance(start, str) or start not in table:
        raise UsageError(f"start={start!r} is no phase of the table: it has {', '.join(table)}")


def _reached(phases: Phases) -> set[str]:
    """Every phase the start or a hand leads to, in any number of steps."""
    pending = [phases.start, *(name for name in phases if phases[name].by_hand)]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(phases[name].then.values())
    return found


def _allowed(phase: Phase) -> str:
    said = ", ".join(phase.allow) or "nothing"
    said += f" but {', '.join(phase.deny)}" if phase.deny else ""
    return said + ("; a call is required" if phase.require else "")


def _id(name: str) -> str:
    """Mermaid takes letters, digits and underscores, and keeps a few words for itself."""
    plain = name.replace("-", "_")
    return plain if plain not in ("end", "state", "note", "direction") else f"{plain}_"
