"""What a reader does about a cause: one table for the authors of programs, the users of agent programs and the operators
of engines (`facts/actions.toml`), each step with its source.

An action of the name of a change can be replayed, which gives its amount; the others are advice without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from contextkit.facts import load
from contextkit.ledger.misses import AnalyzedCall
from contextkit.whatif.changes import CHANGES, SUB_AGENTS

AUTHOR, OPERATOR = "author", "operator"
"""Readers that are no users of an agent program: who writes the program, who runs the engine."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one reader does."""

    reader: str
    """`author`, `operator`, or the agent program that the reader uses."""
    text: str
    """The setting, command or code, in a line; backticks mark code."""
    source: str
    """Where it says so."""
    date: date
    """When that was read."""
    grade: str
    """`documented`, `measured` or `assumed`."""
    sub_agents: str = ""
    """What to do instead for sub-agents, where they have a setting of their own."""
    is_prefix_shared: bool = True
    """Of a compaction: whether the program's request for a summary reads the conversation from the cache."""

    def text_for(self, agents: str) -> str:
        """Return what to do for one kind of conversations (`main`, `sub-agents`), or for all."""
        return self.sub_agents or self.text if agents == SUB_AGENTS else self.text


@dataclass(frozen=True, slots=True)
class Action:
    """One row of the table."""

    name: str
    """Its name; that of a change where it can be replayed."""
    title: str
    """What to do, in a few words."""
    causes: tuple[str, ...]
    """The causes of misses that it ends."""
    steps: tuple[Step, ...]
    """One a reader."""

    @property
    def is_replayed(self) -> bool:
        """Return whether a replay says what it saves."""
        return self.name in CHANGES

    def step_for(self, reader: str) -> Step | None:
        """Return what a reader does, as `reader_of` names it; None where nothing is in their hands."""
        return next((step for step in self.steps if step.reader == (reader or AUTHOR)), None)


@cache
def actions() -> Mapping[str, Action]:
    """Return all actions by name."""
    rows = load.built_in_table("actions.toml")["actions"]
    return {
        row["name"]: Action(
            row["name"], row["title"], tuple(row["causes"]), tuple(Step(**step) for step in row["steps"])
        )
        for row in rows
    }


@cache
def action_of(cause: str) -> Action | None:
    """Return the action that ends the misses of a cause; None for a cause that nobody can end, or that is unknown.

    >>> action_of("ttl_expired").name, action_of("first_write")
    ('longer-lifetime', None)
    """
    return next((row for row in actions().values() if cause in row.causes), None)


def fix_of(cause: str, reader: str = AUTHOR) -> str:
    """Return what a reader, as `reader_of` names it, does about the misses of a cause; empty where no action ends them.

    >>> fix_of("cold_fan_out"), fix_of("rules")
    ('Send one request, wait until its reply begins, then send the others that share its prefix.', '')
    """
    action = action_of(cause)
    if action is None:
        return ""
    step = action.step_for(reader)
    return step.text if step else f"No setting of {'the engine' if reader == OPERATOR else reader} ends this cause."


def is_open(change: str, reader: str) -> bool:
    """Return whether a change is in the hands of a reader."""
    return actions()[change].step_for(reader) is not None


def reader_of(analyzed: AnalyzedCall) -> str:
    """Return who can change something about a call: the agent program that its reader uses, `operator` of an engine on
    this machine, or empty for the author of the program.
    """
    host = analyzed.call.host.rpartition(":")[0] or analyzed.call.host
    is_local = host in _LOOPBACK or analyzed.call.provider in _ENGINES
    return analyzed.program or (OPERATOR if is_local and not analyzed.has_model_price else "")


_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ENGINES = ("vllm", "sglang")
"""Providers of recordings that an engine itself wrote."""
