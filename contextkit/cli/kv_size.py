"""Implements `contextkit kv-size`: bytes of a model's KV cache a token and a sequence, and how many sequences fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from contextkit.canonical import canonical
from contextkit.errors import UsageError
from contextkit.facts.load import built_in_table
from contextkit.kv_size import DTYPE_BITS, dtype_of, layers_of, sequence_bytes, whole_number
from contextkit.terminal import echo, echo_json

_TOKENS = {"": 1, "k": 1024, "m": 1024**2}
"""Units of a context: models count in powers of two."""
_BYTES = {"": 1, "mb": 10**6, "gb": 10**9, "tb": 10**12, "mib": 2**20, "gib": 2**30}


def _amount(units: Mapping[str, int], examples: str) -> Callable[..., int | None]:
    """Make the reader of an option that is a number and one of these units."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        match = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*([a-z]*)", (value or "").lower())
        amount = int(float(match[1]) * units.get(match[2], 0)) if match else 0
        if value is not None and not amount:
            raise click.BadParameter(f"{value!r} is no amount: give a number and perhaps a unit, such as {examples}")
        return amount or None

    return read


@click.command("kv-size")
@click.argument("model", metavar="CONFIG|NAME")
@click.option(
    "--context",
    "n_tokens",
    callback=_amount(_TOKENS, "4096 or 128k"),
    help="Tokens of a sequence.  [default: the model's]",
)
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Sequences at once.")
@click.option("--dtype", type=click.Choice([*DTYPE_BITS]), help="Of a cached number.  [default: the model's]")
@click.option("--memory", callback=_amount(_BYTES, "80GB or 24GiB"), help="Room for the cache, without weights: 80GB.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str, n_tokens: int | None, batch: int, dtype: str | None, memory: int | None, as_json: bool) -> None:
    """Print what the KV cache of a model takes: a token, a sequence, a batch, and how many sequences fit.

    CONFIG is a Hugging Face `config.json`; NAME one of the models that come with contextkit.

    \b
    contextkit kv-size Llama-2-7B
    contextkit kv-size config.json --context 128k --batch 8 --dtype fp8 --memory 80GB
    """
    config = _config(model)
    try:
        groups = layers_of(config)
        n_tokens = n_tokens or whole_number(config, "max_position_embeddings", default=4096)
    except UsageError as error:
        raise UsageError(f"{model}: {error}") from None
    dtype = dtype or dtype_of(config)
    state, first, size = (sequence_bytes(groups, n, DTYPE_BITS[dtype]) for n in (0, 1, n_tokens))
    n_fitting = memory // size if memory and size else None
    if as_json:
        figures = {"model": model, "dtype": dtype, "context": n_tokens, "batch": batch}
        figures |= {"token_bytes": first - state, "sequence_bytes": size, "batch_bytes": size * batch}
        figures |= {"memory_bytes": memory, "sequences_in_memory": n_fitting}
        echo_json(canonical({**figures, "layers": [asdict(group) for group in groups]}))
        return
    for group in groups:
        window = f" of {group.window:,} tokens" if group.window else ""
        states = {None: ", whose state the config does not tell: not counted", 0: ""}
        of_state = states.get(group.state_bytes, f" with a state of {group.state_bytes or 0:,} bytes")
        echo(f"{group.layers} layers: {group.kind}{window}{of_state}")
    until = " while all windows are open" if any(group.window for group in groups) else ""
    echo(f"{first - state:,} bytes a token at {dtype}{until}")
    for n in dict.fromkeys((1, batch)):
        echo(f"{n * size:,} bytes ({n * size / 2**30:,.4g} GiB) for {n:,} x {n_tokens:,} tokens")
    if memory:
        echo(f"{'any number of' if n_fitting is None else n_fitting} such sequences in {memory:,} bytes")


def _config(model: str) -> Mapping[str, Any]:
    """The keys of a file, or of a model that comes with contextkit."""
    rows = {row["name"].lower(): row for row in built_in_table("architectures.toml")["architectures"]}
    if model.lower() in rows:
        return dict(rows[model.lower()]["config"])
    if not Path(model).is_file():
        near = [rows[name]["name"] for name in get_close_matches(model.lower(), rows, n=1)]
        instead = (
            f"did you mean {near[0]!r}?"
            if near
            else f"give a config.json or one of {', '.join(row['name'] for row in rows.values())}"
        )
        raise UsageError(f"{model}: no such file, and no model of that name: {instead}")
    try:
        config = json.loads(Path(model).read_bytes())
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise UsageError(f"{model}: no JSON object: give the config.json of a Hugging Face model")
    inner = config.get("text_config")  # of a model that sees images
    return config | inner if isinstance(inner, dict) else config
