"""The first screen of a report: what was spent, what of it was avoidable, the three actions that save most, what is not in
the reader's hands, and what is unknown.

Takes `Contents`, gives rows and lines for every format. Amounts of actions are those of the replay that
`contextkit whatif` prints; an action that no replay can price has none.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextkit.ledger.figures import Share, counted, dollars
from contextkit.report.contents import Contents, Loss, project_names
from contextkit.whatif.actions import OPERATOR, Action, Step, action_of, actions
from contextkit.whatif.changes import COMPACT, CURES, MAIN, SUB_AGENTS, TIMED
from contextkit.whatif.what_if import LEAST_USD, Saving

MOST_ACTIONS, MOST_LINES = 3, 21
"""Actions on the first screen, and its lines with the title: with the commands that tell more it has 25."""
LEAST_COLUMNS = 40
"""A narrower terminal wraps the lines itself."""
SHORT_NAME = 12
"""Characters of a project's name that has room beside a number of sessions."""
SMALL_SHARE = 0.001
"""A saving below this share of the bill stands behind larger ones, however sure it is."""
DAY = 86_400
_AGENTS = {MAIN: "main conversations", SUB_AGENTS: "sub-agents"}
_WITHOUT_CACHE = "prefix caching "
"""Begins what readers of an engine's metrics say where it has no prefix cache."""
_UNKNOWN = "unknown"
"""The cause of a miss that nothing recorded explains."""


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One action for one reader."""

    action: Action
    """The row of the table."""
    step: Step
    """What this reader does."""
    program: str
    """The agent program; empty where the recording is of none."""
    saving: Saving | None
    """What a replay says that it saves; None for advice that is not replayed."""
    error_usd: float
    """How far the replay of the calls as they were is from their bills; 0 for a change by causes, which rests on verdicts."""
    losses: tuple[Loss, ...]
    """The misses that it ends."""
    projects: int
    """How many projects it concerns; 0 where that is unknown."""
    project: str
    """Short name of the one with the most; empty where it is unknown."""
    is_named: bool
    """Whether the recording is of several programs, so that each action says whose it is."""

    @property
    def title(self) -> str:
        """What to do, and in which conversations."""
        agents = self.saving.agents if self.saving else ""
        return f"{self.action.title} in {_AGENTS[agents]}" if agents else self.action.title

    @property
    def saves(self) -> str:
        """The amount, with the error of the replay where that is larger; empty for advice without a replay."""
        if self.saving is None:
            return ""
        return dollars(self.saving.usd) + (f" ± {dollars(self.error_usd)}" if self.error_usd > self.saving.usd else "")

    @property
    def where(self) -> str:
        """The sessions that it concerns."""
        if self.saving is None:
            return counted(sum(loss.n for loss in self.losses), "call")
        sessions = counted(len(self.saving.sessions), "session")
        return f"{self.project}: {sessions}" if 0 < len(self.project) <= SHORT_NAME and self.projects == 1 else sessions

    @property
    def how(self) -> str:
        """Say what the losses look like and what this reader does."""
        program = f"{self.program}: " if self.is_named and self.program else ""
        return f"{self.evidence} {program}{self.text}".strip()

    @property
    def text(self) -> str:
        """The setting or code."""
        return self.step.text_for(self.saving.agents if self.saving else "")

    @property
    def evidence(self) -> str:
        """Say what the losses look like, in a sentence; empty where the title says all."""
        n = sum(loss.n for loss in self.losses)
        if self.action.name == COMPACT and n:
            usd, tokens = (
                sum(loss.cost_usd or 0.0 for loss in self.losses),
                sum(loss.lost_tokens for loss in self.losses),
            )
            return f"Going on with {_rounded(tokens // n)} tokens costs {dollars(usd / n)} each time their cache has expired."
        kinds = list(dict.fromkeys(kind.replace("_", " ") for loss in self.losses for kind in loss.kinds))
        return f"Changed: {', '.join(kinds[:3])}." if kinds else ""


def action_rows(contents: Contents) -> list[ActionRow]:
    """Return what the readers can do: first what saves most by the replay, then savings smaller than its error, then advice
    without an amount.
    """
    what_if = contents.what_if
    savings = {(one.change, one.program, one.agents): one for one in _best(what_if.savings)} if what_if else {}
    losses: dict[tuple[str, str], list[Loss]] = {}
    taken = {(name, program) for name, program, _ in savings}
    for loss in contents.by_program:
        action = action_of(loss.cause)
        if action is not None:
            losses.setdefault((action.name, loss.program), []).append(loss)
    names = project_names({project for one in savings.values() for project in one.projects})
    is_named = len({part.program for part in contents.parts}) > 1
    rows = []
    for name, program, agents in (*savings, *((*key, "") for key in losses if key not in taken)):
        action, saving = actions()[name], savings.get((name, program, agents))
        step, own = action.step_for(program), tuple(losses.get((name, program), ()))
        is_priced = bool(what_if) and action.is_replayed and all(loss.cost_usd is not None for loss in own)
        is_idle = saving.usd <= LEAST_USD if saving else is_priced or not any(loss.lost_tokens for loss in own)
        if step is None or is_idle:
            continue
        known = (
            [project for project in sorted(saving.projects, key=saving.projects.__getitem__) if project]
            if saving
            else []
        )
        error = what_if.error_of(program) if what_if and name in TIMED else 0.0
        project = names[known[-1]] if known else ""
        rows.append(ActionRow(action, step, program, saving, error, own, len(known), project, is_named))
    least_usd = SMALL_SHARE * what_if.recorded_usd if what_if else 0.0
    return sorted(rows, key=lambda row: _rank(row, least_usd))


def _best(savings: Sequence[Saving]) -> Iterator[Saving]:
    """Yield the savings, of both lifetimes for the same conversations the better one: they come the largest first."""
    chosen: set[tuple[str, str]] = set()
    for one in savings:
        kind = one.program, one.agents
        if not one.agents or kind not in chosen:
            yield one
        chosen.add(kind)


def _rank(row: ActionRow, least_usd: float) -> tuple[bool, float, float, int]:
    """Return the key by which actions are sorted: first amounts of at least `least_usd` that exceed the replay's error."""
    usd = row.saving.usd if row.saving else 0.0
    cost, tokens = sum(loss.cost_usd or 0.0 for loss in row.losses), sum(loss.lost_tokens for loss in row.losses)
    return usd <= row.error_usd or usd < least_usd, -usd, -cost, -tokens


