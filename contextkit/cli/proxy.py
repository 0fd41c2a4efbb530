"""`contextkit proxy`: a pass-through that records and judges."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from contextkit.canonical import Json
    from contextkit.ledger.budget import Budget


REPAIR_HELP = (
    "What may be mended, by name, divided by commas: freeze-date and sort-tools (Anthropic Messages, OpenAI Chat and Responses, Gemini), "
    "place-breakpoints (Anthropic Messages; OpenAI Chat and Responses from gpt-5.6 on). Nothing else is ever changed."
)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    upstream: str
    record: str
    host: str
    port: int
    allow_hosts: tuple[str, ...]
    repairs: tuple[str, ...]
    ca: Path | None
    header_seconds: float
    idle_seconds: float
    connect_seconds: float
    read_seconds: float
    stop_seconds: float
    queue_mb: int
    has_otel: bool
    budget: float | None
    budget_tokens: int | None
    budget_per: str | None
    allow_unpriced: bool
    caps_output: bool
    is_json: bool
    is_quiet: bool


def _seconds(name: str) -> dict[str, Any]:
    """An option for one of the time limits."""
    return {"default": DEFAULT_SECONDS[name], "show_default": True, "type": click.FloatRange(0.1)}


DEFAULT_SECONDS = {"header": 30.0, "idle": 300.0, "connect": 10.0, "read": 900.0, "stop": 5.0}
"""As in `contextkit.proxy.observer.Timeouts`, which is not imported for `--help`; `stop` as in `Watcher`."""


@click.command("proxy")
@click.option(
    "--upstream",
    required=True,
    metavar="URL",
    help="The provider: https://api.anthropic.com, https://api.openai.com, …",
)
@click.option(
    "--record", default="", type=click.Path(dir_okay=True), help="A ledger every call is appended to, secrets covered."
)
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Anything but loopback opens it to the network.")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, metavar="NAME", help="Also answer to this host: host.docker.internal."
)
@click.option("--repair", "repairs", default="", metavar="NAMES", help=REPAIR_HELP)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificates trusted beside the system's.",
)
@click.option("--header-seconds", **_seconds("header"), help="For the head of a request, once it has begun; then 408.")
@click.option(
    "--idle-seconds", **_seconds("idle"), help="For a client that sends and takes nothing; then its connection closes."
)
@click.option("--connect-seconds", **_seconds("connect"), help="For a connection to the provider; then 502.")
@click.option(
    "--read-seconds", **_seconds("read"), help="For the provider's next byte; then 504, or the response breaks off."
)
@click.option("--stop-seconds", **_seconds("stop"), help="For recording what still waits at Ctrl-C or SIGTERM.")
@click.option(
    "--queue-mb", default=256, show_default=True, type=click.IntRange(1), help="What may wait for its analysis."
)
@click.option(
    "--budget",
    type=click.FloatRange(0.0),
    metavar="USD",
    help="Calls that could cost more than is left of so many dollars ask for less output, or are answered with 402.",
)
@click.option("--budget-tokens", type=click.IntRange(0), metavar="N", help="The same for tokens, input and output.")
@click.option(
    "--budget-per",
    type=click.Choice(["session", "day"]),
    help="One run of the proxy (the default), or one day (UTC), of which what --record holds counts too.",
)
@click.option(
    "--budget-allow-unpriced",
    "allow_unpriced",
    is_flag=True,
    help="Pass, uncounted, what a budget cannot price: batches, unknown endpoints, web sockets. Else it is answered with 402.",
)
@click.option(
    "--budget-cap/--no-budget-cap",
    "caps_output",
    default=True,
    show_default=True,
    help="Lower the output limit of a call to what a budget has left, to no less than 1,024 tokens; else answer 402.",
)
@click.option("--otel", "has_otel", is_flag=True, help="GenAI spans and metrics, exported as OTEL_* variables say.")
@click.option(
    "--json", "is_json", is_flag=True, help="One JSON object a call on standard output; also for what passed on unread."
)
@click.option("--quiet", "is_quiet", is_flag=True, help="Only the URL and the summary.")
def command(upstream: str, record: str, repairs: str, **options: Any) -> None:
    """Pass every call on to a provider, byte for byte; record it, and say what broke its prompt's prefix.

    Recorded are Anthropic Messages, OpenAI Chat, Responses and Completions (of any host that speaks them), Gemini and
    Vertex AI, Bedrock Converse and InvokeModel, streamed or not. Anything else passes as well, and of that only sizes
    are told.

    \b
    contextkit proxy --upstream https://api.anthropic.com --record runs.jsonl
    ANTHROPIC_BASE_URL=http://127.0.0.1:8090 python my_agent.py
    contextkit report runs.jsonl
    """
    from contextkit.proxy.journal import Journal
    from contextkit.server.http.hosts import Hosts

    Hosts(allowed=options["allow_hosts"])  # raises for a wrong name before anything has started
    if record:
        Journal(record).close()  # what is wrong with it is said before the port opens
    settings = Options(upstream=upstream, record=record, repairs=repair_names(repairs), **options)
    # uvloop's where it is installed: half the work for each chunk
    loop = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    with suppress(KeyboardInterrupt, asyncio.CancelledError), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_serve(settings))
    raise click.Abort  # it only comes back from Ctrl-C


def repair_names(value: str) -> tuple[str, ...]:
    """Return the names in the value of `--repair`."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


