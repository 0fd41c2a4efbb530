"""`contextkit`: the commands.

Each command is one file. What the caller can mend ends with one line and exit code 2, Ctrl-C with 130, a reader that
left (`| head -1`) without a word; none of them with a traceback.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from contextkit.cli.models import models_option, with_models
from contextkit.cli.terminal import UsageErrorWithDetails, check_output, give_up_output
from contextkit.errors import ContextKitError
from contextkit.facts import load
from contextkit.installation import DISTRIBUTION, check_installation
from contextkit.models import AssumedModelWarning
from contextkit.terminal import echo_error

COMMANDS = {
    "demo": "contextkit.cli.demo",
    "explain": "contextkit.cli.explain",
    "explain-edit": "contextkit.cli.explain_edit",
    "export": "contextkit.cli.export",
    "kv-size": "contextkit.cli.kv_size",
    "lint": "contextkit.cli.lint",
    "lock": "contextkit.cli.lock",
    "models": "contextkit.cli.models",
    "proxy": "contextkit.cli.proxy",
    "report": "contextkit.cli.report",
    "run": "contextkit.cli.run",
    "serve": "contextkit.cli.serve",
    "simulate": "contextkit.cli.simulate",
    "status": "contextkit.cli.status",
    "statusline": "contextkit.cli.statusline",
    "template": "contextkit.cli.template",
    "validate": "contextkit.cli.validate",
    "whatif": "contextkit.cli.whatif",
}
"""Command → module that holds a `command`; imported when it is called. The text of `cli` lists them, but for `validate`,
which is for work on the cache rules."""
WITHOUT_MODELS = ("explain-edit", "kv-size", "statusline", "template")
"""Commands that know neither models nor prices, and the one that goes on without yours where they cannot be read."""


class _Group(click.Group):
    """Commands loaded on use; what the caller can mend as click's own error."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write no list of commands: the text above has it, and click's would import every command."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[name]).command
        return command if name in WITHOUT_MODELS else with_models(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "watch":
            ctx.fail(
                "watch is no command: in Python it is client = contextkit.watch(client); for a program, contextkit run"
            )
        if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssumedModelWarning)  # a command says so itself, in one line
                return super().invoke(ctx)
        except ContextKitError as error:
            raise click.UsageError(error.for_shell()) from None
        except BrokenPipeError:
            raise click.exceptions.Exit(_left()) from None
        except OSError as error:
            raise click.UsageError(_refused(error)) from None


@click.command(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=DISTRIBUTION)
def cli() -> None:
    """Find, fix and prevent prompt-cache misses in LLM agents.

    \b
    contextkit demo                              one agent, billed four ways: what keeps the cache and what loses it
    contextkit report                            what the last 7 days of your agents lost, and to what
    contextkit report session.jsonl              the same of a recorded session
    contextkit run -- claude                     start an agent, record its calls, say at its end what was lost
    contextkit status --watch                    how long the caches of running sessions stay warm, and what is at risk
    contextkit statusline --install              the same of a session, as Claude Code's status line
    contextkit explain session.jsonl 31          one of its calls: what it could have read, what it lost and to what
    contextkit export --out calls.parquet        a row a call, for DuckDB, Spark or pandas
    contextkit whatif session.jsonl              what it would have cost with one thing changed
    contextkit lint src/                         what will break the prefix, in code and in recorded requests
    contextkit lock check                        what has changed in system prompt or tools since the lock was written
    contextkit models claude-haiku-5-5           cache rules and prices of a model, and what is assumed of it
    contextkit serve --port 8089                 a local provider for tests
    contextkit proxy --upstream https://…        pass calls on, record them, say what breaks
    contextkit simulate traces/ --capacity 10k   what an engine's cache would have done with a trace
    contextkit kv-size config.json               what a model's KV cache takes, and how many sequences fit
    contextkit template check chat.jinja body.json   whether a chat template keeps each prompt a prefix of the next
    contextkit explain-edit --delete 33 13       why an edit costs what it costs, row by row
    """


cli.params.append(models_option())


def main() -> None:
    """Entry point: exits with 2 and one line (rarely details below it) for what the caller can fix, with 130 for Ctrl-C."""
    try:
        check_output()
        check_installation()
        code = cli.main(sys.argv[1:] or ["--help"], standalone_mode=False) or 0
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except click.ClickException as error:
        code = _mistaken(_with_help(error), error.details if isinstance(error, UsageErrorWithDetails) else ())
    except ContextKitError as error:
        code = _mistaken(error.for_shell())
    except (
        BrokenPipeError,
        SystemExit,
    ):  # the latter is how rich's console says it (rich.console.Console.on_broken_pipe)
        code = _left()
    except OSError as error:
        code = _mistaken(_refused(error))
    except Exception as error:
        if not _is_interrupt(error):
            raise
        code = 130
    finally:
        load.use_file("")  # a process that runs several commands names the file for each
    sys.exit(code)


def _is_interrupt(error: BaseException) -> bool:
    """Return whether this is Ctrl-C while an SDK's types are built, told as another error.

    pydantic makes a SchemaError of it, whose text ends so; Python 3.11 a RuntimeError ("Error calling __set_name__ …"),
    whose cause it is.
    """
    is_one = isinstance(error, KeyboardInterrupt) or str(error).endswith("KeyboardInterrupt: ")
    return is_one or (error.__cause__ is not None and _is_interrupt(error.__cause__))


def _with_help(error: click.ClickException) -> str:
    """The text of an error; of one that says only what is missing or unknown, also which command lists what there is."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and isinstance(ctx.command, click.Group):
        return f"Missing command: contextkit {ctx.info_name} {'|'.join(ctx.command.list_commands(ctx))}"
    text = error.format_message()
    is_bare = isinstance(error, (click.MissingParameter, click.NoSuchOption)) and "Did you mean" not in text
    return f"{text} `{ctx.command_path} --help` lists what it takes." if is_bare else text


def _refused(error: OSError) -> str:
    """What the system refuses, and where."""
    return f"{error.filename or 'input or output'}: {error.strerror or error}"


def _mistaken(what: str, details: Sequence[str] = ()) -> int:
    """Print one line about what the caller can fix, and the details below it; return the exit code."""
    echo_error(f"contextkit: {' '.join(what.split())}")
    for line in details:
        echo_error(line)
    if not _is_flushed():
        give_up_output()
    return 2


def _is_flushed() -> bool:
    """Return whether what was printed is out.

    Where the output takes nothing (a full disk) Python would complain once more at exit.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return False
    return True


def _left() -> int:
    """Whoever read our output has gone (`| head -1`): say nothing more. What a shell calls such an end."""
    give_up_output()
    return 141


if __name__ == "__main__":
    main()