def out_of_hands(contents: Contents) -> Loss | None:
    """Sum up the misses with a known cause that no action of the reader ends; None if there are none.

    The sum has the cause `other_server` where all of them do.
    """
    return _joined(loss for loss in _lost(contents) if loss.cause != _UNKNOWN and not _is_in_hand(contents, loss))


def without_cause(contents: Contents) -> Loss | None:
    """Sum up the misses without a known cause; None if there are none."""
    return _joined(loss for loss in _lost(contents) if loss.cause == _UNKNOWN)


def _lost(contents: Contents) -> Iterator[Loss]:
    free = {"cold_start", "compaction", "first_write", "below_minimum", "rules"}
    return (loss for loss in contents.by_program if loss.cause not in free)


def _is_in_hand(contents: Contents, loss: Loss) -> bool:
    """Return whether a reader has a step against these misses that, where it was replayed, ends some of them."""
    action, what_if = action_of(loss.cause), contents.what_if
    if action is None or action.step_for(loss.program) is None:
        return False
    if what_if is None or loss.cost_usd is None or action.name not in CURES:
        return True
    return any((one.change, one.program) == (action.name, loss.program) for one in what_if.savings)


def _joined(losses: Iterator[Loss]) -> Loss | None:
    rows = list(losses)
    if not rows:
        return None
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    is_lower_bound = len(known) < len(rows) or any(row.is_lower_bound for row in rows)
    n, tokens = sum(row.n for row in rows), sum(row.lost_tokens for row in rows)
    cause = "other_server" if all(row.cause == "other_server" for row in rows) else ""
    return Loss(cause, n, tokens, sum(known) if known else None, is_lower_bound)


def overview(contents: Contents, width: int) -> Iterator[str]:
    """Yield the lines of the first screen, none wider than `width` (at least 40) unless a word is."""
    width = max(LEAST_COLUMNS, width)
    rows, spent, rest = action_rows(contents), list(_spent(contents, width)), list(_rest(contents))
    below = ["", *(part for line in rest for part in _wrapped(line, width))] if rest else []
    n_title = math.ceil(len(contents.title) / width)
    for n in range(min(MOST_ACTIONS, len(rows)), 0, -1):
        listed = list(_actions(rows[:n], len(rows) - n, width))
        if n_title + len(spent) + 1 + len(listed) + len(below) <= MOST_LINES:
            break
    else:
        listed = listed if rows else _wrapped(_nothing(contents), width)
    yield from (*spent, "", *listed, *below)


def _spent(contents: Contents, width: int) -> Iterator[str]:
    total = contents.summary.total
    days = math.ceil((contents.last_at - contents.first_at) / DAY) if contents.last_at >= contents.first_at else 0
    programs = list(dict.fromkeys(part.program for part in contents.parts if part.program))
    projects = {part.project for part in contents.parts if part.project}
    facts = [
        counted(days, "day") if days > 1 else "",
        ", ".join(programs) if len(programs) < 3 else f"{programs[0]} and {len(programs) - 1:,} more",
        counted(len(projects), "project") if projects else "",
        counted(len(contents.session_rows), "session") if contents.session_rows else "",
        counted(total.calls, "call"),
    ]
    yield from _wrapped(" · ".join(filter(None, facts)), width)
    n = total.recorded.calls
    prices = "as recorded" if n == total.calls_with_price else "partly as recorded" if n else "at list prices"
    read = f"{Share(total.hit_rate).spaced} of input read from cache" if total.hit_rate is not None else "reads unknown"
    priced = f"{prices} · {read}" if total.cost_usd is not None else read
    yield from _wrapped(f"spent       {total.spent!s:<11} {priced}", width, " " * 12)
    saved = avoidable(contents)
    yield from _wrapped(f"avoidable   {saved[0]:<11} {saved[1]}", width, " " * 12) if saved else []


