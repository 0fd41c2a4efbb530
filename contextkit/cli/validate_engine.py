"""`contextkit validate --engine`: how well a reference cache predicts what a running engine reads from its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from secrets import randbelow
from typing import TYPE_CHECKING, Any

import click

from contextkit.canonical import canonical
from contextkit.cli.engine_options import engine_options, flag_of, option_text, options_of_all
from contextkit.cli.terminal import counter
from contextkit.engines.agreement import Agreement, Difference, Exchange, exchanges, predict
from contextkit.engines.explanations import Trial, best_of, trials
from contextkit.engines.prompt_stream import PromptStream
from contextkit.engines.registry import engine, sizes_of
from contextkit.engines.running import ADDRESSES, RUNNING, TIMEOUT_SECONDS, Configuration, RunningEngine
from contextkit.errors import ProviderError
from contextkit.ledger.figures import UNKNOWN
from contextkit.report.markdown import escaped, table_lines
from contextkit.report.progress import watching
from contextkit.report.tables import Column, Table
from contextkit.report.terminal import print_line, print_table
from contextkit.terminal import echo, echo_error, echo_json, rich_console

if TYPE_CHECKING:
    from rich.console import Console

    from contextkit.report.progress import Watch

PROGRAMS = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp"}
"""Engine → its own name."""
RESETTING = {"vllm": "VLLM_SERVER_DEV_MODE=1 in its environment lets it", "sglang": "it does so only while it is idle"}
"""Engine → what lets its cache be emptied by a request."""
COUNTING = {"sglang": "--enable-metrics", "llamacpp": "--metrics"}
"""Engine → its option that keeps a counter of prompt tokens."""
SALTED = ("vllm", "sglang")
"""Engines that keep tenants apart."""
SALTS = ("one", "two")
MAX_TOKENS, MAX_OUTPUT, LEAST_TOKENS = 700, 20, 64
"""Tokens of the longest prompt where the server has room, and of a reply; the least room a stream needs."""
MARGIN = 4
"""Tokens at the end of a context that no request takes: engines differ in whether the last ones are free."""
DIFFERENCES = 10
"""Differences listed; --verbose, --json and --markdown have them all."""


# Options of the command
# ---------------------------------------------------------------------------------------------------------------------


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse NaN, which is in every range."""
    if value != value:
        raise click.BadParameter("it is no number")
    return value


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that are about a running engine; those of its reference cache are the registry's."""
    options = [
        click.option(
            "--engine", type=click.Choice(list(RUNNING)), help="Check a running engine instead of recordings."
        ),
        click.option(
            "--base-url", metavar="URL", help="Where it listens.  [default: the engine's port on this machine]"
        ),
        click.option("--model", "served_model", help="The model to ask for.  [default: the first it serves]"),
        click.option(
            "--api-key",
            envvar="CONTEXTKIT_ENGINE_KEY",
            show_envvar=True,
            metavar="KEY",
            help="The key it wants, if any.",
        ),
        click.option(
            "--requests", "n_requests", default=300, show_default=True, type=click.IntRange(1), help="To send."
        ),
        click.option(
            "--seed", type=int, help="Sends the prompts of an earlier run again.  [default: one that is not repeated]"
        ),
        click.option(
            "--min-agreement",
            default=99.0,
            show_default=True,
            type=click.FloatRange(0, 100),
            callback=_number,
            metavar="PERCENT",
            help="Exit with 1 below it.",
        ),
        click.option(
            "--timeout",
            "timeout_seconds",
            default=float(TIMEOUT_SECONDS),
            show_default=True,
            type=click.FloatRange(0, 86_400, min_open=True),
            callback=_number,
            metavar="SECONDS",
            help="How long one answer may take.",
        ),
    ]
    command = engine_options(RUNNING)(command)
    for option in reversed(options):
        command = option(command)
    return command


def first_server_option(context: click.Context) -> str | None:
    """Return the first option about a running engine that was typed, None for none."""
    names = ("base_url", "served_model", "api_key", "n_requests", "seed", "min_agreement", "timeout_seconds")
    typed = (
        name
        for name in (*names, *options_of_all(RUNNING))
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
    )
    option = next(typed, None)
    parameters = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    return None if option is None else parameters[option]


