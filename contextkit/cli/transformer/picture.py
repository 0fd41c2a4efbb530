"""An explained edit as a picture: rows from left to right, layers from bottom to top; as text and as SVG.

Takes an `Explanation`, gives lines or one SVG document; knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextkit.transformer.explain_edit import Explanation

MARKS = ".=~#+"
"""By `Fate`; where several rows share a column the worst is shown."""
WORDS = (
    "read from the cache",
    "computed again, equal",
    "computed again, equal but for its rotation",
    "computed again, different",
    "new",
)
COLOURS = ("#2f9e8f", "#c9d6df", "#f2c14e", "#e8743b", "#4b6cb7")
INK, MUTED = "#1f2933", "#5f6c7b"
COLUMNS = 96
WIDTH, LEFT, TOP, STEP = 960, 84, 64, 24


def lines(found: Explanation, text: str) -> Iterator[str]:
    """The picture, its legend, and what it comes to; `text` stands above it where every row has a column."""
    n_rows = found.n_after
    bounds = _bounds(n_rows, COLUMNS)
    if len(text) == n_rows <= COLUMNS:
        yield f"         {text}"
    for layer in range(len(found.fates) - 1, -1, -1):
        marks = "".join(MARKS[int(found.fates[layer, low:high].max())] for low, high in bounds)
        first = found.first_row[layer]
        yield f"layer {layer:2d} {marks}  {'no row differs' if first is None else f'differs from row {first} on'}"
    present = sorted({int(fate) for fate in found.fates.ravel()})
    yield f"         {'   '.join(f'{MARKS[fate]} {WORDS[fate]}' for fate in present)}"
    yield ""
    yield from summary(found)


def summary(found: Explanation) -> Iterator[str]:
    """What the edit costs, in words."""
    work, scratch = found.work, found.work_uncached
    yield f"{found.n_before} tokens before, {found.n_after} after: {found.n_kept} read from the cache, {work.positions} computed"
    yield f"computed: {work.vectors:,} K and V vectors, {work.flops:,} FLOPs, {work.flops / scratch.flops:.1%} of starting from nothing"
    yield f"logits, through the cache and from scratch: {found.logits_error:.0e} apart (rounding)"
    went = ", and the next token would have been another" if found.stale_changes_token else ""
    yield f"logits, had the old rows been kept after the edit: {found.stale_error:.3g} apart{went}"


def svg(found: Explanation, title: str) -> str:
    """The picture as a document of its own."""
    height = TOP + len(found.fates) * STEP + 78
    scale = (WIDTH - LEFT - 24) / found.n_after
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" role="img">'
    parts = [opening, f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    parts += [label(24, 32, title, 16, INK), *_axis(found, scale), *_legend(found, height - 22)]
    for layer, fates in enumerate(found.fates.tolist()):
        y = TOP + (len(found.fates) - 1 - layer) * STEP
        parts.append(label(24, y + 15, f"layer {layer}", 12, MUTED))
        start = 0
        for fate, same in groupby(fates):
            n = len(list(same))
            place = f'x="{LEFT + start * scale:.1f}" y="{y}" width="{n * scale:.1f}" height="{STEP - 3}"'
            parts.append(
                f'<rect {place} fill="{COLOURS[fate]}"><title>rows {start} to {start + n - 1}: {WORDS[fate]}</title></rect>'
            )
            start += n
    return "\n".join([*parts, "</svg>", ""])


def _axis(found: Explanation, scale: float) -> Iterator[str]:
    y = TOP + len(found.fates) * STEP + 14
    for row in sorted({0, found.n_kept, found.n_after}):
        yield label(LEFT + row * scale, y, str(row), 11, MUTED, "middle")


def _legend(found: Explanation, y: int) -> Iterator[str]:
    x = LEFT
    for fate in sorted({int(fate) for fate in found.fates.ravel()}):
        yield f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="{COLOURS[fate]}"/>'
        yield label(x + 16, y, WORDS[fate], 12, INK)
        x += 44 + round(6.4 * len(WORDS[fate]))


def label(x: float, y: float, words: str, size: int, fill: str, anchor: str = "start") -> str:
    """Words in a picture."""
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'


def _bounds(n: int, n_columns: int) -> list[tuple[int, int]]:
    """Rows of each column."""
    n_columns = min(n, n_columns)
    return [(i * n // n_columns, (i + 1) * n // n_columns) for i in range(n_columns)]
