"""`contextkit serve`: the local provider."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("serve")
@click.option("--port", default=8089, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Anything but loopback opens it to the network.")
@click.option("--script", "script_path", type=click.Path(exists=True, dir_okay=False), help='JSON: {"replies": [...]}; without, it echoes.')
@click.option("--frozen", is_flag=True, help="The clock only moves by POST /_contextkit/clock.")
def command(port: int, host: str, script_path: str | None, frozen: bool) -> None:
    """A provider that is not there: /v1/messages, /v1/chat/completions and /v1/responses on loopback, billed by a reference cache.

    \b
    contextkit serve --port 8089
    ANTHROPIC_BASE_URL=http://127.0.0.1:8089 ANTHROPIC_API_KEY=any python my_agent.py
    curl http://127.0.0.1:8089/_contextkit/ledger
    """
    from contextkit.server.local import serve

    replies = _replies(script_path) if script_path else None
    serve(host=host, port=port, replies=replies, is_frozen=frozen, announce=_announce)
    raise click.Abort  # it only comes back from Ctrl-C


def _announce(url: str) -> None:
    """The URL, at once also where standard output is a pipe."""
    click.echo(url)


def _replies(path: str) -> list[object]:
    """The scripts in a file, checked before the port opens; raises `UsageError` naming the file."""
    from contextkit.canonical import parse
    from contextkit.errors import NotSerialisable, UnreadableRequest
    from contextkit.server.replies import Replies

    try:
        value = parse(Path(path).read_bytes())
        if not isinstance(value, dict) or not isinstance(value.get("replies"), list):
            raise UnreadableRequest("$", 'a script is an object with a list: {"replies": [{"parts": [...]}]}')
        Replies(value["replies"])
    except (NotSerialisable, UnreadableRequest) as fault:
        raise click.UsageError(f"{path}: {fault}") from None
    return list(value["replies"])
