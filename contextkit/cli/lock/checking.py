"""What became of every locked head, added up and held against the budget; as text and as JSON.

Takes settings, the heads of the lock file and the heads of today; gives one value that can be shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff

from contextkit.canonical import Json
from contextkit.cli.lock.settings import Agent, Settings
from contextkit.cli.lock.text import shown
from contextkit.errors import UsageError
from contextkit.prompt.lock import HeadChange, Live, LockedHead, compare


@dataclass(frozen=True, slots=True)
class Row:
    """One agent."""

    name: str
    """What it is called."""
    live: Live
    """Its conversations that are going on."""
    was: LockedHead | None
    """Its head in the lock file, None for an agent that is new."""
    now: LockedHead | None
    """Its head today, None for an agent that is named no more."""
    change: HeadChange | None
    """Where the two differ."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Every agent, and whether it all is within the budget."""

    rows: tuple[Row, ...]
    """In the order of pyproject.toml, what only the lock file names behind them."""
    settings: Settings
    """What a change may cost."""

    @property
    def changes(self) -> list[HeadChange]:
        """Everything that re-bills something."""
        return [row.change for row in self.rows if row.change is not None]

    @property
    def n_tokens(self) -> int:
        """Tokens re-billed."""
        return sum(change.n_tokens for change in self.changes)

    @property
    def usd(self) -> float | None:
        """Dollars, None where a model has no price."""
        paid = [change.usd for change in self.changes]
        return None if None in paid else sum(amount for amount in paid if amount is not None)

    @property
    def is_over(self) -> bool:
        """Whether a budget is exceeded. Raises `UsageError` for a budget in dollars where a model has no price."""
        tokens, usd = self.settings.budget_tokens, self.settings.budget_usd
        if usd is not None and self.usd is None:
            raise UsageError(
                "budget_usd cannot be held: a changed agent's model has no price; set budget_tokens instead"
            )
        return (tokens is not None and self.n_tokens > tokens) or (usd is not None and (self.usd or 0.0) > usd)

    @property
    def is_current(self) -> bool:
        """Whether the lock file says what is."""
        return all(
            row.was is not None and row.now is not None and row.was.digest == row.now.digest for row in self.rows
        )

    def to_text(self, *, with_diff: bool = False) -> str:
        """For people."""
        lines = [line for row in self.rows for line in _told(row, with_diff)]
        return "\n".join([*lines, *self._ending()])

    def to_json(self) -> str:
        """For programs."""
        whole = {
            "agents": [_row(row) for row in self.rows],
            "n_tokens": self.n_tokens,
            "usd": self.usd,
            "budget_tokens": self.settings.budget_tokens,
            "budget_usd": self.settings.budget_usd,
            "is_over": self.is_over,
            "is_current": self.is_current,
        }
        return json.dumps(whole, indent=2, ensure_ascii=False)

    def _ending(self) -> Iterator[str]:
        if self.changes:
            budgets = [
                *([] if self.settings.budget_tokens is None else [f"{self.settings.budget_tokens:,} tokens"]),
                *([] if self.settings.budget_usd is None else [_dollars(self.settings.budget_usd)]),
            ]
            verdict = "over" if self.is_over else "within"
            yield f"{self.n_tokens:,} tokens re-billed at first use, {_dollars(self.usd)}: {verdict} the budget of {', '.join(budgets)}"
        if not self.is_current:
            yield "if this is meant: contextkit lock write, and commit the lock file"


def check_all(
    settings: Settings,
    locked: Mapping[str, LockedHead],
    today: Mapping[str, LockedHead],
    live_sessions: int | None,
    session_tokens: int | None,
) -> Checked:
    """Every agent of either side; `live_sessions` and `session_tokens` count instead of what the settings say."""

    def live(agent: Agent) -> Live:
        sessions = agent.live.n_sessions if live_sessions is None else live_sessions
        return Live(sessions, agent.live.session_tokens if session_tokens is None else session_tokens)

    named = [_compared(agent.name, live(agent), locked.get(agent.name), today[agent.name]) for agent in settings.agents]
    gone = [_compared(name, Live(), head, None) for name, head in locked.items() if name not in today]
    return Checked((*named, *gone), settings)


def _compared(name: str, live: Live, was: LockedHead | None, now: LockedHead | None) -> Row:
    return Row(name, live, was, now, None if was is None or now is None else compare(was, now, live))


def _told(row: Row, with_diff: bool) -> Iterator[str]:
    if row.now is None:
        yield f"{row.name}: no longer named in pyproject.toml"
    elif row.was is None:
        yield f"{row.name}: not in the lock file yet ({row.now.n_tokens:,} tokens)"
    elif row.change is None:
        yield f"{row.name}: as locked ({row.now.n_tokens:,} tokens, {row.now.digest[:8]})"
    else:
        yield from _changed(row.name, row.live, row.now, row.change)
        yield from _diff(row.was, row.now) if with_diff else ()


def _changed(name: str, live: Live, now: LockedHead, change: HeadChange) -> Iterator[str]:
    about = "about " if now.is_estimate else ""
    yield f"{name}: {change.what}" + (f" at {change.path}, byte {change.offset}" if change.path else "")
    if change.path:
        yield f"  was  {change.before!r}"
        yield f"  now  {change.after!r}"
    yield f"  {about}{change.head_tokens:,} tokens of the head ({now.n_tokens:,}) are billed once more"
    if change.session_tokens:
        yield f"  {change.session_tokens:,} more in {live.n_sessions:,} live sessions of {live.session_tokens:,} tokens"


def _diff(was: LockedHead, now: LockedHead) -> Iterator[str]:
    """Blocks by name, so that a tool that only moved shows nothing."""
    old, new = (
        {block.name or block.path: shown(block.body).splitlines() for block in head.blocks} for head in (was, now)
    )
    for label in dict.fromkeys((*old, *new)):
        yield from unified_diff(
            old.get(label, []), new.get(label, []), f"{label} (locked)", f"{label} (now)", lineterm="", n=2
        )


def _dollars(amount: float | None) -> str:
    return "no price known" if amount is None else f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _row(row: Row) -> Json:
    change, now = row.change, row.now
    found: dict[str, Json] = {"agent": row.name, "is_locked": row.was is not None, "is_named": now is not None}
    if now is not None:
        found |= {"model": now.model, "n_tokens": now.n_tokens, "is_estimate": now.is_estimate, "digest": now.digest}
    if change is not None:
        found["change"] = {
            "what": change.what,
            "path": change.path,
            "offset": change.offset,
            "was": change.before,
            "now": change.after,
            "head_tokens": change.head_tokens,
            "session_tokens": change.session_tokens,
            "n_tokens": change.n_tokens,
            "usd": change.usd,
        }
    return found
