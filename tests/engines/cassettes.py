"""Recorded runs of real engines: what was asked, what came back, and how the reference cache was set.

A cassette is one JSON object, compressed: engine, version, options of the server, settings of the reference cache, the
score of the whole run, the calls that differ, and rows of its first requests. A row is `[kind, n_output, salt, tokens,
generated, read, slot, refused]`; `tokens` names an earlier sequence (a prompt and its reply) that it begins with, how
much of it, and the rest.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextkit.engines.agreement import Exchange, Reply
from contextkit.engines.prompt_stream import StreamedPrompt

FOLDER = Path(__file__).parent / "recorded"
N_RECORDED = 200
"""Requests of a run that are kept."""


@dataclass(frozen=True)
class Cassette:
    """One run."""

    name: str
    engine: str
    version: str
    server: dict[str, Any]
    """What the server was started with."""
    cache: dict[str, Any]
    """How the reference cache was set."""
    equal: int
    """Calls of the whole run that were equal."""
    total: int
    """Calls of the whole run."""
    differing: tuple[int, ...]
    """Indices of the calls of the whole run that differ."""
    exchanges: tuple[Exchange, ...]
    """Its first calls."""


def write(cassette: Cassette) -> None:
    """Write a cassette into `FOLDER`."""
    told = {"engine": cassette.engine, "version": cassette.version, "server": cassette.server, "cache": cassette.cache}
    score = {"equal": cassette.equal, "total": cassette.total, "differing": cassette.differing}
    rows = list(_rows(cassette.exchanges[:N_RECORDED]))
    text = json.dumps({**told, **score, "rows": rows}, separators=(",", ":"))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{cassette.name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def cassettes() -> list[Path]:
    """Every cassette, in order of name."""
    return sorted(FOLDER.glob("*.json.xz"))


def read(path: Path) -> Cassette:
    """Read one cassette."""
    told = json.loads(lzma.decompress(path.read_bytes()))
    rows = told.pop("rows")
    return Cassette(path.name.removesuffix(".json.xz"), **told, exchanges=tuple(_exchanges(rows)))


def _rows(exchanges: Sequence[Exchange]) -> Iterator[list[Any]]:
    sequences: list[list[int]] = []
    for exchange in exchanges:
        prompt, reply = exchange.prompt, exchange.reply
        shared = [_shared(sequence, prompt.tokens) for sequence in sequences]
        best = max(range(len(shared)), key=shared.__getitem__, default=0)
        n = shared[best] if shared else 0
        tokens = [best, n, prompt.tokens[n:]]
        yield [
            prompt.kind,
            prompt.n_output,
            prompt.salt,
            tokens,
            list(reply.generated),
            reply.read_tokens,
            reply.slot,
            reply.refusal is not None,
        ]
        sequences.append([*prompt.tokens, *reply.generated])


def _shared(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _exchanges(rows: list[list[Any]]) -> Iterator[Exchange]:
    sequences: list[list[int]] = []
    for kind, n_output, salt, (like, n, rest), generated, read_tokens, slot, is_refused in rows:
        tokens = [*sequences[like][:n], *rest] if sequences else list(rest)
        reply = Reply(read_tokens, tuple(generated), slot, "refused" if is_refused else None)
        yield Exchange(StreamedPrompt(kind, tokens, n_output, salt), reply)
        sequences.append([*tokens, *generated])
