"""`contextkit run`: starts a program whose model calls pass through a proxy of its own, and says at its end what was lost."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import click

from contextkit.cli.proxy import REPAIR_HELP, repair_names
from contextkit.importers.places import runs_folder, short_path
from contextkit.ledger.figures import Dollars, Share, counted, dollars
from contextkit.proxy.repairs.splices import CAPPED
from contextkit.terminal import echo, echo_error, sanitize

if TYPE_CHECKING:
    from contextkit.canonical import Json

NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of a command that is not there, and of one that cannot be started, as a shell gives them."""
MOST_LOSSES, MOST_NOTES = 3, 1
"""Causes, and other remarks, that are named at the end."""


UNANSWERED = ("unreachable", "timeout")
"""Errors of calls that nobody answered: the host is named."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    command: tuple[str, ...]
    record: Path
    port: int
    budget: float | None
    allow_unpriced: bool
    warn_cold: float | None
    repairs: tuple[str, ...]
    ca: Path | None
    is_printed: bool


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGUMENT]…")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The ledger that calls are appended to, secrets covered.  [default: a new file in ~/.contextkit/runs]",
)
@click.option(
    "--budget",
    type=click.FloatRange(0.0),
    metavar="USD",
    help="Let no request cost more than is left of so many dollars: it asks for less output, or is not sent.",
)
@click.option("--budget-allow-unpriced", "allow_unpriced", is_flag=True, help="Pass, uncounted, what has no price.")
@click.option(
    "--warn-cold",
    type=click.FloatRange(0.0),
    metavar="USD",
    help="Answer a request whose cache has expired, at so much to pay again, once with an error that says so; sent again it passes.",
)
@click.option("--repair", "repairs", default="", metavar="NAMES", help=REPAIR_HELP)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the proxy.  [default: a free one]")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificates trusted beside the system's.",
)
@click.option(
    "--print-env",
    "is_printed",
    is_flag=True,
    help="Start nothing: print the variables for a program started elsewhere, and record until Ctrl-C.",
)
def command(command: tuple[str, ...], record: Path | None, repairs: str, **options: Any) -> None:
    """Start a program, record its model calls, and say at its end what its prompt cache lost.

    Nothing of the program's configuration is changed: its calls are redirected by variables and arguments of this one
    process. The terminal, signals and the exit code are the program's. Calls go to the providers that
    ANTHROPIC_BASE_URL, OPENAI_BASE_URL and GOOGLE_GEMINI_BASE_URL name where they are set.

    \b
    contextkit run -- claude
    contextkit run --budget 5 -- codex exec "fix the failing test"
    contextkit run -- python my_agent.py
    contextkit report --last
    """
    from contextkit.proxy.launch import row_of

    if not command and not options["is_printed"]:
        raise click.UsageError("name the program to start, as in: contextkit run -- claude")
    named = repair_names(repairs)
    client = row_of(command[0])["name"] if command else row_of("")["name"]
    settings = Options(command, record or _new_recording(client), repairs=named, **options)
    _fill_standard_streams()
    loop = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=loop) as runner:
        code = runner.run(_run(settings))
    with suppress(ValueError):  # not the main thread
        # the interpreter's own handling, restored while it ends, would make a signal of the exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise click.exceptions.Exit(code)


def _fill_standard_streams() -> None:
    """Put the null device where standard input, output or error is closed: else a connection of ours gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(null, True)


def private_folder() -> Path:
    """Return the folder of recordings and of what a program needs while it runs; it is made if it is not there."""
    folder = runs_folder().parent
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _new_recording(client: str) -> Path:
    """Return a file that is not there yet: the time, and the program."""
    folder = private_folder() / "runs"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}-{{}}{client}.jsonl"
    return next(path for n in range(1, 1_000) if not (path := folder / name.format(f"{n}-" if n > 1 else "")).exists())


