"""Options of the engines' reference caches on the command line, for every command that makes such a cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import click

from contextkit.engines.registry import Option, options_of

MEANINGS = {
    "block_size": "Tokens in a block, page or chunk.",
    "capacity_tokens": "Tokens its memory holds.",
    "engine_version": "Whose rules hold.",
    "policy": "What is forgotten first.",
    "window": "Sliding window of the model in tokens, 0 for none.",
    "retention": "Tokens between the tails that a window keeps, 0 for none.",
    "slots": "Requests it serves at a time; where nobody says, 4 that share one memory.",
    "slot_tokens": "Tokens a slot holds.",
    "unified": "Whether slots share one memory.",
    "idle_slots": "Its --cache-idle-slots.",
    "similarity": "Its --slot-prompt-similarity.",
    "cache_reuse": "Its --cache-reuse: the shortest run reused at another position.",
    "context_shift": "Its --context-shift.",
    "host_tokens": "Tokens of saved states below its memory, 0 for none.",
    "disk_tokens": "Tokens on a disk below that, 0 for none.",
    "memory": "What the model keeps.",
    "batch": "Its --batch-size.",
    "ubatch": "Its --ubatch-size.",
    "checkpoints": "Its --ctx-checkpoints.",
    "batch_tokens": "Tokens one forward pass computes.",
    "safety_margin": "Share of pages kept free.",
}
"""Option of a reference cache → its help."""


def options_of_all(engines: Iterable[str]) -> dict[str, tuple[Option, dict[str, Any]]]:
    """Option → how it is declared, and those of these engines that have it, each with its default."""
    found: dict[str, tuple[Option, dict[str, Any]]] = {}
    for name in engines:
        for option in options_of(name).values():
            found.setdefault(option.name, (option, {}))[1][name] = option.default
    return found


def engine_options(engines: Iterable[str], besides: Collection[str] = ()) -> Callable[[Any], Any]:
    """Decorate a command with every option of these engines; `besides` has those it declares itself."""
    rows = [row for name, row in options_of_all(engines).items() if name not in besides]

    def decorate(command: Any) -> Any:
        for option, defaults in reversed(rows):
            command = _declared(option, defaults)(command)
        return command

    return decorate


def _declared(option: Option, defaults: Mapping[str, Any]) -> Callable[..., Any]:
    of_engines = ", ".join(
        f"{name} {option_text(value)}" if value is not None else name for name, value in defaults.items()
    )
    flag, kind = flag_of(option.name), click.Choice(option.choices) if option.choices else option.kind
    if option.kind is bool:
        flag += f"/--no-{option.name.replace('_', '-')}"
    return click.option(flag, default=None, type=kind, help=f"{MEANINGS[option.name]} [{of_engines}]")


def flag_of(option: str) -> str:
    """Return an option as it is typed."""
    return f"--{option.replace('_', '-')}"


def option_text(value: Any) -> str:
    """Return a value of an option as people read it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
