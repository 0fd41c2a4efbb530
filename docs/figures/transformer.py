"""Draws the pictures of `docs/explanation/transformer.md` and prints its tables.

    python docs/figures/transformer.py

Seeded weights and texts that stand here: the same pictures every time.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from contextkit.cli.explain_edit import svg
from contextkit.transformer.costs import REAL, kv_bytes
from contextkit.transformer.explain_edit import Edit, explain_edit
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.weights import Shape, seeded

TEXT = "You have read, search and write. It is 14:02. Find the three cheapest GPUs, please."
EDITS = {
    "append": ("append: nothing before the end moves", Edit("append", tokens=tuple(b" Thanks!"))),
    "replace": ("replace: the clock, 14:02 becomes 14:03", Edit("replace", 43, tokens=tuple(b"3"))),
    "delete": ("delete: 'It is 14:02. ' taken out", Edit("delete", 33, 13)),
    "move": ("move: 'read, ' behind 'search and '", Edit("move", 9, 6, 20)),
}
"""Name of the picture → its title and the edit."""


def main() -> None:
    """Every picture, and a line of figures for each."""
    encode, model = Bytes().encode, Model(seeded(Shape()))
    for name, (title, edit) in EDITS.items():
        found = explain_edit(model, encode(TEXT), edit)
        drawn = svg(found, f"{title} ({found.n_kept} of {found.n_after} rows read, {found.work.positions} computed)")
        (FOLDER / f"transformer-{name}.svg").write_text(drawn, encoding="utf-8", newline="\n")
        error = f"{found.stale_error:.2g}"
        print(f"| {name} | {found.n_kept} | {found.work.positions} | {found.work.vectors:,} | {found.work.flops:,} | {error} |")
    for name, row in REAL.items():
        at_128k = kv_bytes(row.shape, 131_072)
        heads = "MLA" if row.shape.d_latent else f"{row.shape.n_heads}/{row.shape.n_kv_heads}"
        print(f"| {name} | {row.shape.n_layers} | {heads} | {kv_bytes(row.shape, 1):,} | {at_128k / 2**30:.1f} | {row.source} |")


if __name__ == "__main__":
    main()
