"""`contextkit simulate`: what a cache would have done with a trace, at one capacity or at many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from contextkit.canonical import canonical
from contextkit.cli.terminal import check_file
from contextkit.errors import UsageError
from contextkit.private_files import replacing
from contextkit.terminal import echo_error, echo_json

if TYPE_CHECKING:
    from contextkit.engines.block_trace import BlockRequest
    from contextkit.engines.compare import Comparison, Outcome
    from contextkit.engines.trace_engines import Setting
    from contextkit.ledger.ledger import Ledger
    from contextkit.report.progress import Watch

UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
"""What a letter behind a capacity means."""
ENDLESS = ("unbounded", "inf", "none")
"""Words for a capacity without end."""
MOMENTS = ("in-turn", "together")
"""When conversations of several files begin: each after the last, or all at once."""
SERVED = ("block_size", "capacity_tokens", "host_tokens", "cache_reuse", "engine_version")
"""Options of `contextkit serve` that say which engine billed a ledger of token ids."""
OF_ENGINES = (
    "policies",
    "orders",
    "capacities",
    "instances",
    "routing",
    "slots",
    "host_capacity",
    "shared_host",
    "arrival",
    *SERVED,
)
"""Options that say nothing to a hosted provider's cache."""
OF_HOSTS = ("model", "servers", "per_minute")
"""Options that say nothing to an engine."""
OF_ONE = {"slots": "llamacpp", "host_capacity": "tiered", "shared_host": "tiered"}
"""Option → the one engine it says something to."""
SPELLED = {"policies": "policy", "orders": "order", "capacities": "capacity"}
"""Option as it is kept → as it is written, where the two differ."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    caches: tuple[str, ...]
    policies: tuple[str, ...]
    orders: tuple[str, ...]
    capacities: tuple[int | None, ...]
    instances: int
    routing: str
    slots: int
    host_capacity: int | None
    shared_host: bool
    arrival: str
    block_size: int | None
    capacity_tokens: int | None
    host_tokens: int | None
    cache_reuse: int | None
    engine_version: str | None
    model: str | None
    servers: int | None
    per_minute: int | None
    bytes_per_token: int | None
    per_session: bool
    html: str | None
    as_json: bool


def _words(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    if not value.strip(" ,") and param.default and isinstance(param.default, str):
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
    help="vllm (default), sglang, llamacpp, tiered; anthropic, gemini, …",
)
@click.option(
    "--policy", "policies", default="", callback=_words, help="lru, lfu, length-aware, fifo, …; each cache has its own."
)
@click.option(
    "--order",
    "orders",
    default="tail-first",
    show_default=True,
    callback=_words,
    help="tail-first, in-order: last used block.",
)
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
    "--slots", default=1, show_default=True, type=click.IntRange(1), help="llamacpp: requests served at a time."
)
@click.option(
    "--host-capacity", type=click.IntRange(1), help="tiered: blocks below the GPU.  [default: twice --capacity]"
)
@click.option("--shared-host", is_flag=True, help="tiered: one host tier for all instances.")
@click.option(
    "--arrival",
    type=click.Choice(MOMENTS),
    default="in-turn",
    show_default=True,
    help="How traces of several files follow.",
)
@click.option(
    "--block-size", type=click.IntRange(1), help="Ledgers of serve --cache: tokens in a block, page or chunk."
)
@click.option(
    "--capacity-tokens", type=click.IntRange(1), help="Ledgers of serve --cache: tokens the engine's memory holds."
)
@click.option(
    "--host-tokens", type=click.IntRange(0), help="Ledgers of serve --cache: tokens below it (llamacpp, tiered)."
)
@click.option(
    "--cache-reuse",
    type=click.IntRange(0),
    help="Ledgers of serve --cache: shortest run of tokens reused at another position (llamacpp).",
)
@click.option("--engine-version", help="Ledgers of serve --cache: whose rules hold (vllm, sglang).")
@click.option("--model", help="Hosted caches: the model to bill instead of the recorded one.")
@click.option("--servers", type=click.IntRange(1), help="Hosted caches: machines, each with a cache of its own.")
@click.option(
    "--per-minute",
    type=click.IntRange(0),
    help="Hosted caches: calls with one beginning a machine takes; 0 for any number.",
)
@click.option("--bytes-per-token", type=click.IntRange(1), help="Size of one token's keys and values; adds bytes.")
@click.option("--per-session", is_flag=True, help="Each session's figures too (with --json).")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True),
    callback=_page,
    help="Write a page: hit rate against capacity.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(traces: tuple[str, ...], **sizes: Any) -> None:
    """Replay TRACEs through a model of a cache: block traces (Mooncake, kv-cache-tester, plain or .gz) and ledgers.

    A TRACE is a file, a folder, a pattern, or - for standard input. Several caches, policies, orders and capacities,
    divided by commas, are replayed side by side.

    \b
    contextkit simulate traces/ --capacity 1k,10k,100k
    contextkit simulate trace.jsonl.gz --policy lru,lfu,length-aware --capacity 10k,50k --html curve.html
    contextkit simulate traces/ --instances 8 --routing prefix --capacity 20k --json
    contextkit simulate ledger.jsonl --cache anthropic --model claude-opus-4-5
    contextkit simulate served.jsonl --cache vllm --block-size 16 --capacity-tokens 65536
    """
    from contextkit.report.progress import watching
    from contextkit.report.simulation import as_json, show

    options = Options(**sizes)
    if options.per_session and not options.as_json:
        raise UsageError("--per-session adds to what --json says: give --json as well")
    with watching() as watch:
        comparison = _compared(traces, options, watch)
        watch.finish()
        if options.as_json:
            document = as_json(comparison, options.bytes_per_token, has_sessions=options.per_session)
            echo_json(canonical({**document, "interrupted": watch.is_stopped}))
        else:
            show(comparison, options.bytes_per_token)
        if options.html and comparison.outcomes:
            _write_page(comparison, traces, options.html)
        if watch.is_stopped:
            done = (
                "these are the figures of the requests replayed so far"
                if comparison.outcomes
                else "nothing had been replayed yet"
            )
            echo_error(f"interrupted: {done}")
            raise click.exceptions.Exit(130)


def _compared(traces: Sequence[str], options: Options, watch: Watch) -> Comparison:
    from contextkit.engines.compare import compare
    from contextkit.engines.hosted import PROVIDERS
    from contextkit.importers.block_trace import trace_files

    hosted = [cache for cache in options.caches if cache in PROVIDERS]
    settings = _settings([cache for cache in options.caches if cache not in PROVIDERS], options)
    if hosted and settings:
        raise UsageError(
            f"{hosted[0]} bills prompts, {settings[0].cache} holds blocks: no trace has both, replay one after the other"
        )
    others = tuple(option for option, cache in OF_ONE.items() if cache not in options.caches)
    odd = _first_option_set(OF_ENGINES if hosted else (*OF_HOSTS, *others))
    if odd:
        raise UsageError(f"{odd} says nothing to {', '.join(options.caches)}: leave it out")
    names = [file for name in traces for file in (_ledger_in(name) or trace_files([name]))]
    if hosted:
        return _billed(_joined(names, watch), hosted, options, watch)
    tokens = _tokens_in(names, watch)
    if tokens is not None:
        return _served(tokens, options, watch)
    odd = _first_option_set(SERVED)
    if odd:
        raise UsageError(f"{odd} is for ledgers of contextkit serve --cache, and no trace here has token ids")
    requests = watch.stoppable(_requests(names, options.arrival, watch))
    return compare(
        requests, settings, options.routing, has_sessions=options.per_session, has_curve=_has_curve(settings, options)
    )


def _first_option_set(names: Sequence[str]) -> str | None:
    """The first of these options that stands on the command line, as it is written there."""
    source = click.get_current_context().get_parameter_source
    odd = next((name for name in names if source(name) is ParameterSource.COMMANDLINE), None)
    return odd and f"--{SPELLED.get(odd, odd).replace('_', '-')}"


def _billed(ledger: Ledger, hosted: Sequence[str], options: Options, watch: Watch) -> Comparison:
    """Hosted caches one after another."""
    from contextkit.engines.compare import Comparison
    from contextkit.engines.hosted import replay_hosted, why_no_price

    host_options: dict[str, Any] = {"servers": options.servers, "per_minute": options.per_minute}
    outcomes = []
    for cache in watch.parts(hosted):
        with watch.starting():
            outcomes.append(
                replay_hosted(
                    ledger, cache, options.model, **host_options, watch=lambda calls: watch.share(calls, len(ledger))
                )
            )
        if outcomes and outcomes[-1].setting.cache == cache and outcomes[-1].cost_usd is None:
            echo_error(f"{cache}: no dollars: {why_no_price(ledger, cache, options.model)}")
    return Comparison(_reported(outcomes, options), {}, ())


def _reported(outcomes: Sequence[Outcome], options: Options) -> tuple[Outcome, ...]:
    return tuple(outcome if options.per_session else replace(outcome, sessions={}) for outcome in outcomes)


def _has_curve(settings: Sequence[Setting], options: Options) -> bool:
    """A page shows the whole curve where that can be had.

    Without NumPy it has to be the capacities asked for, if any were.
    """
    from importlib.util import find_spec

    is_set = any(setting.capacity is not None for setting in settings)
    return options.html is not None and (not is_set or find_spec("numpy") is not None)


def _settings(caches: Sequence[str], options: Options) -> list[Setting]:
    """Every combination; raises `UsageError` naming what there is where one of them is none."""
    from contextkit.engines.hosted import PROVIDERS
    from contextkit.engines.trace_engines import CACHES, Setting

    for cache in caches:
        if cache not in CACHES:
            raise UsageError(f"{cache!r} is no cache: use one of {', '.join((*CACHES, *PROVIDERS))}")
    rows = ((cache, policy) for cache in caches for policy in (options.policies or CACHES[cache].policies[:1]))
    return [
        Setting(
            cache, policy, order, capacity, options.instances, options.slots, options.host_capacity, options.shared_host
        )
        for (cache, policy), order, capacity in product(rows, options.orders, options.capacities or (None,))
    ]


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


def _served(ledger: Ledger, options: Options, watch: Watch) -> Comparison:
    """Engines over token ids, each as `serve` would have run it.

    Raises `UsageError` for what such a ledger cannot be asked.
    """
    from contextkit.engines.compare import Comparison
    from contextkit.engines.replay import block_tokens, replay_engine

    for option, is_set in (
        ("--instances", options.instances > 1),
        ("--order in-order", "in-order" in options.orders),
        ("--shared-host", options.shared_host),
        ("--arrival together", options.arrival == "together"),
        ("--capacity unbounded", None in options.capacities),
        ("--capacity beside --capacity-tokens", bool(options.capacities) and options.capacity_tokens is not None),
    ):
        if is_set:
            raise UsageError(
                f"{option}: a ledger of token ids is replayed on one engine as it is, its memory in blocks or in tokens"
            )
    rows = list(product(options.caches, options.policies or (None,), options.capacities or (None,)))
    outcomes = []
    for cache, policy, capacity in watch.parts(rows):
        sizes = _sizes(cache, policy, capacity, options)
        with watch.starting():
            outcomes.append(replay_engine(ledger, cache, watch=lambda calls: watch.share(calls, len(ledger)), **sizes))
    blocks = dict.fromkeys(block_tokens(cache, options.block_size) for cache in options.caches)
    return Comparison(_reported(outcomes, options), {}, tuple(blocks))


def _sizes(cache: str, policy: str | None, capacity: int | None, options: Options) -> dict[str, Any]:
    """What the engine is given: sizes as `serve` takes them, those in blocks made tokens."""
    from contextkit.engines.replay import block_tokens, room_of

    size = block_tokens(cache, options.block_size)
    engine_options = {option: getattr(options, option) for option in SERVED}
    if capacity is not None:
        engine_options[room_of(cache)] = capacity * size
    if options.host_capacity is not None:
        engine_options["host_tokens"] = options.host_capacity * size
    has_slots, has_policy = options.slots > 1, policy not in (None, "lru")  # the first is every engine's own
    return engine_options | {"slots": options.slots if has_slots else None, "policy": policy if has_policy else None}


def _ledger_in(name: str) -> list[str]:
    """The ledger of a context's folder, which has other files too."""
    ledger = Path(name) / "ledger.jsonl"
    return [str(ledger)] if ledger.is_file() else []


