"""Hit rate against capacity as a page: one HTML file with its figure inside, nothing fetched.

Takes lines of (capacity, hit rate), gives the text of the page. Knows nothing of traces or caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

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


def page(title: str, subtitle: str, lines: Sequence[Line], unit: str = "blocks") -> str:
    """The whole page: heading, figure, legend, and the asked-for numbers as a table."""
    note = "<p>Dotted: the rate without an end of room.</p>" if any(line.ceiling is not None for line in lines) else ""
    legend = "".join(f"<li>{_swatch(index)}{escape(line.name)}</li>" for index, line in enumerate(lines))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>"
        f"<p>{escape(subtitle)}</p>\n{figure(title, lines, unit)}\n<ul>{legend}</ul>\n{note}{_table(lines, unit)}</main></body></html>\n"
    )


def figure(title: str, lines: Sequence[Line], unit: str = "blocks") -> str:
    """The figure alone, as SVG; colours of text and grid are those of the page around it."""
    scale = _Scale(lines)
    drawn = [part for index, line in enumerate(lines) for part in _drawn(index, line, scale)]
    opening = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg" fill="none" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>'
    )
    across = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "middle", f"capacity in {unit}, logarithmic")
    upwards = f'<g transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)">{_text(0, 0, "middle", "hit rate")}</g>'
    return "\n".join([opening, *_rates(scale), *_capacities(scale), across, upwards, *drawn, "</svg>"])


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(words)}</text>'


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
        said = f"{escape(line.name)}: {capacity:,} blocks, {rate:.4f}"
        yield f'<circle cx="{scale.x(capacity):.1f}" cy="{scale.y(rate):.1f}" r="4" fill="{colour}"><title>{said}</title></circle>'


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


def _table(lines: Sequence[Line], unit: str) -> str:
    rows = [
        f"<tr><td>{escape(line.name)}<td>{capacity:,}<td>{rate:.4f}</tr>"
        for line in lines
        for capacity, rate in line.marks
    ]
    rows += [
        f"<tr><td>{escape(line.name)}<td>unbounded<td>{line.ceiling:.4f}</tr>"
        for line in lines
        if line.ceiling is not None
    ]
    return f"<table><tr><th>cache<th>{escape(unit)}<th>hit rate</tr>{''.join(rows)}</table>" if rows else ""


_STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24}"
    "@media(prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e6e8ea}}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:920px;margin:0 auto;padding:24px 16px}h1{font-size:22px;margin:0}p{margin:4px 0 16px}svg{max-width:100%;height:auto}"
    "ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;padding:0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:3px 14px 3px 0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}tr+tr td{border-top:1px solid color-mix(in srgb,currentColor 18%,transparent)}"
)
