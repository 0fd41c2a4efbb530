"""`contextkit lock`: pin what stands first in every prompt, and say in CI what a change of it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from contextkit.cli.terminal.streams import for_programs
from contextkit.terminal import echo, echo_json

if TYPE_CHECKING:
    from contextkit.cli.lock.settings import Settings
    from contextkit.prompt.lock import LockedHead


@click.group("lock")
def command() -> None:
    """Pin the head of every agent's prompts (system and tools) in a file that is reviewed like code.

    Agents are named in [tool.contextkit.lock.agents] of pyproject.toml; this command imports them, no other does.

    \b
    contextkit lock write
    contextkit lock check --diff
    """


@command.command("write")
@click.option(
    "--project", default=".", type=click.Path(exists=True, file_okay=False), help="Folder whose pyproject.toml holds."
)
def write(project: str) -> None:
    """Write the lock file."""
    from contextkit.cli.lock.settings import read_settings
    from contextkit.cli.lock.text import lock_text

    settings = read_settings(project)
    heads = _heads(settings)
    settings.path.write_bytes(lock_text(heads).encode())
    for name, head in heads.items():
        about = "about " if head.is_estimate else ""
        echo(f"{name}: {len(head.blocks)} blocks, {about}{head.n_tokens:,} tokens, {head.digest[:8]} ({head.model})")
    echo(f"written to {settings.path}")


@command.command("check")
@click.option(
    "--project", default=".", type=click.Path(exists=True, file_okay=False), help="Folder whose pyproject.toml holds."
)
@click.option(
    "--live-sessions", type=click.IntRange(0), help="Conversations going on, instead of what pyproject.toml says."
)
@click.option(
    "--session-tokens", type=click.IntRange(0), help="What was said in each, instead of what pyproject.toml says."
)
@click.option("--diff", is_flag=True, help="Every changed block, line by line.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def check(project: str, live_sessions: int | None, session_tokens: int | None, diff: bool, as_json: bool) -> None:
    """Say what a change since the lock was written re-bills at first use; leave with 1 when that is over the budget."""
    from contextkit.cli.lock.checking import check_all
    from contextkit.cli.lock.settings import read_settings
    from contextkit.cli.lock.text import read_lock

    settings = read_settings(project)
    if not settings.path.is_file():
        raise click.UsageError(
            f"{settings.path} is not there: `contextkit lock write` writes it, version control keeps it"
        )
    locked = read_lock(settings.path.read_text(encoding="utf-8"), str(settings.path))
    checked = check_all(settings, locked, _heads(settings), live_sessions, session_tokens)
    if as_json:
        for_programs()
    if as_json:
        echo_json(checked.to_json())
    else:
        echo(checked.to_text(with_diff=diff))
    if checked.is_over:
        raise click.exceptions.Exit(1)


def _heads(settings: Settings) -> dict[str, LockedHead]:
    from contextkit.cli.lock.agents import load_head

    return {agent.name: load_head(agent, settings.root) for agent in settings.agents}
