"""The prefix tree as people read it: a few lines that say what calls share, where they part, and what that cost.

A tree of runs is deep where a conversation parts at each call, and wide where each call asks another question. `lines_of`
follows the calls that go on together as one line, hangs whatever leaves them beside it, and takes partings of one kind
together: a clock that parts 300 calls is one `Line`. The lines of a parting have at most half of its calls each, so a
tree of 100,000 calls is at most 17 lines deep. Knows nothing of terminals and pages.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from contextkit.ledger.figures import Dollars, Share
from contextkit.ledger.verdict import Cause, Gap
from contextkit.prompt.prompt import LEVELS
from contextkit.report.prefix_tree import Loss, PrefixTree, Run, Sums, Top

Kind = Literal["start", "parting", "same", "cause"]
"""start: where prompts begin; parting: calls that left the others; same: those that went on; cause: calls of the line
above that lost something without leaving."""


@dataclass(slots=True)
class Line:
    """One line of the tree."""

    kind: Kind
    label: str
    """What its calls share, or where they parted."""
    detail: str
    """Both sides of the difference, or what shows the cause; empty for neither."""
    whose: str
    """Agents and model of its calls, at a start of prompts."""
    sums: Sums
    """Of its calls."""
    lost: Sums
    """What was lost at this place: at the parting itself, or by the calls that went on."""
    unavoidable_usd: float
    """What starting anew cost there, where nobody could have avoided it."""
    tokens: int
    """Size of what its calls share behind the line above; 0 where they are partings of several places."""
    n_runs: int
    """How many partings it takes together."""
    gap: Gap | None = None
    """The judge's gap of the dearest loss there."""
    lines: list[Line] = field(default_factory=list)
    """Below it: those that went on first, then what lost most."""

    @property
    def lost_below(self) -> int:
        """Return the tokens that were lost further down."""
        return 0 if self.kind == "cause" else self.sums.lost - self.lost.lost


def lost_usd(sums: Sums) -> Dollars:
    """Return what losses cost; a lower bound where some have no price."""
    has_price = bool(sums.lost_usd) or not sums.n_unpriced
    return Dollars(sums.lost_usd if has_price else None, bool(sums.n_unpriced))


def lines_of(tree: PrefixTree) -> list[Line]:
    """Return the lines of a tree: one for each start that calls share, the dearest first."""
    tops = tree.summed()
    has_models = len({top.model for top in tops}) > 1
    return _ranked(line for top in tops for line in _Lines(tree, top.model if has_models else "").starts(top))