def _requests(names: Sequence[str], arrival: str, watch: Watch) -> Iterator[BlockRequest]:
    from contextkit.engines.block_trace import requests_of
    from contextkit.importers.block_trace import BlockTraces, content_of

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
            raise UsageError(
                f"{name}: neither block ids nor token ids, which is all that engines hold: {_instead(ledger)}"
            )
        yield from watch.share(requests, len(requests))


def _instead(ledger: Ledger) -> str:
    """What can be asked of a ledger that has no ids."""
    from contextkit.ledger.calls import Outline

    has_outlines = any(isinstance(exchange.prompt, Outline) for exchange in ledger)
    return "use --cache anthropic or openai" if has_outlines else "contextkit whatif FILE works with bodies and bills"


def _is_ledger(content: bytes) -> bool:
    """Whether its calls come by a ledger.

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
        for exchange in ledger:
            joined.append(
                exchange if len(names) == 1 else replace(exchange, session=f"{labels[name]}:{exchange.session}")
            )
    return joined


def _write_page(comparison: Comparison, traces: Sequence[str], path: str) -> None:
    from contextkit.report.simulation import page

    counts = comparison.outcomes[0].counts
    title = f"Hit rate by capacity: {', '.join(Path(name).name or name for name in traces)}"
    sizes = ", ".join(map(str, comparison.sizes))
    subtitle = f"{counts.requests:,} requests, {counts.blocks or 0:,} blocks of {sizes} tokens, {counts.tokens:,} tokens of prompt"
    with replacing(path) as file:
        file.write(page(title, subtitle, _lines(comparison)).encode())
    echo_error(f"{path} written")


def _lines(comparison: Comparison) -> list[Any]:
    """A line for each cache and policy, the capacities that were asked for marked on it."""
    from contextkit.report.simulation import Line, label

    groups: dict[str, list[Any]] = {}
    for outcome in comparison.outcomes:
        groups.setdefault(label(outcome, comparison.outcomes), []).append(outcome)
    lines = []
    for name, outcomes in groups.items():
        setting = outcomes[0].setting
        curve = (
            comparison.curves.get(setting.order)
            if (setting.cache, setting.policy, setting.instances) == ("vllm", "lru", 1)
            else None
        )
        marks = sorted(
            (outcome.setting.capacity, outcome.counts.hit_rate)
            for outcome in outcomes
            if outcome.setting.capacity is not None
        )
        ceilings = [outcome.counts.hit_rate for outcome in outcomes if outcome.setting.capacity is None]
        ceiling = curve.hit_rate(None) if curve else next(iter(ceilings), None)
        points = sorted({*curve.points(), *marks}) if curve else marks
        lines.append(Line(name, tuple(points), tuple(marks), ceiling))
    return lines