async def _run(options: Options) -> int:
    ended_by = list[int]()
    _take_signals(_ending(ended_by))  # until the program is there
    from contextkit.proxy.analysis import Watcher
    from contextkit.proxy.cold import ColdGate
    from contextkit.proxy.journal import Journal
    from contextkit.proxy.launch import Launch
    from contextkit.proxy.proxy import Proxy
    from contextkit.proxy.relay import DEFAULT_TIMEOUTS
    from contextkit.proxy.repairs.repairs import Repairs

    program = shutil.which(options.command[0]) if options.command else None
    if program is None and not options.is_printed:
        echo_error(f"contextkit: {options.command[0]}: not found; is it installed, and on the PATH?")
        return NOT_FOUND
    launch = Launch(options.command, os.environ, Path.home())
    upstreams = launch.routes(options.ca, DEFAULT_TIMEOUTS.connect)
    repair = Repairs(options.repairs) if options.repairs else None
    is_new = not options.record.exists()
    Journal(options.record).close()  # what is wrong with it is said before anything starts
    session = Session(options.record)
    logging.getLogger("contextkit").addHandler(_LogHandler(session))
    try:
        watcher = await Watcher.start(str(options.record), session.take)
    except asyncio.CancelledError:
        if is_new:
            options.record.unlink(missing_ok=True)
        return 128 + ended_by[0]
    gone = asyncio.create_task(watcher.gone())
    proxy = Proxy(
        upstreams,
        observer=watcher,
        repair=repair,
        budget=_budget(options.budget),
        allow_unpriced=options.allow_unpriced,
        cold=None if options.warn_cold is None else ColdGate(watcher.forecast, options.warn_cold),
        caps_output=True,
        on_report=session.take,
    )
    folder = Path(mkdtemp(prefix="run-", dir=private_folder()))
    try:
        await proxy.start(port=options.port)
        variables, arguments = launch.variables(proxy.url, folder), launch.arguments(proxy.url, folder)
        if program is None or options.is_printed:
            _print_environment(options.command[0] if options.command else "…", variables, arguments)
            code = await _interrupted()
        else:
            code = await _program([program, *arguments, *options.command[1:]], variables)
    except asyncio.CancelledError:
        code = 128 + ended_by[0]
    finally:
        await proxy.stop()
        if gone.done():
            session.take({"trouble": f"the process that records ended before its time, with {gone.result()}"})
        if n_lost := await watcher.close():
            session.take({"trouble": f"{n_lost} call{'s were' if n_lost > 1 else ' was'} not confirmed as recorded"})
        if is_new and not session.has_calls and not n_lost:
            options.record.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # nobody reads it: the exit code is still the program's
        for line in session.lines():
            echo_error(sanitize(line))
    return code


async def _program(command: list[str], variables: Mapping[str, str]) -> int:
    """Run a program with this terminal until it ends; give its exit code, as a shell does for one that a signal ended.

    It gets the signals that are ignored and the files that are open here, as it would without us.
    """
    try:
        process = subprocess.Popen(command, env={**os.environ, **variables}, close_fds=False)  # noqa: ASYNC220, S603 - what was asked for
    except OSError as fault:
        echo_error(f"contextkit: {command[0]}: cannot be started ({fault.strerror or fault})")
        return NOT_STARTED

    def handed_on(number: int) -> None:
        if number != signal.SIGINT:  # the terminal sends it to both
            process.send_signal(number)

    _take_signals(handed_on)
    code = await asyncio.to_thread(process.wait)
    return code if code >= 0 else 128 - code


def _ending(ended_by: list[int]) -> Callable[[int], None]:
    """Return what ends the current task at a signal, which it then finds in the list."""
    task = asyncio.current_task()

    def ended(number: int) -> None:
        ended_by.append(number)
        if task is not None:
            task.cancel()

    return ended


def _take_signals(take: Callable[[int], None]) -> None:
    """Call `take` for signals that end a program, from now on; not for one that is ignored here, as under `nohup`."""
    if os.name == "nt":
        signal.signal(signal.SIGINT, lambda number, frame: None)  # the console sends it to both
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, take, number)


async def _interrupted() -> int:
    """Wait for Ctrl-C or SIGTERM."""
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    if os.name == "nt":
        signal.signal(signal.SIGINT, lambda number, frame: loop.call_soon_threadsafe(over.set))
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
    await over.wait()
    return 130


def _print_environment(program: str, variables: Mapping[str, str], arguments: list[str]) -> None:
    """Print what a shell sets the variables with."""
    for name, value in variables.items():
        echo(f'set "{name}={value}"' if os.name == "nt" else f"export {name}={shlex.quote(value)}")
    if arguments:
        echo(f"# start it as: {shlex.join([program, *arguments])}")
    echo("# recording until Ctrl-C")
    sys.stdout.flush()


def _budget(usd: float | None) -> Any:
    if usd is None:
        return None
    from contextkit.ledger.budget import Budget

    return Budget(usd=usd)


