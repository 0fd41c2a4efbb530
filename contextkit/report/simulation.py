"""Shows simulated caches: a comparison as a table or JSON, and hit rate against capacity as one HTML file.

The page fetches nothing. rich is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from contextkit.canonical import Json
from contextkit.engines.compare import Comparison, Counts, Outcome, is_lru
from contextkit.ledger.figures import UNKNOWN
from contextkit.report.tables import Column, Table
from contextkit.report.terminal import print_table
from contextkit.terminal import rich_console, sanitize_html

if TYPE_CHECKING:
    from contextkit.engines.reuse_distance import Curve

HOSTED = "bills of these caches for the trace's prompts, not the recorded ones"
"""What the sums of hosted caches are of."""
HELD = "what these caches would hold of the trace; no bill was looked at"
"""What the sums of engines are of."""
UNBOUNDED = "unbounded"
"""A capacity without end, in words; null in JSON."""


def as_json(comparison: Comparison) -> dict[str, Json]:
    """The first outcome's figures, then every outcome's; what nobody counts is null."""
    rows: list[dict[str, Json]] = [_row(outcome) for outcome in comparison.outcomes]
    first = rows[0] if rows else {}
    return {"format": 1, "block_tokens": list(comparison.sizes), **first, "per_capacity": rows}


def _row(outcome: Outcome) -> dict[str, Json]:
    setting, counts = outcome.setting, outcome.counts
    row: dict[str, Json] = {
        "cache": setting.cache,
        "policy": setting.policy,
        "instances": setting.instances,
        "capacity": setting.capacity,
        **_counts(counts),
        "evictions": outcome.evictions,
    }
    if counts.blocks is None:
        row |= {"cost_usd": outcome.cost_usd, "cost_uncached_usd": outcome.cost_uncached_usd}
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


def label(outcome: Outcome) -> str:
    """Cache and policy: what tells this outcome from the others."""
    return f"{outcome.setting.cache} {outcome.setting.policy}"


def show(comparison: Comparison) -> None:
    """Print one row per outcome to standard output."""
    console = rich_console(soft_wrap=False)
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
    print_table(console, _table(comparison))


def _table(comparison: Comparison) -> Table[Outcome]:
    is_hosted = any(outcome.counts.blocks is None for outcome in comparison.outcomes)
    columns: tuple[Column[Outcome], ...] = (
        Column("cache", label, is_number=False),
        Column("capacity", lambda outcome: UNBOUNDED if outcome.setting.capacity is None else outcome.setting.capacity),
        Column(
            "blocks hit", lambda outcome: "-" if outcome.counts.blocks is None else f"{outcome.counts.hit_rate:.4f}"
        ),
        Column("tokens hit", lambda outcome: f"{outcome.counts.token_hit_rate:.4f}"),
    )
    if is_hosted:
        columns += (
            Column("spent", lambda outcome: _dollars(outcome.cost_usd)),
            Column("uncached", lambda outcome: _dollars(outcome.cost_uncached_usd)),
        )
    else:
        columns += (
            Column("evicted", lambda outcome: "not counted" if outcome.evictions is None else outcome.evictions),
        )
    return Table("Outcomes", columns, comparison.outcomes)


def _dollars(value: float | None) -> str:
    return UNKNOWN if value is None else f"${value:,.2f}"


WIDTH, HEIGHT = 880, 470
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 24, 62
"""Margins of the figure, in the units of its size."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#5b5bd6", "#7f7f7f")
"""Told apart also by those who see few colours (Okabe and Ito), dark enough for white paper and light enough for black.
"""
DASHES = ("", "8 4", "2 4", "10 4 2 4")
"""The second sign by which lines are told apart, once the colours are used up."""


@dataclass(frozen=True, slots=True)
class Line:
    """One cache."""

    name: str
    """As the legend calls it."""
    points: tuple[tuple[int, float], ...]
    """(blocks, hit rate from 0 to 1), capacities rising."""
    marks: tuple[tuple[int, float], ...]
    """The points that get a dot: capacities somebody asked for."""
    ceiling: float | None
    """Hit rate without an end of room, None where it was not replayed."""


def page_of(comparison: Comparison, names: Sequence[str]) -> str:
    """Render the page of traces with these names: a line for each cache and policy, the capacities asked for marked on it."""
    counts, sizes = comparison.outcomes[0].counts, ", ".join(map(str, comparison.sizes))
    title = f"Hit rate by capacity: {', '.join(names)}"
    subtitle = f"{counts.requests:,} requests, {counts.blocks or 0:,} blocks of {sizes} tokens, {counts.tokens:,} tokens of prompt"
    groups: dict[str, list[Outcome]] = {}
    for outcome in comparison.outcomes:
        groups.setdefault(label(outcome), []).append(outcome)
    return page(title, subtitle, [_line(name, outcomes, comparison.curve) for name, outcomes in groups.items()])


def _line(name: str, outcomes: Sequence[Outcome], whole: Curve | None) -> Line:
    curve = whole if is_lru(outcomes[0].setting) else None
    rates = [(outcome.setting.capacity, outcome.counts.hit_rate) for outcome in outcomes]
    marks = sorted((capacity, rate) for capacity, rate in rates if capacity is not None)
    ceiling = curve.hit_rate(None) if curve else next((rate for capacity, rate in rates if capacity is None), None)
    return Line(name, tuple(sorted({*curve.points(), *marks}) if curve else marks), tuple(marks), ceiling)


