"""The break-even rule against brute force: `python -m tests.benchmarks.break_even DATA [--full]`, DATA holding
`claude-code-blocks/`.

Three tables. *Told*: the rule knows the habits of a cell (model and lifetime x group of recorded sessions), and so does
the dynamic program; expected cost of a session, exactly. *Each*: the same with every single recorded session as a cell
of its own, the worst shown. *Learning*: the recorded sessions as they were, the rule starting from the other half's
habits, against the best anybody could have done who knew each session beforehand; *dearer* is the share of sessions
that turned out dearer than under the better habit, and by how much. `never` rewrites only where the window is full, `80
%` where a call would repeat that much of it. *Regret* is what is paid above one who knows the session beforehand.
Without `--full` *each* and *learning* take every eighth session."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contextkit.economics.rhythm import Prior
from tests.economics.brute_force import Shape, Table, at_share_of, never
from tests.economics.cells import (
    ASKED,
    RESERVE,
    SHAPES,
    Learning,
    by_idleness,
    habits_of,
    problem_of,
    recorded,
    rule_for,
    survival,
    table_of,
)
from tests.economics.replayed import Following, Replay, Session, Share, drawn

NEAR, OVER = 0.02, 0.005
"""How far above the dynamic program, and above either habit, the rule may be."""
DRAWN = 200
HEADS, WIDTHS = (
    ("ttl", "never", "80 %", "rule", "clairvoyant", "regret", "saved", "dearer", "by"),
    (6, 10, 10, 10, 12, 8, 8, 8, 7),
)
SHORTEST = 20
"""Calls a recorded session must have to be a cell of its own."""


@dataclass(frozen=True)
class Told:
    """One cell: expected dollars of a session."""

    table: Table
    group: str
    best: float
    rule: float
    never: float
    share: float

    @property
    def above_best(self) -> float:
        return self.rule / self.best - 1

    @property
    def above_habit(self) -> float:
        return self.rule / min(self.never, self.share) - 1


def tables() -> Iterator[Table]:
    return (table_of(name, ttl) for name, ttl in ASKED)


def told(
    table: Table, shape: Shape, group: str, sessions: Sequence[Session], survives: tuple[float, ...], n_sizes: int = 400
) -> Told:
    problem = problem_of(table, habits_of(sessions, survives), shape, n_sizes)
    policies = (rule_for(problem), never, at_share_of(table.window))
    return Told(table, group, problem.best(), *(problem.cost(policy) for policy in policies))


def regret(
    table: Table, shape: Shape, sessions: Sequence[Session], survives: tuple[float, ...], n: int = DRAWN
) -> float:
    """What the rule pays for drawn sessions of a cell above the least that one could pay who knew each of them
    beforehand."""
    habits = habits_of(sessions, survives)
    replay, policy = Replay(table, shape, table.window - RESERVE), rule_for(problem_of(table, habits, shape))
    chosen = [drawn(habits, seed) for seed in range(n)]
    paid = sum(replay.pays(session, Following(policy)) for session in chosen)
    return paid / sum(replay.clairvoyant(session) for session in chosen) - 1


def learned(table: Table, shape: Shape, sessions: Sequence[Session], step: int) -> np.ndarray:  # type: ignore[type-arg]
    """For each session taken: never, 80 %, the rule, clairvoyant."""
    replay, priors = Replay(table, shape, table.window - RESERVE), [Prior.of(sessions[1::2]), Prior.of(sessions[::2])]
    rows = []
    for i in range(0, len(sessions), step):
        deciders = (Share(np.inf), Share(0.8 * table.window), Learning(table, shape, priors[i % 2]))
        rows.append([*(replay.pays(sessions[i], decider) for decider in deciders), replay.clairvoyant(sessions[i])])
    return np.array(rows)


def say_told(sessions: Sequence[Session], kind: str, shape: Shape, n_sizes: int) -> list[Told]:
    survives, cells = survival(sessions), []
    print(f"\n{kind}: told the habits; expected dollars of a session, and how far above the dynamic program")
    print(f"{'model':18} {'ttl':>6} {'sessions':18} {'program':>9} {'rule':>8} {'never':>8} {'80 %':>8} {'regret':>8}")
    for table in tables():
        for group, chosen in by_idleness(sessions).items():
            cell = told(table, shape, group, chosen, survives, n_sizes)
            known = f"{regret(table, shape, chosen, survives):8.1%}" if group == "all" else ""
            above = f"{cell.above_best:8.2%} {cell.never / cell.best - 1:8.1%} {cell.share / cell.best - 1:8.1%}"
            print(f"{table.name:18} {table.ttl:6.0f} {group:18} {cell.best:9.4f} {above} {known}", flush=True)
            cells.append(cell)
    return cells


def say_each(sessions: Sequence[Session], kind: str, shape: Shape, step: int) -> list[Told]:
    survives = survival(sessions)
    chosen = [(i, session) for i, session in enumerate(sessions) if len(session) >= SHORTEST][::step]
    cells = [told(table, shape, f"session {i}", [session], survives) for table in tables() for i, session in chosen]
    near, over = max(cells, key=lambda cell: cell.above_best), max(cells, key=lambda cell: cell.above_habit)
    total = [
        sum(values) for values in zip(*((cell.best, cell.rule, cell.never, cell.share) for cell in cells), strict=True)
    ]
    print(f"\n{kind}: {len(cells)} cells, each one recorded session x one price table")
    print(f"  worst above the program: {near.above_best:.2%} ({near.table.name}, {near.table.ttl:.0f} s, {near.group})")
    print(
        f"  worst above never or 80 %: {over.above_habit:+.2%} ({over.table.name}, {over.table.ttl:.0f} s, {over.group})"
    )
    print(
        f"  in total above the program: rule {total[1] / total[0] - 1:.2%}, never {total[2] / total[0] - 1:.1%}, ",
        end="",
    )
    print(f"80 % {total[3] / total[0] - 1:.1%}", flush=True)
    return cells


def say_learned(sessions: Sequence[Session], kind: str, shape: Shape, step: int) -> float:
    """Prints, and gives the worst excess of a table over either habit."""
    worst, everything = -1.0, []
    print(f"\n{kind}: learning, {len(sessions[::step])} recorded sessions as they were; dollars in all")
    heads = "".join(f"{head:>{width}}" for head, width in zip(HEADS, WIDTHS, strict=True))
    print(f"{'model':18} {heads}")
    for table in tables():
        rows = learned(table, shape, sessions, step)
        no, share, rule, known = rows.sum(axis=0)
        worst = max(worst, rule / min(no, share) - 1)
        habit = rows[:, :2].min(axis=1)
        dear = rows[:, 2] > 1.005 * habit
        by = rows[dear, 2].sum() / habit[dear].sum() - 1 if dear.any() else 0.0
        print(
            f"{table.name:18} {table.ttl:6.0f} {no:9.3f} {share:9.3f} {rule:9.3f} {known:11.3f} {rule / known - 1:7.1%}",
            end="",
        )
        print(f" {1 - rule / min(no, share):7.1%} {dear.mean():7.1%} {by:6.1%}", flush=True)
        everything.append(rows)
    no, share, rule, known = np.concatenate(everything).sum(axis=0)
    print(
        f"{'in all':25} {no:9.3f} {share:9.3f} {rule:9.3f} {known:11.3f} {rule / known - 1:7.1%} {1 - rule / min(no, share):7.1%}"
    )
    return worst


def main() -> None:
    is_full = "--full" in sys.argv
    folder = next((Path(name) for name in sys.argv[1:] if not name.startswith("-")), Path("../shared/data"))
    sessions, step = recorded(folder / "claude-code-blocks"), 1 if is_full else 8
    if not sessions:
        sys.exit(f"no traces in {folder / 'claude-code-blocks'}")
    cells, worst = [], -1.0
    for kind, shape in SHAPES.items():
        cells += say_told(sessions, kind, shape, 400)
        cells += say_each(sessions, kind, shape, step)
        worst = max(worst, say_learned(sessions, kind, shape, step))
    near, over = max(cell.above_best for cell in cells), max(cell.above_habit for cell in cells)
    verdicts = (near <= NEAR, over <= OVER, worst <= OVER)
    print(f"\n{len(cells)} cells: at most {near:.2%} above the program (target {NEAR:.0%}), ", end="")
    print(f"{over:+.2%} above never or 80 % (target {OVER:.1%})")
    print(f"learning, at most {worst:+.2%} above either: {'met' if all(verdicts) else 'MISSED'}")
    sys.exit(not all(verdicts))


if __name__ == "__main__":
    main()
