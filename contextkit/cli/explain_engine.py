"""Implements `contextkit explain-edit --engine`: the same lesson on a running engine, with times to the first token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from contextkit.canonical import canonical
from contextkit.cli.pictures import COLOURS, INK, LEFT, MUTED, WIDTH, label
from contextkit.engines.lesson import Step, lesson
from contextkit.engines.registry import engine
from contextkit.engines.running import LlamaCpp
from contextkit.private_files import replacing
from contextkit.report.tables import Column, Table
from contextkit.report.terminal import print_table
from contextkit.terminal import echo, echo_error, echo_json, rich_console, sanitize_html

if TYPE_CHECKING:
    from contextkit.engines.running import Configuration

ROW, TOP = 46, 70
READ, COMPUTED = COLOURS[0], COLOURS[3]


def teach(
    base_url: str, api_key: str | None, options: Mapping[str, Any], *, as_json: bool, picture: Path | None
) -> None:
    """Run the lesson on the llama.cpp server at an address, and show what it read and how long it took.

    `options` are those of its reference cache that were typed, the others None.
    """
    given = {name: value for name, value in options.items() if value is not None}
    engine("llamacpp", **given)  # what is typed wrong is said before the server is asked
    server = LlamaCpp(base_url, api_key=api_key)
    configuration = server.configuration()
    cache = engine("llamacpp", **{**configuration.likely, **configuration.options, **given}).cache
    steps = list(lesson(server, cache, token_hex(4)))
    if picture:
        with replacing(picture) as file:
            file.write(svg(steps, _title(configuration)).encode())
        echo_error(f"{picture} written")
    if as_json:
        told = {"engine": "llamacpp", "version": configuration.version, "model": configuration.model}
        echo_json(canonical({**told, "steps": [asdict(step) for step in steps]}))
        return
    echo(_title(configuration))
    print_steps(steps)
    if any(step.n_read != step.n_predicted for step in steps):
        echo_error(
            "the server read other than predicted: its model has a sliding window or a recurrent state, it was started with "
            f"other options, or others use it; `contextkit validate --engine llamacpp --base-url {base_url}` finds out which"
        )


def print_steps(steps: Sequence[Step]) -> None:
    """Print the steps as a table."""
    print_table(rich_console(), Table("", COLUMNS, steps))


def _title(configuration: Configuration) -> str:
    return (
        f"llama.cpp {configuration.version or 'of an unknown build'}, {PurePath(configuration.model or 'unknown').name}"
    )


COLUMNS: tuple[Column[Step], ...] = (
    Column("request", lambda step: step.name, is_number=False),
    Column("tokens", lambda step: f"{step.n_tokens:,}"),
    Column("read", lambda step: f"{step.n_read:,}"),
    Column("predicted", lambda step: f"{step.n_predicted:,}"),
    Column("computed", lambda step: f"{step.n_tokens - step.n_read:,}"),
    Column("first token", lambda step: f"{step.seconds * 1000:,.0f} ms"),
)


def svg(steps: Sequence[Step], title: str) -> str:
    """The steps as a document of its own: what was read and what was computed, and the time to the first token."""
    height = TOP + len(steps) * ROW + 50
    scale = (WIDTH - LEFT - 120) / max(step.n_tokens for step in steps)
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" role="img">'
    parts = [
        opening,
        f"<title>{sanitize_html(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        label(24, 32, title, 16, INK),
    ]
    for index, step in enumerate(steps):
        y = TOP + index * ROW
        parts.append(label(24, y, step.name, 12, INK))
        for start, end, colour in ((0, step.n_read, READ), (step.n_read, step.n_tokens, COMPUTED)):
            width = (end - start) * scale
            parts.append(
                f'<rect x="{24 + start * scale:.1f}" y="{y + 6}" width="{width:.1f}" height="16" fill="{colour}"/>'
            )
        parts.append(label(32 + step.n_tokens * scale, y + 19, f"{step.seconds * 1000:,.0f} ms", 12, INK))
    foot = height - 20
    for x, colour, words in ((24, READ, "read from the cache"), (190, COMPUTED, "computed")):
        parts.append(f'<rect x="{x}" y="{foot - 10}" width="11" height="11" fill="{colour}"/>')
        parts.append(label(x + 16, foot, words, 12, MUTED))
    parts.append(label(290, foot, "behind each bar: time to the first token", 12, MUTED))
    return "\n".join([*parts, "</svg>", ""])