class _LogHandler(logging.Handler):
    """Keeps the log of the proxy for the end: on the screen it would stand in the middle of the program's."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.WARNING)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        """Note the first line."""
        self._session.take({"trouble": record.getMessage().partition("\n")[0]})


class Session:
    """What the proxy reports of a session, until it is over: the terminal is the program's meanwhile."""

    def __init__(self, record: Path) -> None:
        self._record = short_path(record.absolute(), Path.home())
        self.has_calls = False
        """Whether a call was recorded."""
        self._summary: Json = None
        self._errors: Counter[str] = Counter()
        self._refusals: list[str] = []
        self._caps: list[str] = []
        self._repairs: Counter[str] = Counter()
        self._n_repaired = 0
        self._notes: Counter[str] = Counter()

    def take(self, report: Json) -> None:
        """Take one report of the proxy, or of the process that judges."""
        if "summary" in report:
            self._summary = report
        elif "refused" in report:
            self._refusals.append(report["refused"]["text"])
        elif "capped" in report:
            self._caps.append(report["capped"]["text"])
        elif "websocket" in report:
            self._notes[f"{report['websocket']['path']}: {report['websocket']['text']}"] += 1
        elif "trouble" in report:
            self._notes[report["trouble"]] += 1
        elif "call" in report:
            self.has_calls = True
            repairs = [name for name in report["repairs"] if name != CAPPED]
            self._repairs.update(repairs)
            self._n_repaired += bool(repairs)
            if error := report["call"]["error"]:
                self._errors[f"{error} at {report['call']['host']}" if error in UNANSWERED else error] += 1

    def lines(self) -> list[str]:
        """Say in at most ten lines what the session came to."""
        notes = [f"  {note}" for note, _ in self._notes.most_common()]
        if self._summary is None:
            return [f"contextkit: recorded in {self._record}", *notes[:MOST_LOSSES]]
        total, losses = self._summary["summary"]["total"], _losses(self._summary["summary"]["misses"])
        rate, cost = total["hit_rate"], Dollars(total["cost_usd"], total["cost_is_lower_bound"])
        facts = [
            counted(total["calls"], "call"),
            *([str(cost)] if cost.value is not None else ["price unknown"] if total["calls"] else []),
            *([f"{Share(rate).spaced} read from cache"] if rate is not None else []),
        ]
        lines = [f"contextkit: {' · '.join(facts)}", *losses[:MOST_LOSSES]]
        if len(losses) > MOST_LOSSES:
            lines[-1] += f"; {len(losses) - MOST_LOSSES} more causes"
        if self._caps:
            lines.append(f"  {counted(len(self._caps), 'request')} with a lower output limit: {self._caps[0]}")
        if self._refusals:
            call, _, limit = self._refusals[-1].partition("; nothing was sent")[0].partition(") and ")
            why = f"{call.partition(' (')[0]}; {limit}" if limit else call
            lines.append(f"  {counted(len(self._refusals), 'request')} not sent: {why}")
        if self._errors:
            kinds = ", ".join(f"{kind} × {n}" for kind, n in self._errors.most_common(3))
            lines.append(f"  {counted(self._errors.total(), 'call')} failed: {kinds}")
        lines += notes[:MOST_NOTES]
        if not total["calls"]:
            return ["contextkit: no call was recorded", *lines[1:], *([] if self._refusals else [f"  {_NO_CALLS}"])]
        if self._repairs:
            kinds = ", ".join(f"{name} × {n}" for name, n in self._repairs.most_common())
            lines.append(f"  {counted(self._n_repaired, 'request')} repaired: {kinds}")
        return [*lines, f"  contextkit report {self._record}   for details"]


_NO_CALLS = "if it made some, its settings or its login name another address (docs/guides/run.md lists which are read)"


def _losses(misses: list[Json]) -> list[str]:
    """Return a line for each cause, the dearest first: how many calls, what they cost, where the first one was."""
    by_cause: dict[str, list[Json]] = {}
    for miss in misses:
        if miss["lost_tokens"]:
            by_cause.setdefault(miss["cause"], []).append(miss)
    told = []
    for cause, lost in by_cause.items():
        usd = None if any(miss["cost_usd"] is None for miss in lost) else sum(miss["cost_usd"] for miss in lost)
        tokens = sum(miss["lost_tokens"] for miss in lost)
        amount = f"{tokens:,} tokens" if usd is None else dollars(usd)
        dearest = max(lost, key=lambda miss: miss["lost_tokens"])
        where = f" ({dearest['where']})" if dearest["where"] else ""
        n = f"{len(lost)} miss{'es' * (len(lost) > 1)}"
        at = f"{', the dearest' * (len(lost) > 1)} at call {dearest['index'] + 1}"
        told.append((usd or 0.0, tokens, f"  {n}, {amount}: {cause}{at}{where}"))
    return [line for _, _, line in sorted(told, reverse=True)]
