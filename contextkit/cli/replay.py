"""Implements `contextkit replay`: replays a recorded session through `Context` and reports what it would have cost.

With `--offload` a second replay keeps large results in files, and the two are compared: prompt sizes, bills, what was
restored. The model's turns are the recorded ones: it wrote them having seen the results whole, so it never restores
one. The comparison measures bytes and bills, not whether the model would have answered the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from contextkit.canonical import Json, canonical, parse
from contextkit.cli.models import say_assumed
from contextkit.cli.terminal import counter, interruptible
from contextkit.context import Context
from contextkit.errors import LogCorrupt, UsageError
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.log.entry import Entry
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.memory.offload import Offload
from contextkit.memory.reference import references_of
from contextkit.providers.provider import Provider
from contextkit.terminal import echo, echo_error, echo_json

Replayed = tuple[Context, Ledger]
"""A conversation, and every call with its bill."""
PREVIEW_SHARE = 5
"""A preview is at most the fifth part of the smallest result it stands for, and never more than `Offload` shows by
itself."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What one replay sent."""

    calls: int
    """How many were billed."""
    window_tokens: int
    """Input tokens of all calls: the window, summed over the calls."""
    largest_tokens: int
    """The largest window of a call."""
    cost_usd: float | None
    """What they cost at list prices; None where the model has none."""
    n_misses: int
    """Calls that lost something they could have read."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """The two beside one another."""

    plain: Windows
    """Every result in the window."""
    offloaded: Windows
    """Large ones in files."""
    n_results: int
    """Results said."""
    n_offloaded: int
    """Those of them that went to files, in part at least."""
    n_bytes: int
    """What went there."""
    n_restored: int
    """Results that come back exactly as the plain conversation has them; all of them, or something is broken."""


@contextmanager
def memory_at(folder: str | None, above_tokens: int) -> Iterator[Memory]:
    """A memory in `folder`, or in one that is gone afterwards."""
    rule = Offload(above_tokens, max(1, min(above_tokens // PREVIEW_SHARE, Offload().preview_tokens)))
    with TemporaryDirectory(ignore_cleanup_errors=True) as passing:
        yield Memory(FileMemory(folder or passing), offload=rule, todo=None, recitation=None, has_file_tool=False)


def compared(plain: Replayed, offloaded: Replayed) -> Offloading:
    """The figures of two replays of one recording; every result of the second is restored and compared with the first."""
    pairs = [(one, other) for one, other in zip(plain[0].log, offloaded[0].log, strict=True) if one.kind == "result"]
    references_of_calls = [list(references_of(other)) for _, other in pairs]
    restored = sum(_content(one) == offloaded[0].restore(other) for one, other in pairs)
    n_bytes = sum(reference.n_bytes for references in references_of_calls for reference in references)
    return Offloading(
        windows(plain[1]), windows(offloaded[1]), len(pairs), sum(map(bool, references_of_calls)), n_bytes, restored
    )


def windows(ledger: Ledger) -> Windows:
    """What the calls of a ledger held."""
    summary = summarise(ledger)
    sizes = [exchange.usage.prompt or 0 for exchange in ledger if exchange.usage is not None]
    return Windows(len(sizes), sum(sizes), max(sizes, default=0), summary.cost_usd, len(summary.losses))


def offloading_table(offloading: Offloading) -> str:
    """As a small table."""
    one, other = offloading.plain, offloading.offloaded
    rows = [
        ("", "as recorded", "offloaded", ""),
        (
            "window, all calls",
            f"{one.window_tokens:,}",
            f"{other.window_tokens:,}",
            _change(one.window_tokens, other.window_tokens),
        ),
        (
            "window, largest",
            f"{one.largest_tokens:,}",
            f"{other.largest_tokens:,}",
            _change(one.largest_tokens, other.largest_tokens),
        ),
        ("bill", _dollars(one.cost_usd), _dollars(other.cost_usd), _change(one.cost_usd, other.cost_usd)),
        ("misses", str(one.n_misses), str(other.n_misses), ""),
    ]
    summary = (
        f"{offloading.n_results} results, {offloading.n_offloaded} of them in files ({offloading.n_bytes:,} bytes): "
    )
    table = "\n".join(f"{name:<18}{left:>14}{right:>14}{change:>10}".rstrip() for name, left, right, change in rows)
    return f"{table}\n{summary}{offloading.n_restored} of {offloading.n_results} restored byte for byte"


def _content(entry: Entry) -> list[object]:
    return list(parse(entry.body)["content"])


def _dollars(cost: float | None) -> str:
    return "no price" if cost is None else f"${cost:,.2f}"


def _change(before: float | None, after: float | None) -> str:
    return f"{after / before - 1:+.1%}".replace("-", "−") if before and after is not None else ""


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
    "--offload",
    "is_offloaded",
    is_flag=True,
    help="Replay twice: as recorded, and with large results offloaded to files.",
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
    used_model = model or MODELS[name]
    if is_offloaded:
        with interruptible(_NOTHING):
            _offloaded(path, name, used_model, via, above_tokens or SMALL_TOKENS, folder, as_json)
        return
    if above_tokens is not None or folder is not None:
        raise UsageError("--above-tokens and --memory say how results are offloaded: give --offload as well")
    with interruptible(_NOTHING), counter(is_shown=not as_json) as report:
        _, ledger = replayed(path, name, used_model, via, _progress(report))
    summary = summarise(ledger)
    if as_json:
        echo_json(canonical(figures_of(summary, ledger)))
        return
    from contextkit.report.contents import Contents
    from contextkit.report.terminal import show

    echo(f"{path} · replayed on {used_model} via {via}")
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
    from contextkit.cli.session_replay import TRANSPORTS, Replay, ReplayClock
    from contextkit.importers.pi import read_pi
    from contextkit.importers.recording import AssistantTurn
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
        n = sum(isinstance(event, AssistantTurn) for event in recording.events)
        echo_error(
            f"{path}: the session branches; replayed is the branch it would be resumed on, {n:,} calls; "
            f"{recording.n_calls_elsewhere:,} calls on other branches are left out"
        )
    with TRANSPORTS[via](build(model, "off").wire) as transport:
        return Replay(
            recording, lambda level: build(model, level), transport, ReplayClock(), progress, observe, memory
        ).run()


def _offloaded(
    path: str, name: str, model: str, via: str, above_tokens: int, folder: str | None, as_json: bool
) -> None:
    """Say it twice and compare. Raises `LogCorrupt` where a result does not come back as it was."""
    with counter(is_shown=not as_json) as report, memory_at(folder, above_tokens) as memory:
        plain = replayed(path, name, model, via, _progress(report))
        offloading = compared(plain, replayed(path, name, model, via, _progress(report), memory=memory))
    head = f"{path} · replayed twice on {model} via {via}: as recorded, and with results above {above_tokens:,} tokens kept in files"
    if as_json:
        echo_json(canonical(asdict(offloading)))
    else:
        echo(f"{head}\ncounted: {COUNTED}\n{offloading_table(offloading)}")
    if offloading.n_restored < offloading.n_results:
        raise LogCorrupt(
            f"{offloading.n_results - offloading.n_restored} results did not come back from their files as they were"
        )


def provider_of(name: str) -> Callable[[str, str], Provider]:
    """(model, thinking level) → the provider that asks it, for a name of `MODELS`."""
    return _PROVIDERS[name]


def _progress(report: Callable[[str], None]) -> Callable[[int], None]:
    return lambda n: report(f"{n} calls replayed")


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
