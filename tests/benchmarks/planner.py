"""The planner against brute force and against how others place markers: `python -m tests.benchmarks.planner DATA [--peers DIR]`.

DATA holds `pi/` and `agent-traces/`. DIR holds virtual environments, one a folder, with `langchain langchain-anthropic`,
`pydantic-ai-slim[anthropic]` and `litellm`: their own code then marks the same bodies; without one its row is left out, and said to be.
`--sessions N` takes fewer than 300; lifetimes are searched on `--auto N` of them (20; six places a call).

*Recorded*: dollars of recorded sessions as they went. *Expected*: dollars of 300 generated sessions over every way their gaps and ends can
fall, on the reference cache, and in how many of them a way is cheaper than the planner; *told* is the planner that knows how much of every
call later ones share, as the oracle does, the one above it knows that of side calls and siblings only.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.layout.planned.cost import Planner, Policy, expected, no_marks
from tests.layout.planned.oracle import MOST_PLACES, Oracle
from tests.layout.planned.placements import PEERS, RESTATED, python_with, restated, run_by_package, version_of
from tests.layout.planned.recorded import Learning, agent_traces, paid, pi
from tests.layout.planned.sessions import Session, generated

NEAR = 0.01
"""How far above the best placement the planner may be, over all sessions."""
EVEN = 1e-9
LARGE = 7
"""Sessions of more calls are searched over eight places a call."""


def placements(sessions: list[Session], peers: Path | None) -> dict[str, Policy]:
    """Every way to mark but ours, by name."""
    found: dict[str, Policy] = {"no markers": no_marks, **{name: restated(sessions, rule) for name, rule in RESTATED.items()}}
    for name, package in PEERS.items():
        python = python_with(peers, package)
        if python is None:
            print(f"{name}: no interpreter below {peers} has {package}; not run", flush=True)
            continue
        label = f"{package.replace('_', '-')} {version_of(python, package)}{', system and three' if name.endswith('three') else ''}"
        found[label] = run_by_package(sessions, name, python)
    return found


def say_expected(sessions: list[Session], ways: dict[str, Policy]) -> bool:
    """Prints; whether all targets are met."""
    best = []
    for number, session in enumerate(sessions):
        best.append(Oracle(session, n_places=MOST_PLACES if len(session.calls) <= LARGE else 8).best())
        if number % 20 == 19:
            print(f"  searched {number + 1}", file=sys.stderr, flush=True)
    ours = {"planner": Planner(), "planner, told": Planner(is_told=True), 'planner, ttl="auto"': Planner(is_auto=True)}
    costs = {name: [expected(session, policy) for session in sessions] for name, policy in {**ours, **ways}.items()}
    total = sum(best)
    print(f"\nexpected dollars of {len(sessions)} sessions, {sum(len(session.calls) for session in sessions)} calls")
    heads = f"{'dollars':>9} {'above best':>10} {'worst session':>14} {'sessions cheaper than planner':>30}"
    print(f"{'':44} {heads}")
    print(f"{'best of every set of marks':44} {total:9.4f}")
    for name, row in costs.items():
        worst = max(one / least - 1 for one, least in zip(row, best, strict=True))
        cheaper = sum(one < us - EVEN for one, us in zip(row, costs["planner"], strict=True))
        print(f"{name:44} {sum(row):9.4f} {sum(row) / total - 1:10.2%} {worst:14.2%} {cheaper:30}")
    told, us = costs["planner, told"], costs["planner"]
    near = sum(one <= (1 + NEAR) * least for one, least in zip(told, best, strict=True))
    print(f"told, within {NEAR:.0%} of the best in {near} of {len(sessions)} sessions")
    for name in ways:
        for one, own, session in zip(costs[name], us, sessions, strict=True):
            if one < own - EVEN:
                what = ", ".join(sorted(session.kinds))
                print(f"  {session.name} ({what}): {name} {one:.5f}, planner {own:.5f} ({own / one - 1:+.2%})")
    lost = [name for name in ways if any(one < own - EVEN for one, own in zip(costs[name], told, strict=True))]
    dearer = [name for name in ways if sum(costs[name]) < sum(us)]
    print(f"told, dearer in any session than: {', '.join(lost) or 'none of them'}")
    print(f"not told, dearer in total than: {', '.join(dearer) or 'none of them'}")
    return sum(told) <= (1 + NEAR) * total and not lost and not dearer


def say_auto(sessions: list[Session]) -> bool:
    rows = []
    for number, session in enumerate(sessions):
        best = Oracle(session, is_auto=True, n_places=6).best()
        rows.append((expected(session, Planner(True, True)), best, expected(session, Planner(False, True))))
        print(f"  searched {number + 1} for lifetimes", file=sys.stderr, flush=True)
    ours, best, short = (sum(column) for column in zip(*rows, strict=True))
    print(f"\nlifetimes too, {len(rows)} sessions, told: best {best:.4f}, planner {ours:.4f} ({ours / best - 1:+.2%}), ", end="")
    print(f"all 5m {short:.4f} ({short / best - 1:+.2%}); worst session {max(one / least - 1 for one, least, _ in rows):+.2%}")
    return ours <= (1 + NEAR) * best


def say_recorded(data: Path, peers: Path | None) -> None:
    recorded = [pi(data / "pi" / "before-compaction.jsonl"), *agent_traces(data / "agent-traces")]
    sessions = [session for session, _ in recorded]
    groups = sorted({session.name.partition("/")[0] for session in sessions})
    print(f"\nrecorded, as they went: {sum(len(session.calls) for session in sessions)} calls of {len(sessions)} sessions")
    print(f"{'':44} " + " ".join(f"{group:>12}" for group in groups))
    for name, policy in placements(sessions, peers).items():
        _say_row(name, groups, [(session, paid(session, times, policy)) for session, times in recorded])
    for name, is_auto in (("planner", False), ('planner, ttl="auto"', True)):
        _say_row(name, groups, [(session, paid(session, times, Learning(is_auto=is_auto))) for session, times in recorded])


def _say_row(name: str, groups: list[str], rows: list[tuple[Session, float]]) -> None:
    sums = (sum(cost for session, cost in rows if session.name.partition("/")[0] == group) for group in groups)
    print(f"{name:44} " + " ".join(f"{one:12.4f}" for one in sums), flush=True)


def main() -> None:
    options = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
    data = next((Path(name) for name in sys.argv[1:2] if not name.startswith("-")), Path("../shared/data"))
    peers = Path(options["--peers"]) if "--peers" in options else None
    sessions = [generated(seed) for seed in range(int(options.get("--sessions", 300)))]
    if data.is_dir():
        say_recorded(data, peers)
    is_met = say_expected(sessions, placements(sessions, peers))
    sys.stdout.flush()
    is_met &= say_auto(sessions[: int(options.get("--auto", 20))])
    print(f"\n{'met' if is_met else 'MISSED'}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
