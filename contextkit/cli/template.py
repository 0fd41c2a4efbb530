"""Implements `contextkit template check`: whether a chat template keeps each prompt a prefix of the next.

Input is a request body, a list of them, lines of either (a recorder's `{"request": …}` rows too), or the log of a
`Context`. A line that holds something else (a reply, an error) is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from contextkit.canonical import Json, parse
from contextkit.cli.terminal import for_programs
from contextkit.errors import NotSerialisable, UsageError
from contextkit.providers.templates.stability import Instability, Remedy
from contextkit.terminal import echo, echo_json

_INSIDE = ("request", "body", "request_body", "kwargs", "input")
"""Fields under which recorders keep a body."""


def bodies_in(path: Path) -> list[Mapping[str, Json]]:
    """The bodies of a file, or of a folder that `Context.open` wrote.

    Raises `UsageError` where there is none with messages.
    """
    file = path / "log.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"{file} is no file: give a request body as JSON, lines of them, or the folder of a Context")
    values = list(_values(file.read_bytes(), file))
    is_log = values and isinstance(values[0], Mapping) and values[0].get("kind") == "opened" and "digest" in values[0]
    bodies = [_logged(file)] if is_log else [body for value in values if (body := _body(value)) is not None]
    if not bodies:
        raise UsageError(f"{file}: no /chat/completions body in it; each has messages")
    return bodies


def _values(raw: bytes, file: Path) -> Iterator[Json]:
    """One JSON value, its items where it is a list, or one a line."""
    try:
        value = parse(raw)
    except NotSerialisable:
        for number, line in enumerate(filter(None, raw.splitlines()), 1):
            try:
                yield parse(line)
            except NotSerialisable as fault:
                raise UsageError(f"{file}, line {number}: no JSON ({fault})") from None
        return
    yield from value if isinstance(value, list) else [value]


def _body(value: Json) -> Mapping[str, Json] | None:
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("messages"), list):
        return value
    return next((body for name in _INSIDE if (body := _body(value.get(name))) is not None), None)


def _logged(file: Path) -> Mapping[str, Json]:
    """What the conversation of a log would send next, in the words every engine takes; the log is only read."""
    from contextkit.log.log import Log, Turns
    from contextkit.providers.openai_compatible import OpenAICompatible
    from contextkit.providers.rendering import PromptStore

    with Log.open(file) as log:
        provider = OpenAICompatible("any", host="vllm")
        body: Mapping[str, Json] = parse(PromptStore().layout(log, Turns.over(log), provider).body(b"{}"))
        return body


def to_json(found: Sequence[Instability], n_calls: int) -> str:
    """One object: how many calls were compared, and every finding."""
    return json.dumps(
        {"calls": n_calls, "is_stable": not found, "findings": [asdict(row) for row in found]},
        ensure_ascii=False,
        indent=2,
    )


def to_text(found: Sequence[Instability], n_calls: int) -> str:
    """A paragraph a finding."""
    if not found:
        return f"every prompt of {n_calls} calls is gone on with by the next"
    return "\n\n".join(_paragraph(row) for row in found)


def _paragraph(row: Instability) -> str:
    where = "before the first message" if row.message < 0 else f"in message {row.message}"
    when = f"calls {_listed(row.turns)}: " if row.turns else "not in these calls, but waiting: "
    lost = f"{row.lost_chars:,} characters" + (f" ({row.lost_tokens:,} tokens)" if row.lost_tokens is not None else "")
    lines = [
        f"{row.cause}: {row.why}",
        f"  {when}the prompt is good up to character {row.offset:,} ({where}); {lost} behind it are computed again",
        f"  was {row.was!r}",
        f"  now {row.now!r}",
        *(f"  {_remedy(remedy)}" for remedy in row.remedies),
    ]
    return "\n".join(
        lines if row.remedies else [*lines, "  no option and no single edit of the template was found to help"]
    )


def _remedy(remedy: Remedy) -> str:
    if remedy.kind == "caller":
        return f"do: {remedy.words}"
    changed = remedy.changed_chars
    longer = (
        f"; the last prompt becomes {abs(changed):,} characters {'longer' if changed > 0 else 'shorter'}"
        if changed
        else ""
    )
    return f"helps (rendered again to see): {remedy.words}{longer}"


def _listed(turns: Sequence[int]) -> str:
    shown = ", ".join(map(str, turns[:8]))
    return shown if len(turns) <= 8 else f"{shown} and {len(turns) - 8} more"


@click.group("template")
def command() -> None:
    """Look at what a model's own chat template makes of a conversation (extra `templates`).

    \b
    contextkit template check chat_template.jinja body.json
    """


@command.command("check")
@click.argument("template", type=click.Path(exists=True, dir_okay=False))
@click.argument("conversation", type=click.Path(exists=True))
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=JSON",
    help="A variable of the template, above those of the requests.",
)
@click.option("--now", type=click.DateTime(), help="The moment prompts are rendered at, for templates that print it.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def check(template: str, conversation: str, options: tuple[str, ...], now: datetime | None, as_json: bool) -> None:
    """Say where the prompts of a conversation stop being prefixes of the next, why, and what helps.

    Leave with 1 where they do.

    TEMPLATE is a .jinja file or a tokenizer_config.json. CONVERSATION is a /chat/completions body, a list or lines of
    them in order, or the folder of a Context. One body alone is cut at each reply.

    \b
    contextkit template check chat_template.jinja body.json
    contextkit template check tokenizer_config.json requests.jsonl --set preserve_thinking=true
    """
    from pathlib import Path

    from contextkit.providers.templates import Template, check_prefix_stable
    from contextkit.providers.templates.stability import calls_of

    given = dict(map(_option, options))
    asked = bodies_in(Path(conversation))
    bodies = [{**body, "chat_template_kwargs": {**(body.get("chat_template_kwargs") or {}), **given}} for body in asked]
    found = check_prefix_stable(Template(Path(template)), bodies, at=now)
    if as_json:
        for_programs()
    if as_json:
        echo_json(to_json(found, len(calls_of(bodies))))
    else:
        echo(to_text(found, len(calls_of(bodies))))
    if found:
        raise click.exceptions.Exit(1)


def _option(said: str) -> tuple[str, object]:
    """`NAME=JSON`; what is no JSON is text."""
    from contextkit.canonical import parse
    from contextkit.errors import NotSerialisable

    name, equals, value = said.partition("=")
    if not equals:
        raise click.UsageError(f"--set {said}: write NAME=JSON, as in preserve_thinking=true")
    try:
        return name, parse(value)
    except NotSerialisable:
        return name, value
