"""`contextkit explain-edit`: one edit of a text, done by the reference model with and without its cache."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.canonical import canonical
from contextkit.cli.terminal.streams import check_file
from contextkit.cli.transformer.picture import lines, svg
from contextkit.errors import UsageError
from contextkit.terminal import echo, echo_json

if TYPE_CHECKING:
    from contextkit.transformer.explain_edit import Edit, Explanation
    from contextkit.transformer.weights import Positions

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
@click.option("--seed", type=_At, default=0, show_default=True, help="Of the weights.")
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
    seed: int,
    picture: Path | None,
    *,
    as_json: bool,
    **edits: Any,
) -> None:
    """Why an edit of TEXT costs what it costs: a small transformer does it with its cache and from scratch, and rows
    are compared.

    A token is a byte; AT, N and TO count bytes from 0. Exactly one edit. Needs the extra `numpy`.

    \b
    contextkit explain-edit --delete 33 13
    contextkit explain-edit --replace 39 14:03 --svg clock.svg
    contextkit explain-edit "read search write" --move 0 5 12 --positions rope_at_read --json
    """
    from contextkit.transformer.explain_edit import explain_edit
    from contextkit.transformer.model import Bytes, Model
    from contextkit.transformer.weights import Shape, seeded

    check_file("--svg", None if picture is None else str(picture))
    edit, tokens = _edit(edits), Bytes().encode(text if text is not None else TEXT)
    model = Model(seeded(Shape(n_layers=layers, n_kv_heads=int(kv_heads), positions=positions), seed))
    found = explain_edit(model, tokens, edit)
    shown = "".join(chr(token) if 32 <= token < 127 else "?" for token in edit.apply(tokens)[0])
    if picture:
        picture.write_text(
            svg(found, f"{edit.kind}: {found.n_kept} of {found.n_after} rows kept"), encoding="utf-8", newline="\n"
        )
    if as_json:
        echo_json(canonical(_plain(found)))
    else:
        echo("\n".join(lines(found, shown)))


def _edit(edits: dict[str, Any]) -> Edit:
    """The one that was given."""
    from contextkit.transformer.explain_edit import Edit
    from contextkit.transformer.model import Bytes

    encode = Bytes().encode
    given = [(name, value) for name, value in edits.items() if value is not None]
    if len(given) != 1:
        raise UsageError(
            f"{len(given)} edits given: give exactly one of --append, --replace, --insert, --delete, --move"
        )
    ((name, value),) = given
    made = {
        "append": lambda: Edit("append", tokens=tuple(encode(value))),
        "replace": lambda: Edit("replace", value[0], tokens=tuple(encode(value[1]))),
        "insert": lambda: Edit("insert", value[0], tokens=tuple(encode(value[1]))),
        "delete": lambda: Edit("delete", value[0], value[1]),
        "move": lambda: Edit("move", value[0], value[1], value[2]),
    }
    return made[name]()


def _plain(found: Explanation) -> dict[str, Any]:
    from contextkit.transformer.explain_edit import Fate

    return {
        "n_before": found.n_before,
        "n_after": found.n_after,
        "n_kept": found.n_kept,
        "first_row": list(found.first_row),
        "recomputed": [found.recomputed.start, found.recomputed.stop],
        "work": asdict(found.work),
        "work_uncached": asdict(found.work_uncached),
        "rows_error": found.rows_error,
        "logits_error": found.logits_error,
        "stale_error": found.stale_error,
        "stale_changes_token": found.stale_changes_token,
        "fates": {"names": [fate.name.lower() for fate in Fate], "layers": found.fates.tolist()},
    }
