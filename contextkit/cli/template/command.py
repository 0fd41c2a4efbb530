"""`contextkit template`: whether a chat template keeps each prompt a prefix of the next."""

from __future__ import annotations

from datetime import datetime

import click

from contextkit.cli.terminal.streams import for_programs
from contextkit.terminal import echo, echo_json


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

    from contextkit.cli.template.reading import bodies_in
    from contextkit.cli.template.told import to_json, to_text
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