# The comparison
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """One comparison, as far as it got."""

    base_url: str
    """Where the server listens."""
    configuration: Configuration
    """What it says of itself."""
    given: Mapping[str, Any]
    """Options of the reference cache that were typed."""
    settings: Mapping[str, Any]
    """All its options."""
    n_requests: int
    """Requests that were to be sent."""
    seed: int
    """Seed of the stream."""
    max_tokens: int
    """Tokens of its longest prompt."""
    min_percent: float
    """The agreement wanted."""
    is_reset: bool = False
    """Whether the server emptied its cache before."""
    counted_before: int | None = None
    """Its counter of prompt tokens before the stream, None where it keeps none."""
    counted_after: int | None = None
    """The same behind it; None too where the server died."""
    exchanged: list[Exchange] = field(default_factory=list)
    """Requests and replies."""
    found: Agreement = field(default_factory=Agreement)
    """How they agree."""
    cache_counters: Mapping[str, int] = field(default_factory=dict)
    """Counters of the reference cache."""
    tried: list[Trial] = field(default_factory=list)
    """Reference caches that are set otherwise."""
    is_interrupted: bool = False
    """Whether Ctrl-C ended it."""
    failure: ProviderError | None = None
    """What ended the stream early, None for nothing."""

    @property
    def percent(self) -> float:
        """The part of calls that are equal, in percent."""
        return 100 * self.found.share

    @property
    def sent_tokens(self) -> int:
        """Tokens of the prompts that were not refused."""
        return sum(len(one.prompt.tokens) for one in self.exchanged if one.reply.refusal is None)

    @property
    def other_tokens(self) -> int | None:
        """Prompt tokens of other requests meanwhile, None where the server does not count; below 0 it counted less than
        was sent.
        """
        if self.counted_before is None or self.counted_after is None:
            return None
        return self.counted_after - self.counted_before - self.sent_tokens

    @property
    def explanation(self) -> Trial | None:
        """The change that predicts most calls, None if none is better."""
        return best_of(self.tried, self.found)


def validate_engine(
    name: str,
    base_url: str | None,
    *,
    served_model: str | None,
    api_key: str | None,
    n_requests: int,
    seed: int | None,
    min_agreement: float,
    timeout_seconds: float,
    options: Mapping[str, Any],
    as_json: bool,
    as_markdown: bool,
    is_verbose: bool,
) -> None:
    """Ask the server, compare, print; exits with 1 below `min_agreement`, with 130 after Ctrl-C.

    Raises `UsageError` for options no such engine has, `ProviderError` where the server gives no usable answers.
    """
    given = {option: options[option] for option in options_of_all(RUNNING) if options[option] is not None}
    engine(name, **given)  # what is typed wrong is said before the server is asked
    base_url = ADDRESSES[name] if base_url is None else base_url
    server = RUNNING[name](base_url, served_model, api_key, timeout_seconds)
    console = None if as_json or as_markdown else rich_console(soft_wrap=False)
    with watching() as watch:
        outcome = None
        with watch.starting():
            # prompts that were sent before would be read from a cache that cannot be emptied
            chosen = randbelow(1_000_000) if seed is None else seed
            outcome = _prepared(server, base_url, given, n_requests, chosen, min_agreement)
            if console is not None:
                _print_lines(console, _server_lines(outcome))
        if outcome is not None:
            _exchange(server, outcome, watch)
            _explain(outcome, watch)
            outcome.is_interrupted = watch.is_stopped
        watch.finish()
        if outcome is None or not (outcome.exchanged or outcome.failure):
            echo_error("interrupted: nothing was compared")
            raise click.exceptions.Exit(130)
    if outcome.failure is not None and not outcome.exchanged:
        raise outcome.failure
    if as_json:
        echo_json(canonical(_json(outcome)))
    elif as_markdown:
        echo("\n".join(_markdown(outcome)))
    elif console is not None:
        _draw(outcome, console, is_verbose=is_verbose)
    if outcome.failure is not None:
        n = len(outcome.exchanged)
        raise ProviderError(f"{outcome.failure}; the figures are of the {n:,} requests before request {n + 1:,}")
    if outcome.is_interrupted:
        echo_error(f"interrupted: {_score_text(outcome)}")
        raise click.exceptions.Exit(130)
    if outcome.percent < min_agreement:
        raise click.exceptions.Exit(1)


