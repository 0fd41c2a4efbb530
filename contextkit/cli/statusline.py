"""Implements `contextkit statusline`: a status line for Claude Code, and its entry in the settings.

Claude Code runs the command after each reply and every few seconds, with a JSON on standard input, and shows what it
prints. It shows nothing if the command fails, so no fault of what is read ends it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.terminal import for_programs
from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.terminal import echo

if TYPE_CHECKING:
    from contextkit.report.status import SessionState

MOST_STATUS_BYTES = 1 << 20
"""Read of standard input."""
MOST_TRANSCRIPT_BYTES = 64 << 20
"""A larger transcript takes too long to be read for each line."""
MOST_CALL_SECONDS = 600
"""A loss that the judge sees so long before a miss without a cause, which has the time of its reply, is that miss."""
NO_CALL, UNKNOWN = "cache: no call yet", "cache: unknown"
"""Printed where there is nothing to say, and where nothing can be said."""


@click.command("statusline")
@click.option("--install", "action", flag_value="install", help="Add it to Claude Code's settings.")
@click.option("--uninstall", "action", flag_value="uninstall", help="Restore the settings as they were.")
@click.option(
    "--settings",
    type=click.Path(),
    metavar="PATH",
    help="Settings file; else settings.json in CLAUDE_CONFIG_DIR or ~/.claude.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Change the settings without asking.")
def command(action: str | None, settings: str | None, is_sure: bool) -> None:
    """Print a status line for Claude Code: what the session read from cache, how long the cache stays warm, what the
    next call would cost more without it, and what the last miss was due to.

    \b
    contextkit statusline --install
    contextkit statusline --uninstall
    """
    if action is None:
        if settings is not None or is_sure:
            raise click.UsageError("--settings and --yes belong to --install or --uninstall: add one of them")
        if sys.stdin is not None and sys.stdin.isatty():
            raise click.UsageError(
                "statusline reads the JSON that Claude Code hands to a status line: contextkit statusline --install sets it up"
            )
        for_programs()
        echo(status_line(time.time()))
        return
    from contextkit.cli.client_settings import install, uninstall

    if settings == "":
        raise click.UsageError("--settings names no file: give it the path of a settings.json")
    place = Path(settings).expanduser() if settings is not None else default_settings()
    (install if action == "install" else uninstall)(place, is_sure=is_sure)


def default_settings() -> Path:
    """Return the file of the user's settings."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def status_line(now: float) -> str:
    """Return the line for the status on standard input; never raises."""
    try:
        status = json.loads(sys.stdin.buffer.read(MOST_STATUS_BYTES)) if sys.stdin is not None else None
        return _line(status, now) if isinstance(status, dict) else UNKNOWN
    except Exception:  # noqa: BLE001 - whatever it was, a line that fails is a row that vanishes
        return UNKNOWN


def _line(status: dict[str, Any], now: float) -> str:
    from contextkit.report.status import from_client

    transcript = status.get("transcript_path")
    path = Path(transcript) if isinstance(transcript, str) else None
    state = from_client(status, at_risk_usd)
    if state is None:
        states = None if path is None else _states(path)
        return UNKNOWN if states is None else states[-1].line(now) if states else NO_CALL
    loss = state.last_loss
    if loss is not None and loss.cause == "unknown" and path is not None:
        judged = next((one.last_loss for one in reversed(_states(path) or [])), None)
        if judged is not None and -1 <= (loss.at or 0.0) - (judged.at or 0.0) <= MOST_CALL_SECONDS:
            state = replace(state, last_loss=judged)  # the judge may know why
    return state.line(now)


def _states(transcript: Path) -> list[SessionState] | None:
    """Return what `contextkit report` says of a session, by its transcript and those of its sub-agents; None where they
    are too large.
    """
    from contextkit.importers.claude_code import read
    from contextkit.importers.collecting import seldom_collecting
    from contextkit.importers.source import Source
    from contextkit.report.status import Sessions

    files = [transcript, *sorted(transcript.with_suffix("").glob("subagents/**/*.jsonl"))]
    files = [file for file in files if file.is_file()]
    if sum(file.stat().st_size for file in files) > MOST_TRANSCRIPT_BYTES:
        return None
    sessions = Sessions()
    with seldom_collecting():
        for file in files:
            sessions.add(read(Source(str(file))))
    return sessions.states(at_risk_usd)


# Prices
# ---------------------------------------------------------------------------------------------------------------------

Tiers = list[tuple[int, float]]
"""(prompt above so many tokens, dollars at risk a token), the highest first; none for a model without a price."""


def at_risk_usd(provider: str, model: str, n_tokens: int, ttl_seconds: int) -> float | None:
    """As `report.status.list_at_risk_usd`, by what an earlier line took from the price list: reading that list takes four
    times as long as all the rest. An empty provider stands for that of the model.
    """
    from contextkit.report.status import list_at_risk_usd

    model = re.sub(r"\[\w+\]$", "", model)  # [1m] is the client's word for a long context
    try:
        if load.user_facts():  # which may change any time
            return list_at_risk_usd(provider or _provider_of(model), model, n_tokens, ttl_seconds)
    except UsageError:  # a file of the user's that cannot be read
        return None
    key = f"{provider} {model} {ttl_seconds}"
    kept = _cached_tiers()
    tiers = kept.get(key)
    if tiers is None:
        tiers = kept[key] = _tiers(provider or _provider_of(model), model, ttl_seconds)
        _cache_tiers(kept)
    return next((n_tokens * usd for above, usd in tiers if n_tokens > above), None)


def _provider_of(model: str) -> str:
    from contextkit.importers.claude_code import provider_of

    return provider_of(model)


def _tiers(provider: str, model: str, ttl_seconds: int) -> Tiers:
    from contextkit.errors import UnknownModel
    from contextkit.prices import price_rows
    from contextkit.report.status import list_at_risk_usd

    try:
        starts = [above for above, _ in price_rows(provider, model, time.time())[1]]
    except UnknownModel:
        return []
    tiers = []
    for above, end in zip(starts, [1 << 40, *starts], strict=False):
        n_tokens = min(max(above, 0) + 1_000_000, end)
        usd = list_at_risk_usd(provider, model, n_tokens, ttl_seconds)
        tiers += [] if usd is None else [(above, usd / n_tokens)]
    return tiers


def _cached_tiers() -> dict[str, Tiers]:
    """Return what earlier lines kept, unless the price list is another one now, or the day is."""
    with suppress(Exception):
        kept = json.loads(_cache_file().read_bytes())
        if kept["of"] == _price_list():
            return {key: [(int(above), float(usd)) for above, usd in tiers] for key, tiers in kept["tiers"].items()}
    return {}


def _cache_tiers(tiers: dict[str, Tiers]) -> None:
    from contextkit.private_files import replacing

    with suppress(Exception):  # the next line reads the list again
        file = _cache_file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replacing(file) as part:
            part.write(json.dumps({"of": _price_list(), "tiers": tiers}).encode())


def _cache_file() -> Path:
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    folder = os.environ.get(variable, "")
    return (Path(folder) if folder else Path.home() / ".cache") / "contextkit" / "statusline.json"


def _price_list() -> list[str]:
    """Return what tells one price list from another: when its files were written, and the day."""
    package = find_spec("genai_prices")
    files = [Path(package.origin).with_name("data.py")] if package and package.origin else []
    files += [Path(load.__file__).with_name(name) for name in ("prices.toml", "models.toml")]
    return [datetime.now(UTC).date().isoformat(), *(f"{file} {file.stat().st_mtime_ns}" for file in files)]