def page(title: str, subtitle: str, lines: Sequence[Line]) -> str:
    """The whole page: heading, figure, legend, and the asked-for numbers as a table."""
    note = "<p>Dotted: the rate without an end of room.</p>" if any(line.ceiling is not None for line in lines) else ""
    legend = "".join(f"<li>{_swatch(index)}{sanitize_html(line.name)}</li>" for index, line in enumerate(lines))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{sanitize_html(title)}</title><style>{_STYLE}</style></head>\n<body><main><h1>{sanitize_html(title)}</h1>"
        f"<p>{sanitize_html(subtitle)}</p>\n{figure(title, lines)}\n<ul>{legend}</ul>\n{note}{_table_of_lines(lines)}"
        "</main></body></html>\n"
    )


def figure(title: str, lines: Sequence[Line]) -> str:
    """The figure alone, as SVG; colours of text and grid are those of the page around it."""
    scale = _Scale(lines)
    drawn = [part for index, line in enumerate(lines) for part in _drawn(index, line, scale)]
    opening = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg" fill="none" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>{sanitize_html(title)}</title>'
    )
    across = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "middle", "capacity in blocks, logarithmic")
    upwards = f'<g transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)">{_text(0, 0, "middle", "hit rate")}</g>'
    return "\n".join([opening, *_rates(scale), *_capacities(scale), across, upwards, *drawn, "</svg>"])


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{sanitize_html(words)}</text>'


def _rule(way: str, opacity: float) -> str:
    return f'<path d="{way}" stroke="currentColor" stroke-opacity="{opacity}"/>'


class _Scale:
    """Where a capacity and a rate stand in the figure."""

    def __init__(self, lines: Sequence[Line]) -> None:
        sizes = [capacity for line in lines for capacity, _ in (*line.points, *line.marks)] or [1, 10]
        rates = [rate for line in lines for _, rate in (*line.points, *line.marks)] + [
            line.ceiling or 0.0 for line in lines
        ]
        low, high = log10(min(sizes)), log10(max(sizes))
        self.low: float
        self.high: float
        self.low, self.high = (low, high) if high - low > 0.3 else (floor(low), ceil(high + 0.01))
        self.top = max(0.1, ceil(max(rates, default=1.0) * 10 + 0.2) / 10)

    def x(self, capacity: float) -> float:
        return LEFT + (log10(capacity) - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    def y(self, rate: float) -> float:
        return HEIGHT - BOTTOM - rate / self.top * (HEIGHT - TOP - BOTTOM)


def _rates(scale: _Scale) -> Iterator[str]:
    for step in range(round(scale.top * 10) + 1):
        y = scale.y(step / 10)
        yield _rule(f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", 0.5 if step == 0 else 0.13)
        yield _text(LEFT - 8, y + 4, "end", f"{step * 10} %")


def _capacities(scale: _Scale) -> Iterator[str]:
    """A line for every power of ten, and for 2 and 5 times it where there is room."""
    factors = (1,) if scale.high - scale.low > 3 else (1, 2, 5)
    for power in range(floor(scale.low), ceil(scale.high) + 1):
        for factor in factors:
            capacity = factor * 10**power
            if scale.low - 1e-9 <= log10(capacity) <= scale.high + 1e-9:
                x = scale.x(capacity)
                yield _rule(f"M{x:.1f} {TOP}V{HEIGHT - BOTTOM}", 0.13)
                yield _text(x, HEIGHT - BOTTOM + 20, "middle", _short(capacity))


def _drawn(index: int, line: Line, scale: _Scale) -> Iterator[str]:
    colour, dash = _look(index)
    if line.ceiling is not None:
        y = scale.y(line.ceiling)
        look = f'stroke="{colour}" stroke-opacity="0.6" stroke-dasharray="2 6" stroke-width="1.5"'
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" {look}/>'
    if line.points:
        way = "L".join(f"{scale.x(capacity):.1f} {scale.y(rate):.1f}" for capacity, rate in line.points)
        yield f'<path d="M{way}" stroke="{colour}" stroke-width="2.2" stroke-linejoin="round" stroke-dasharray="{dash}"/>'
    for capacity, rate in line.marks:
        label_text = f"{sanitize_html(line.name)}: {capacity:,} blocks, {rate:.4f}"
        yield f'<circle cx="{scale.x(capacity):.1f}" cy="{scale.y(rate):.1f}" r="4" fill="{colour}"><title>{label_text}</title></circle>'


def _look(index: int) -> tuple[str, str]:
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


def _swatch(index: int) -> str:
    colour, dash = _look(index)
    line = f'<path d="M0 6H26" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/>'
    return f'<svg width="26" height="12" aria-hidden="true">{line}</svg> '


def _short(capacity: float) -> str:
    """A capacity as people say it.

    >>> _short(500), _short(2000), _short(10_000_000)
    ('500', '2k', '10M')
    """
    for size, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if capacity >= size:
            return f"{capacity / size:g}{sign}"
    return f"{capacity:g}"


def _table_of_lines(lines: Sequence[Line]) -> str:
    rows = [
        f"<tr><td>{sanitize_html(line.name)}<td>{capacity:,}<td>{rate:.4f}</tr>"
        for line in lines
        for capacity, rate in line.marks
    ]
    rows += [
        f"<tr><td>{sanitize_html(line.name)}<td>unbounded<td>{line.ceiling:.4f}</tr>"
        for line in lines
        if line.ceiling is not None
    ]
    return f"<table><tr><th>cache<th>blocks<th>hit rate</tr>{''.join(rows)}</table>" if rows else ""


_STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24}"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e6e8ea}}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:920px;margin:0 auto;padding:24px 16px}h1{font-size:22px;margin:0}p{margin:4px 0 16px}svg{max-width:100%;height:auto}"
    "ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;padding:0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:3px 14px 3px 0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}tr+tr td{border-top:1px solid color-mix(in srgb,currentColor 18%,transparent)}"
)