def _prepared(
    server: RunningEngine, base_url: str, given: Mapping[str, Any], n_requests: int, seed: int, min_percent: float
) -> Outcome:
    """Ask the server what it is, and empty its cache."""
    configuration = server.configuration()
    known = {**sizes_of(configuration.engine), **configuration.likely, **configuration.options, **given}
    settings = {option: known[option] for option in sizes_of(configuration.engine)}
    room = min(size for size in (configuration.context_tokens, settings.get("capacity_tokens"), 1 << 62) if size)
    if room < LEAST_TOKENS:
        raise ProviderError(f"this server has room for {room} tokens: start it with {LEAST_TOKENS} or more")
    outcome = Outcome(
        base_url=base_url,
        configuration=configuration,
        given=given,
        settings=settings,
        n_requests=n_requests,
        seed=seed,
        max_tokens=min(MAX_TOKENS, room - MAX_OUTPUT - MARGIN),
        min_percent=min_percent,
    )
    outcome.is_reset = server.reset()
    outcome.counted_before = server.prompt_tokens()
    return outcome


def _exchange(server: RunningEngine, outcome: Outcome, watch: Watch) -> None:
    """Send the stream and compare reply by reply, up to Ctrl-C or a server that fails."""
    name, found = outcome.configuration.engine, outcome.found
    cache: Any = engine(name, **outcome.settings).cache
    stream = PromptStream(
        outcome.seed,
        block=outcome.settings.get("block_size", 16),
        max_tokens=outcome.max_tokens,
        max_output=MAX_OUTPUT,
        salts=SALTS if name in SALTED else (),
    )
    try:
        with counter() as show:
            show(f"0 of {outcome.n_requests:,} requests")
            for exchange in watch.stoppable(exchanges(server, stream, outcome.n_requests)):
                outcome.exchanged.append(exchange)
                found.add(exchange, predict(cache, exchange, float(found.total)))
                show(f"{found.total:,} of {outcome.n_requests:,} requests, {found.equal_reads:,} as predicted")
        if not watch.is_stopped:  # what was under way then is counted, and its server may be stuck
            with watch.starting():
                outcome.counted_after = server.prompt_tokens()
    except ProviderError as error:
        outcome.failure = error
    outcome.cache_counters = cache.stats()


def _explain(outcome: Outcome, watch: Watch) -> None:
    """Try other settings where calls differ; Ctrl-C ends it, and the figures stay whole."""
    if outcome.found.equal_reads == outcome.found.total:
        return
    with counter() as show:
        name, told = outcome.configuration.engine, outcome.configuration.options
        for trial in watch.stoppable(trials(name, outcome.settings, outcome.exchanged, told)):
            outcome.tried.append(trial)
            show(f"{len(outcome.tried):,} other settings tried")


# What is option_text
# ---------------------------------------------------------------------------------------------------------------------


def _listed(settings: Iterable[tuple[str, Any]], *, has_flags: bool = False) -> str:
    return ", ".join(
        f"{option.replace('_', ' ')} {option_text(value)}" + (f" ({_opposite(option, value)})" if has_flags else "")
        for option, value in settings
    )


def _opposite(option: str, value: Any) -> str:
    """Return the flag that says otherwise."""
    return _typed(option, not value) if isinstance(value, bool) else flag_of(option)


def _server_lines(outcome: Outcome) -> Iterator[str]:
    """Yield what the server is, and what is taken for granted about it."""
    configuration, settings, given = outcome.configuration, outcome.settings, outcome.given
    name, told = configuration.engine, configuration.options
    size = configuration.context_tokens
    yield (
        f"{PROGRAMS[name]} {configuration.version or 'of an unknown release'} at {outcome.base_url} serves "
        f"{configuration.model or 'an unknown model'}" + (f", {size:,} tokens of context" if size else "")
    )
    says = [(option, value) for option, value in told.items() if option in settings]
    yield f"it says: {_listed(says) or 'nothing of its cache'}"
    if given:
        against = [option for option, value in given.items() if told.get(option, value) != value]
        yield f"you say: {_listed(given.items())}" + (", against what it says" if against else "")
    unreported = [(option, value) for option, value in settings.items() if option not in told and option not in given]
    if unreported:
        yield f"taken as the engine's defaults: {_listed(unreported, has_flags=True)}"
    if outcome.is_reset:
        yield "its cache was emptied"
    else:
        way = f" ({RESETTING[name]})" if name in RESETTING else ""
        taken = f", and it has taken {outcome.counted_before:,} prompt tokens" if outcome.counted_before else ""
        yield (
            f"its cache cannot be emptied by a request{way}: what it held before is evicted first, but a server that was "
            f"just started is compared best{taken}"
        )
    yield f"{outcome.n_requests:,} requests of --seed {outcome.seed}"


def _score_text(outcome: Outcome) -> str:
    found = outcome.found
    return f"{found.equal_reads:,} of {found.total:,} requests read as predicted ({outcome.percent:.2f} %)"


