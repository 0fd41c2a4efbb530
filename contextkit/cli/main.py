"""`contextkit`: the commands.

Each command is one file; errors of ours end with one line and exit code 2, never with a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from contextkit.errors import ContextKitError

COMMANDS = {
    "demo": "contextkit.cli.demo",
    "replay": "contextkit.cli.replay",
    "report": "contextkit.cli.report",
    "serve": "contextkit.cli.serve",
}
"""Command → module that holds a `command`; imported when it is called, so that `--help` is quick."""


class _Group(click.Group):
    """Commands loaded on use; our errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[name]).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ContextKitError as error:
            raise click.UsageError(str(error)) from None


@click.command(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="contextkit")
def cli() -> None:
    """Build an agent's context so that every model call re-uses the provider's prompt cache; measure what was lost.

    \b
    contextkit demo                              an agent loop built three ways, side by side
    contextkit report session.jsonl              what a recorded session lost, and to what
    contextkit replay session.jsonl              the same session through contextkit
    contextkit serve --port 8089                 a local provider for tests
    """


def main() -> None:
    """Entry point: exit code 2 and one line for what the caller can mend, 130 for Ctrl-C."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"contextkit: {' '.join(error.format_message().split())}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


if __name__ == "__main__":
    main()