async def _serve(options: Options) -> None:
    from contextkit.cli.proxy_output import ConsoleOutput
    from contextkit.proxy.analysis import Watcher
    from contextkit.proxy.observer import Timeouts
    from contextkit.proxy.proxy import Proxy
    from contextkit.proxy.repairs.repairs import Repairs
    from contextkit.proxy.upstreams import Upstream

    upstream = Upstream(options.upstream, options.ca, options.connect_seconds)
    repair = Repairs(options.repairs) if options.repairs else None
    budget = _budget(options)
    console = ConsoleOutput(is_json=options.is_json, is_quiet=options.is_quiet)
    telemetry = _Telemetry() if options.has_otel else None

    def take(report: Json) -> None:
        console.report(report)
        if telemetry is not None:
            telemetry.take(report)

    watcher = await Watcher.start(options.record, take, options.queue_mb << 20)
    timeouts = Timeouts(options.header_seconds, options.idle_seconds, options.connect_seconds, options.read_seconds)
    proxy = None
    try:
        proxy = Proxy(
            upstream,
            observer=watcher,
            repair=repair,
            allow_hosts=options.allow_hosts,
            timeouts=timeouts,
            budget=budget,
            allow_unpriced=options.allow_unpriced,
            caps_output=options.caps_output,
            on_report=take,
        )
        await proxy.start(options.host, options.port)
        console.began(proxy.url, upstream.shown, options.record)
        if not _is_loopback(options.host):
            text = f"{options.host} can be reached from outside: anybody may send calls (with keys of their own)"
            console.report({"trouble": text})
        task = asyncio.current_task()
        if os.name != "nt" and task is not None:  # a service manager's signal ends it as Ctrl-C does
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        code = await watcher.gone()
        console.report({"trouble": f"the process that records ended with {code}: nothing is recorded any more"})
        await asyncio.Event().wait()
    finally:
        if proxy is not None:
            await proxy.stop()
        if n_lost := await watcher.close(options.stop_seconds):
            limit = f"{options.stop_seconds:g} seconds (--stop-seconds)"
            console.report({"trouble": f"{n_lost} calls were not confirmed as recorded within {limit}"})
        console.close()
        if telemetry is not None:
            telemetry.close()


def _budget(options: Options) -> Budget | None:
    """The budget that was asked for, with what the recording says was spent."""
    if options.budget is None and options.budget_tokens is None:
        if options.budget_per is not None or options.allow_unpriced:
            raise click.UsageError(
                "--budget-per and --budget-allow-unpriced are of a budget: give --budget or --budget-tokens, too"
            )
        return None
    from contextkit.ledger.budget import Budget
    from contextkit.ledger.ledger import Ledger

    budget = Budget(usd=options.budget, tokens=options.budget_tokens, per=options.budget_per or "session")  # type: ignore[arg-type]
    if options.record and Path(options.record).is_file():
        budget.restore(Ledger.read(options.record, on_corrupt=lambda error: None), "")
    return budget


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Telemetry:
    """Reports as spans and numbers; exporting is done in threads of the SDK's own."""

    def __init__(self) -> None:
        from contextkit.proxy.otel import Telemetry, configured

        self._providers = configured()
        self._telemetry = Telemetry(*self._providers)

    def take(self, report: Json) -> None:
        """Record a call."""
        from contextkit.canonical import canonical
        from contextkit.ledger.calls import ModelCall, decode

        row = decode(canonical(report["call"])) if "call" in report else None
        if isinstance(row, ModelCall):
            self._telemetry.record(row)

    def close(self) -> None:
        """Export what is left."""
        for provider in self._providers:
            provider.shutdown()  # type: ignore[union-attr]  # the API has no word for it, the SDK's providers do