def _score_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the score and what stands against it."""
    found, name = outcome.found, outcome.configuration.engine
    is_below = outcome.percent < outcome.min_percent
    yield _score_text(outcome) + (f", below the {outcome.min_percent:g} % of --min-agreement" if is_below else "")
    if found.equal < found.equal_reads:
        yield (
            f"of these, {found.equal_reads - found.equal:,} were served by another slot than predicted, as on a server that "
            "was used before; that alone costs nothing"
        )
    refused = f"; {found.n_refused:,} prompts refused" if found.n_refused else ""
    yield (
        f"{found.n_read:,} of {found.n_tokens:,} prompt tokens read from its cache; largest difference "
        f"{found.largest_difference:,} tokens{refused}"
    )
    evicted = [value for counter_name, value in outcome.cache_counters.items() if counter_name.endswith("_evicted")]
    if evicted and not sum(evicted):
        yield "nothing was evicted, so eviction was not compared: send more --requests for that"
    other = outcome.other_tokens
    if outcome.counted_before is None:
        option = f" (it keeps a counter with {COUNTING[name]})" if name in COUNTING else ""
        yield f"whether others used the server meanwhile cannot be seen{option}"
    elif other is not None and other > 0:
        yield f"others sent {other:,} prompt tokens meanwhile, which may spoil the score: repeat this on a server nobody uses"
    elif other is not None and other < 0:
        yield f"the server counted {-other:,} prompt tokens less than were sent: was it restarted meanwhile?"


def _explanation_line(outcome: Outcome) -> str | None:
    """One line about what may explain the differences, None where there are none."""
    if not outcome.tried:
        return None
    best = outcome.explanation
    if best is None:
        options = ", ".join(dict.fromkeys(flag_of(option) for trial in outcome.tried for option in trial.changes))
        return (
            f"no other setting that was tried predicts more requests ({options}): compare these with how it was started"
        )
    told = outcome.configuration.options
    was = [(option, outcome.settings[option]) for option in best.changes]
    predicts = (
        f"{_listed(best.changes.items())} instead of {', '.join(option_text(value) for _, value in was)} would predict "
        f"{best.equal:,} of {outcome.found.total:,}"
    )
    against = [(option, told[option]) for option, value in best.changes.items() if told.get(option, value) != value]
    if against:
        return f"{predicts}, but the server says {_listed(against)}: the reference cache may be wrong, report it"
    if best.changes.items() <= told.items():
        return f"{predicts}, and the server says so: leave out {' '.join(map(flag_of, best.changes))}"
    typed = " ".join(_typed(*change) for change in best.changes.items())
    rest = "" if best.equal == outcome.found.total else "; something else differs too"
    return f"{predicts}{rest}. If the server is set so or nearly so, add: {typed}"


def _typed(option: str, value: Any) -> str:
    """An option as it is typed."""
    if isinstance(value, bool):
        return flag_of(option) if value else f"--no-{option.replace('_', '-')}"
    return f"{flag_of(option)} {value}"


def _kinds(outcome: Outcome) -> Table[tuple[str, tuple[int, int]]]:
    return Table(
        "By kind of request",
        (
            Column("kind", lambda row: row[0], is_number=False),
            Column("requests", lambda row: row[1][1]),
            Column("as predicted", lambda row: row[1][0]),
            Column("share", lambda row: f"{100 * row[1][0] / row[1][1]:.2f} %"),
        ),
        list(outcome.found.kinds.items()),
    )


def _differences(outcome: Outcome, most: int | None = None) -> Table[Difference]:
    differing = [one for one in outcome.found.differences if _is_read_otherwise(one)]
    rows = differing[:most]
    has_slots = any(one.reply.slot is not None and one.predicted.slot is not None for one in rows)
    has_refusals = any(one.reply.refusal or one.predicted.refusal for one in rows)
    more = len(differing) - len(rows)
    columns: list[Column[Difference]] = [
        Column("request", lambda one: one.index + 1),
        Column("kind", attrgetter("kind"), is_number=False),
        Column("tokens", attrgetter("n_tokens")),
        Column("read", attrgetter("reply.read_tokens")),
        Column("predicted", attrgetter("predicted.read_tokens")),
    ]
    if has_slots:
        columns += [
            Column("slot", lambda one: str(_slot(one.reply.slot))),
            Column("predicted slot", lambda one: str(_slot(one.predicted.slot))),
        ]
    if has_refusals:
        columns.append(Column("refused", _refused_by, is_number=False))
    return Table(
        "Requests that differ", tuple(columns), rows, f"and {more:,} more: --verbose lists them all" if more else ""
    )


def _is_read_otherwise(one: Difference) -> bool:
    """Return whether more differs than the slot."""
    is_refusal_equal = (one.reply.refusal is None) == (one.predicted.refusal is None)
    return not is_refusal_equal or one.reply.read_tokens != one.predicted.read_tokens


def _slot(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _refused_by(one: Difference) -> str:
    by = (("server", one.reply.refusal), ("reference cache", one.predicted.refusal))
    return " and ".join(who for who, refusal in by if refusal is not None)


def _trials(outcome: Outcome) -> Table[Trial]:
    return Table(
        "Set otherwise",
        (
            Column("change", lambda trial: _listed(trial.changes.items()), is_number=False),
            Column("as predicted", attrgetter("equal")),
            Column("first difference", lambda trial: trial.first + 1 if trial.first < outcome.found.total else ""),
        ),
        sorted(outcome.tried, key=lambda trial: (-trial.equal, -trial.first)),
    )


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines, wrapped on a terminal only."""
    for line in lines:
        print_line(console, line) if console.is_terminal else echo(line)


