"""Implements `contextkit explain-edit`: one edit of a text, computed by the reference model with and without its cache.

The picture shows rows from left to right and layers from bottom to top, as text and as one SVG document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from contextkit.canonical import canonical
from contextkit.cli.engine_options import engine_options, options_of_all
from contextkit.cli.pictures import COLOURS, INK, LEFT, MUTED, WIDTH, label
from contextkit.cli.terminal import check_file
from contextkit.engines.running import ADDRESSES
from contextkit.errors import UsageError
from contextkit.private_files import replacing
from contextkit.terminal import echo, echo_json, sanitize_html

if TYPE_CHECKING:
    from contextkit.transformer.explain_edit import Edit, Explanation
    from contextkit.transformer.weights import Positions

MARKS = ".=~#+"
"""By `Fate`; where several rows share a column the worst is shown."""
WORDS = (
    "read from the cache",
    "computed again, equal",
    "computed again, equal but for its rotation",
    "computed again, different",
    "new",
)
COLUMNS = 96
TOP, STEP = 64, 24


def lines(explanation: Explanation, text: str) -> Iterator[str]:
    """The picture, its legend, and what it comes to; `text` stands above it where every row has a column."""
    n_rows = explanation.n_after
    n_columns = min(n_rows, COLUMNS)
    bounds = [(i * n_rows // n_columns, (i + 1) * n_rows // n_columns) for i in range(n_columns)]
    if len(text) == n_rows <= COLUMNS:
        yield f"         {text}"
    for layer in range(len(explanation.fates) - 1, -1, -1):
        marks = "".join(MARKS[int(explanation.fates[layer, low:high].max())] for low, high in bounds)
        first = explanation.first_row[layer]
        yield f"layer {layer:2d} {marks}  {'no row differs' if first is None else f'differs from row {first} on'}"
    present = sorted({int(fate) for fate in explanation.fates.ravel()})
    yield f"         {'   '.join(f'{MARKS[fate]} {WORDS[fate]}' for fate in present)}"
    yield ""
    yield from summary(explanation)


def summary(explanation: Explanation) -> Iterator[str]:
    """What the edit costs, in words."""
    work, scratch = explanation.work, explanation.work_uncached
    sizes = f"{explanation.n_before} tokens before, {explanation.n_after} after"
    yield f"{sizes}: {explanation.n_kept} read from the cache, {work.positions} computed"
    share = f"{work.flops / scratch.flops:.1%} of starting from nothing"
    yield f"computed: {work.vectors:,} K and V vectors, {work.flops:,} FLOPs, {share}"
    yield f"logits, through the cache and from scratch: {explanation.logits_error:.0e} apart (rounding)"
    went = ", and the next token would have been another" if explanation.stale_changes_token else ""
    yield f"logits, had the old rows been kept after the edit: {explanation.stale_error:.3g} apart{went}"


def svg(explanation: Explanation, title: str) -> str:
    """The picture as a document of its own."""
    height = TOP + len(explanation.fates) * STEP + 78
    scale = (WIDTH - LEFT - 24) / explanation.n_after
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" role="img">'
    parts = [
        opening,
        f"<title>{sanitize_html(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    parts.append(label(24, 32, title, 16, INK))
    axis = TOP + len(explanation.fates) * STEP + 14
    rows = sorted({0, explanation.n_kept, explanation.n_after})
    parts += [label(LEFT + row * scale, axis, str(row), 11, MUTED, "middle") for row in rows]
    x, legend = LEFT, height - 22
    for fate in sorted({int(fate) for fate in explanation.fates.ravel()}):
        parts.append(f'<rect x="{x}" y="{legend - 10}" width="11" height="11" fill="{COLOURS[fate]}"/>')
        parts.append(label(x + 16, legend, WORDS[fate], 12, INK))
        x += 44 + round(6.4 * len(WORDS[fate]))
    for layer, fates in enumerate(explanation.fates.tolist()):
        y = TOP + (len(explanation.fates) - 1 - layer) * STEP
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


TEXT = "You have read, search and write. It is 14:02. Find the three cheapest GPUs, please."
_At = click.IntRange(min=0)


@click.command("explain-edit")
@click.argument("text", required=False)
@click.option("--append", "append", metavar="TEXT", help="Add TEXT at the end.")
@click.option(
    "--replace", "replace", type=(_At, str), metavar="AT TEXT", help="Put TEXT over as many bytes from AT on."
)
@click.option("--insert", "insert", type=(_At, str), metavar="AT TEXT", help="Put TEXT in at AT.")
@click.option("--delete", "delete", type=(_At, _At), metavar="AT N", help="Take N bytes out at AT.")
@click.option(
    "--move", "move", type=(_At, _At, _At), metavar="AT N TO", help="Take N bytes out at AT, put them in at TO."
)
@click.option(
    "--positions",
    type=click.Choice(["rope", "rope_at_read", "learned"]),
    default="rope",
    show_default=True,
    help="Rotated keys are cached; keys are rotated when read; positions are added to embeddings.",
)
@click.option("--layers", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option(
    "--kv-heads",
    type=click.Choice(["1", "2", "4"]),
    default="4",
    show_default=True,
    help="Of 4 query heads: MQA, GQA, MHA.",
)
@click.option(
    "--engine",
    type=click.Choice(["llamacpp"]),
    help="Show an append, an edit and a moved tool on a running server instead, with times to the first token.",
)
@click.option("--base-url", metavar="URL", help=f"Where it listens.  [default: {ADDRESSES['llamacpp']}]")
@click.option(
    "--api-key", envvar="CONTEXTKIT_ENGINE_KEY", show_envvar=True, metavar="KEY", help="The key it wants, if any."
)
@engine_options(["llamacpp"])
@click.option(
    "--svg", "picture", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture as SVG, too."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Everything as one JSON object, a fate for each layer and row included."
)
def command(
    text: str | None,
    positions: Positions,
    layers: int,
    kv_heads: str,
    engine: str | None,
    base_url: str | None,
    api_key: str | None,
    picture: Path | None,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Why an edit of TEXT costs what it costs: a small transformer does it with its cache and from scratch, and rows
    are compared.

    A token is a byte; AT, N and TO count bytes from 0. Exactly one edit. Needs the extra `numpy`.

    \b
    contextkit explain-edit --delete 33 13
    contextkit explain-edit --replace 39 14:03 --svg clock.svg
    contextkit explain-edit "read search write" --move 0 5 12 --positions rope_at_read --json
    contextkit explain-edit --engine llamacpp --base-url http://127.0.0.1:8080
    """
    check_file("--svg", None if picture is None else str(picture))
    of_server = {name: options.pop(name) for name in OF_SERVER}
    edits = options
    if engine is not None:
        _refuse(
            "says nothing to --engine, which sends a conversation of its own: leave it out", "text", *edits, *OF_MODEL
        )
        from contextkit.cli.explain_engine import teach

        teach(
            ADDRESSES["llamacpp"] if base_url is None else base_url,
            api_key,
            of_server,
            as_json=as_json,
            picture=picture,
        )
        return
    _refuse("is a server's: name its engine with --engine llamacpp", "base_url", "api_key", *OF_SERVER)
    from contextkit.transformer.explain_edit import explain_edit
    from contextkit.transformer.model import Bytes, Model
    from contextkit.transformer.weights import Shape, seeded

    edit, tokens = _edit(edits), Bytes().encode(text if text is not None else TEXT)
    model = Model(seeded(Shape(n_layers=layers, n_kv_heads=int(kv_heads), positions=positions)))
    explanation = explain_edit(model, tokens, edit)
    edited = "".join(chr(token) if 32 <= token < 127 else "?" for token in edit.apply(tokens)[0])
    if picture:
        title = f"{edit.kind}: {explanation.n_kept} of {explanation.n_after} rows kept"
        with replacing(picture) as file:
            file.write(svg(explanation, title).encode())
    if as_json:
        echo_json(canonical(_plain(explanation)))
    else:
        echo("\n".join(lines(explanation, edited)))


