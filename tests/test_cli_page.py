"""`docs/reference/cli.md` has a section for each command, and in it each option once the command has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from contextkit.cli.main import COMMANDS, cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
SECTIONS = dict(
    re.findall(r"^## `contextkit ([a-z -]+)`\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)
EVERYWHERE = {"--models", "--help"}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Names and commands, those of groups by both words."""
    with click.Context(cli) as context:
        for name in COMMANDS:
            command = cli.get_command(context, name)
            if isinstance(command, click.Group):
                yield from ((f"{name} {part}", one) for part, one in command.commands.items())
            elif command is not None:
                yield name, command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda one: one if isinstance(one, str) else "")
def test_a_command_has_a_section_with_its_options(name: str, command: click.Command) -> None:
    section = SECTIONS.get(name) or SECTIONS[name.partition(" ")[0]]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("--")}
    written = set(re.findall(r"--[a-z][a-z-]*[a-z]", section))
    assert options - EVERYWHERE - written == set(), "options without a row"
    others = {option for _, other in commands() for one in other.params for option in one.opts}
    assert written - EVERYWHERE - options - others == set(), "options that no command has"
