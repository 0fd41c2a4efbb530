"""`contextkit replay`: a recorded session through `Context`, and what it would have cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contextkit.canonical import Json, canonical
from contextkit.cli.models import say_assumed
from contextkit.cli.terminal.counter import counter
from contextkit.cli.terminal.streams import interruptible
from contextkit.errors import LogCorrupt, UsageError
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.memory.memory import Memory
from contextkit.providers.provider import Provider
from contextkit.terminal import echo, echo_error, echo_json

if TYPE_CHECKING:
    from contextkit.context import Context
    from contextkit.providers.request import Request

MODELS = {"anthropic": "claude-opus-4-5", "openai-chat": "gpt-5.6-sol", "openai-responses": "gpt-5.6-sol"}
"""Provider → the model asked where none is named."""
_MAKERS = {"anthropic": "anthropic", "openai-chat": "openai", "openai-responses": "openai"}
"""Provider → whose models the local provider answers for at its endpoint."""
SMALL_TOKENS = 250
"""Results above this are offloaded where nothing is said: in the recorded session nine tenths of the bytes of all
results."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 20_000}
"""Thinking level of a recording → tokens; a model that takes efforts gets the level itself."""
_NOTHING = "a session is replayed whole or not at all; no figures"
"""Said after Ctrl-C."""
COUNTED = "the reference cache's bills for prompts rebuilt from the recording"
"""What the sums are of; not what was billed when it was recorded: a recording holds neither system prompt nor tools."""
MAX_TOKENS = 21_000
"""The most that the typed methods send without streaming, rounded."""


