"""Where the money went: project, then session, lane and model, as a tree of disclosures.

Takes sessions, gives HTML. Each level shows its dearest branches, the rest as one line, so the tree stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from contextkit.report.html.columns import Session, Sums
from contextkit.report.html.markup import bar, money, percent

MOST = (10, 8, 8, 5)
"""Branches shown of each level."""
LEVELS = ("project", "session", "lane", "model")


class _Node:
    __slots__ = ("branches", "sums")

    def __init__(self) -> None:
        self.sums = Sums()
        self.branches: dict[str, _Node] = {}

    @property
    def ranked(self) -> list[tuple[str, _Node]]:
        return sorted(
            self.branches.items(), key=lambda row: (-row[1].sums.cost, -row[1].sums.prompt, -row[1].sums.calls)
        )


def tree(sessions: Sequence[Session]) -> str:
    """The whole tree, as nested lists."""
    root = _Node()
    for session in sessions:
        for path, place in _paths(session):
            node = root
            node.sums.add(session, place)
            for name in path:
                node = node.branches.setdefault(name, _Node())
                node.sums.add(session, place)
    return f'<ul class="tree">{"".join(_branches(root, root.sums, 0))}</ul>\n'


def _paths(session: Session) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    lanes, models = list(session.lanes), list(session.models)
    named = {
        i: name if session.agents.get(i, name) == name else f"{session.agents[i]} ({name})"
        for i, name in enumerate(lanes)
    }
    project = session.project or "no project named"
    for place, (lane, model) in enumerate(zip(session.lane, session.model, strict=True)):
        yield (project, session.name, named[lane], models[model]), place


def _branches(node: _Node, whole: Sums, level: int) -> Iterator[str]:
    ranked = node.ranked
    for name, branch in ranked[: MOST[level]]:
        line = _line(LEVELS[level], name, branch.sums, whole)
        if level + 1 == len(LEVELS):
            yield f"<li>{line}</li>"
        else:
            is_open = " open" if level == 0 and len(ranked) <= 3 else ""
            below = "".join(_branches(branch, whole, level + 1))
            yield f"<li><details{is_open}><summary>{line}</summary><ul>{below}</ul></details></li>"
    left = ranked[MOST[level] :]
    if left:
        cost = sum(branch.sums.cost for _, branch in left)
        calls = sum(branch.sums.calls for _, branch in left)
        yield f"<li>and {len(left):,} more {LEVELS[level]}s: {calls:,} calls, {money(cost)}</li>"


def _line(kind: str, name: str, sums: Sums, whole: Sums) -> str:
    share = f"{bar(sums.cost / whole.cost).text} of all" if whole.cost and sums.has_cost else ""
    facts = f"{sums.calls:,} call{'' if sums.calls == 1 else 's'}, {percent(sums.hit_rate)} read"
    paid = money(sums.cost_usd, is_lower_bound=sums.is_lower_bound)
    return (
        f'<span class="name"><span class="kind">{kind}</span> {escape(name) or "(no name)"}</span> '
        f'<span class="cost">{paid}</span> <span class="facts">{share} {"· " if share else ""}{facts}</span>'
    )
