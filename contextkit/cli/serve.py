"""`contextkit serve`: the local provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.engine_options import engine_options
from contextkit.engines.registry import ENGINES
from contextkit.terminal import echo

if TYPE_CHECKING:
    from contextkit.engines.registry import Engine
    from contextkit.providers.anthropic.blocks import BillingHeader


@click.command("serve")
@click.option("--port", default=8089, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Anything but loopback opens it to the network.")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, metavar="NAME", help="Also answer to this host: host.docker.internal."
)
@click.option(
    "--script",
    "script_path",
    type=click.Path(exists=True, dir_okay=False),
    help='JSON: {"replies": [...]}; without, it echoes.',
)
@click.option(
    "--strict", is_flag=True, help="Refuse unknown fields and unknown or retired models, as the provider does."
)
@click.option(
    "--billing-header",
    type=click.Choice(["neutral", "significant"]),
    default="neutral",
    show_default=True,
    help="Whether Claude Code's billing header takes part in the cache key.",
)
@click.option("--frozen", is_flag=True, help="The clock only moves by POST /_contextkit/clock.")
@click.option(
    "--cache",
    help=f"Bill the OpenAI-compatible endpoints as an engine does, which the options below are about: {', '.join(ENGINES)}.",
)
@engine_options(ENGINES)
def command(
    port: int,
    host: str,
    allow_hosts: tuple[str, ...],
    script_path: str | None,
    frozen: bool,
    strict: bool,
    billing_header: BillingHeader,
    cache: str | None,
    **options: int | str | None,
) -> None:
    """A provider that is not there: /v1/messages, /v1/chat/completions and /v1/responses on loopback, billed by a
    reference cache.

    \b
    contextkit serve --port 8089
    ANTHROPIC_BASE_URL=http://127.0.0.1:8089 ANTHROPIC_API_KEY=any python my_agent.py
    curl http://127.0.0.1:8089/_contextkit/ledger
    contextkit serve --cache vllm --block-size 16 --capacity-tokens 65536
    """
    from contextkit.server.local import serve

    shared: dict[str, Any] = {
        "host": host,
        "port": port,
        "allow_hosts": allow_hosts,
        "strict": strict,
        "billing_header": billing_header,
    }
    replies = _replies(script_path) if script_path else None
    serve(replies=replies, is_frozen=frozen, cache=_engine(cache, options), announce=_announce, **shared)
    raise click.Abort  # it only comes back from Ctrl-C


def _engine(name: str | None, options: dict[str, int | str | None]) -> Engine | None:
    """The engine that is asked for; raises `UsageError` where there is none, or where it has no such option."""
    from contextkit.engines.registry import engine

    options_used = [option for option, value in options.items() if value is not None]
    if name is None and options_used:
        raise click.UsageError(f"--{options_used[0].replace('_', '-')} is an engine's: name it with --cache")
    return None if name is None else engine(name, **options)


def _announce(url: str) -> None:
    """The URL, at once also where standard output is a pipe."""
    echo(url)


def _replies(path: str) -> list[object]:
    """The scripts in a file, checked before the port opens; raises `UsageError` naming the file."""
    from contextkit.canonical import parse
    from contextkit.errors import NotSerialisable, UnreadableRequest
    from contextkit.server.scripted import Replies

    try:
        value = parse(Path(path).read_bytes())
        if not isinstance(value, dict) or not isinstance(value.get("replies"), list):
            raise UnreadableRequest("$", 'a script is an object with a list: {"replies": [{"parts": [...]}]}')
        Replies(value["replies"])
    except (NotSerialisable, UnreadableRequest) as fault:
        raise click.UsageError(f"{path}: {fault}") from None
    return list(value["replies"])
