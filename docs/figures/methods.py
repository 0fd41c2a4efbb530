"""Draws the charts of the methods in `docs/explanation/transformer.md`, cost against error, and prints their figures.

    python docs/figures/methods.py

Seeded weights and texts: the same charts every time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from contextkit.cli.explain_edit import COLOURS, INK, MUTED, label
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import Pool
from contextkit.transformer.methods.blended import alone, blended, furthest
from contextkit.transformer.methods.diffusion import Elastic, everything
from contextkit.transformer.methods.prefix_blocks import PrefixEngine, names
from contextkit.transformer.methods.pruned import PrunedModel, Pruning
from contextkit.transformer.methods.streaming import SinkCache, stream, with_sink
from contextkit.transformer.model import Model, Work
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, seeded

GQA = Shape(n_kv_heads=2)
MASK = 257
Lines = dict[str, list[tuple[float, float]]]
"""Name of a line → its points: cost, error."""
LINE_COLOURS = (COLOURS[0], COLOURS[3], COLOURS[4], COLOURS[2])
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 70, 250, 56, 56


def text(n: int, seed: int = 0) -> list[int]:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, n).tolist()


def rms(a: Array) -> float:
    """Root mean square."""
    return float(np.sqrt((a * a).mean()))


def plain(model: Model, tokens: list[int]) -> Array:
    """Logits of every token, nothing left out."""
    engine = Engine(model)
    (logits,) = engine.feed([(engine.open(), tokens)], every=True)
    return logits


def blocks() -> Lines:
    """Six conversations over one system prompt, four turns each: rows computed by size of a block. Nothing is approximate."""
    model, lines = Model(seeded(Shape(n_layers=2, n_kv_heads=2))), {"shared blocks": [], "no sharing": []}
    conversations = [[*text(120), *text(160, seed)] for seed in range(1, 7)]
    for block in (1, 2, 4, 8, 16, 32, 64):
        engine, asked, worst = PrefixEngine(model, Pool(model.shape, 4096 // block, block)), 0, 0.0
        for turn in range(1, 5):
            for tokens in conversations:
                prompt = tokens[: 120 + 40 * turn]
                run, _, logits = engine.begin(prompt, list(names(prompt, block)))
                asked += len(prompt)
                worst = max(worst, abs(logits - plain(model, prompt)[-1:]).max()) if turn == 4 else worst
                run.cache.cut(0)
        if worst > 1e-10:
            raise ValueError(f"shared blocks are {worst} off")
        lines["shared blocks"].append((block, engine.work.positions / asked))
        lines["no sharing"].append((block, 1.0))
    return lines


def sinks() -> Lines:
    """A stream of 300 tokens over a model with a sink: error by rows held."""
    model, tokens = Model(with_sink(seeded(Shape(positions="rope_at_read")), 256)), [256, *text(300)]
    expected, lines = plain(model, tokens), {}
    for n_sinks, name in ((0, "window alone"), (1, "1 sink and window"), (4, "4 sinks and window")):
        lines[name] = []
        for held in (8, 16, 32, 64, 128, 256):
            logits = stream(model, SinkCache(model.shape, n_sinks, held - n_sinks), tokens, Work())
            lines[name].append((held, rms(logits[-45:] - expected[-45:])))
    return lines


def _decoded(model: Model, prompt: list[int], following: list[int], count: Callable[[], int]) -> tuple[Array, int]:
    engine = Engine(model)
    run = engine.open()
    engine.feed([(run, prompt)])
    before = count()
    return np.concatenate([engine.decode([run], [token])[0] for token in following]), count() - before


def pruning() -> Lines:
    """Decoding 32 tokens behind 512, neighbours alike: error by keys read, scored or attended, as a share of dense attention."""
    weights, lines = seeded(GQA), {}
    prompt, following = ([token for token in text(n) for _ in range(16)] for n in (32, 2))
    expected, _ = _decoded(Model(weights), prompt, following, lambda: 0)
    dense = sum(len(prompt) + i + 1 for i in range(len(following))) * 3 * 2
    for refresh in (1, 4, 16):
        lines[f"a mask for {refresh} steps"] = []
        for budget in (16, 32, 64, 128, 256):
            model = PrunedModel(weights, Pruning(window=16, stages=((16, 2 * budget), (4, budget)), refresh=refresh))
            tiers = (model.mask_keys, model.attended_keys)
            logits, n = _decoded(model, prompt, following, lambda tiers=tiers: sum(tier.hits + tier.misses for tier in tiers))
            lines[f"a mask for {refresh} steps"].append((n / dense, rms(logits - expected)))
    return lines


def tiers() -> Lines:
    """The same, budget 64: cost of an access by rows of the fast tier, where a slow one costs ten. Error does not depend on it."""
    lines: Lines = {"rows attended": [], "keys a mask is chosen with": []}
    prompt, following = ([token for token in text(n) for _ in range(16)] for n in (32, 2))
    for rows in (64, 128, 256, 512, 1024, 2048):
        model = PrunedModel(seeded(GQA), Pruning(window=16, stages=((16, 128), (4, 64))), fast_rows=rows)
        _decoded(model, prompt, following, lambda: 0)
        for name, tier in (("rows attended", model.attended_keys), ("keys a mask is chosen with", model.mask_keys)):
            lines[name].append((rows, tier.cost(slow=10) / (tier.hits + tier.misses)))
    return lines


def blending() -> Lines:
    """Two chunks of 40 and 50 tokens and a question: error by vectors computed, as a share of computing all. Mean of 6 models."""
    draw = np.random.default_rng(0)
    choices = {"rows that deviate most": furthest, "rows by chance": lambda deviation, n: draw.permutation(len(deviation))[:n]}
    lines: Lines = {name: [] for name in choices}
    for name, choose in choices.items():
        for share in (0.0, 0.1, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0):
            errors = []
            for seed in range(6):
                model, (one, two, question) = Model(seeded(GQA, seed)), (text(40, 1), text(50, 2), text(10, 3))
                chunks, work = [(part, alone(model, part, Work())) for part in (one, two)], Work()
                logits, _, _ = blended(model, chunks, question, share, work, choose)
                errors.append(rms(logits - plain(model, one + two + question)[-1:]))
            lines[name].append((work.vectors / (100 * 4 * 2 * 2), float(np.mean(errors))))
    return lines


def elastic() -> Lines:
    """24 MASKs behind 32 tokens, one written a step: share of the window's likeliest tokens that are those of computing
    everything, by operations as a share of that. 5 models."""
    shape = Shape(vocabulary=258, n_kv_heads=2)
    models = [Model(with_sink(seeded(shape, seed), 256, 2.0, sharpness=3.0)) for seed in range(5)]
    lines: Lines = {}
    for window in (4, 8, 24):
        lines[f"window of {window}"] = []
        for threshold in (0.0, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 2.0):
            work, whole, same = Work(), Work(), []
            for seed, model in enumerate(models):
                decoder = Elastic(model, [256, *text(31, seed)], 24, MASK, window, threshold)
                for _ in range(24):
                    tokens = list(decoder.tokens)
                    active, logits, _ = decoder.step()
                    full = everything(model, tokens, whole)[0][active, :MASK]
                    same += (full.argmax(axis=1) == logits[:, :MASK].argmax(axis=1)).tolist()
                work.flops += decoder.work.flops
            lines[f"window of {window}"].append((work.flops / whole.flops, float(np.mean(same))))
    return lines


def chart(title: str, across: str, up: str, lines: Lines, *, is_log: bool) -> str:
    """Lines through points, as a document of its own."""
    every = [point for points in lines.values() for point in points]
    scale: Callable[[float], float] = np.log2 if is_log else float
    low, high = (min(scale(x) for x, _ in every), max(scale(x) for x, _ in every)) if is_log else (0.0, max(x for x, _ in every))
    top = max(y for _, y in every) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (scale(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" role="img">'
    parts = [opening, f"<title>{title}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', label(24, 32, title, 15, INK)]
    end, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts.append(f'<path d="M{LEFT} {TOP}V{floor}H{end}" fill="none" stroke="{MUTED}"/>')
    parts += [label((LEFT + end) / 2, HEIGHT - 14, across, 12, MUTED, "middle")]
    parts += [label(24, TOP - 6, up, 12, MUTED)]
    marks = sorted({x for x, _ in every}) if is_log else [high * i / 4 for i in range(5)]
    parts += [label(place(x, 0)[0], floor + 18, f"{x:g}" if is_log else f"{x:.0%}", 11, MUTED, "middle") for x in marks]
    parts += [label(LEFT - 8, place(max(marks), top * i / 4)[1] + 4, f"{top * i / 4:.2g}", 11, MUTED, "end") for i in range(5)]
    for i, (name, points) in enumerate(lines.items()):
        colour, placed = LINE_COLOURS[i], [place(x, y) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<rect x="{end + 24}" y="{TOP + 24 * i}" width="11" height="11" fill="{colour}"/>')
        parts.append(label(end + 42, TOP + 10 + 24 * i, name, 12, INK))
    return "\n".join([*parts, "</svg>", ""])


SHARE, ERROR = "computed, share of computing everything", "error of the logits (rms; logits are about 1)"
CHARTS: dict[str, tuple[Callable[[], Lines], str, str, str, bool]] = {
    "blocks": (blocks, "Prefix sharing: exact; coarser blocks compute more", "tokens in a block", "rows computed, share of all", True),
    "sinks": (sinks, "Attention sinks: a window needs the first row", "rows held", ERROR, True),
    "pruning": (pruning, "Pruned attention: few keys, found in stages", "keys read, share of dense attention", ERROR, False),
    "tiers": (tiers, "Offloaded rows: what the fast tier saves", "rows in the fast tier", "cost of an access (fast 1, slow 10)", True),
    "blending": (blending, "CacheBlend: the right rows, computed again", SHARE, ERROR, False),
    "elastic": (elastic, "Masked diffusion: rows refreshed when they drift", "operations, share of computing everything", "same tokens, share", False),
}
"""Name of the chart → what measures it, its title and axes, and whether the one across is logarithmic."""


def main() -> None:
    """Every chart, and a line of figures for each of its lines."""
    for name, (measure, title, across, up, is_log) in CHARTS.items():
        lines = measure()
        (FOLDER / f"methods-{name}.svg").write_text(chart(title, across, up, lines, is_log=is_log), encoding="utf-8", newline="\n")
        for line, points in lines.items():
            print(f"{name}: {line}: {', '.join(f'{x:.3g} {y:.2g}' for x, y in points)}")


if __name__ == "__main__":
    main()
