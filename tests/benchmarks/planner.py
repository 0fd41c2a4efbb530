"""The planner against brute force and against how others place markers: `python -m tests.benchmarks.planner DATA
[--peers DIR]`.

DATA holds `pi/` and `agent-traces/`. DIR holds virtual environments, one a folder, with `langchain
langchain-anthropic`, `pydantic-ai-slim[anthropic]` and `litellm`: their own code then marks the same bodies; without
one its row is left out, and said to be. `--sessions N` takes fewer than 300; lifetimes are searched on `--auto N` short
ones (40; six places a call).

*Recorded*: dollars of recorded sessions as they went. *Expected*: dollars of generated sessions, and of recorded ones
in pieces of six calls, over every way their gaps and ends can fall, on the reference cache, and in how many of them a
way is cheaper than the planner; *told* is the planner that knows how much of every call later ones share, as the oracle
does, the one above it knows that of side calls and siblings only."""

from __future__ import annotations

import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.prompt.planned.cost import Planner, Policy, expected, no_marks
from tests.prompt.planned.oracle import Oracle, TooManyStates
from tests.prompt.planned.placements import PEERS, RESTATED, python_with, restated, run_by_package, version_of
from tests.prompt.planned.recorded import Learning, agent_traces, paid, pi, pieces
from tests.prompt.planned.sessions import Session, generated

NEAR = 0.01
"""How far above the best placement the planner may be, over all sessions."""
EVEN = 1e-9
PLACES = (12, 8)
"""Places a call that are searched: fewer where more would take too many states."""
MOST_STATES = 4_000
SHORT = 6
"""Calls of a session whose lifetimes can be searched too."""
PIECE = 6
"""Calls of a piece of a recorded session."""
Recorded = list[tuple[Session, list[float]]]
OURS = {"planner": Planner(), "planner, told": Planner(is_told=True), 'planner, ttl="auto"': Planner(is_auto=True)}
_ways: dict[str, Policy] = {}
"""What a worker was told to compare."""


def placements(sessions: list[Session], peers: Path | None) -> dict[str, Policy]:
    """Every way to mark but ours, by name."""
    found: dict[str, Policy] = {
        "no markers": no_marks,
        **{name: restated(sessions, rule) for name, rule in RESTATED.items()},
    }
    for name, package in PEERS.items():
        python = python_with(peers, package)
        if python is None:
            print(f"{name}: no interpreter below {peers} has {package}; not run", flush=True)
            continue
        label = f"{package.replace('_', '-')} {version_of(python, package)}{', system and three' if name.endswith('three') else ''}"
        found[label] = run_by_package(sessions, name, python)
    return found


def searched(session: Session) -> tuple[float, int]:
    """Least dollars, and over how many places a call."""
    for n_places in PLACES:
        try:
            return Oracle(
                session, n_places=n_places, most_states=MOST_STATES if n_places > PLACES[-1] else None
            ).best(), n_places
        except TooManyStates:
            continue
    raise AssertionError("the last search has no limit")


def _told(ways: dict[str, Policy]) -> None:
    _ways.update(ways)


def _compared(session: Session) -> tuple[float, int, dict[str, float]]:
    return *searched(session), {name: expected(session, policy) for name, policy in _ways.items()}


def compared(
    what: str, sessions: list[Session], ways: dict[str, Policy]
) -> tuple[list[float], list[int], dict[str, list[float]]]:
    """Of each session the best, over how many places, and what each way costs; on every core."""
    rows = []
    with ProcessPoolExecutor(os.cpu_count(), initializer=_told, initargs=(ways,)) as pool:
        for row in pool.map(_compared, map(replace, sessions)):  # without what was worked out, which cannot be sent
            rows.append(row)
            if len(rows) % 20 == 0:
                print(f"  {len(rows)} of {len(sessions)} {what}", file=sys.stderr, flush=True)
    best, n_places, costs = (list(column) for column in zip(*rows, strict=True))
    return best, n_places, {name: [row[name] for row in costs] for name in ways}


