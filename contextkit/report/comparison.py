"""A comparison of caches as JSON and as a table.

Takes `Outcome`s, gives plain values or prints a table. Knows nothing of traces or engines. rich is imported when
something is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING, TextIO

from contextkit.analysis.compare import Comparison, Counts, Outcome
from contextkit.canonical import Json
from contextkit.terminal import rich_console

if TYPE_CHECKING:
    from rich.table import Table

HOSTED = "bills of these caches for the trace's prompts, not the recorded ones"
"""What the sums of hosted caches are of."""
HELD = "what these caches would hold of the trace; no bill was looked at"
"""What the sums of engines are of."""
UNBOUNDED = "unbounded"
"""A capacity without end, in words; null in JSON."""


def as_json(comparison: Comparison, bytes_per_token: int | None, *, has_sessions: bool) -> dict[str, Json]:
    """The first outcome's figures, then every outcome's; what nobody counts is null."""
    rows: list[dict[str, Json]] = [_row(outcome, comparison.sizes, bytes_per_token) for outcome in comparison.outcomes]
    document: dict[str, Json] = {
        "format": 1,
        "block_tokens": list(comparison.sizes),
        **(rows[0] if rows else {}),
        "per_capacity": rows,
    }
    if has_sessions and comparison.outcomes:
        document["per_session"] = [
            {
                "cache": outcome.setting.cache,
                "policy": outcome.setting.policy,
                "capacity": outcome.setting.capacity,
                "session": name,
            }
            | _counts(counts)
            for outcome in comparison.outcomes
            for name, counts in outcome.sessions.items()
        ]
        document["session_hit_rate"] = spread([counts.hit_rate for counts in comparison.outcomes[0].sessions.values()])
    return document


def _row(outcome: Outcome, sizes: Sequence[int], bytes_per_token: int | None) -> dict[str, Json]:
    setting, counts = outcome.setting, outcome.counts
    row: dict[str, Json] = {
        "cache": setting.cache,
        "policy": setting.policy,
        "order": setting.order or None,
        "instances": setting.instances,
        "capacity": setting.capacity,
        **_counts(counts),
        "evictions": outcome.evictions,
    }
    if counts.blocks is None:
        row |= {"cost_usd": outcome.cost_usd, "cost_uncached_usd": outcome.cost_uncached_usd}
    if bytes_per_token is not None:
        size = sizes[0] if len(sizes) == 1 else None
        room = None if setting.capacity is None or size is None else setting.capacity * size * bytes_per_token
        row |= {"capacity_bytes": room, "hit_bytes": counts.hit_tokens * bytes_per_token}
    return row


def _counts(counts: Counts) -> dict[str, Json]:
    return {
        "requests": counts.requests,
        "blocks": counts.blocks,
        "hit_blocks": counts.hit_blocks,
        "hit_rate": counts.hit_rate,
        "tokens": counts.tokens,
        "hit_tokens": counts.hit_tokens,
        "token_hit_rate": counts.token_hit_rate,
    }


def spread(rates: Sequence[float]) -> dict[str, Json]:
    """Where the middle and the lower quarter of sessions are.

    >>> spread([0.2, 0.4, 0.6, 0.8, 1.0])
    {'sessions': 5, 'median': 0.6, 'p25': 0.4}
    """
    quarter = quantiles(rates, n=4, method="inclusive")[0] if len(rates) > 1 else None
    return {"sessions": len(rates), "median": median(rates) if rates else None, "p25": quarter}


def label(outcome: Outcome, outcomes: Sequence[Outcome]) -> str:
    """Cache, policy and order: what tells this outcome from the others."""
    is_order_said = len({other.setting.order for other in outcomes}) > 1
    parts = [outcome.setting.cache, outcome.setting.policy, *([outcome.setting.order] if is_order_said else [])]
    return " ".join(part for part in parts if part)


def show(
    comparison: Comparison, bytes_per_token: int | None, file: TextIO | None = None, width: int | None = None
) -> None:
    """Print a row an outcome to `file`, standard output by default."""
    console = rich_console(file=file, width=width, soft_wrap=False)
    if not comparison.outcomes:
        return
    counts = comparison.outcomes[0].counts
    blocks = (
        ""
        if counts.blocks is None
        else f" · {counts.blocks:,} blocks of {', '.join(map(str, comparison.sizes)) or '?'} tokens"
    )
    line = f"{counts.requests:,} requests{blocks} · {counts.tokens:,} tokens"
    console.print(line.replace("·", "-") if console.options.ascii_only else line, markup=False)
    console.print(f"counted: {HOSTED if counts.blocks is None else HELD}", markup=False)
    console.print()
    console.print(_table(comparison, bytes_per_token))


def _table(comparison: Comparison, bytes_per_token: int | None) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    is_hosted = any(outcome.counts.blocks is None for outcome in comparison.outcomes)
    last = (
        ("spent", "uncached") if is_hosted else ("evicted", *(("read bytes",) if bytes_per_token is not None else ()))
    )
    for heading in ("cache", "capacity", "blocks hit", "tokens hit", *last):
        table.add_column(heading, justify="left" if heading == "cache" else "right", no_wrap=heading != "cache")
    for outcome in comparison.outcomes:
        counts = outcome.counts
        room = UNBOUNDED if outcome.setting.capacity is None else f"{outcome.setting.capacity:,}"
        cells = (
            [_dollars(outcome.cost_usd), _dollars(outcome.cost_uncached_usd)]
            if is_hosted
            else [_number(outcome.evictions)]
        )
        cells += [] if is_hosted or bytes_per_token is None else [_number(counts.hit_tokens * bytes_per_token)]
        hit = "-" if counts.blocks is None else f"{counts.hit_rate:.4f}"
        table.add_row(label(outcome, comparison.outcomes), room, hit, f"{counts.token_hit_rate:.4f}", *cells)
    return table


def _number(value: int | None) -> str:
    return "not counted" if value is None else f"{value:,}"


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"${value:,.2f}"
