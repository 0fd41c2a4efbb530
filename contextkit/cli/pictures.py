"""What the pictures of `contextkit explain-edit` have in common."""

from __future__ import annotations

from contextkit.terminal import sanitize_html

COLOURS = ("#2f9e8f", "#c9d6df", "#f2c14e", "#e8743b", "#4b6cb7")
"""Read, equal, rotated, computed, new."""
INK, MUTED = "#1f2933", "#5f6c7b"
WIDTH, LEFT = 960, 84


def label(x: float, y: float, words: str, size: int, fill: str, anchor: str = "start") -> str:
    """Words in a picture."""
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{sanitize_html(words)}</text>'
