"""Models that a command's user names, and the file of models and prices."""

from __future__ import annotations

import click

from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.models import Model, assumption
from contextkit.terminal import echo_error

REGISTERING = "To give its own, add a [[models]] row to a TOML file and name the file with --models"
"""What to do about an assumed model, for who typed a command."""


def say_assumed(*rows: Model) -> None:
    """Print one line on standard error for each model whose rules are assumed."""
    for row in rows:
        if row.is_assumed:
            echo_error(f"contextkit: {assumption(row, REGISTERING)}")


def read_models(context: click.Context, option: click.Parameter, path: str | None) -> None:
    """Use the file of `--models`, and read it and the files of the environment and of pyproject.toml: a fault ends with
    exit code 2.
    """
    from contextkit.models import read_user_rows
    from contextkit.prices import read_user_prices

    if path is not None:
        load.use_file(path)
    elif context.parent is not None:
        return  # the group has read the others
    try:
        read_user_rows()
        read_user_prices()
    except UsageError as error:  # of the group itself, before a command runs
        raise click.UsageError(str(error)) from None


def with_models(command: click.Command) -> click.Command:
    """Give a command, and those below it, the option `--models`."""
    if not any("--models" in option.opts for option in command.params):
        command.params.append(models_option())
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_models(inner)
    return command


def models_option() -> click.Option:
    """Make the option `--models`, which every command has that knows models or prices."""
    return click.Option(
        ["--models", "models_file"],
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read_models,
        help="TOML file of your own models and prices ([[models]], [[prices]]); else CONTEXTKIT_MODELS, else pyproject.toml.",
    )