class _Lines:
    """Draws the lines of one model."""

    def __init__(self, tree: PrefixTree, model: str) -> None:
        self._tree, self._model = tree, model

    def starts(self, top: Top) -> Iterator[Line]:
        """Yield a line for each start of prompts; one for those of which calls left the others at the first block."""
        single = []
        for runs in self._together(list(top.run.runs.values())):
            if len(runs) > 1:
                yield self._line("start", [_joined(runs)], "no common prefix")
            elif _sums(runs[0]).calls > 1:
                yield self._line("start", runs, contents_of(runs[0]))
            else:
                single += runs
        if len(single) > 2:
            yield self._line("start", single, f"{len(single):,} prompts that start like no other")
        else:
            yield from (self._line("start", [run], contents_of(run)) for run in single)

    def _together(self, runs: Sequence[Run]) -> Iterable[list[Run]]:
        """Group the first runs of prompts: those of calls that lost something by it with those that they left."""
        groups = {id(run): [run] for run in runs}
        for run in runs:
            for loss in _parted(run, but=_ELSEWHERE):
                left = groups.get(id(run if loss.earlier is None else self._tree.first_run(loss.earlier)))
                own = groups[id(run)]
                if left is not None and left is not own:
                    large, small = (left, own) if len(left) >= len(own) else (own, left)
                    large += small
                    groups.update((id(one), large) for one in small)
        return {id(group): group for group in groups.values()}.values()

    def _agents_text(self, runs: Sequence[Run]) -> str:
        """Say whose prompts they are, where that is known, and for which model, where there are several."""
        agents = Counter(self._tree.agents[number] for run in runs for number in _some_calls(run))
        names = [name for name, _ in agents.most_common(2) if name]
        return " · ".join(filter(None, (", ".join(names), self._model)))

    def _line(
        self, kind: Kind, starts: Sequence[Run], label: str, detail: str = "", losses: Sequence[Loss] = ()
    ) -> Line:
        """Return the line of runs that parted in one way, with what is below them."""
        sums, lost = Sums(), Sums()
        for run in starts:
            sums.add(_sums(run))
        for loss in losses:
            lost.lose(loss)
        rest, sides = _followed(starts)
        at_start = {loss.call for loss in losses}
        others = [loss for run in rest for loss in run.losses if loss.call not in at_start]
        gap = _dearest(losses).gap if losses else None
        tokens = starts[0].tokens if len(starts) == 1 else 0
        whose = self._agents_text(starts) if kind == "start" else ""
        line = Line(kind, label, detail, whose, sums, lost, _unavoidable(losses), tokens, len(starts), gap)
        if sides:
            on_rest = {id(run) for run in rest}
            stayed = [loss for loss in others if id(self._tree.run_of(loss.call)) in on_rest]
            left = [loss for loss in others if id(self._tree.run_of(loss.call)) not in on_rest]
            line.lines = [*self._same(starts, rest, stayed), *self._causes(left), *self._sides(sides)]
        else:
            line.lines = list(self._causes(others))
        return line

    def _same(self, starts: Sequence[Run], rest: Sequence[Run], losses: Sequence[Loss]) -> Iterator[Line]:
        """Yield the line of the calls that went on where others parted."""
        sums, lost = Sums(), Sums()
        for run in rest:
            for number in run.ends:
                sums.add(self._tree.bill(number))
        if not sums.calls:
            return
        for loss in losses:
            lost.lose(loss)
            sums.lose(loss)
        tokens = sum(run.tokens for run in rest) - sum(run.tokens for run in starts) if len(starts) == 1 else 0
        label = "same to the end" if len(rest) > len(starts) else "ends here"
        causes = list(self._causes(losses))
        yield Line("same", label, "", "", sums, lost, _unavoidable(losses), tokens, 1, None, causes)

    def _sides(self, sides: Sequence[Run]) -> Iterator[Line]:
        """Yield the lines of runs that left the others, those of one kind together, the dearest first."""
        groups: dict[tuple[str, ...], list[Run]] = {}
        for run in sides:
            groups.setdefault(_way(run), []).append(run)
        yield from _ranked(self._side(runs) for runs in groups.values())

    def _side(self, runs: Sequence[Run]) -> Line:
        losses = [loss for run in runs for loss in _parted(run)]
        label, detail = gap_text(_dearest(losses).gap, len(runs)) if losses else (_other_text(runs), "")
        return self._line("parting", runs, label, detail, losses)

    def _causes(self, losses: Sequence[Loss]) -> Iterator[Line]:
        """Yield a line for each kind of loss of calls that went on."""
        groups: dict[tuple[str, str], list[Loss]] = {}
        for loss in losses:
            groups.setdefault(loss.kind, []).append(loss)
        lines = []
        for same in groups.values():
            sums, gap = Sums(), _dearest(same).gap
            for loss in same:
                sums.add(self._tree.bill(loss.call))
                sums.lose(loss)
            lines.append(Line("cause", *gap_text(gap, 1), "", sums, sums, _unavoidable(same), 0, 1, gap))
        yield from _ranked(lines)


# Which calls go on together
# ---------------------------------------------------------------------------------------------------------------------


