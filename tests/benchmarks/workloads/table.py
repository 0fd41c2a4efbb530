"""Rows as Markdown: one table a workload, and the comparison at equal information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.benchmarks.workloads.workload import Row

TIE = 0.01


def best_peer(rows: Sequence[Row]) -> Row | None:
    """Cheapest documented setting of another framework at equal information."""
    return min((row for row in rows if not row.is_own and _counts(row)), key=_cost, default=None)


def best_own(rows: Sequence[Row]) -> Row | None:
    """Cheapest setting of contextkit at equal information."""
    return min((row for row in rows if row.is_own and _counts(row)), key=_cost, default=None)


def _counts(row: Row) -> bool:
    return row.is_compared and row.is_whole and not row.error and row.cost_usd is not None


def _cost(row: Row) -> float:
    return row.cost_usd or 0.0


def markdown(
    rows: Sequence[Row],
    titles: Mapping[str, str],
    versions: Mapping[str, str],
    skipped: Mapping[str, str],
    *,
    is_full: bool,
) -> str:
    lines = ["Versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()) + ".", ""]
    if skipped:
        lines += ["Not run: " + "; ".join(f"{name} ({why})" for name, why in skipped.items()) + ".", ""]
    if not is_full:
        lines += ["Short sessions (without `--full`): shapes, not the figures of the study.", ""]
    lines += [*_totals(rows, titles), ""]
    for name in titles:
        own = [row for row in rows if row.workload == name]
        if own:
            lines += [f"### {name}: {titles[name]}", "", *_table(own), ""]
    return "\n".join(lines)


def recommended(rows: Sequence[Row]) -> Row | None:
    """The setting that contextkit's documentation advises, whatever came out best."""
    return next((row for row in rows if row.is_recommended and not row.error), None)


def _totals(rows: Sequence[Row], titles: Mapping[str, str]) -> list[str]:
    lines = [
        "| workload | best peer | $ | contextkit as advised | $ | of the peer | | best setting of contextkit | $ | of the peer |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [0.0, 0.0, 0.0]
    for name in titles:
        group = [row for row in rows if row.workload == name]
        own, peer, advised = best_own(group), best_peer(group), recommended(group)
        if own is None or peer is None or advised is None:
            continue
        costs = [_cost(peer), _cost(advised), _cost(own)]
        totals = [total + cost for total, cost in zip(totals, costs, strict=True)]
        less = "" if advised.is_whole else " ◦"
        lines.append(
            f"| {name} | {peer.contender}, {peer.settings} | {costs[0]:.4f} | {advised.settings}{less} | {costs[1]:.4f} "
            f"| {costs[1] / costs[0]:.1%} | {_verdict(costs[1] / costs[0])} | {own.settings} | {costs[2]:.4f} | {costs[2] / costs[0]:.1%} |"
        )
    if totals[0]:
        advised_share, own_share = (f"{total / totals[0]:.1%}" for total in totals[1:])
        lines.append(
            f"| total | | {totals[0]:.4f} | | {totals[1]:.4f} | {advised_share} | | | {totals[2]:.4f} | {own_share} |"
        )
    return lines


def _verdict(ratio: float) -> str:
    if abs(ratio - 1) <= TIE:
        return "tie"
    return "cheaper" if ratio < 1 else "**more expensive**"


def _table(rows: Sequence[Row]) -> list[str]:
    has_results = any(row.seen_tokens is not None for row in rows)
    has_facts = any(row.facts for row in rows)
    head = ["contender", "settings", "cost $", "hit rate", "largest window", "calls"]
    head += ["shown of each result"] * has_results + ["facts reachable"] * has_facts + ["lines", "remarks"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    ordered = sorted(rows, key=lambda row: (bool(row.error), not row.is_whole, _cost(row)))
    for row in ordered:
        if row.error:
            cells = [
                row.contender,
                row.settings,
                "failed",
                *[""] * (len(head) - 4),
                row.error.replace("|", "/").replace("\n", " "),
            ]
            lines.append("| " + " | ".join(cells) + " |")
            continue
        name = f"**{row.contender}**" if row.is_own else row.contender
        cells = [f"{name}{'' if row.is_whole else ' ◦'}{'' if row.is_compared else ' ✎'}", row.settings]
        cells += ["–" if row.cost_usd is None else f"{row.cost_usd:.4f}"]
        cells += ["–" if row.hit_rate is None else f"{row.hit_rate:.2%}", f"{row.largest_window:,}", f"{row.calls:,}"]
        if has_results:
            cells.append("–" if row.seen_tokens is None else f"{row.seen_tokens:,.0f} ({row.seen_share:.0%})")
        if has_facts:
            cells.append(_facts(row))
        cells += [str(row.n_lines), row.remark]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _facts(row: Row) -> str:
    total = sum(row.facts.values())
    if not total:
        return "–"
    ways = ", ".join(f"{count} {way}" for way, count in row.facts.items() if way != "lost")
    return f"{total - row.facts.get('lost', 0)}/{total}" + (f" ({ways})" if ways else "")
