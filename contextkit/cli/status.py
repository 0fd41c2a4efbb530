"""Implements `contextkit status`: how the caches of running sessions stand, a line each, once or as they go on."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from contextkit.cli.report import FollowedFiles, exit_if_incomplete, print_faults, records_of
from contextkit.cli.terminal import for_programs
from contextkit.terminal import echo, echo_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from contextkit.report.status import Sessions, SessionState


@click.command("status")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option(
    "--watch", "is_watched", is_flag=True, help="Go on until Ctrl-C: each second in place, or a line a change."
)
@click.option("--json", "is_json", is_flag=True, help="An object for each session, one a line.")
def command(paths: tuple[str, ...], is_watched: bool, is_json: bool) -> None:
    """Say how the cache of each running session stands: what it read, how long it stays warm, what the next call would
    cost more without it, and what the last miss was due to.

    PATHS are files, folders or patterns, in any known format; without them: the session logs of this machine. A session
    counts as running while its cache is warm, and for 10 minutes after a call; where none is, the last one is shown.

    \b
    contextkit status
    contextkit status --watch
    contextkit status ledger.jsonl --watch
    """
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.registry import check_any_read
    from contextkit.importers.source import Faults
    from contextkit.report.status import Sessions

    if "-" in paths:
        raise click.UsageError("status reads files, not standard input: give the file instead of -")
    if is_json:
        for_programs()
    files = FollowedFiles("", paths, None)
    if is_watched:
        _watch(files, is_json=is_json)
    sessions, faults = Sessions(), Faults()
    with seldom_collecting():
        sessions.add(records_of(files.names, set(paths), faults, None))
    check_any_read(faults)
    texts = _texts(sessions, time.time(), is_json=is_json)
    if not texts:
        raise click.UsageError(f"{files.title}: no call in it; give a recording with calls")
    for text in texts.values():
        echo_json(text) if is_json else echo(text)
    if faults.is_incomplete:
        print_faults(faults)
    exit_if_incomplete(faults)


def _watch(files: FollowedFiles, *, is_json: bool) -> None:
    """Show the sessions of growing files until a signal ends it; exits as a shell calls that."""
    from contextkit.importers.live import GrowingSums
    from contextkit.report.follow import follow
    from contextkit.report.status import Sessions

    def lines(sessions: Sessions, now: float) -> dict[Hashable, str]:
        return _texts(sessions, now, is_json=is_json)

    def draw(sessions: Sessions, console: Console, now: float) -> RenderableType:
        from rich.console import Group

        from contextkit.report.terminal import plain_cell

        return Group(*(plain_cell(text, console) for text in lines(sessions, now).values()))

    growing = GrowingSums(lambda: files.names, Sessions)
    ended_by = follow(growing.read, files.look, lines, None if is_json else draw)
    raise click.exceptions.Exit(128 + ended_by if ended_by else 130)


def _texts(sessions: Sessions, now: float, *, is_json: bool) -> dict[Hashable, str]:
    """What is said of each running session, or of the last one, under what it depends on but for the seconds left."""
    states = sessions.states()
    running = [state for state in states if state.is_running(now)] or states[-1:]
    return {(state, state.is_warm(now)): _text(state, now, is_json=is_json) for state in running}


def _text(state: SessionState, now: float, *, is_json: bool) -> str:
    if not is_json:
        return f"{state.name}: {state.line(now)}"
    from contextkit.canonical import canonical

    return canonical(asdict(state) | {"is_warm": state.is_warm(now)}).decode()