def _followed(starts: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """Follow the calls that go on together: return the runs they reach, and those that leave them."""
    rest, sides = list[Run](), list[Run]()
    for start in starts:
        run: Run | None = start
        while run is not None:
            rest.append(run)
            onward = _onward(run)
            sides += [below for below in run.runs.values() if below is not onward]
            run = onward
    return rest, sides


def _onward(run: Run) -> Run | None:
    """Return the run on which most calls go on, or, where others were parted at a cost, the one that they left; None
    where calls part for want of anything in common.
    """
    runs = list(run.runs.values())
    if not runs:
        return None
    most = max(runs, key=lambda one: _sums(one).calls)
    if 2 * _sums(most).calls > sum(_sums(one).calls for one in runs):
        return most
    kept = [one for one in runs if not _parted(one)]
    return max(kept, key=lambda one: _sums(one).calls) if kept and len(kept) < len(runs) else None


def _joined(runs: Sequence[Run]) -> Run:
    """Return a run without blocks in front of others."""
    joined = Run(None, 0, [], array("q"), "")
    joined.runs, joined.sums = {run.keys[0]: run for run in runs}, Sums()
    for run in runs:
        joined.sums.add(_sums(run))
    return joined


def _parted(run: Run, but: Sequence[Cause] = ()) -> list[Loss]:
    """Return the losses of calls that left the others at the start of a run, those of some causes left out."""
    return [loss for loss in run.losses if loss.place == run.start and loss.gap.cause not in but]


_ELSEWHERE: tuple[Cause, ...] = ("model_changed", "account_changed")
"""Causes of calls that left prompts which could share nothing with them anyway."""


def _way(run: Run) -> tuple[str, ...]:
    """Return what partings of one kind have in common."""
    losses = _parted(run)
    if losses:
        return _dearest(losses).kind
    level = LEVELS[run.keys[0][0]]
    is_first = run.up is None or not run.up.keys or run.up.keys[-1][0] != run.keys[0][0]
    return (
        "",
        level,
        "" if level == "messages" and not is_first else run.path or str(run.start),
        str(run.is_setting()),
    )


def _sums(run: Run) -> Sums:
    if run.sums is None:
        raise ValueError("the tree is not summed up: call summed() first")
    return run.sums


def _dearest(losses: Sequence[Loss]) -> Loss:
    return max(losses, key=lambda loss: (loss.tokens, loss.usd or 0.0, bool(loss.gap.was and loss.gap.now)))


def _unavoidable(losses: Iterable[Loss]) -> float:
    return sum(loss.usd or 0.0 for loss in losses if not loss.tokens)


def _ranked(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.sums.lost_usd, -line.sums.lost, -line.sums.calls, line.sums.first))


def _some_calls(run: Run) -> Iterator[int]:
    """Yield a few calls that reach a run."""
    waiting, n = [run], 0
    while waiting and n < _SAMPLE:
        run = waiting.pop()
        n += 1
        yield from run.ends[:_SAMPLE]
        waiting += list(run.runs.values())[:_SAMPLE]


_SAMPLE = 50
"""Runs, and calls of each, that are asked whose they are."""


# Words
# ---------------------------------------------------------------------------------------------------------------------


def contents_of(run: Run) -> str:
    """Say what blocks a run has: `24 tools + system + 3 message blocks`."""
    tools, system, messages = run.levels()
    parts = [
        f"{tools:,} tool{'s' * (tools != 1)}" if tools else "",
        "system" if system else "",
        f"{messages:,} message block{'s' * (messages != 1)}" if messages else "",
    ]
    return " + ".join(filter(None, parts)) or "no blocks"


def gap_text(gap: Gap, n_places: int) -> tuple[str, str]:
    """Say where calls parted and why, then both sides of the difference, or what else shows it."""
    kind = (gap.kind or gap.cause).replace("_", " ")
    kind = "changed" if kind in ("tools changed", "system changed", "messages changed") else kind
    if gap.whose != "program_bytes":
        return kind, gap.evidence
    place = gap.place if n_places == 1 or gap.cause == "system_changed" else gap.place.partition(" ")[0]
    if gap.was and gap.now:
        return f"{place} {kind}", sides(gap.was, gap.now)
    return f"{place} {_short(gap.evidence) or kind}", ""