OF_SERVER = tuple(options_of_all(["llamacpp"]))
"""Options that are about the running server."""
OF_MODEL = ("positions", "layers", "kv_heads")
"""Options that are about the small transformer."""


def _refuse(why: str, *names: str) -> None:
    """Raise `UsageError` for the first of these parameters that was typed."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{parameter.opts[0] if isinstance(parameter, click.Option) else 'TEXT'} {why}")


def _edit(edits: dict[Any, Any]) -> Edit:
    """Return the edit that was chosen; raises `UsageError` unless it is exactly one."""
    from contextkit.transformer.explain_edit import Edit
    from contextkit.transformer.model import Bytes

    chosen = [(kind, value) for kind, value in edits.items() if value is not None]
    if len(chosen) != 1:
        raise UsageError(
            f"{len(chosen)} edits given: give exactly one of --append, --replace, --insert, --delete, --move"
        )
    ((kind, value),) = chosen
    if kind == "append":
        return Edit("append", tokens=tuple(Bytes().encode(value)))
    if kind in ("replace", "insert"):
        return Edit(kind, value[0], tokens=tuple(Bytes().encode(value[1])))
    return Edit(kind, *value)


def _plain(explanation: Explanation) -> dict[str, Any]:
    from contextkit.transformer.explain_edit import Fate

    return {
        "n_before": explanation.n_before,
        "n_after": explanation.n_after,
        "n_kept": explanation.n_kept,
        "first_row": list(explanation.first_row),
        "work": asdict(explanation.work),
        "work_uncached": asdict(explanation.work_uncached),
        "rows_error": explanation.rows_error,
        "logits_error": explanation.logits_error,
        "stale_error": explanation.stale_error,
        "stale_changes_token": explanation.stale_changes_token,
        "fates": {"names": [fate.name.lower() for fate in Fate], "layers": explanation.fates.tolist()},
    }