def say_expected(what: str, sessions: list[Session], ways: dict[str, Policy]) -> bool:
    """Prints; whether all targets are met."""
    best, n_places, costs = compared(what, sessions, {**OURS, **ways})
    total = sum(best)
    counts = ", ".join(f"{n} over {places}" for places, n in sorted(Counter(n_places).items(), reverse=True))
    n_calls = sum(len(session.calls) for session in sessions)
    print(f"\nexpected dollars of {len(sessions)} {what}, {n_calls} calls; searched: {counts} places")
    print(
        f"{'':44} {'dollars':>9} {'above best':>10} {'worst session':>14} {'cheaper than planner in':>24} {'than told in':>13}"
    )
    print(f"{'best of every set of marks':44} {total:9.4f}")
    for name, row in costs.items():
        worst = max(one / least - 1 for one, least in zip(row, best, strict=True))
        cheaper, than_told = (n_cheaper(row, costs[other]) for other in ("planner", "planner, told"))
        print(f"{name:44} {sum(row):9.4f} {sum(row) / total - 1:10.2%} {worst:14.2%} {cheaper:24} {than_told:13}")
    say_apart(sessions, best, costs, ways)
    told, us = costs["planner, told"], costs["planner"]
    is_near = max(sum(told), sum(us)) <= (1 + NEAR) * total
    return is_near and not any(n_cheaper(costs[name], told) or sum(costs[name]) < sum(us) - EVEN for name in ways)


def n_cheaper(row: list[float], other: list[float]) -> int:
    return sum(one < us - EVEN for one, us in zip(row, other, strict=True))


def say_apart(
    sessions: list[Session], best: list[float], costs: dict[str, list[float]], ways: dict[str, Policy]
) -> None:
    """How many sessions are near the best one by one, and every session in which another way is cheaper."""
    for own in ("planner", "planner, told"):
        near = sum(one <= (1 + NEAR) * least for one, least in zip(costs[own], best, strict=True))
        print(f"{own}: within {NEAR:.0%} of the best in {near} of {len(sessions)}", flush=True)
    for name in ways:
        for session, one, us in zip(sessions, costs[name], costs["planner"], strict=True):
            if one < us - EVEN:
                print(
                    f"  {session.name} ({', '.join(sorted(session.kinds))}): {name} {one:.5f}, planner {us:.5f} ({us / one - 1:+.2%})"
                )


def say_auto(sessions: list[Session]) -> None:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(_auto, map(replace, sessions)))
    rows = [row for row in found if row is not None]
    ours, best, short = (sum(column) for column in zip(*rows, strict=True))
    print(f"\nlifetimes too, {len(rows)} of {len(sessions)} sessions searched, told: best {best:.4f}, ", end="")
    print(f"planner {ours:.4f} ({ours / best - 1:+.2%}), all 5m {short:.4f} ({short / best - 1:+.2%}); ", end="")
    print(f"worst session {max(one / least - 1 for one, least, _ in rows):+.2%}", flush=True)


def _auto(session: Session) -> tuple[float, float, float] | None:
    try:
        best = Oracle(session, is_auto=True, n_places=6, most_states=MOST_STATES).best()
    except TooManyStates:
        return None
    return expected(session, Planner(True, True)), best, expected(session, Planner(False, True))


def say_recorded(recorded: Recorded, peers: Path | None) -> None:
    """Prints what recorded sessions cost as they went: no target, since what happened once is not what was to be
    expected."""
    sessions = [session for session, _ in recorded]
    groups = sorted({session.name.partition("/")[0] for session in sessions})
    print(
        f"\nrecorded, as they went: {sum(len(session.calls) for session in sessions)} calls of {len(sessions)} sessions"
    )
    print(f"{'':44} " + " ".join(f"{group:>12}" for group in groups) + f" {'cheaper than planner in':>24}")
    own = {"planner": False, 'planner, ttl="auto"': True}
    costs = {name: [paid(*one, Learning(is_auto=is_auto)) for one in recorded] for name, is_auto in own.items()}
    costs |= {name: [paid(*one, policy) for one in recorded] for name, policy in placements(sessions, peers).items()}
    for name, row in costs.items():
        sums = (
            sum(cost for session, cost in zip(sessions, row, strict=True) if session.name.startswith(group))
            for group in groups
        )
        print(
            f"{name:44} " + " ".join(f"{one:12.4f}" for one in sums) + f" {n_cheaper(row, costs['planner']):24}",
            flush=True,
        )


def main() -> None:
    options = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
    data = next((Path(name) for name in sys.argv[1:2] if not name.startswith("-")), Path("../shared/data"))
    peers = Path(options["--peers"]) if "--peers" in options else None
    sessions = [generated(seed) for seed in range(int(options.get("--sessions", 300)))]
    is_met = say_expected("generated sessions", sessions, placements(sessions, peers))
    if data.is_dir():
        recorded = [pi(data / "pi" / "before-compaction.jsonl"), *agent_traces(data / "agent-traces")]
        say_recorded(recorded, peers)
        parts = [piece for session, times in recorded for piece in pieces(session, times, PIECE)]
        is_met &= say_expected("pieces of recorded sessions", parts, placements(parts, peers))
    say_auto([session for session in sessions if len(session.calls) <= SHORT][: int(options.get("--auto", 40))])
    print(f"\nexpected dollars: {'met' if is_met else 'MISSED'}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