@click.command("replay")
@click.argument("path", type=click.Path())
@click.option(
    "--provider",
    "name",
    type=click.Choice(list(MODELS)),
    default="anthropic",
    show_default=True,
    help="Endpoint to speak.",
)
@click.option("--model", help="Model to ask.  [default: claude-opus-4-5, or gpt-5.6-sol]")
@click.option(
    "--via",
    type=click.Choice(["sdk", "direct"]),
    default="sdk",
    show_default=True,
    help="The real client, or no HTTP at all.",
)
@click.option(
    "--offload", "is_offloaded", is_flag=True, help="Say it twice: as recorded, and with large results kept in files."
)
@click.option(
    "--above-tokens", type=click.IntRange(min=2), help="What is a large result, with --offload.  [default: 250]"
)
@click.option(
    "--memory",
    "folder",
    type=click.Path(file_okay=False),
    help="Keep the files here, with --offload.  [default: nowhere]",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object, every call's bill included.")
def command(
    path: str,
    name: str,
    model: str | None,
    via: str,
    is_offloaded: bool,
    above_tokens: int | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Say a recorded session (a pi session file) again through Context, against the local provider, at its recorded
    times.

    \b
    contextkit replay session.jsonl
    contextkit replay session.jsonl --provider openai-chat --model gpt-6.1-sol --json
    contextkit replay session.jsonl --offload --above-tokens 1000 --memory kept/
    """
    asked = model or MODELS[name]
    if is_offloaded:
        with interruptible(_NOTHING):
            _offloaded(path, name, asked, via, above_tokens or SMALL_TOKENS, folder, as_json)
        return
    if above_tokens is not None or folder is not None:
        raise UsageError("--above-tokens and --memory say how results are offloaded: give --offload as well")
    with interruptible(_NOTHING), counter(is_shown=not as_json) as tell:
        _, ledger = replayed(path, name, asked, via, _told(tell))
    summary = summarise(ledger)
    if as_json:
        echo_json(canonical(figures_of(summary, ledger)))
        return
    from contextkit.report.contents import Contents
    from contextkit.report.terminal import show

    echo(f"{path} · replayed on {asked} via {via}")
    show(Contents("", summary, counted=COUNTED))


def replayed(
    path: str | Path,
    name: str,
    model: str,
    via: str,
    progress: Callable[[int], None] = lambda n: None,
    observe: Callable[[Request], None] = lambda request: None,
    memory: Memory | None = None,
) -> tuple[Context, Ledger]:
    """The conversation a replay leaves behind, and every call with its bill.

    `observe` is shown every request before it leaves.

    With a `memory` large results go to its files as they are said.

    Raises `UnreadableLog` for what is no pi session, `UsageError` for another provider's model.
    """
    from contextkit.cli.replaying import Clock, Replay
    from contextkit.cli.roads import ROADS
    from contextkit.importers.pi import read_pi
    from contextkit.importers.recording import AssistantSaid
    from contextkit.models import model_named

    owner = model_named(model).provider
    if owner != _MAKERS[name]:
        what = f"it is a model of {owner}" if owner else "no model of that name is known, nor one like it"
        raise UsageError(f"--provider {name} has no {model}: {what}; leave --model out for {MODELS[name]}")
    say_assumed(model_named(model))
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder: give one session file in it")
    build = provider_of(name)
    recording = read_pi(path)
    if recording.n_calls_elsewhere:
        n = sum(isinstance(event, AssistantSaid) for event in recording.events)
        echo_error(
            f"{path}: the session branches; replayed is the branch it would be resumed on, {n:,} calls; "
            f"{recording.n_calls_elsewhere:,} calls on other branches are left out"
        )
    with ROADS[via](build(model, "off").wire) as road:
        return Replay(recording, lambda level: build(model, level), road, Clock(), progress, observe, memory).run()


def _offloaded(
    path: str, name: str, model: str, via: str, above_tokens: int, folder: str | None, as_json: bool
) -> None:
    """Say it twice and compare. Raises `LogCorrupt` where a result does not come back as it was."""
    from contextkit.cli.offload.compared import compared, memory_at, shown

    with counter(is_shown=not as_json) as tell, memory_at(folder, above_tokens) as memory:
        plain = replayed(path, name, model, via, _told(tell))
        found = compared(plain, replayed(path, name, model, via, _told(tell), memory=memory))
    head = f"{path} · replayed twice on {model} via {via}: as recorded, and with results above {above_tokens:,} tokens kept in files"
    if as_json:
        echo_json(canonical(asdict(found)))
    else:
        echo(f"{head}\ncounted: {COUNTED}\n{shown(found)}")
    if found.n_restored < found.n_results:
        raise LogCorrupt(
            f"{found.n_results - found.n_restored} results did not come back from their files as they were"
        )


def provider_of(name: str) -> Callable[[str, str], Provider]:
    """(model, thinking level) → the provider that asks it, for a name of `MODELS`."""
    return _PROVIDERS[name]


def _told(tell: Callable[[str], None]) -> Callable[[int], None]:
    return lambda n: tell(f"{n} calls replayed")


def _anthropic(model: str, level: str) -> Provider:
    from contextkit.models import model_named
    from contextkit.providers.anthropic.messages import AnthropicMessages

    takes_budget = model_named(
        model
    ).accepts_prefill  # the models before adaptive thinking are those that still accept prefill
    if level not in BUDGETS:
        return AnthropicMessages(model, max_tokens=MAX_TOKENS)
    if takes_budget:
        return AnthropicMessages(
            model, max_tokens=MAX_TOKENS, thinking={"type": "enabled", "budget_tokens": BUDGETS[level]}
        )
    return AnthropicMessages(model, max_tokens=MAX_TOKENS, output_config={"effort": _EFFORT[level]})


_EFFORT = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}


def _chat(model: str, level: str) -> Provider:
    from contextkit.providers.openai.chat import OpenAIChat

    return OpenAIChat(model, reasoning_effort=_EFFORT[level]) if level in _EFFORT else OpenAIChat(model)


def _responses(model: str, level: str) -> Provider:
    from contextkit.providers.openai.responses import OpenAIResponses

    return OpenAIResponses(model, reasoning={"effort": _EFFORT[level]}) if level in _EFFORT else OpenAIResponses(model)


_PROVIDERS: dict[str, Callable[[str, str], Provider]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
}


def figures_of(summary: Summary, ledger: Ledger) -> Json:
    """What `--json` says."""
    counters = ("fresh", "read", "write_5m", "write_1h", "output")
    return {
        "calls": summary.calls,
        "hit_rate": summary.hit_rate,
        "cost_usd": summary.cost_usd,
        "cost_usd_uncached": summary.cost_uncached_usd,
        "misses": [asdict(miss) for miss in summary.misses],
        "per_call": [{name: getattr(exchange.usage, name) for name in counters} for exchange in ledger],
    }