def _short(evidence: str) -> str:
    """Return evidence without the words that say what its place says too."""
    return evidence.removeprefix("tools of a server changed: ").partition(", changed back")[0]


_BEFORE, _BEHIND = 8, 14
"""Characters quoted on either side of a difference."""


def sides(was: str, now: str) -> str:
    """Quote both sides of a difference, a bar where it begins.

    >>> sides("Today is 10:31:05", "Today is 10:32:40")
    '"is 10:3|1:05" → "2:40"'
    """
    n = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    return f'"{was[max(0, n - _BEFORE) : n].lstrip()}|{was[n : n + _BEHIND]}" → "{now[n : n + _BEHIND]}"'


def _other_text(runs: Sequence[Run]) -> str:
    """Say where calls part that lost nothing by it."""
    run = runs[0]
    level = LEVELS[run.keys[0][0]]
    if run.is_setting():
        return f"other settings of the request, from {level} on"
    paths = list(dict.fromkeys(run.path for run in runs))
    if len(paths) == 1 and paths[0]:
        each = "another" if len(runs) == 1 else f"{len(runs):,} different"
        return f"{each} {paths[0]}"
    return f"another {level[:-1] if level != 'system' else 'system'} block" + (
        f", {len(runs):,} times" if len(runs) > 1 else ""
    )


# What is shown
# ---------------------------------------------------------------------------------------------------------------------


def chosen(lines: Sequence[Line], most: int, most_below: int) -> set[int]:
    """Choose at most so many lines to show, by identity: what stands below the dearest line first, and of each line so
    many at most.
    """
    shown, waiting, room, n = set[int](), [(0.0, 0, 0, lines)], most, 0
    while waiting and room > 0:
        below = heappop(waiting)[3]
        for line in below[: min(most_below, room)]:
            shown.add(id(line))
            n, room = n + 1, room - 1
            if line.lines:
                heappush(waiting, (-line.sums.lost_usd, -line.sums.lost - line.sums.calls, n, line.lines))
        room -= len(below) > most_below  # for a line about the others
    return shown


def figure(line: Line) -> str:
    """Say the figure of a line that matters most: what was lost there, or below; else what was written in vain, or read."""
    sums = line.sums
    if line.lost.lost:
        return _lost(line.lost, "lost")
    if sums.lost:
        return _lost(sums, "lost below" if line.kind == "parting" else "lost")
    if line.unavoidable_usd:
        return f"${line.unavoidable_usd:,.2f}, no loss"
    if sums.unread and 2 * sums.unread >= sums.written:
        return f"wrote {sums.unread:,}, unread"
    if sums.n_unbilled == sums.calls or not sums.input:
        return "read unknown"
    return f"read {Share(sums.read / sums.input).spaced}"


def _lost(sums: Sums, word: str) -> str:
    usd = lost_usd(sums)
    return f"{sums.lost:,} tokens {word}" if usd.value is None else f"{usd} {word}"


def more_text(left: Sequence[Line]) -> str:
    """Say what the lines that are left out come to."""
    n, lost, calls = len(left), sum(line.sums.lost for line in left), sum(line.sums.calls for line in left)
    usd = sum(line.sums.lost_usd for line in left)
    cost = f", ${usd:,.2f} lost" if usd else f", {lost:,} tokens lost" if lost else ""
    return f"and {n:,} more, {calls:,} call{'s' * (calls != 1)}{cost}"


def notes(tree: PrefixTree, lines: Sequence[Line]) -> Iterator[str]:
    """Yield what the tree leaves out, a line each."""
    if tree.n_without_prompt:
        n = tree.n_without_prompt
        yield (
            f"{n:,} call{'s' * (n != 1)} without recorded prompts {'is' if n == 1 else 'are'} not in the tree; "
            "`contextkit proxy --record` or `contextkit.watch(client, record=...)` records them"
        )
    if any(line.sums.lost for line in lines):
        yield "contextkit explain RECORDING CALL   why a call missed, with the changed text"