def avoidable(contents: Contents) -> tuple[str, str] | None:
    """Return what all actions of the readers save together, and its share of the bill; None where nothing was replayed."""
    what_if = contents.what_if
    if what_if is None or not what_if.recorded_usd:
        return None
    share, spent = Share(what_if.together_usd / what_if.recorded_usd).spaced, contents.summary.cost_usd or 0.0
    of = (
        f" of {dollars(what_if.recorded_usd)} at list prices"
        if abs(spent - what_if.recorded_usd) > 0.01 * spent
        else ""
    )
    usd, error = what_if.together_usd, max((row.error_usd for row in action_rows(contents)), default=0.0)
    if not usd:
        return dollars(usd), f"{share}{of}"
    amount = dollars(usd) + (f" ± {dollars(error)}" if usd < error else "")
    return amount, f"{share}{of}, replayed with these changes, net of their cost"


def _actions(rows: Sequence[ActionRow], n_more: int, width: int) -> Iterator[str]:
    n_saves = max(len("saves"), *(len(row.saves) for row in rows))
    n_where = max(len("in"), *(len(row.where) for row in rows))
    room = max(12, min(width - n_saves - n_where - 7, 60))
    heading = f"What to change{f' ({n_more:,} more: --verbose)' if n_more else ''}"
    if len(heading) > room + 3:
        yield heading
        heading = ""
    yield f"{heading:<{room + 3}}  {'saves':>{n_saves}}  in"
    for number, row in enumerate(rows, 1):
        first, *more = textwrap.wrap(row.title, room) or [""]
        yield f"{number}  {first:<{room}}  {row.saves:>{n_saves}}  {row.where}"
        yield from (f"   {line}" for line in more)
        yield from (f"   {line}" for line in textwrap.wrap(row.how.replace("`", ""), width - 3, break_on_hyphens=False))


def _nothing(contents: Contents) -> str:
    total = contents.summary.total
    without = [what for _, _, what in contents.faults if what.startswith(_WITHOUT_CACHE)]
    if without:
        return f"{without[0][:1].upper()}{without[0][1:]}."
    if contents.n_engines:
        return "Metrics of an engine add calls up, so no miss can be named."
    if total.has_unknown_misses:
        return f"Misses unknown: {'no call says its usage' if total.has_no_usage else 'the host reports no reads'}"
    few = " of those that say their usage" if total.is_partial else ""
    if without_cause(contents) or out_of_hands(contents):
        return "Nothing to change: what was lost is not in your hands, or its cause is unknown."
    if contents.summary.losses:
        return "Nothing to change: no change saves more than it costs."
    return f"Nothing to change: no call read clearly less than it could have{few}."


def _rest(contents: Contents) -> Iterator[str]:
    """Yield what is not in the reader's hands, what is unknown, and what is in no figure."""
    provider, unknown = out_of_hands(contents), without_cause(contents)
    if provider:
        why = "the provider had lost what it should have kept" if provider.cause else "no setting of yours ends it"
        yield f"Lost, not in your hands: {_amount(provider)} ({why})"
    if unknown:
        yield f"Lost, cause unknown: {_amount(unknown)} (`contextkit proxy --record` records why)"
    routing = actions()["routing-key"]
    step = routing.step_for(OPERATOR)
    if contents.n_engines > 1 and step:
        yield f"{contents.n_engines} engines. {routing.title}: {step.text}"
    lacking = {
        "without a price": sum(row.calls_without_price for row in contents.summary.models),
        "without a whole bill": contents.summary.calls - contents.summary.calls_with_usage,
        "of hosts that report no reads": sum(row.calls_silent for row in contents.summary.models),
    }
    if contents.what_if is not None:
        n_left = contents.what_if.calls - contents.what_if.calls_with_price
        lacking["not replayed"] = max(0, n_left - lacking["without a price"] - lacking["without a whole bill"])
    parts = [f"{n:,} {what}" for what, n in lacking.items() if n]
    if parts:
        yield f"Calls not in these figures: {', '.join(parts)}"


def _amount(loss: Loss) -> str:
    what = str(loss.cost) if loss.cost_usd is not None else f"{loss.lost_tokens:,} tokens"
    return f"{what} in {counted(loss.n, 'call')}"


def _rounded(n_tokens: int) -> str:
    """Format a size as people say it.

    >>> _rounded(181_400), _rounded(940)
    ('181k', '940')
    """
    return f"{n_tokens / 1000:.0f}k" if n_tokens >= 1000 else str(n_tokens)


def _wrapped(line: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(line.replace("`", ""), width, subsequent_indent=indent, break_on_hyphens=False)
