"""`contextkit simulate`: what a cache would have done with a trace, at one capacity or at many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from contextkit.canonical import canonical
from contextkit.cli.engine_options import engine_options, options_of_all
from contextkit.cli.terminal import check_file
from contextkit.engines.registry import ENGINES, sizes_of
from contextkit.errors import UsageError
from contextkit.private_files import replacing
from contextkit.terminal import echo_error, echo_json

if TYPE_CHECKING:
    from contextkit.engines.block_trace import BlockRequest
    from contextkit.engines.compare import Comparison
    from contextkit.engines.trace_engines import Setting
    from contextkit.ledger.ledger import Ledger
    from contextkit.report.progress import Watch

UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
"""What a letter behind a capacity means."""
ENDLESS = ("unbounded", "inf", "none")
"""Words for a capacity without end."""
OF_ENGINES = (
    "policies",
    "capacities",
    "instances",
    "routing",
    "slots",
    "host_capacity",
    "disk_capacity",
    "arrival",
)
"""Options that say nothing to a hosted provider's cache."""
OF_TRACES = ("instances", "routing", "arrival")
"""Options that say nothing to a ledger of token ids, which is replayed on one engine as it is."""
ENGINES_WITH = {
    "slots": ("llamacpp",),
    "host_capacity": ("tiered",),
    "disk_capacity": ("tiered",),
}
"""Option → the engines that have it."""
OWN = ("policy", "capacity_tokens", "slots")
"""Options of engines that stand here in other words, or for block traces too."""
OF_LEDGERS = tuple(name for name in options_of_all(ENGINES) if name not in OWN)
"""Options of engines that a ledger of token ids is replayed with, as `serve` had them."""
WRITTEN = {"policies": "policy", "capacities": "capacity"}
"""Parameter → its option, where the two differ."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    caches: tuple[str, ...]
    policies: tuple[str, ...]
    capacities: tuple[int | None, ...]
    instances: int
    routing: str
    slots: int | None
    host_capacity: int | None
    disk_capacity: int | None
    arrival: str
    of_engines: dict[str, Any]
    model: str | None
    html: str | None
    as_json: bool


def _words(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    if isinstance(param.default, str) and param.default and not value.strip(" ,"):
        raise click.BadParameter(f"it is empty: leave it out for {param.default}")
    return tuple(dict.fromkeys(word.strip().lower() for word in value.split(",") if word.strip()))


def _page(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    check_file("--html", value)
    if value is not None and not Path(value).parent.is_dir():
        raise click.BadParameter(f"there is no folder {Path(value).parent}: make it first, or name another")
    return value


def _capacities(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int | None, ...]:
    return tuple(dict.fromkeys(map(_capacity, _words(ctx, param, value or ""))))


def _capacity(word: str) -> int | None:
    """A number of blocks, `k`, `m` and `g` for thousands; raises `BadParameter` for what is none."""
    if word in ENDLESS:
        return None
    digits, unit = (word[:-1], UNITS[word[-1]]) if word[-1] in UNITS else (word, 1)
    try:
        blocks = round(float(digits.replace("_", "")) * unit)
    except (ValueError, OverflowError):
        blocks = 0
    if blocks < 1:
        raise click.BadParameter(
            f"{word!r} is no number of blocks: give 1 or more, such as 500, 10k, 1.5m, or unbounded"
        )
    return blocks


@click.command("simulate")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "--cache",
    "caches",
    default="vllm",
    callback=_words,
    help="vllm (default), sglang, llamacpp, transformers, tiered; anthropic, …",
)
@click.option("--policy", "policies", default="", callback=_words, help="lru, lfu, fifo, …; each cache has its own.")
@click.option(
    "--capacity",
    "capacities",
    callback=_capacities,
    help="Blocks an instance holds: 500, 10k, unbounded.  [default: unbounded]",
)
@click.option(
    "--instances", default=1, show_default=True, type=click.IntRange(1), help="How many of the cache there are."
)
@click.option("--routing", default="round-robin", show_default=True, help="round-robin, session or prefix.")
@click.option(
    "--slots", type=click.IntRange(1), help="llamacpp: requests served at a time.  [default: 4 that share one memory]"
)
@click.option(
    "--host-capacity", type=click.IntRange(1), help="tiered: blocks below the GPU.  [default: twice --capacity]"
)
@click.option(
    "--disk-capacity", type=click.IntRange(1), help="tiered: blocks on a disk below the host.  [default: no disk]"
)
@click.option(
    "--arrival",
    type=click.Choice(("in-turn", "together")),
    default="in-turn",
    show_default=True,
    help="How traces of several files follow.",
)
@engine_options(ENGINES, besides=OWN)
@click.option("--model", help="Hosted caches: the model to bill instead of the recorded one.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True),
    callback=_page,
    help="Write a page: hit rate against capacity.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(traces: tuple[str, ...], **values: Any) -> None:
    """Replay TRACEs through a model of a cache: block traces (Mooncake, kv-cache-tester, plain or .gz) and ledgers.

    A TRACE is a file, a folder, a pattern, or - for standard input. Several caches, policies and capacities, divided by
    commas, are replayed side by side.

    \b
    contextkit simulate traces/ --capacity 1k,10k,100k
    contextkit simulate trace.jsonl.gz --cache sglang --policy lru,lfu --capacity 10k,50k --html curve.html
    contextkit simulate traces/ --instances 8 --routing prefix --capacity 20k --json
    contextkit simulate ledger.jsonl --cache anthropic --model claude-opus-4-5
    contextkit simulate served.jsonl --cache vllm --block-size 16 --capacity 4k
    """
    from contextkit.report.progress import watching
    from contextkit.report.simulation import as_json, page_of, show

    of_engines = {name: values.pop(name) for name in OF_LEDGERS}
    options = Options(**values, of_engines={name: value for name, value in of_engines.items() if value is not None})
    with watching() as watch:
        comparison = _compared(traces, options, watch)
        watch.finish()
        if options.as_json:
            echo_json(canonical({**as_json(comparison), "interrupted": watch.is_stopped}))
        else:
            show(comparison)
        if options.html and comparison.outcomes:
            with replacing(options.html) as file:
                file.write(page_of(comparison, [Path(name).name or name for name in traces]).encode())
            echo_error(f"{options.html} written")
        if watch.is_stopped:
            done = "these are the figures of the requests replayed so far"
            echo_error(f"interrupted: {done if comparison.outcomes else 'nothing had been replayed yet'}")
            raise click.exceptions.Exit(130)


def _compared(traces: Sequence[str], options: Options, watch: Watch) -> Comparison:
    """Replay the traces on hosted caches, on engines over token ids, or on engines over block ids."""
    from contextkit.engines.compare import compare
    from contextkit.engines.hosted import PROVIDERS
    from contextkit.importers.block_trace import trace_files

    hosted = [cache for cache in options.caches if cache in PROVIDERS]
    settings = _settings([cache for cache in options.caches if cache not in PROVIDERS], options)
    if hosted and settings:
        raise UsageError(
            f"{hosted[0]} bills prompts, {settings[0].cache} holds blocks: no trace has both, replay one after the other"
        )
    unfit = [option for option, engines in ENGINES_WITH.items() if not set(engines) & set(options.caches)]
    unfit += [option for option in OF_LEDGERS if not any(option in sizes_of(setting.cache) for setting in settings)]
    _refuse(
        (*OF_ENGINES, *OF_LEDGERS) if hosted else ("model", *unfit),
        f"says nothing to {', '.join(options.caches)}: leave it out",
    )
    names: list[str] = []
    for name in traces:
        ledger = Path(name) / "ledger.jsonl"  # in the folder of a context, which has other files too
        names += [str(ledger)] if ledger.is_file() else trace_files([name])
    if hosted:
        return _on_hosted(_joined(names, watch), hosted, options, watch)
    tokens = _tokens_in(names, watch)
    if tokens is not None:
        return _on_engines(tokens, options, watch)
    _refuse(OF_LEDGERS, "is for ledgers of contextkit serve --cache, and no trace here has token ids")
    has_room = any(setting.capacity is not None for setting in settings)
    has_curve = options.html is not None and (not has_room or find_spec("numpy") is not None)
    requests = watch.stoppable(_requests(names, options.arrival, watch))
    return compare(requests, settings, options.routing, has_curve=has_curve)


def _refuse(names: Sequence[str], why: str) -> None:
    """Raise `UsageError` for the first of these options that stands on the command line."""
    source = click.get_current_context().get_parameter_source
    for name in names:
        if source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--{WRITTEN.get(name, name).replace('_', '-')} {why}")


def _settings(caches: Sequence[str], options: Options) -> list[Setting]:
    """Every combination; raises `UsageError` naming the caches there are where one of them is none."""
    from contextkit.engines.hosted import PROVIDERS
    from contextkit.engines.trace_engines import POLICIES, Setting

    for cache in caches:
        if cache not in POLICIES:
            raise UsageError(f"{cache!r} is no cache: use one of {', '.join((*POLICIES, *PROVIDERS))}")
    return [
        Setting(cache, policy, capacity, options.instances, options.slots, options.host_capacity, options.disk_capacity)
        for cache in caches
        for policy, capacity in product(options.policies or POLICIES[cache][:1], options.capacities or (None,))
    ]


def _on_hosted(ledger: Ledger, hosted: Sequence[str], options: Options, watch: Watch) -> Comparison:
    """Replay prompts on hosted caches, one after another."""
    from contextkit.engines.compare import Comparison
    from contextkit.engines.hosted import replay_hosted, why_no_price

    outcomes = []
    for cache in watch.parts(hosted):
        with watch.starting():
            outcome = replay_hosted(ledger, cache, options.model, watch=lambda calls: watch.share(calls, len(ledger)))
            outcomes.append(outcome)
            if outcome.cost_usd is None:
                echo_error(f"{cache}: no dollars: {why_no_price(ledger, cache, options.model)}")
    return Comparison(tuple(outcomes), None, ())


def _on_engines(ledger: Ledger, options: Options, watch: Watch) -> Comparison:
    """Replay token ids on engines, each as `serve` would have run it.

    An option goes to the engines that have it. Raises `UsageError` for a policy that an engine does not have.
    """
    from contextkit.engines.compare import Comparison
    from contextkit.engines.replay import block_tokens, replay_engine, room_of
    from contextkit.engines.trace_engines import HOST_RATIO, POLICIES

    _refuse(OF_TRACES, "says nothing to a ledger of token ids, which is replayed on one engine as it is: leave it out")
    host = ("host_capacity", "capacities") if "llamacpp" in options.caches else ("host_capacity",)
    for names, option in ((host, "host_tokens"), (("disk_capacity",), "disk_tokens")):
        if option in options.of_engines:
            _refuse(names, f"and --{option.replace('_', '-')} say the same in blocks and in tokens: leave one out")
    if None in options.capacities:
        raise UsageError("--capacity unbounded: an engine over token ids has an end, so give a number of blocks")
    outcomes = []
    rows = list(product(options.caches, options.policies or (None,), options.capacities or (None,)))
    of_engines = {
        cache: {name: value for name, value in options.of_engines.items() if name in sizes_of(cache)}
        for cache in options.caches
    }
    for cache, policy, capacity in watch.parts(rows):
        if policy not in (None, *POLICIES[cache]):
            raise UsageError(f"{cache} has no policy {policy!r}: use one of {', '.join(POLICIES[cache])}")
        size = block_tokens(cache, of_engines[cache].get("block_size"))
        sizes: dict[str, Any] = {}
        if capacity is not None:
            sizes[room_of(cache)] = capacity * size
        if cache == "tiered" and options.host_capacity is not None:
            sizes["host_tokens"] = options.host_capacity * size
        elif cache == "tiered" and capacity is not None:
            sizes["host_tokens"] = HOST_RATIO * capacity * size
        if cache == "tiered" and options.disk_capacity is not None:
            sizes["disk_tokens"] = options.disk_capacity * size
        if cache == "llamacpp":
            sizes["slots"] = options.slots
        if policy not in (None, POLICIES[cache][0]):
            sizes["policy"] = policy
        sizes |= of_engines[cache]
        with watch.starting():
            outcomes.append(replay_engine(ledger, cache, watch=lambda calls: watch.share(calls, len(ledger)), **sizes))
    blocks = dict.fromkeys(block_tokens(cache, given.get("block_size")) for cache, given in of_engines.items())
    return Comparison(tuple(outcomes), None, tuple(blocks))


def _tokens_in(names: Sequence[str], watch: Watch) -> Ledger | None:
    """The ledger of all files where they recorded token ids, None where none did.

    Raises `UsageError` where only some did.
    """
    from contextkit.engines.replay import has_tokens
    from contextkit.importers.block_trace import STDIN
    from contextkit.importers.registry import is_ledger, ledger_at

    replays = (
        (name, name != STDIN and Path(name).is_file() and is_ledger(name) and has_tokens(ledger_at(name)[1]))
        for name in names
    )
    outcomes = dict(watch.stoppable(replays))
    if not any(outcomes.values()):
        return None
    other = next((name for name in outcomes if not outcomes[name]), None)
    if other is not None:
        raise UsageError(f"{other}: no token ids, which the other ledgers have: replay one after the other")
    return _joined(names, watch)


def _requests(names: Sequence[str], arrival: str, watch: Watch) -> Iterator[BlockRequest]:
    from contextkit.engines.block_trace import requests_of
    from contextkit.importers.block_trace import BlockTraces, content_of
    from contextkit.ledger.calls import Outline

    traces = BlockTraces()
    if arrival == "together":
        together = list(traces.together(names))
        yield from watch.share(together, len(together))
        return
    for name in watch.parts(names):
        content = content_of(name)
        if not _is_ledger(content):
            yield from watch.share(traces.read(name, content), content.count(b'"hash_ids"'))
            continue
        ledger = _joined([name], watch)
        requests = list(requests_of(ledger))
        if len(ledger) and not requests:
            has_outlines = any(isinstance(call.prompt, Outline) for call in ledger)
            way = (
                "use --cache anthropic or openai"
                if has_outlines
                else "contextkit whatif FILE works with bodies and bills"
            )
            raise UsageError(f"{name}: neither block ids nor token ids, which is all that engines hold: {way}")
        yield from watch.share(requests, len(requests))


def _is_ledger(content: bytes) -> bool:
    """Return whether its calls come by a ledger.

    What is of no known format is taken for a block trace, whose reader says what is wrong.
    """
    from contextkit.importers.registry import FORMATS

    first = content[: content.find(b"\n") + 1 or None]
    name_format = next((name_format for name_format in FORMATS if name_format.is_it(first)), None)
    return name_format is not None and name_format.name != "block trace"


def _joined(names: Sequence[str], watch: Watch) -> Ledger:
    """The ledgers of all files as one; where there are several, the file stands before the session."""
    from contextkit.importers.registry import ledger_at
    from contextkit.ledger.ledger import Ledger

    joined, short = Ledger(), [Path(name).name for name in names]
    labels = {name: last if short.count(last) == 1 else name for name, last in zip(names, short, strict=True)}
    for name, ledger in watch.stoppable((name, ledger_at(name)[1]) for name in names):
        for call in ledger:
            joined.append(call if len(names) == 1 else replace(call, session=f"{labels[name]}:{call.session}"))
    return joined