def _draw(outcome: Outcome, console: Console, *, is_verbose: bool) -> None:
    """Print what came out; what the server is has been printed before."""
    _print_lines(console, ["", *_score_lines(outcome)])
    print_table(console, _kinds(outcome))
    print_table(console, _differences(outcome, None if is_verbose else DIFFERENCES))
    if (line := _explanation_line(outcome)) is not None:
        _print_lines(console, ["", line])


def _markdown(outcome: Outcome) -> Iterator[str]:
    yield from ["# A running engine and its reference cache", ""]
    yield "Written by `contextkit validate --engine --markdown`. A seeded stream of prompts was sent to a running engine, one at a"
    yield "time; what it read from its cache is compared with what contextkit's reference cache predicts, request by request."
    lines = [*_server_lines(outcome), *_score_lines(outcome)]
    lines += ["interrupted: these are the figures so far"] if outcome.is_interrupted else []
    lines += [str(outcome.failure)] if outcome.failure else []
    line = _explanation_line(outcome)
    yield ""
    yield from (f"* {escaped(one)}" for one in [*lines, *([line] if line else [])])
    tables: Sequence[Table[Any]] = (_kinds(outcome), _differences(outcome), _trials(outcome))
    for table in tables:
        if table.rows:
            yield from ["", f"## {table.name}", *table_lines(table)]


def _json(outcome: Outcome) -> dict[str, Any]:
    found, best, configuration = outcome.found, outcome.explanation, outcome.configuration

    def trial(one: Trial) -> dict[str, Any]:
        first = one.first + 1 if one.first < found.total else None
        return {"changes": dict(one.changes), "equal": one.equal, "first_difference": first}

    return {
        "base_url": outcome.base_url,
        "configuration": {
            "engine": configuration.engine,
            "version": configuration.version,
            "model": configuration.model,
            "context_tokens": configuration.context_tokens,
            "options": dict(configuration.options),
            "unreported": list(configuration.unreported),
        },
        "given": dict(outcome.given),
        "settings": dict(outcome.settings),
        "is_reset": outcome.is_reset,
        "stream": {"seed": outcome.seed, "requests": outcome.n_requests, "max_tokens": outcome.max_tokens},
        "total": found.total,
        "equal": found.equal_reads,
        "equal_slots": found.equal,
        "agreement": round(outcome.percent, 4),
        "min_agreement": outcome.min_percent,
        "prompt_tokens": found.n_tokens,
        "read_tokens": found.n_read,
        "refused": found.n_refused,
        "largest_difference": found.largest_difference,
        "kinds": {kind: {"equal": equal, "total": total} for kind, (equal, total) in found.kinds.items()},
        "differences": [
            {
                "request": one.index + 1,
                "kind": one.kind,
                "tokens": one.n_tokens,
                "read": one.reply.read_tokens,
                "predicted": one.predicted.read_tokens,
                "slot": one.reply.slot,
                "predicted_slot": one.predicted.slot,
                "refusal": one.reply.refusal,
                "predicted_refusal": one.predicted.refusal,
            }
            for one in found.differences
        ],
        "reference_cache": dict(outcome.cache_counters),
        "explanation": None if best is None else trial(best),
        "tried": [trial(one) for one in outcome.tried],
        "other_traffic": {"sent_tokens": outcome.sent_tokens, "other_tokens": outcome.other_tokens},
        "is_interrupted": outcome.is_interrupted,
        "failure": None if outcome.failure is None else str(outcome.failure),
    }
